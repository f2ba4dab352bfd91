"""Rows and keys as JSON text, read value by value.

In: JSON text as it came. Out: the JSON text of each column. Numbers always keep their digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ingest.model.jsontext import MALFORMED, check_text, fields_of, reason
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Container


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


PAYLOAD: Final = "payload"
"""The member of an envelope that holds what it is around."""


class _KeyEnvelope(msgspec.Struct):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_key_envelope = msgspec.json.Decoder(_KeyEnvelope).decode


def schema_of_key(message_key: bytes) -> bytes | None:
    """Return the schema in the envelope around a message key; None where there is none."""
    try:
        envelope = _key_envelope(message_key)
    except MALFORMED:
        return None
    if envelope.schema is msgspec.UNSET or envelope.payload is msgspec.UNSET:
        return None
    schema = bytes(envelope.schema)
    return schema if schema.startswith(b"{") else None


def key_image(message_key: bytes, columns: Container[str] = ()) -> msgspec.Raw | None:
    """Return the JSON object in a message key, without its envelope, which may lack the schema.

    Return None where the key is something else. `columns`: those of the table, as far as they are known. An object
    under the name `payload` is an envelope without its schema only where the table has no column of that name.
    """
    try:
        envelope = _key_envelope(message_key)
        payload = envelope.payload
        if payload is msgspec.UNSET:
            return msgspec.Raw(message_key)
        if envelope.schema is msgspec.UNSET and not (
            bytes(payload).startswith(b"{") and PAYLOAD not in columns and len(fields_of(message_key)) == 1
        ):
            return msgspec.Raw(message_key)
        fields_of(payload)
    except MALFORMED:
        return None
    return payload
