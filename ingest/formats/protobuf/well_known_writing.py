"""Messages that Google and Confluent define for everybody, filled from the JSON texts that rows have.

In: such a message, and a JSON text. A text that says none of it, or not exactly, raises ValueError.
Rules: docs/spec/protobuf.md#writing.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ingest.formats.protobuf.scalars import boolean, characters, number
from ingest.model import temporal, types
from ingest.model.jsontext import MALFORMED, fields_of
from ingest.model.numbers import rounds_number
from ingest.model.values import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from ingest.formats.protobuf.descriptors import AnyMessage
    from ingest.model.data_type import DataType
    from ingest.model.numbers import Rounds

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (UTC throughout)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_DURATION: Final = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s")
_DECIMAL: Final = re.compile(r"(-?)(\d{1,100})(?:\.(\d{1,100}))?")


def _matched(pattern: re.Pattern[str], text: str, what: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        msg = f"no {what}"
        raise ValueError(msg)
    return tuple(part or "" for part in found.groups())


def _nanos(fraction: str) -> int:
    return int(fraction.ljust(9, "0"))


def fill_timestamp(message: AnyMessage, raw: bytes) -> None:
    """Fill a Timestamp; a time without a zone is one in UTC."""
    said = temporal.timestamp_said(characters(raw), zoned=True)
    if said is None:
        msg = "no time"
        raise ValueError(msg)
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
        msg = "no time of a day"
        raise ValueError(msg)
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
