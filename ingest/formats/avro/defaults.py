"""Defaults of fields, as the bytes that a message would have in their place.

In: a default, as a schema's JSON has it, and the node of its field. Out: its bytes. Rules: docs/spec/avro.md#schemas.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from ingest.formats.avro.schema import DEFAULT, SchemaError
from ingest.model.text import yaml_text

if TYPE_CHECKING:
    from ingest.formats.avro.schema import Node
    from ingest.model.jsontext import Json

_T = TypeVar("_T")
_BYTES: Final = [bytes((number,)) for number in range(256)]
_FLOATS: Final = {"float": Struct("<f"), "double": Struct("<d")}
_BITS: Final = {"int": 32, "long": 64}


def number_bytes(value: int) -> bytes:
    """Return an integer of 64 bits: groups of seven bits, the lowest first, with the sign in the lowest bit.

    Raise ValueError for one that has more bits.
    """
    if not -(1 << 63) <= value < 1 << 63:
        msg = "a number of more than 64 bits"
        raise ValueError(msg)
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _BYTES[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def default_bytes(value: Json, node: Node) -> bytes:
    """Return the bytes of a default. Raise SchemaError where it is no value of its schema.

    Logical types do not matter: a default is written as the type below them.
    """
    try:
        return _bytes(value, node)
    except (ValueError, TypeError, OverflowError, KeyError) as exc:
        shown = (repr(value) if isinstance(value, str) else yaml_text(value))[:60]
        msg = f"the default {shown} is no value of the type {node.kind!r}"
        raise SchemaError(msg) from exc


def check_defaults(node: Node) -> None:
    """Raise SchemaError where a default of a field, or of an enum, is no value of its type."""
    seen: set[int] = set()
    rest = [node]
    while rest:
        one = rest.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for field in one.fields:
            if field.has_default:
                try:
                    default_bytes(field.default, field.node)
                except SchemaError as exc:
                    msg = f"field {field.name!r}: {exc}"
                    raise SchemaError(msg) from exc
        if one.kind == "enum" and one.properties.get(DEFAULT, one.symbols[0]) not in one.symbols:
            msg = f"the enum {one.name!r} has a default that is none of its symbols"
            raise SchemaError(msg)
        rest += [*one.branches, *(field.node for field in one.fields)]


def _bytes(value: Json, node: Node) -> bytes:
    kind = node.kind
    if kind == "union":
        return _of_union(value, node)
    if kind == "record":
        given = _checked(value, dict)
        return b"".join(_bytes(given[f.name] if f.name in given else f.required_default(), f.node) for f in node.fields)
    if kind == "array":
        items = [_bytes(item, node.branches[0]) for item in _checked(value, list)]
        return number_bytes(len(items)) + b"".join(items) + b"\0" if items else b"\0"
    if kind == "map":
        pairs = [_sized(name.encode()) + _bytes(item, node.branches[0]) for name, item in _checked(value, dict).items()]
        return number_bytes(len(pairs)) + b"".join(pairs) + b"\0" if pairs else b"\0"
    if kind == "enum":
        return number_bytes(node.symbols.index(value))
    if kind == "fixed":
        piece = _checked(value, str).encode("latin-1")
        if len(piece) != node.size:
            raise ValueError
        return piece
    return _plain(value, kind)


def _plain(value: Json, kind: str) -> bytes:
    if kind == "null":
        _checked(value, type(None))
        return b""
    if kind == "boolean":
        return b"\1" if _checked(value, bool) else b"\0"
    if kind in _BITS:
        number = _checked(value, int)
        if not -(1 << (_BITS[kind] - 1)) <= number < 1 << (_BITS[kind] - 1):
            raise ValueError
        return number_bytes(number)
    if kind in _FLOATS:
        if type(value) not in {int, float}:
            raise TypeError
        packed: bytes = _FLOATS[kind].pack(value)
        return packed
    text = _checked(value, str)
    return _sized(text.encode() if kind == "string" else text.encode("latin-1"))


def _of_union(value: Json, node: Node) -> bytes:
    """Write a default by the first branch that has it: by Avro's rules that is the first one, or any since 1.12."""
    for at, branch in enumerate(node.branches):
        try:
            return number_bytes(at) + _bytes(value, branch)
        except (ValueError, TypeError, OverflowError, KeyError):
            continue
    raise ValueError


def _sized(piece: bytes) -> bytes:
    return number_bytes(len(piece)) + piece


def _checked(value: Json, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise TypeError
    return value
