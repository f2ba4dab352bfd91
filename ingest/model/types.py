"""The types of columns as plain values, and their lattice: how two merge, and which type a JSON value has.

The classes are named like those of Spark, whose own take longer to import than the whole of `ingest check`
(`transform/spark_types.py` translates), and written as Flink SQL names the types. Merging is associative, commutative
and idempotent, so the order in which tasks report what they saw cannot matter. Rules: docs/spec/types.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ingest.model import temporal


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


NULL = NullType()
BOOLEAN = BooleanType()
TINYINT = ByteType()
SMALLINT = ShortType()
INT = IntegerType()
BIGINT = LongType()
FLOAT = FloatType()
DOUBLE = DoubleType()
STRING = StringType()
BYTES = BinaryType()
DATE = DateType()
TIMESTAMP = TimestampNTZType()
TIMESTAMP_LTZ = TimestampType()

MAX_PRECISION = 38

_NAMES: dict[str, DataType] = {
    "NULL": NULL,
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP_LTZ,
}
_BY_CLASS = {type(t): name for name, t in _NAMES.items()}

INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_INTEGER_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_FLOATS = (FloatType, DoubleType)
NUMBERS = (*INTEGERS, *_FLOATS, DecimalType)
TIMES = (DateType, TimestampNTZType, TimestampType)
"""From the narrowest to the widest."""
TEXTS = (CharType, VarcharType)
NESTED = (ArrayType, MapType, StructType)
_QUOTED_TYPES = (*TEXTS, *TIMES, TimeType, StringType, BinaryType)
"""Types whose values are JSON strings."""

INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
"""Width of each integer type."""


def name(data_type: DataType) -> str:
    """The Flink SQL name of a type, e.g. `DECIMAL(10,2)`; what schemas are stored with."""
    simple = _BY_CLASS.get(type(data_type))
    if simple is not None:
        return simple
    if isinstance(data_type, DecimalType):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if isinstance(data_type, CharType):
        return f"CHAR({data_type.length})"
    if isinstance(data_type, VarcharType):
        return f"VARCHAR({data_type.length})"
    if isinstance(data_type, TimeType):
        return f"TIME({data_type.precision})"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{name(data_type.element)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{name(data_type.key)}, {name(data_type.value)}>"
    if isinstance(data_type, StructType):
        return f"ROW<{', '.join(f'{quoted(field.name)} {name(field.type)}' for field in data_type.fields)}>"
    raise TypeError(f"{data_type} is no type of a column")


def quoted(identifier: str) -> str:
    """A name as DDL has it: bare where that is unmistakable, otherwise in backticks."""
    return identifier if _BARE.fullmatch(identifier) else f"`{identifier.replace('`', '``')}`"


_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED: Final = re.compile(r"`((?:[^`]|``)*)`|([A-Za-z_][A-Za-z0-9_]*)")
_WITH_ARGUMENTS = re.compile(r"(DECIMAL|CHAR|VARCHAR|TIME)\((\d+)(?:,(\d+))?\)")
_WORD: Final = re.compile(r"[A-Z_]+(?:\(\d+(?:,\d+)?\))?")


@lru_cache(maxsize=4096)
def parse(text: str) -> DataType:
    """The type of that name; raises ValueError for a name that `name` does not produce."""
    known = _NAMES.get(text)
    if known is not None:
        return known
    if text.endswith(">"):
        data_type, rest = _parse_nested(text)
        if rest:
            raise ValueError(f"no type is named {text!r}")
        return data_type
    found = _WITH_ARGUMENTS.fullmatch(text)
    if found is None:
        raise ValueError(f"no type is named {text!r}")
    kind, first, second = found.group(1), int(found.group(2)), int(found.group(3) or 0)
    if kind == "DECIMAL":
        return DecimalType(first, second)
    if kind == "TIME":
        return TimeType(first)
    return CharType(first) if kind == "CHAR" else VarcharType(first)


def _parse_nested(text: str) -> tuple[DataType, str]:
    """The type that a text begins with, and the rest of it; raises ValueError."""
    kind, begins, rest = text.partition("<")
    word = _WORD.match(text)
    if kind not in {"ARRAY", "MAP", "ROW"} or not begins:
        return (parse(word.group()), text[word.end() :]) if word else (parse(text), "")
    if kind == "ROW":
        fields = []
        while not rest.startswith(">"):
            found = _QUOTED.match(rest)
            if found is None:
                raise ValueError(f"no type is named {text!r}")
            field = (found.group(1) or "").replace("``", "`") if found.group(2) is None else found.group(2)
            data_type, rest = _parse_nested(rest[found.end() :].lstrip())
            fields.append(StructField(field, data_type))
            rest = rest.removeprefix(", ")
        return StructType(tuple(fields)), rest[1:]
    first, rest = _parse_nested(rest)
    if kind == "ARRAY":
        return ArrayType(first), rest.removeprefix(">")
    second, rest = _parse_nested(rest.removeprefix(", "))
    return MapType(first, second), rest.removeprefix(">")


def merge(a: DataType, b: DataType) -> DataType:
    """The narrowest type that holds what either held."""
    if a == b:
        return a
    if isinstance(a, NullType):
        return b
    if isinstance(b, NullType):
        return a
    if isinstance(a, TEXTS) and isinstance(b, TEXTS):
        length = max(a.length, b.length)
        both_char = isinstance(a, CharType) and isinstance(b, CharType)
        return CharType(length) if both_char else VarcharType(length)
    if isinstance(a, INTEGERS) and isinstance(b, INTEGERS):
        return max(a, b, key=lambda t: _INTEGER_DIGITS[type(t)])
    if isinstance(a, (*INTEGERS, *_FLOATS)) and isinstance(b, (*INTEGERS, *_FLOATS)):
        exact = (ByteType, ShortType, FloatType)
        return FloatType() if isinstance(a, exact) and isinstance(b, exact) else DOUBLE
    if isinstance(a, (DecimalType, *INTEGERS)) and isinstance(b, (DecimalType, *INTEGERS)):
        return _merge_decimals(a, b)
    if isinstance(a, TIMES) and isinstance(b, TIMES):
        return max(a, b, key=lambda t: TIMES.index(type(t)))
    if isinstance(a, TimeType) and isinstance(b, TimeType):
        return TimeType(max(a.precision, b.precision))
    return _merge_nested(a, b) or STRING


def _merge_nested(a: DataType, b: DataType) -> DataType | None:
    """The ARRAY, MAP or ROW that holds what either held, as the same JSON; None where there is none."""
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        element = _merge_inside(a.element, b.element)
        return None if element is None else ArrayType(element)
    if isinstance(a, MapType) and isinstance(b, MapType):
        key, value = _merge_inside(a.key, b.key), _merge_inside(a.value, b.value)
        return None if key is None or value is None else MapType(key, value)
    if isinstance(a, StructType) and isinstance(b, StructType):
        first, second = ({field.name: field.type for field in t.fields} for t in (a, b))
        fields = []
        for field in sorted(first.keys() | second.keys()):
            found = _merge_inside(first.get(field, NULL), second.get(field, NULL))
            if found is None:
                return None
            fields.append(StructField(field, found))
        return StructType(tuple(fields))
    return None


def _merge_inside(a: DataType, b: DataType) -> DataType | None:
    """The type inside of an ARRAY, MAP or ROW, where a value keeps its JSON whatever becomes of the type; or None."""
    if a == b or isinstance(a, NullType) or isinstance(b, NullType):
        return merge(a, b)
    if isinstance(a, NESTED) or isinstance(b, NESTED):
        return _merge_nested(a, b)
    if isinstance(a, _QUOTED_TYPES) and isinstance(b, _QUOTED_TYPES):
        return STRING if isinstance(a, TIMES) and isinstance(b, TIMES) else merge(a, b)
    merged = merge(a, b)
    return None if merged == STRING else merged


def _merge_decimals(a: DataType, b: DataType) -> DataType:
    digits = scale = 0
    for t in (a, b):
        if isinstance(t, DecimalType):
            digits, scale = max(digits, t.precision - t.scale), max(scale, t.scale)
        else:
            digits = max(digits, _INTEGER_DIGITS[type(t)])
    return STRING if digits + scale > MAX_PRECISION else DecimalType(digits + scale, scale)


def is_whole(data_type: DataType) -> bool:
    """Whether values of this type are whole numbers."""
    return isinstance(data_type, INTEGERS) or (isinstance(data_type, DecimalType) and not data_type.scale)


def sort_of(data_type: DataType) -> str:
    """Return what values of this type are in a key: `number`, `text`, or the name of the type's class."""
    if isinstance(data_type, NUMBERS):
        return "number"
    return "text" if is_text(data_type) else type(data_type).__name__


def decimal_of(raw: bytes) -> DataType:
    """Return the type of a plain number of a DECIMAL without a size: DECIMAL(10,0), or as wide as the number needs.

    Past 38 digits it is STRING; of null it is NULL.
    """
    if raw == b"null":
        return NULL
    whole, _, fraction = raw.lstrip(b"-").partition(b".")
    digits = max(len(whole.lstrip(b"0")), 10)
    fits = digits + len(fraction) <= MAX_PRECISION
    return DecimalType(digits + len(fraction), len(fraction)) if fits else STRING


def is_text(data_type: DataType) -> bool:
    """Whether JSON writes values of this type as strings of their own text."""
    return isinstance(data_type, (StringType, CharType, VarcharType))


def infer(raw: bytes, standard: str | None = None) -> DataType:
    """The type of a JSON value that nothing else describes; `raw` is valid JSON without outer white space.

    Integers are BIGINT, past 64 bits DECIMAL(38,0), past that STRING; other numbers DOUBLE; objects and arrays
    STRING, holding their text. With a `standard`, texts that are timestamps by it are TIMESTAMP.
    """
    first = raw[:1]
    if first == b'"':
        return TIMESTAMP if standard is not None and temporal.is_timestamp(raw, standard) else STRING
    if first in (b"{", b"["):
        return STRING
    if first == b"n":
        return NULL
    if first in (b"t", b"f"):
        return BOOLEAN
    if not raw.lstrip(b"-").isdigit():
        return DOUBLE
    if len(raw) < 19 or (-(1 << 63) <= int(raw[:64]) < 1 << 63 and len(raw) < 64):
        return BIGINT
    return DecimalType(MAX_PRECISION, 0) if len(raw.lstrip(b"-")) <= MAX_PRECISION else STRING
