"""Debezium's placeholders: what a connector writes for a value that the database did not send, as it did not change.

In: the JSON text of values. Out: whether they are placeholders. There is one for each kind of column that PostgreSQL
may store apart (TOAST). Rules: docs/spec/debezium-json.md#values-that-were-not-sent.
"""

from __future__ import annotations

import base64
from typing import Final
from uuid import UUID

import msgspec

from ingest.model.jsontext import fields_of, object_of

TEXT: Final = b"__debezium_unavailable_value"
"""The default of the connector's option `unavailable.value.placeholder`."""
_BYTES: Final = base64.b64encode(TEXT)
_NUMBERS: Final = b",".join(b"%d" % byte for byte in TEXT)
_UUID: Final = str(UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a")).encode()
"""Java's `UUID.nameUUIDFromBytes` of the text."""
_MARKS: Final = (TEXT, _BYTES, _NUMBERS, _UUID)
"""Texts of which every placeholder holds one."""
_PLACEHOLDERS: Final = frozenset(
    {
        b'"%b"' % TEXT,
        b'"%b"' % _BYTES,
        b'["%b"]' % TEXT,
        b'["%b"]' % _BYTES,
        b'["%b"]' % _UUID,
        b"[%b]" % _NUMBERS,
        b'{"%b":"%b"}' % (TEXT, TEXT),
    }
)
"""Of a text, of bytes, of arrays of texts, bytes, UUIDs and numbers, and of a map."""
_IN_AVRO: Final = (TEXT, _UUID, b"".join(bytes((2 * byte & 127 | 128, 2 * byte >> 7)) for byte in TEXT))
"""The same in Avro's binary encoding, where each of the numbers takes two bytes."""


def may_hold(text: bytes) -> bool:
    """Tell whether a text may hold a placeholder."""
    return any(mark in text for mark in _MARKS)


def may_hold_in_avro(message: bytes) -> bool:
    """Tell whether a message in Avro may hold a placeholder."""
    return any(mark in message for mark in _IN_AVRO)


def known_of(before: bytes) -> bytes:
    """Return a row before a change without placeholders: what they stand for is not known. Raise one of MALFORMED."""
    fields = {name: bytes(value) for name, value in fields_of(before).items()}
    return object_of({name: value for name, value in fields.items() if not is_placeholder(value)})


def is_placeholder(value: bytes) -> bool:
    """Tell whether the JSON text of a value is a placeholder."""
    if not may_hold(value):
        return False
    return (msgspec.json.format(value, indent=-1) if value[:1] in {b"[", b"{"} else value) in _PLACEHOLDERS
