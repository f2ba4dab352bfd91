"""Rows and keys as JSON text, read value by value.

In: JSON text as it came. Out: the JSON text of each column. Numbers always keep their digits.
"""

from __future__ import annotations

import msgspec

from ingest.model.jsontext import MALFORMED, check_text, fields_of, reason
from ingest.model.reject import RowError


def parse_row(raw: msgspec.Raw) -> dict[str, bytes]:
    """Return a row's columns, each with the JSON text of its value. Raise RowError where the text is no JSON object."""
    text = bytes(raw)
    if text == b"null":
        raise RowError("no-after", "an insert or update needs an after image, and this one is null")
    try:
        check_text(text)
        return {name: bytes(value) for name, value in fields_of(text).items()}
    except UnicodeDecodeError:
        raise RowError("malformed", "the row is not valid UTF-8") from None
    except MALFORMED as exc:
        raise RowError("malformed", f"the row is not a JSON object: {reason(exc)}") from None


class _KeyEnvelope(msgspec.Struct):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_key_envelope = msgspec.json.Decoder(_KeyEnvelope).decode


def key_image(message_key: bytes) -> msgspec.Raw | None:
    """Return the JSON object in a message key, without its schema envelope.

    Return None where the key is something else.
    """
    try:
        envelope = _key_envelope(message_key)
        if envelope.payload is msgspec.UNSET or envelope.schema is msgspec.UNSET:
            return msgspec.Raw(message_key)
        fields_of(envelope.payload)
    except MALFORMED:
        return None
    return envelope.payload
