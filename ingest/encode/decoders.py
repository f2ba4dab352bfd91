"""Compiled decoders for rows: decoding is the check of conformance, as far as msgspec can say what a type takes.

In: columns. Out: decoders, shared by all tables that look alike. What msgspec cannot say comes as raw text, to be
looked at by `model/values.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ingest.model import types
from ingest.model.cache import Cache
from ingest.model.data_type import BooleanType, DoubleType, FloatType, NullType, StringType, VarcharType

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.data_type import DataType
    from ingest.model.schema import Column


def plain_name(name: str) -> bool:
    """Whether msgspec can name a struct's field so."""
    return '"' not in name and "\\" not in name and all(c >= " " for c in name)


_INTEGER: dict[type[DataType], Any] = {
    cls: Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]
    for cls, bits in types.INTEGER_BITS.items()
}


def annotation_of(data_type: DataType) -> Any:  # noqa: ANN401  (a type expression)
    """What msgspec shall accept for a type; None where it cannot say it exactly, so that the value is looked at."""
    if isinstance(data_type, NullType):
        return type(None)
    if type(data_type) in _INTEGER:
        return _INTEGER[type(data_type)]
    if isinstance(data_type, BooleanType):
        return bool
    if isinstance(data_type, (FloatType, DoubleType)):
        return float
    if isinstance(data_type, VarcharType):
        return Annotated[str, msgspec.Meta(max_length=data_type.length)]
    if isinstance(data_type, StringType):
        return str
    return None


def field_of(column: Column, index: int, *, required: bool, raw: bool = False) -> tuple[str, str, DataType, bool, bool]:
    """A field of a decoder: attribute, column, type, whether null is refused, whether the value is not looked at."""
    return f"c{index}", column.name, column.type, required, raw


_decoders: Cache[tuple[Any, ...], Callable[[Any], Any]] = Cache(10_000, 256 << 20)


def decoder_of(
    fields: tuple[tuple[str, str, DataType, bool, bool], ...], *, forbid_unknown: bool
) -> Callable[[Any], Any]:
    """A decoder for rows with these fields. Tables that look alike share it: of a thousand, few differ."""
    key = (forbid_unknown, *fields)
    found = _decoders.get(key)
    if found is None:
        size = 4000 + sum(800 + 8 * len(name) for _, name, *_ in fields)
        found = _decoders.put(key, _decoder(fields, forbid_unknown=forbid_unknown), size)
    return found


def _decoder(
    fields: tuple[tuple[str, str, DataType, bool, bool], ...], *, forbid_unknown: bool
) -> Callable[[Any], Any]:
    made = []
    for attribute, name, data_type, required, raw in fields:
        annotation = annotation_of(data_type)
        if annotation is None or raw:
            annotation = msgspec.Raw
        elif not required:
            annotation |= None
        made.append((attribute, annotation, msgspec.field(name=name)))
    struct = msgspec.defstruct("Row", made, forbid_unknown_fields=forbid_unknown, gc=False)
    return msgspec.json.Decoder(struct).decode


def refuse(_: object) -> Any:  # noqa: ANN401  (it never returns)
    """Stand in for the fast way to a key that has none."""
    raise msgspec.DecodeError
