"""Types of columns, as plain values.

The classes are named like those of Spark, and written as Flink SQL names the types (`model/types.py`). They are not
Spark's own classes, because importing those takes longer than the whole of `ingest check`. The module
`transform/spark_types.py` translates between both.
"""

from __future__ import annotations

from dataclasses import dataclass


class DataType:
    """Type of a column, or of a value inside a column's value. Types are equal where class and parameters are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare the classes. Types with parameters compare these as well."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash the class. Types with parameters hash these as well."""
        return hash(type(self))

    def __repr__(self) -> str:
        """Return the type as a Python call that makes it."""
        return f"{type(self).__name__}()"


class NullType(DataType):
    """Type of a column that had only nulls so far."""

    __slots__ = ()


class BooleanType(DataType):
    """Type of true and false: BOOLEAN."""

    __slots__ = ()


class ByteType(DataType):
    """Type of integers of 8 bits: TINYINT."""

    __slots__ = ()


class ShortType(DataType):
    """Type of integers of 16 bits: SMALLINT."""

    __slots__ = ()


class IntegerType(DataType):
    """Type of integers of 32 bits: INT."""

    __slots__ = ()


class LongType(DataType):
    """Type of integers of 64 bits: BIGINT."""

    __slots__ = ()


class FloatType(DataType):
    """Type of binary floating-point numbers of 32 bits: FLOAT."""

    __slots__ = ()


class DoubleType(DataType):
    """Type of binary floating-point numbers of 64 bits: DOUBLE."""

    __slots__ = ()


class StringType(DataType):
    """Type of texts of any length: STRING."""

    __slots__ = ()


class BinaryType(DataType):
    """Type of byte strings: BYTES. They are base64 in JSON."""

    __slots__ = ()


class DateType(DataType):
    """Type of days of the calendar: DATE."""

    __slots__ = ()


class TimestampNTZType(DataType):
    """Type of a date with a time of day, without a zone, in microseconds: TIMESTAMP."""

    __slots__ = ()


class TimestampType(DataType):
    """Type of points in time, in microseconds: TIMESTAMP_LTZ."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DecimalType(DataType):
    """Type of decimal numbers with `precision` digits, `scale` of them after the point: DECIMAL."""

    precision: int = 10
    scale: int = 0


@dataclass(frozen=True, slots=True)
class CharType(DataType):
    """Type of texts of exactly `length` characters: CHAR."""

    length: int


@dataclass(frozen=True, slots=True)
class VarcharType(DataType):
    """Type of texts of at most `length` characters: VARCHAR."""

    length: int


@dataclass(frozen=True, slots=True)
class TimeType(DataType):
    """Type of times of a day, with `precision` digits after the second: TIME."""

    precision: int = 6


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    """Type of lists of values of one type: ARRAY."""

    element: DataType


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """Type of maps with keys of one type and values of one type: MAP."""

    key: DataType
    value: DataType


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a ROW."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class StructType(DataType):
    """Type of structures with named fields, each of its own type: ROW."""

    fields: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class ForeignType(DataType):
    """Type of Spark's expressions that no column can have, for example `interval`. `text` is Spark's name of it."""

    text: str
