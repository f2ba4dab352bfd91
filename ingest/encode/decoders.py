"""Compiled decoders that parse a row and check its values' types in one step, as far as msgspec can express the types.

In: columns. Out: decoders, which tables with equal columns share. A value whose type msgspec cannot express stays raw
JSON text; `model/values.py` checks it later.
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
    """Tell whether msgspec accepts the name as a field's name in a struct."""
    return '"' not in name and "\\" not in name and all(c >= " " for c in name)


_INTEGER: dict[type[DataType], Any] = {
    cls: Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]
    for cls, bits in types.INTEGER_BITS.items()
}


def annotation_of(data_type: DataType) -> Any:  # noqa: ANN401  (a type expression)
    """Return the annotation that makes msgspec accept exactly the values of a type.

    Return None where msgspec has no exact annotation: the value is then checked by `model/values.py`.
    """
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
    """Return the description of one field of a decoder.

    It has the attribute, the column name, the type, whether null is refused, and whether the value stays raw.
    """
    return f"c{index}", column.name, column.type, required, raw


_decoders: Cache[tuple[Any, ...], Callable[[Any], Any]] = Cache(10_000, 256 << 20)


def decoder_of(
    fields: tuple[tuple[str, str, DataType, bool, bool], ...], *, forbid_unknown: bool
) -> Callable[[Any], Any]:
    """Return a decoder for rows with these fields.

    Tables with equal fields share a decoder: of a thousand tables, few are different.
    """
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
    """Take the place of the fast key decoder of a table that has none. Raise msgspec.DecodeError always."""
    raise msgspec.DecodeError
