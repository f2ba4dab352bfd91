"""Columns of a lake's tables: the Arrow type of each of ours, and the schema that rows are encoded by.

In: types and schemas of tables. Out: the types that Parquet files have, and a schema in which a type that a lake does
not have is STRING. No value is looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ingest.model import types
from ingest.model.data_type import ArrayType, DecimalType, MapType, NullType, StructType, TimeType
from ingest.model.schema import TableSchema

if TYPE_CHECKING:
    from ingest.model.data_type import DataType

_PLAIN: Final = {
    types.BOOLEAN: pa.bool_(),
    types.TINYINT: pa.int32(),
    types.SMALLINT: pa.int32(),
    types.INT: pa.int32(),
    types.BIGINT: pa.int64(),
    types.FLOAT: pa.float32(),
    types.DOUBLE: pa.float64(),
    types.STRING: pa.string(),
    types.BYTES: pa.binary(),
    types.DATE: pa.date32(),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column that rows have in a lake."""

    name: str
    type: DataType


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a column's values. Raise TypeError for a type that no column of a lake has."""
    if types.is_text(data_type):
        return pa.string()
    if isinstance(data_type, DecimalType) and data_type.precision <= types.MAX_PRECISION:
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, TimeType):
        return pa.time64("us")
    found = _PLAIN.get(data_type)
    if found is None:
        msg = f"a lake has no columns of {types.name(data_type)}"
        raise TypeError(msg)
    return found


def has_order(data_type: DataType) -> bool:
    """Return whether of two values of a type one is the larger one, as a lake has them."""
    if isinstance(data_type, DecimalType):
        return data_type.precision <= types.MAX_PRECISION
    return data_type not in {types.BOOLEAN, types.BYTES} and not isinstance(data_type, (ArrayType, MapType, StructType))


def stored_schema(schema: TableSchema, *, times: bool) -> TableSchema:
    """Return the schema that rows are encoded by: a type that a lake does not have is STRING there.

    `times`: whether it has times of a day. A column that had only nulls so far stays as it is: an encoder whose table
    lacks it would count its nulls as values that were withheld.
    """
    columns = tuple(replace(one, type=_stored(one.type, times=times)) for one in schema.columns)
    return TableSchema(columns, schema.primary_key)


def lake_columns(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """Return the columns of a stored schema, without those that had only nulls so far."""
    return tuple(LakeColumn(one.name, one.type) for one in schema.columns if not isinstance(one.type, NullType))


def _stored(data_type: DataType, *, times: bool) -> DataType:
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return types.STRING
    if isinstance(data_type, DecimalType) and data_type.precision > types.MAX_PRECISION:
        return types.STRING
    return types.STRING if isinstance(data_type, TimeType) and not times else data_type
