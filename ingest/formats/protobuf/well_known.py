"""Messages that Google and Confluent define for everybody: their values as columns have them, and the way back.

No digit is lost on the way in; on the way out a JSON text that says no such value, or not exactly, raises ValueError.
Rules: docs/spec/protobuf.md#types, docs/spec/protobuf.md#writing.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from ingest.formats.protobuf.scalars import boolean, characters, number
from ingest.model import temporal, types
from ingest.model.floats import finite
from ingest.model.jsontext import MALFORMED, Json, fields_of
from ingest.model.numbers import Rounds, rounds_number
from ingest.model.types import DataType, TimeType
from ingest.model.values import decimal_text, elements_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import Descriptor

    from ingest.formats.protobuf.schema import AnyMessage

    Check: TypeAlias = Callable[[Any], None]
    """Function that is called with each message that is read, and may raise."""

_EXACT: Final = 2**53
_NANOS: Final = 1_000_000_000
_MAX_SECONDS: Final = 315_576_000_000
"""Seconds of a Duration, at most: 10,000 years."""

_SHAPES: Final = {
    "google.protobuf.Timestamp": "seconds:3 nanos:5",
    "google.protobuf.Duration": "seconds:3 nanos:5",
    "google.protobuf.Struct": "fields:11:google.protobuf.Struct.FieldsEntry",
    "google.protobuf.Struct.FieldsEntry": "key:9 value:11:google.protobuf.Value",
    "google.protobuf.ListValue": "values:11:google.protobuf.Value",
    "google.protobuf.Value": "null_value:14 number_value:1 string_value:9 bool_value:8 "
    "struct_value:11:google.protobuf.Struct list_value:11:google.protobuf.ListValue",
    "google.protobuf.DoubleValue": "value:1",
    "google.protobuf.FloatValue": "value:2",
    "google.protobuf.Int64Value": "value:3",
    "google.protobuf.UInt64Value": "value:4",
    "google.protobuf.Int32Value": "value:5",
    "google.protobuf.BoolValue": "value:8",
    "google.protobuf.StringValue": "value:9",
    "google.protobuf.BytesValue": "value:12",
    "google.protobuf.UInt32Value": "value:13",
    "google.type.Date": "year:5 month:5 day:5",
    "google.type.TimeOfDay": "hours:5 minutes:5 seconds:5 nanos:5",
    "confluent.type.Decimal": "value:12 precision:13 scale:5",
}
"""Names and types of the fields of these messages, by the messages' full names. A schema may define other ones."""
_REPEATED: Final = frozenset({"google.protobuf.Struct", "google.protobuf.ListValue"})
_CHOICE: Final = "google.protobuf.Value"


def is_known(message: Descriptor, above: frozenset[str] = frozenset()) -> bool:
    """Return whether a message is one of these, as it is defined for everybody, and not another one of its name."""
    name = message.full_name
    fields = message.fields
    shape = " ".join(
        f"{one.name}:{one.type}" + (f":{one.message_type.full_name}" if one.message_type else "") for one in fields
    )
    if _SHAPES.get(name) != shape or any(one.is_repeated != (name in _REPEATED) for one in fields):
        return False
    if name == _CHOICE and any(one.containing_oneof is None or one.containing_oneof.name != "kind" for one in fields):
        return False
    inner = [one.message_type for one in fields if one.message_type and one.message_type.full_name not in above]
    return all(is_known(one, above | {name}) for one in inner)


def timestamp(message: AnyMessage, check: Check) -> tuple[msgspec.Raw, bool]:
    """Return the JSON text of a Timestamp, and False: each has a place in its type. Raise ValueError."""
    check(message)
    seconds, nanos = message.seconds, message.nanos
    if not 0 <= nanos < _NANOS:
        raise ValueError(f"{nanos} nanoseconds, which a Timestamp cannot have")
    micros, rest = divmod(nanos, 1000)
    if not rest:
        return msgspec.Raw(temporal.timestamp_text(seconds * 1_000_000 + micros, zoned=True)), False
    whole = temporal.timestamp_text(seconds * 1_000_000)[:-1]
    return msgspec.Raw(b'%b.%bZ"' % (whole, (b"%09d" % nanos).rstrip(b"0"))), False


def date(message: AnyMessage, check: Check) -> tuple[msgspec.Raw, bool]:
    """Return the JSON text of a Date, and whether its year, month or day is missing (zero). Raise ValueError."""
    check(message)
    year, month, day = message.year, message.month, message.day
    partial = not (year and month and day)
    dt.date(year or 2000, month or 1, day or 1)
    return msgspec.Raw(b'"%04d-%02d-%02d"' % (year, month, day)), partial


def time_of_day(message: AnyMessage, check: Check) -> tuple[msgspec.Raw, bool]:
    """Return the JSON text of a TimeOfDay, and whether no clock shows it. Raise ValueError."""
    check(message)
    hours, minutes, seconds, nanos = message.hours, message.minutes, message.seconds, message.nanos
    if not (0 <= hours <= 24 and 0 <= minutes < 60 and 0 <= seconds <= 60 and 0 <= nanos < _NANOS):
        msg = f"{hours} hours, {minutes} minutes, {seconds} seconds and {nanos} nanoseconds, which no day has"
        raise ValueError(msg)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    text = f'"{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}"'
    return msgspec.Raw(text.encode()), hours == 24 or seconds == 60


def decimal(message: AnyMessage, check: Check) -> str:
    """Return the exact number of a Decimal of Confluent. Raise ValueError."""
    check(message)
    return decimal_text(int.from_bytes(message.value, "big", signed=True), message.scale).decode()


def duration(message: AnyMessage, check: Check) -> str:
    """Return a Duration as Protocol Buffers writes it in JSON: `-1.5s`. Raise ValueError."""
    check(message)
    seconds, nanos = message.seconds, message.nanos
    if not -_NANOS < nanos < _NANOS or abs(seconds) > _MAX_SECONDS or seconds * nanos < 0:
        raise ValueError(f"{seconds} seconds and {nanos} nanoseconds, which a Duration cannot have")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    fraction = f".{abs(nanos):09d}".rstrip("0") if nanos else ""
    return f"{sign}{abs(seconds)}{fraction}s"


def struct(message: AnyMessage, check: Check) -> dict[str, Json]:
    """Return a Struct as the object that it stands for. Raise NotANumber."""
    check(message)
    fields = message.fields
    return {name: value(fields[name], check) for name in sorted(fields)}


def list_value(message: AnyMessage, check: Check) -> list[Json]:
    """Return a ListValue as the array that it stands for. Raise NotANumber."""
    check(message)
    return [value(one, check) for one in message.values]


def value(message: AnyMessage, check: Check) -> Json:
    """Return a Value as what it stands for; None where it has none. Raise NotANumber."""
    check(message)
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(message, kind)
    if kind == "struct_value":
        return struct(found, check)
    if kind == "list_value":
        return list_value(found, check)
    if kind != "number_value":
        return found
    return int(found) if finite(found).is_integer() and abs(found) < _EXACT else found


CONVERTED: Final[dict[str, Callable[[Any, Check], Any]]] = {
    "google.protobuf.Duration": duration,
    "google.protobuf.Struct": struct,
    "google.protobuf.ListValue": list_value,
    "google.protobuf.Value": value,
    "confluent.type.Decimal": decimal,
}
"""Functions that return the JSON value that a message stands for, by the full names of messages."""
TIMES: Final[dict[str, tuple[DataType, Callable[[Any, Check], tuple[msgspec.Raw, bool]]]]] = {
    "google.protobuf.Timestamp": (types.TIMESTAMP_LTZ, timestamp),
    "google.type.Date": (types.DATE, date),
    "google.type.TimeOfDay": (TimeType(6), time_of_day),
}
"""Types of messages that are times, by the full names of messages, and functions that return their JSON texts.

The functions also return whether the text is none of the type: 24:00:00, or a date without a day.
"""


_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (UTC throughout)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_DURATION: Final = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s")
_DECIMAL: Final = re.compile(r"(-?)(\d{1,100})(?:\.(\d{1,100}))?")


def _matched(pattern: re.Pattern[str], text: str, what: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"no {what}")
    return tuple(part or "" for part in found.groups())


def _nanos(fraction: str) -> int:
    return int(fraction.ljust(9, "0"))


def fill_timestamp(message: AnyMessage, raw: bytes) -> None:
    """Fill a Timestamp; a time without a zone is one in UTC."""
    said = temporal.timestamp_said(characters(raw), zoned=True)
    if said is None:
        raise ValueError("no time")
    whole, _, fraction = said[1:-2].decode().partition(".")
    since = dt.datetime.fromisoformat(whole) - _EPOCH
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = _nanos(fraction)


def fill_date(message: AnyMessage, raw: bytes) -> None:
    """Fill a Date."""
    year, month, day = map(int, _matched(_DATE, characters(raw), "date"))
    dt.date(year or 2000, month or 1, day or 1)
    message.year, message.month, message.day = year, month, day


def fill_time_of_day(message: AnyMessage, raw: bytes) -> None:
    """Fill a TimeOfDay."""
    hours, minutes, seconds, fraction = _matched(_TIME, characters(raw), "time of a day")
    if hours > "24" or minutes > "59" or seconds > "60":
        raise ValueError("no time of a day")
    message.hours, message.minutes, message.seconds = int(hours), int(minutes), int(seconds)
    message.nanos = _nanos(fraction)


def fill_duration(message: AnyMessage, raw: bytes) -> None:
    """Fill a Duration from its text, `-1.5s`."""
    sign, seconds, fraction = _matched(_DURATION, characters(raw), "duration")
    factor = -1 if sign else 1
    message.seconds, message.nanos = factor * int(seconds), factor * _nanos(fraction)


def fill_decimal(message: AnyMessage, raw: bytes) -> None:
    """Fill a Decimal of Confluent from a plain number, or the text of one."""
    sign, whole, fraction = _matched(_DECIMAL, characters(raw), "plain number")
    unscaled = int(sign + whole + fraction)
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    message.value = unscaled.to_bytes(size, "big", signed=True)
    message.precision, message.scale = len(str(abs(unscaled))), len(fraction)


def inside(raw: bytes) -> bytes:
    """Return the JSON that a text holds; another value as it is."""
    return characters(raw).encode() if raw[:1] == b'"' else raw


def fill_struct(message: AnyMessage, raw: bytes) -> None:
    """Fill a Struct from an object, or the text of one."""
    fields = message.fields
    for name, one in fields_of(inside(raw)).items():
        fill_value(fields[name], bytes(one))


def fill_list(message: AnyMessage, raw: bytes) -> None:
    """Fill a ListValue from an array, or the text of one."""
    for one in elements_of(inside(raw)):
        fill_value(message.values.add(), bytes(one))


def fill_value(message: AnyMessage, raw: bytes) -> None:
    """Fill a Value: a text stands for itself."""
    first = raw[:1]
    if first == b"n":
        message.null_value = 0
    elif first == b'"':
        message.string_value = characters(raw)
    elif first in {b"t", b"f"}:
        message.bool_value = boolean(raw)
    elif first == b"{":
        message.struct_value.SetInParent()
        fill_struct(message.struct_value, raw)
    elif first == b"[":
        message.list_value.SetInParent()
        fill_list(message.list_value, raw)
    else:
        message.number_value = number(raw)


FILLED: Final[dict[str, Callable[[Any, bytes], None]]] = {
    "google.protobuf.Timestamp": fill_timestamp,
    "google.protobuf.Duration": fill_duration,
    "google.protobuf.Struct": fill_struct,
    "google.protobuf.ListValue": fill_list,
    "google.protobuf.Value": fill_value,
    "google.type.Date": fill_date,
    "google.type.TimeOfDay": fill_time_of_day,
    "confluent.type.Decimal": fill_decimal,
}
"""Functions that fill messages, by the full names of these. Wrappers are not among them."""
_OF_JSON: Final = {"google.protobuf.Struct": True, "google.protobuf.ListValue": True, "google.protobuf.Value": False}
"""Messages that hold any JSON, of which all numbers are doubles: whether a text is the JSON of such a value."""


def rounding(name: str) -> Rounds | None:
    """Return what says of values of such a message whether they become other numbers; None for another message."""
    return partial(_rounds_any, opened=_OF_JSON[name]) if name in _OF_JSON else None


def _rounds_any(raw: bytes, said: DataType | None, *, opened: bool) -> bool:
    try:
        raw = inside(raw) if opened else raw
        values = {b"{": _members, b"[": elements_of}.get(raw[:1], _none)(raw)
    except (ValueError, *MALFORMED):
        return False  # it is none of its type, which is said elsewhere
    return rounds_number(raw, said, types.DOUBLE) or any(_rounds_any(bytes(one), None, opened=False) for one in values)


def _members(raw: bytes) -> list[msgspec.Raw]:
    return list(fields_of(raw).values())


def _none(_: bytes) -> list[msgspec.Raw]:
    return []
