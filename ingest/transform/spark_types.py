"""The crossing between types of columns and Spark SQL: names of types, and the slots in which values travel.

In: a type of `model/types.py`, or one of Spark. Out: the other one, its name in SQL, or SQL between a slot, which
few types have, and a value of the column's own type. A type of Spark that no column can have becomes a `ForeignType`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from ingest.encode.compiled_transform import slot_of
from ingest.model import types
from ingest.model.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    ForeignType,
    MapType,
    NullType,
    StructField,
    StructType,
    TimestampType,
    TimeType,
    VarcharType,
)

VARIANT: Final = ForeignType("variant")
"""Spark's type of semi-structured values. In columns they become JSON texts."""

_SIMPLE: Final[dict[DataType, spark.DataType]] = {
    types.NULL: spark.NullType(),
    types.BOOLEAN: spark.BooleanType(),
    types.TINYINT: spark.ByteType(),
    types.SMALLINT: spark.ShortType(),
    types.INT: spark.IntegerType(),
    types.BIGINT: spark.LongType(),
    types.FLOAT: spark.FloatType(),
    types.DOUBLE: spark.DoubleType(),
    types.STRING: spark.StringType(),
    types.BYTES: spark.BinaryType(),
    types.DATE: spark.DateType(),
    types.TIMESTAMP: spark.TimestampNTZType(),
    types.TIMESTAMP_LTZ: spark.TimestampType(),
}
_BY_SPARK: Final = {type(theirs): ours for ours, theirs in _SIMPLE.items()}


def to_spark(data_type: DataType) -> spark.DataType:
    """Return Spark's type for one of this package. Raise TypeError for a `ForeignType`."""
    simple = _SIMPLE.get(data_type)
    if simple is not None:
        return simple
    match data_type:
        case DecimalType(precision, scale):
            return spark.DecimalType(precision, scale)
        case CharType(length):
            return spark.CharType(length)
        case VarcharType(length):
            return spark.VarcharType(length)
        case TimeType(precision):
            return spark.TimeType(precision)
        case ArrayType(element):
            return spark.ArrayType(to_spark(element))
        case MapType(key, value):
            return spark.MapType(to_spark(key), to_spark(value))
        case StructType(fields):
            return spark.StructType([spark.StructField(field.name, to_spark(field.type)) for field in fields])
    raise TypeError(f"{data_type} is no type that Spark can be given")


def from_spark(data_type: spark.DataType) -> DataType:
    """Return this package's type for one of Spark, a `ForeignType` where there is none. Collations are left out."""
    simple = _BY_SPARK.get(type(data_type))
    if simple is not None:
        return simple
    match data_type:
        case spark.DecimalType():
            return DecimalType(data_type.precision, data_type.scale)
        case spark.CharType():
            return CharType(data_type.length)
        case spark.VarcharType():
            return VarcharType(data_type.length)
        case spark.TimeType():
            return TimeType(data_type.precision)
        case spark.ArrayType():
            return ArrayType(from_spark(data_type.elementType))
        case spark.MapType():
            return MapType(from_spark(data_type.keyType), from_spark(data_type.valueType))
        case spark.StructType():
            return StructType(tuple(StructField(f.name, from_spark(f.dataType)) for f in data_type.fields))
        case _:
            return ForeignType(data_type.simpleString())


def sql_name(data_type: DataType) -> str:
    """Return the name of a type in Spark SQL, for example `decimal(10,2)`. A `ForeignType` has Spark's own name."""
    match data_type:
        case ForeignType(text):
            return text
        case ArrayType(element):
            return f"array<{sql_name(element)}>"
        case MapType(key, value):
            return f"map<{sql_name(key)},{sql_name(value)}>"
        case StructType(fields):
            return f"struct<{','.join(f'{_quoted(field.name)}:{sql_name(field.type)}' for field in fields)}>"
        case _:
            return to_spark(data_type).simpleString()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


SLOT_TYPES: Final = {"s": "string", "l": "bigint", "d": "double", "b": "boolean"}
"""The SQL type of a slot, by the letter that its name begins with."""
_JSON: Final = (
    "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
)


def received(slot: str, data_type: DataType) -> str:
    """Return SQL that turns a slot's value into a value of the column's own type."""
    if slot[0] in "db" or data_type == types.BIGINT or types.is_text(data_type):
        return slot
    if isinstance(data_type, NullType):
        return "CAST(NULL AS STRING)"
    if isinstance(data_type, BinaryType):
        return f"unbase64({slot})"
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"from_json({slot}, '{quoted(sql_name(data_type))}')"
    return f"CAST({slot} AS {sql_name(data_type)})"


def sent(sql: str, data_type: DataType) -> str:
    """Return SQL that turns an expression's result into a value of its slot's type."""
    slot = slot_of(data_type)
    if slot == "l":
        return f"CAST({sql} AS BIGINT)"
    if slot in "db":
        return sql
    if isinstance(data_type, BinaryType):
        return f"base64({sql})"
    if isinstance(data_type, TimestampType):
        return f"CAST(unix_micros({sql}) AS STRING)"
    if data_type == VARIANT or isinstance(data_type, (ArrayType, MapType, StructType)):
        return f"to_json({sql}, {_JSON})"
    return f"CAST({sql} AS STRING)"


def kept(data_type: DataType) -> DataType:
    """Return the type of the column that a result becomes. A VARIANT becomes a STRING."""
    return types.STRING if data_type == VARIANT else data_type


def literal_type(column: str) -> str:
    """Return the SQL type of a column that stands for a literal."""
    return "string" if column.startswith("_text") else "int"


def quoted(text: str) -> str:
    """Return a text as it stands between quotes in SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def next_slot(counts: dict[str, int], data_type: DataType) -> str:
    """Return the next free slot for values of a type, and count it."""
    kind = slot_of(data_type)
    counts[kind] += 1
    return f"{kind}{counts[kind] - 1}"
