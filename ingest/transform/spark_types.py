"""Translation between this package's types of columns and those of Spark SQL.

In: a type of `model/data_type.py`, or one of Spark. Out: the other one, or its name in SQL. A type of Spark that no
column can have becomes a `ForeignType`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from ingest.model import types
from ingest.model.data_type import (
    ArrayType,
    CharType,
    DataType,
    DecimalType,
    ForeignType,
    MapType,
    StructField,
    StructType,
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
    msg = f"{data_type} is no type that Spark can be given"
    raise TypeError(msg)


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
