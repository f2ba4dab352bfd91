"""Values that say a value of a declared type in another text than the type's own: a number in quotes, a time with `T`.

In: JSON text that does not fit its column. Out: the type's own text of the same value, or None where the value says
none of that type, or would lose something. Only for columns whose types the pipeline's file declares: the others are
what their values are. Rules: docs/spec/types.md#declared-columns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.model import temporal
from ingest.model.jsontext import MALFORMED, fields_of, object_of
from ingest.model.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
)
from ingest.model.values import elements_of, fits, fits_inside, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.types import DataType

_NUMBER: Final = re.compile(rb"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?").fullmatch
_LOOSE: Final = re.compile(rb"(?:\+|(-))?(?=\.?\d)0*(\d*)(\.\d*)?((?:[eE][+-]?\d+)?)").fullmatch
_MAX_EXPONENT: Final = 100
_MAX_DIGITS: Final = 1000


def respelled(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    """Respell a JSON value as its type has it; None where it says no value of that type.

    The value does not fit the type as it is. The same object where only a fraction is finer than a microsecond: that
    text is the type's own, and nothing but an expression is too coarse for it.
    """
    spell = _SPELLINGS.get(type(data_type))
    try:
        made = None if spell is None else spell(data_type, raw, standard)
    except (ValueError, OverflowError, *MALFORMED):
        return None
    return made


def says(data_type: DataType, raw: bytes, standard: str) -> bool:
    """Whether a JSON value says a value of a type, in whatever text."""
    return fits(data_type, raw, standard) or respelled(data_type, raw, standard) is not None


def number(text: bytes) -> bytes:
    """A number as JSON has it, from one with a plus, zeros in front, or a point without digits; raises ValueError."""
    if _NUMBER(text) is not None:
        return text
    found = _LOOSE(text)
    if found is None:
        raise ValueError("not a number")
    sign, whole, fraction, exponent = found.groups()
    return (sign or b"") + (whole or b"0") + (fraction if fraction and len(fraction) > 1 else b"") + exponent


def plain_number(text: bytes) -> bytes:
    """A number with all its digits, and no exponent; raises ValueError."""
    text = number(text)
    mantissa, _, exponent = text.lower().partition(b"e")
    if not exponent:
        return text
    shift = int(exponent)
    if abs(shift) > _MAX_EXPONENT:
        raise ValueError("an exponent past all reason")
    sign = b"-" if mantissa[:1] == b"-" else b""
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    digits, point = whole + fraction, len(whole) + shift
    if point <= 0:
        return sign + b"0." + b"0" * -point + digits
    if point >= len(digits):
        return sign + ((digits + b"0" * (point - len(digits))).lstrip(b"0") or b"0")
    return sign + (digits[:point].lstrip(b"0") or b"0") + b"." + digits[point:]


def _text(raw: bytes) -> str:
    """What is between quotes, without white space around it; raises ValueError where there are none."""
    if raw[:1] != b'"':
        raise ValueError("not a text")
    return msgspec.json.decode(raw, type=str).strip()


def _inner(raw: bytes) -> bytes:
    """The text of a number, in quotes or without."""
    text = _text(raw).encode() if raw[:1] == b'"' else raw
    if len(text) > _MAX_DIGITS:
        raise ValueError("a number past all reason")
    return text


def _fitting(data_type: DataType, made: bytes, standard: str) -> bytes | None:
    return made if fits(data_type, made, standard) else None


def _boolean(_: DataType, raw: bytes, __: str) -> bytes | None:
    found = _text(raw).lower().encode()
    return found if found in (b"true", b"false") else None


def _integer(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    whole, _, fraction = plain_number(_inner(raw)).partition(b".")
    return None if fraction.strip(b"0") else _fitting(data_type, b"%d" % int(whole), standard)


def _float(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    return _fitting(data_type, number(_inner(raw)), standard)


def _decimal(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    return _fitting(data_type, plain_number(_inner(raw)), standard)


def _characters(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    return None if raw[:1] == b'"' else _fitting(data_type, written(raw, data_type, data_type, standard), standard)


def _string(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    return written(raw, data_type, data_type, standard)


def _bytes(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    return _fitting(data_type, b'"' + _text(raw).encode() + b'"', standard)


def _date(_: DataType, raw: bytes, __: str) -> bytes | None:
    return temporal.date_said(_text(raw))


def _time(_: DataType, raw: bytes, __: str) -> bytes | None:
    return raw if temporal.is_fine_time(raw) else temporal.time_said(_text(raw))


def _timestamp(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    zoned = isinstance(data_type, TimestampType)
    if temporal.is_fine_timestamp(raw, standard, zoned=zoned):
        return raw
    return temporal.timestamp_said(_text(raw), standard, zoned=zoned)


def _inside(data_type: DataType, raw: bytes, standard: str) -> bytes:
    """A value in an array, map or row; raises ValueError where it is none of its type."""
    made = raw if fits_inside(data_type, raw, standard) else respelled(data_type, raw, standard)
    if made is None:
        raise ValueError("not of its type")
    return made


def _array(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    assert isinstance(data_type, ArrayType)
    if raw[:1] != b"[":
        return None
    return b"[" + b",".join(_inside(data_type.element, bytes(e), standard) for e in elements_of(raw)) + b"]"


def _map(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    assert isinstance(data_type, MapType)
    if raw[:1] != b"{":
        return None
    return object_of({name: _inside(data_type.value, bytes(v), standard) for name, v in fields_of(raw).items()})


def _row(data_type: DataType, raw: bytes, standard: str) -> bytes | None:
    assert isinstance(data_type, StructType)
    if raw[:1] != b"{":
        return None
    types_of = {field.name: field.type for field in data_type.fields}
    values = fields_of(raw)
    if not values.keys() <= types_of.keys():
        return None
    return object_of({name: _inside(types_of[name], bytes(value), standard) for name, value in values.items()})


_SPELLINGS: Final[dict[type[DataType], Callable[[DataType, bytes, str], bytes | None]]] = {
    BooleanType: _boolean,
    ByteType: _integer,
    ShortType: _integer,
    IntegerType: _integer,
    LongType: _integer,
    FloatType: _float,
    DoubleType: _float,
    DecimalType: _decimal,
    CharType: _characters,
    VarcharType: _characters,
    StringType: _string,
    BinaryType: _bytes,
    DateType: _date,
    TimeType: _time,
    TimestampNTZType: _timestamp,
    TimestampType: _timestamp,
    ArrayType: _array,
    MapType: _map,
    StructType: _row,
}
