"""Values of fields that are no messages, from the JSON texts that rows have.

In: the descriptor of a field. Out: a function from a JSON text to the value that google's library takes. A text that
says no such value, or not exactly, raises ValueError. Rules: docs/spec/protobuf.md#writing.
"""

from __future__ import annotations

import base64
import re
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from google.protobuf.descriptor import FieldDescriptor

from ingest.model.jsontext import MALFORMED

if TYPE_CHECKING:
    from collections.abc import Callable

    Make: TypeAlias = Callable[[bytes], Any]
    """Function that makes a value of a JSON text. It raises ValueError."""

_FLOAT: Final = Struct("<f")
_is_whole: Final = re.compile(rb"-?[0-9]{1,20}").fullmatch
_is_number: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").fullmatch
_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_BOUNDS: Final = {
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: (0, (1 << 64) - 1),
}


def characters(raw: bytes) -> str:
    """Return the characters of a text; of another value its JSON, which is what a column of texts has of it."""
    if raw[:1] == b'"':
        try:
            text = msgspec.json.decode(raw, type=str)
            text.encode()
        except (*MALFORMED, UnicodeEncodeError):
            raise ValueError("no text that UTF-8 has") from None
        return text
    return msgspec.json.format(raw, indent=-1).decode() if raw[:1] in {b"{", b"["} else raw.decode()


def plain_bytes(raw: bytes) -> bytes:
    """Return the bytes that a text in Base64 holds."""
    if raw[:1] != b'"':
        raise ValueError("no bytes in Base64")
    return base64.b64decode(raw[1:-1], validate=True)


def _whole(raw: bytes, low: int, high: int) -> int:
    if _is_whole(raw) is None or not low <= (value := int(raw)) <= high:
        raise ValueError("no such whole number")
    return value


def number(raw: bytes) -> float:
    """Return the number of 64 bits that is nearest to a decimal one."""
    if _is_number(raw) is None or abs(value := float(raw)) == float("inf"):
        raise ValueError("no such number")
    return value


def _number_of_32_bits(raw: bytes) -> float:
    value = number(raw)
    try:
        _FLOAT.pack(value)
    except OverflowError:
        raise ValueError("no such number") from None
    return value


def boolean(raw: bytes) -> bool:
    """Return whether it is `true`."""
    if raw not in {b"true", b"false"}:
        raise ValueError("no boolean")
    return raw == b"true"


def _enum(raw: bytes, names: dict[str, int], low: int) -> int:
    name = characters(raw)
    found = names.get(name)
    if found is None and low and _is_whole(name.encode()):
        found = _whole(name.encode(), *_INT32)
    if found is None:
        raise ValueError("none of its names")
    return found


_OTHERS: Final[dict[int, Make]] = {
    FieldDescriptor.TYPE_DOUBLE: number,
    FieldDescriptor.TYPE_FLOAT: _number_of_32_bits,
    FieldDescriptor.TYPE_BOOL: boolean,
    FieldDescriptor.TYPE_STRING: characters,
    FieldDescriptor.TYPE_BYTES: plain_bytes,
}


def scalar(field: FieldDescriptor) -> Make:
    """Return the function for a field that is no message."""
    bounds = _BOUNDS.get(field.type)
    if bounds is not None:
        return partial(_whole, low=bounds[0], high=bounds[1])
    if field.enum_type is not None:
        names = {one.name: one.number for one in field.enum_type.values}
        return partial(_enum, names=names, low=not field.enum_type.is_closed)
    return _OTHERS[field.type]


def key_text(field: FieldDescriptor, name: str) -> bytes:
    """Return the JSON text of a map's key, which is the name of a member: of texts a text, of others the name."""
    return msgspec.json.encode(name) if field.type == FieldDescriptor.TYPE_STRING else name.encode()
