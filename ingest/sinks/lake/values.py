"""Values of JSON as what a column of Arrow holds: integers, decimals, binary numbers, texts, bytes, days, microseconds.

In: the JSON text of a value that is not null, in a form of its column's type or in one that says a value of it. Out:
the value, exact, and whether a time lost what is finer than a microsecond. A FLOAT or DOUBLE is the nearest number of
its size. Rules: docs/spec/types.md#declared-columns.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.model import temporal, types
from ingest.model.spelling import respelled
from ingest.model.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)
from ingest.model.values import fits, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.types import DataType

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
            msg = f"is {types.name(data_type)}"
            raise ValueError(msg)
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
        msg = "is a DOUBLE, which is smaller"
        raise ValueError(msg)
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
        msg = "is a FLOAT, which is smaller"
        raise ValueError(msg)
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
