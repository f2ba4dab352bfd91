"""Values of a column as JSON text: which fit a type, and how a value reads in a column of another type.

In: JSON text as it came. Out: whether it fits, exactly and by value; or its text. Rules: docs/spec/types.md#conformance
and docs/spec/values.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ingest.model import temporal
from ingest.model.jsontext import MALFORMED, fields_of, object_of
from ingest.model.types import (
    INTEGER_BITS,
    STRING,
    TEXTS,
    TIMES,
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
    NullType,
    ShortType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    is_text,
    merge,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.types import DataType

    _Check: TypeAlias = Callable[[DataType, bytes, str], bool]

MAX_SCALE: Final = 1000
"""Digits after the point, or zeros before it, that the scale of a decimal may say at most."""


def fits(data_type: DataType, raw: bytes, standard: str = temporal.SQL) -> bool:
    """Whether a JSON value fits a type exactly: by value, not by inferred type. Null fits every type.

    A STRING takes every value (as its JSON text). `standard` is how timestamps are written.
    """
    check = _CHECKS.get(type(data_type))
    return check is None or raw[:1] == b"n" or check(data_type, raw, standard)


def is_fine(data_type: DataType, raw: bytes, standard: str = temporal.SQL) -> bool:
    """Whether a JSON value would fit a type but for fractions of a second of seven to nine digits, also in it."""
    nested = _NESTED_CHECKS.get(type(data_type))
    if nested is not None:
        return has_times(data_type) and nested(data_type, raw, standard, _holds_inside)
    if isinstance(data_type, TimeType):
        return temporal.is_fine_time(raw)
    zoned = isinstance(data_type, TimestampType)
    is_moment = zoned or isinstance(data_type, TimestampNTZType)
    return is_moment and temporal.is_fine_timestamp(raw, standard, zoned=zoned)


def holds(data_type: DataType, raw: bytes, standard: str = temporal.SQL) -> bool:
    """Whether a JSON value is one of a type that a message or the pipeline declares: a time has nine digits at most."""
    return fits(data_type, raw, standard) or is_fine(data_type, raw, standard)


def _fits_boolean(_: DataType, raw: bytes, __: str) -> bool:
    return raw[:1] in (b"t", b"f")


_is_plain: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?").fullmatch


def is_plain_number(raw: bytes) -> bool:
    """Return whether a JSON value is a number without an exponent."""
    return _is_plain(raw) is not None


def _is_number(raw: bytes) -> bool:
    first = raw[:1]
    return first == b"-" or first.isdigit()


def _fits_float(_: DataType, raw: bytes, __: str) -> bool:
    return _is_number(raw)


def _fits_integer(data_type: DataType, raw: bytes, _: str) -> bool:
    if len(raw) > 20 or not raw.removeprefix(b"-").isdigit():
        return False
    bound = 1 << (INTEGER_BITS[type(data_type)] - 1)
    return -bound <= int(raw) < bound


def _fits_decimal(data_type: DataType, raw: bytes, _: str) -> bool:
    assert isinstance(data_type, DecimalType)
    whole, _point, fraction = raw.lstrip(b"-").partition(b".")
    if not whole.isdigit() or not (fraction or b"0").isdigit():
        return False
    digits = len(whole.lstrip(b"0"))
    return digits <= data_type.precision - data_type.scale and len(fraction.rstrip(b"0")) <= data_type.scale


def _fits_text(data_type: DataType, raw: bytes, _: str) -> bool:
    assert isinstance(data_type, TEXTS)
    return raw[:1] == b'"' and len(msgspec.json.decode(raw)) <= data_type.length


_is_base64: Final = re.compile(rb'"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"').fullmatch
elements_of: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def _fits_bytes(_: DataType, raw: bytes, __: str) -> bool:
    return _is_base64(raw) is not None


def _fits_date(_: DataType, raw: bytes, __: str) -> bool:
    return temporal.is_date(raw)


def _fits_time(_: DataType, raw: bytes, __: str) -> bool:
    return temporal.is_time(raw)


def _fits_timestamp(_: DataType, raw: bytes, standard: str) -> bool:
    return temporal.is_timestamp(raw, standard)


def _fits_timestamp_ltz(_: DataType, raw: bytes, standard: str) -> bool:
    return temporal.is_timestamp(raw, standard, zoned=True)


def fits_inside(data_type: DataType, raw: bytes, standard: str) -> bool:
    """Whether a value in an array, map or row fits: there, a text is one as it stands."""
    return fits(data_type, raw, standard) and (raw[:1] in (b'"', b"n") or not is_text(data_type))


def _holds_inside(data_type: DataType, raw: bytes, standard: str) -> bool:
    return fits_inside(data_type, raw, standard) or is_fine(data_type, raw, standard)


def _fits_array(data_type: DataType, raw: bytes, standard: str, inside: _Check = fits_inside) -> bool:
    assert isinstance(data_type, ArrayType)
    try:
        return raw[:1] == b"[" and all(inside(data_type.element, bytes(e), standard) for e in elements_of(raw))
    except MALFORMED:
        return False


def _fits_map(data_type: DataType, raw: bytes, standard: str, inside: _Check = fits_inside) -> bool:
    assert isinstance(data_type, MapType)
    try:
        return raw[:1] == b"{" and all(inside(data_type.value, bytes(v), standard) for v in fields_of(raw).values())
    except MALFORMED:
        return False


def _fits_row(data_type: DataType, raw: bytes, standard: str, inside: _Check = fits_inside) -> bool:
    assert isinstance(data_type, StructType)
    try:
        values = fields_of(raw) if raw[:1] == b"{" else None
    except MALFORMED:
        return False
    if values is None:
        return False
    types_of = {field.name: field.type for field in data_type.fields}
    return all(name in types_of and inside(types_of[name], bytes(value), standard) for name, value in values.items())


def _fits_nothing(_: DataType, __: bytes, ___: str) -> bool:
    return False


_NESTED_CHECKS: Final[dict[type[DataType], Callable[[DataType, bytes, str, _Check], bool]]] = {
    ArrayType: _fits_array,
    MapType: _fits_map,
    StructType: _fits_row,
}
_CHECKS: dict[type[DataType], _Check] = {
    NullType: _fits_nothing,
    BooleanType: _fits_boolean,
    ByteType: _fits_integer,
    ShortType: _fits_integer,
    IntegerType: _fits_integer,
    LongType: _fits_integer,
    FloatType: _fits_float,
    DoubleType: _fits_float,
    DecimalType: _fits_decimal,
    CharType: _fits_text,
    VarcharType: _fits_text,
    BinaryType: _fits_bytes,
    DateType: _fits_date,
    TimeType: _fits_time,
    TimestampNTZType: _fits_timestamp,
    TimestampType: _fits_timestamp_ltz,
    ArrayType: _fits_array,
    MapType: _fits_map,
    StructType: _fits_row,
}


def accepts(data_type: DataType, raw: bytes, declared: DataType | None, standard: str, *, fine: bool = False) -> bool:
    """Whether a column takes a value: the value fits, or the type that its message declares needs no wider one.

    `fine`: whether times of the column may be finer than a microsecond.
    """
    return (holds if fine else fits)(data_type, raw, standard) or (
        declared is not None and merge(data_type, declared) == data_type and holds(declared, raw, standard)
    )


def written(raw: bytes, before: DataType, after: DataType, standard: str = temporal.SQL) -> bytes:
    """The JSON text of a value in a column of type `after`; the same object where nothing changes."""
    if raw == b"null":
        return raw
    if raw[:1] == b'"':
        if isinstance(before, TIMES) and isinstance(after, TIMES) and before != after:
            return temporal.widen(raw, TIMES.index(type(after)), standard)
        return raw
    if not is_text(after):
        return raw
    if raw[:1] in (b"{", b"["):
        return msgspec.json.encode(msgspec.json.format(raw, indent=-1).decode())
    return b'"' + raw + b'"'


def decimal_text(unscaled: int, scale: int) -> bytes:
    """Return a plain number with all its digits: 125 with scale 2 is `1.25`.

    Raise ValueError for a scale that would fill the memory: messages may say any.
    """
    if abs(scale) > MAX_SCALE:
        raise ValueError("a scale past all reason")
    if scale <= 0:
        return b"%d" % (unscaled * 10**-scale)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}".encode()


def is_time(data_type: DataType) -> bool:
    """Tell whether values of a type are times that a fraction may make too fine for a microsecond."""
    return isinstance(data_type, (TimestampNTZType, TimestampType, TimeType))


def has_times(data_type: DataType) -> bool:
    """Tell whether values of a type are times that a fraction may make too fine for expressions, or hold such times."""
    if isinstance(data_type, ArrayType):
        return has_times(data_type.element)
    if isinstance(data_type, MapType):
        return has_times(data_type.value)
    if isinstance(data_type, StructType):
        return any(has_times(field.type) for field in data_type.fields)
    return is_time(data_type)


def coarse(data_type: DataType, text: str) -> tuple[str, bool]:
    """Return a time, or the JSON text of a value with times in it, in microseconds, and whether anything was cut.

    Raises one of MALFORMED where nested text is not of its type.
    """
    if not isinstance(data_type, (ArrayType, MapType, StructType)):
        return temporal.coarse(text)
    found, cut = _coarse_inside(data_type, text.encode())
    return found.decode(), cut


def _coarse_inside(data_type: DataType, raw: bytes) -> tuple[bytes, bool]:
    if raw[:1] == b"n" or not has_times(data_type):
        return raw, False
    if isinstance(data_type, ArrayType):
        elements = [_coarse_inside(data_type.element, bytes(value)) for value in elements_of(raw)]
        return b"[" + b",".join(text for text, _ in elements) + b"]", any(cut for _, cut in elements)
    if isinstance(data_type, (MapType, StructType)):
        of = {} if isinstance(data_type, MapType) else {field.name: field.type for field in data_type.fields}
        other = data_type.value if isinstance(data_type, MapType) else STRING
        values = {n: _coarse_inside(of.get(n, other), bytes(value)) for n, value in fields_of(raw).items()}
        return object_of({name: text for name, (text, _) in values.items()}), any(cut for _, cut in values.values())
    text, cut = temporal.coarse(raw.decode())
    return text.encode(), cut
