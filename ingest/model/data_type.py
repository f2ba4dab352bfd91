"""Types of columns, as plain values.

They have the names of Spark's classes, and are written as Flink SQL names them (`model/types.py`). They are our own:
importing those of Spark takes longer than the whole of `ingest check`. `transform/spark_types.py` translates between
the two.
"""

from __future__ import annotations

from dataclasses import dataclass


class DataType:
    """The type of a column, or of a value in one. Types are equal where their classes and parameters are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare classes: a type with parameters compares them as well."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash the class."""
        return hash(type(self))

    def __repr__(self) -> str:
        """As a call that makes it."""
        return f"{type(self).__name__}()"


class NullType(DataType):
    """The type of a column of which only nulls were seen."""

    __slots__ = ()


class BooleanType(DataType):
    """True and false."""

    __slots__ = ()


class ByteType(DataType):
    """Integers of 8 bits: TINYINT."""

    __slots__ = ()


class ShortType(DataType):
    """Integers of 16 bits: SMALLINT."""

    __slots__ = ()


class IntegerType(DataType):
    """Integers of 32 bits: INT."""

    __slots__ = ()


class LongType(DataType):
    """Integers of 64 bits: BIGINT."""

    __slots__ = ()


class FloatType(DataType):
    """Binary numbers of 32 bits."""

    __slots__ = ()


class DoubleType(DataType):
    """Binary numbers of 64 bits."""

    __slots__ = ()


class StringType(DataType):
    """Texts of any length."""

    __slots__ = ()


class BinaryType(DataType):
    """Bytes; base64 in JSON."""

    __slots__ = ()


class DateType(DataType):
    """Days of the calendar."""

    __slots__ = ()


class TimestampNTZType(DataType):
    """Date and time without a zone, to the microsecond: TIMESTAMP."""

    __slots__ = ()


class TimestampType(DataType):
    """Points in time, to the microsecond: TIMESTAMP_LTZ."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DecimalType(DataType):
    """Decimal numbers of `precision` digits, `scale` of them behind the point."""

    precision: int = 10
    scale: int = 0


@dataclass(frozen=True, slots=True)
class CharType(DataType):
    """Texts of `length` characters."""

    length: int


@dataclass(frozen=True, slots=True)
class VarcharType(DataType):
    """Texts of up to `length` characters."""

    length: int


@dataclass(frozen=True, slots=True)
class TimeType(DataType):
    """Times of a day, with `precision` digits of a second."""

    precision: int = 6


@dataclass(frozen=True, slots=True)
class ArrayType(DataType):
    """Lists of values of one type."""

    element: DataType


@dataclass(frozen=True, slots=True)
class MapType(DataType):
    """Values of one type by keys of another."""

    key: DataType
    value: DataType


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a ROW."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class StructType(DataType):
    """Named values of a type each: ROW."""

    fields: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class ForeignType(DataType):
    """A type of Spark's expressions that no column can have, e.g. `interval`, by Spark's name."""

    text: str
