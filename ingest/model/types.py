"""The type lattice: how two types of one column merge, and which type a JSON value has.

Types are Spark's own, named as Flink SQL names them. Merging is associative, commutative and idempotent, so the
order in which tasks report what they saw cannot matter. Rules: decisions, "Types and merging".
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)

NULL = NullType()
BOOLEAN = BooleanType()
BIGINT = LongType()
DOUBLE = DoubleType()
STRING = StringType()

MAX_PRECISION = 38

_NAMES: dict[str, DataType] = {
    "NULL": NULL,
    "BOOLEAN": BOOLEAN,
    "TINYINT": ByteType(),
    "SMALLINT": ShortType(),
    "INT": IntegerType(),
    "BIGINT": BIGINT,
    "FLOAT": FloatType(),
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BYTES": BinaryType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestampNTZType(),
    "TIMESTAMP_LTZ": TimestampType(),
}
_BY_CLASS = {type(t): name for name, t in _NAMES.items()}

_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_INTEGER_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_FLOATS = (FloatType, DoubleType)
_TIMES = (DateType, TimestampNTZType, TimestampType)
_TEXTS = (CharType, VarcharType)

INTEGER_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
"""Width of each integer type."""


def name(data_type: DataType) -> str:
    """The Flink SQL name of a type, e.g. `DECIMAL(10,2)`; what schemas are stored with."""
    if isinstance(data_type, DecimalType):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if isinstance(data_type, CharType):
        return f"CHAR({data_type.length})"
    if isinstance(data_type, VarcharType):
        return f"VARCHAR({data_type.length})"
    if isinstance(data_type, TimeType):
        return f"TIME({data_type.precision})"
    return _BY_CLASS[type(data_type)]


_WITH_ARGUMENTS = re.compile(r"(DECIMAL|CHAR|VARCHAR|TIME)\((\d+)(?:,(\d+))?\)")


@lru_cache(maxsize=4096)
def parse(text: str) -> DataType:
    """The type of that name; raises ValueError for a name that `name` does not produce."""
    known = _NAMES.get(text)
    if known is not None:
        return known
    found = _WITH_ARGUMENTS.fullmatch(text)
    if found is None:
        msg = f"no type is named {text!r}"
        raise ValueError(msg)
    kind, first, second = found.group(1), int(found.group(2)), int(found.group(3) or 0)
    if kind == "DECIMAL":
        return DecimalType(first, second)
    if kind == "TIME":
        return TimeType(first)
    return CharType(first) if kind == "CHAR" else VarcharType(first)


def merge(a: DataType, b: DataType) -> DataType:
    """The narrowest type that holds what either held."""
    if a == b:
        return a
    if isinstance(a, NullType):
        return b
    if isinstance(b, NullType):
        return a
    if isinstance(a, _TEXTS) and isinstance(b, _TEXTS):
        length = max(a.length, b.length)
        both_char = isinstance(a, CharType) and isinstance(b, CharType)
        return CharType(length) if both_char else VarcharType(length)
    if isinstance(a, _INTEGERS) and isinstance(b, _INTEGERS):
        return max(a, b, key=lambda t: _INTEGER_DIGITS[type(t)])
    if isinstance(a, (*_INTEGERS, *_FLOATS)) and isinstance(b, (*_INTEGERS, *_FLOATS)):
        exact = (ByteType, ShortType, FloatType)
        return FloatType() if isinstance(a, exact) and isinstance(b, exact) else DOUBLE
    if isinstance(a, (DecimalType, *_INTEGERS)) and isinstance(b, (DecimalType, *_INTEGERS)):
        return _merge_decimals(a, b)
    if isinstance(a, _TIMES) and isinstance(b, _TIMES):
        return max(a, b, key=lambda t: _TIMES.index(type(t)))
    if isinstance(a, TimeType) and isinstance(b, TimeType):
        return TimeType(max(a.precision, b.precision))
    return STRING


def _merge_decimals(a: DataType, b: DataType) -> DataType:
    digits = scale = 0
    for t in (a, b):
        if isinstance(t, DecimalType):
            digits, scale = max(digits, t.precision - t.scale), max(scale, t.scale)
        else:
            digits = max(digits, _INTEGER_DIGITS[type(t)])
    return STRING if digits + scale > MAX_PRECISION else DecimalType(digits + scale, scale)


def is_text(data_type: DataType) -> bool:
    """Whether JSON writes values of this type as strings of their own text."""
    return isinstance(data_type, (StringType, CharType, VarcharType))


def infer(raw: bytes) -> DataType:
    """The type of a JSON value that nothing else describes; `raw` is valid JSON without outer white space.

    Integers are BIGINT, past 64 bits DECIMAL(38,0), past that STRING; other numbers DOUBLE; objects and arrays
    STRING, holding their text.
    """
    first = raw[:1]
    if first == b'"' or first in (b"{", b"["):
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


def fits(data_type: DataType, raw: bytes) -> bool:
    """Whether a JSON value fits a type exactly: by value, not by inferred type. Null fits every type.

    A STRING takes every value (as its JSON text); DATE and the like are held as text and take strings only.
    """
    first = raw[:1]
    if first == b"n":
        return True
    if isinstance(data_type, StringType):
        return True
    if isinstance(data_type, NullType):
        return False
    number = first == b"-" or first.isdigit()
    if isinstance(data_type, BooleanType):
        return first in (b"t", b"f")
    if isinstance(data_type, _FLOATS):
        return number
    if isinstance(data_type, _INTEGERS):
        if not number or len(raw) > 20 or not raw.lstrip(b"-").isdigit():
            return False
        bound = 1 << (INTEGER_BITS[type(data_type)] - 1)
        return -bound <= int(raw) < bound
    if isinstance(data_type, DecimalType):
        return number and _fits_decimal(data_type, raw)
    if isinstance(data_type, _TEXTS):
        return first == b'"' and len(msgspec.json.decode(raw)) <= data_type.length
    return first == b'"'


def _fits_decimal(data_type: DecimalType, raw: bytes) -> bool:
    whole, _, fraction = raw.lstrip(b"-").partition(b".")
    if not whole.isdigit() or not (fraction or b"0").isdigit():
        return False
    digits = len(whole.lstrip(b"0"))
    return digits <= data_type.precision - data_type.scale and len(fraction.rstrip(b"0")) <= data_type.scale
