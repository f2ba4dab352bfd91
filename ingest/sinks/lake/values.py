"""Columns of a lake: the Arrow type of each of ours, and what a column of that type holds of a value of JSON.

In: the JSON text of a value that is not null, in a form of its column's type or in one that says a value of it. Out:
the value, exact, and whether a time lost what is finer than a microsecond. A FLOAT or DOUBLE is the nearest number of
its size. And columns of Arrow whose values become those of a wider type. Rules: docs/spec/types.md#declared-columns and
docs/spec/types.md#merging.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ingest.model import temporal, types
from ingest.model.jsontext import key_text
from ingest.model.spelling import respelled
from ingest.model.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)
from ingest.model.values import fits, written

_ARROW_TYPES: Final = {
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


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a column's values. Raise TypeError for a type that no column of a lake has."""
    if types.is_text(data_type):
        return pa.string()
    if isinstance(data_type, DecimalType) and data_type.precision <= types.MAX_PRECISION:
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, TimeType):
        return pa.time64("us")
    found = _ARROW_TYPES.get(data_type)
    if found is None:
        raise TypeError(f"a lake has no columns of {types.name(data_type)}")
    return found


def converted(column: pa.ChunkedArray, to: pa.DataType, *, of_key: bool = False) -> pa.ChunkedArray:
    """Return a column as values of another type, which holds them: as the JSON of the values would be read.

    `of_key`: numbers become the texts that keys have, by which rows are found: `1.5` for a DECIMAL that is 1.50.
    A FLOAT becomes the DOUBLE of its digits, as a key of 0.1 that is a FLOAT is 0.1 there.
    """
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):  # as some writers have them
        column = column.cast(pa.string() if pa.types.is_string_view(column.type) else pa.binary())
    source = column.type
    if source == to:
        return column
    if pa.types.is_string(to) or pa.types.is_large_string(to):
        return pa.chunked_array([_texts(chunk, of_key=of_key) for chunk in column.chunks], pa.string()).cast(to)
    if pa.types.is_timestamp(to) and pa.types.is_date(source):
        column = column.cast(pa.timestamp("us"))
    if of_key and pa.types.is_float32(source) and pa.types.is_floating(to):
        return column.cast(pa.string()).cast(to)
    return column.cast(to, safe=not pa.types.is_floating(to))


def _texts(chunk: pa.Array, *, of_key: bool) -> pa.Array:
    """Return the texts of values, as rows have them in JSON."""
    source, text = chunk.type, pa.string()
    if pa.types.is_binary(source) or pa.types.is_large_binary(source):
        return pa.array([None if one is None else b64encode(one).decode() for one in chunk.to_pylist()], text)
    if pa.types.is_decimal(source):  # Arrow's own text may have an exponent
        found = pa.array([None if one is None else f"{one:f}" for one in chunk.to_pylist()], text)
        return _key_texts(found) if of_key else found
    if pa.types.is_timestamp(source) or pa.types.is_time(source):
        naive = chunk.cast(pa.timestamp("us")) if pa.types.is_timestamp(source) else chunk
        found = pc.utf8_rtrim(pc.utf8_rtrim(naive.cast(text), "0"), ".")
        return pc.binary_join_element_wise(found, "Z", "") if getattr(source, "tz", None) else found
    return _key_texts(chunk.cast(text)) if of_key and pa.types.is_floating(source) else chunk.cast(text)


def _key_texts(numbers: pa.Array) -> pa.Array:
    """Return the texts that numbers, given as texts, have in keys (docs/spec/keys.md#text-of-a-key-value)."""
    return pa.array([None if one is None else _key_text(one) for one in numbers.to_pylist()], numbers.type)


def _key_text(number: str) -> str:
    try:
        return key_text(number.encode()).decode()
    except msgspec.DecodeError:  # another writer's NaN, which no key is
        return number


_FLOAT: Final = struct.Struct("<f")


def reader_of(data_type: DataType) -> Callable[[bytes], tuple[Any, bool]]:
    """Return a function of a value's JSON text, which is not null, by the type of its column.

    It returns the value, and whether a time lost what is finer than a microsecond. It raises ValueError for a text that
    says no value of the type, with the end of a sentence about the column.
    """
    if types.is_text(data_type):
        return lambda raw: (_text(raw), False)
    convert = _CONVERT.get(type(data_type), int)

    def read(raw: bytes) -> tuple[Any, bool]:
        text = raw if fits(data_type, raw) else respelled(data_type, raw, temporal.SQL)
        if text is None:
            raise ValueError(f"is {types.name(data_type)}")
        if isinstance(data_type, (TimeType, TimestampNTZType, TimestampType)):
            return convert(text), temporal.coarse(text.decode())[1]
        return convert(text), False

    return read


def _text(raw: bytes) -> str:
    """Return a text, or the text of another value."""
    return msgspec.json.decode(written(raw, types.STRING, types.STRING), type=str)


def _decimal(raw: bytes) -> Decimal:
    """Return a plain number. Zeros at the end of its fraction are no digits."""
    return Decimal((raw.rstrip(b"0") if b"." in raw else raw).decode())


def _double(raw: bytes) -> float:
    """Return the nearest number of 64 bits."""
    value = float(raw)
    if math.isinf(value):
        raise ValueError("is a DOUBLE, which is smaller")
    return value


def _float(raw: bytes) -> float:
    """Return the nearest number of 32 bits: it is rounded once only, so not by way of the nearest one of 64 bits."""
    value = float(raw)
    if value and not math.isinf(value) and not int(math.frexp(value)[0] * (1 << 53)) % 2:
        exact, near = Decimal(raw.decode()), Decimal(value)
        if exact != near:  # of the two doubles around it the odd one, which is never halfway between two floats
            value = math.nextafter(value, math.inf if exact > near else -math.inf)
    try:
        (nearest,) = _FLOAT.unpack(_FLOAT.pack(value))
    except OverflowError:
        nearest = math.inf
    if math.isinf(nearest):
        raise ValueError("is a FLOAT, which is smaller")
    return float(nearest)


_CONVERT: Final[dict[type[DataType], Callable[[bytes], Any]]] = {
    BooleanType: lambda raw: raw == b"true",
    DecimalType: _decimal,
    FloatType: _float,
    DoubleType: _double,
    BinaryType: lambda raw: b64decode(raw[1:-1]),
    DateType: temporal.days,
    TimeType: temporal.micros_of_day,
    TimestampNTZType: temporal.micros,
    TimestampType: temporal.micros,
}
