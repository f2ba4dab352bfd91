"""Dates and times as JSON text: which text is one, and the text of one that has to be produced.

In: JSON text of a value, or a count since 1970. Out: whether it is such a value, or its JSON text. All in UTC; the
machine's time zone never matters. Rules: docs/spec/values.md#texts-that-are-produced.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

SQL: Final = "SQL"
ISO: Final = "ISO-8601"

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  (UTC throughout)
_DAY: Final = 86_400_000_000
_TIME: Final = rb"\d\d:\d\d:\d\d(?:\.\d{1,6}0{0,3})?"
_FINE: Final = rb"\d\d:\d\d:\d\d\.\d{7,9}"
_is_time: Final = re.compile(rb'"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6}0{0,3})?)?"').fullmatch
_is_fine_time: Final = re.compile(rb'"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{7,9}"').fullmatch
_is_date: Final = re.compile(rb'"\d{4}-\d\d-\d\d"').fullmatch
_FORMS: Final = {
    (SQL, False): re.compile(rb'"\d{4}-\d\d-\d\d ' + _TIME + rb'"').fullmatch,
    (SQL, True): re.compile(rb'"\d{4}-\d\d-\d\d ' + _TIME + rb'Z"').fullmatch,
    (ISO, False): re.compile(rb'"\d{4}-\d\d-\d\dT' + _TIME + rb'"').fullmatch,
    (ISO, True): re.compile(rb'"\d{4}-\d\d-\d\dT' + _TIME + rb'Z"').fullmatch,
}
_FINE_FORMS: Final = {
    (SQL, False): re.compile(rb'"\d{4}-\d\d-\d\d ' + _FINE + rb'"').fullmatch,
    (SQL, True): re.compile(rb'"\d{4}-\d\d-\d\d ' + _FINE + rb'Z"').fullmatch,
    (ISO, False): re.compile(rb'"\d{4}-\d\d-\d\dT' + _FINE + rb'"').fullmatch,
    (ISO, True): re.compile(rb'"\d{4}-\d\d-\d\dT' + _FINE + rb'Z"').fullmatch,
}
_SAID: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9})0*)?)? ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
).fullmatch
_TIME_SAID: Final = re.compile(r"([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9})0*)?)?").fullmatch
_TOO_FINE: Final = re.compile(r"(\.[0-9]{6})([0-9]{1,3})")
_ZONED: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d(?::?\d\d)?)")


def is_date(raw: bytes) -> bool:
    """Whether this JSON text is a date like `"2020-01-31"`, and one that the calendar has."""
    if _is_date(raw) is None:
        return False
    try:
        date.fromisoformat(raw[1:11].decode())
    except ValueError:
        return False
    return True


def is_time(raw: bytes) -> bool:
    """Whether this JSON text is a time of day like `"12:13:14.5"`."""
    return _is_time(raw) is not None


def is_timestamp(raw: bytes, standard: str = SQL, *, zoned: bool = False) -> bool:
    """Whether this JSON text is a timestamp as `json.timestamp-format.standard` writes it; `zoned`: with its `Z`.

    Finer than a microsecond is none: no column could hold it.
    """
    return _FORMS[standard, zoned](raw) is not None and _is_moment(raw)


def is_fine_timestamp(raw: bytes, standard: str = SQL, *, zoned: bool = False) -> bool:
    """Whether this JSON text is such a timestamp, but for a fraction of up to nine digits, finer than a microsecond."""
    return _FINE_FORMS[standard, zoned](raw) is not None and _is_moment(raw)


def is_fine_time(raw: bytes) -> bool:
    """Whether this JSON text is a time of day with a fraction of up to nine digits, finer than a microsecond."""
    return _is_fine_time(raw) is not None


def _is_moment(raw: bytes) -> bool:
    """Whether the calendar and the clock have a timestamp of the right form."""
    try:
        datetime.fromisoformat(raw[1:20].decode())
    except ValueError:
        return False
    return True


def date_said(text: str) -> bytes | None:
    """The JSON text of the date that a text says, with no other time than midnight; None where it says none."""
    found = timestamp_said(text)
    return None if found is None or found[12:] != b'00:00:00"' else found[:11] + b'"'


def time_said(text: str) -> bytes | None:
    """The JSON text of the time of day that a text says; None where it says none."""
    found = _TIME_SAID(text)
    if found is None:
        return None
    minutes, seconds, fraction = found.groups()
    made = f'"{minutes}:{seconds or "00"}{_digits(fraction)}"'.encode()
    return made if is_time(made) or is_fine_time(made) else None


def timestamp_said(text: str, standard: str = SQL, *, zoned: bool = False) -> bytes | None:
    """The JSON text of the timestamp that a text says, with `T` or a blank; None where it says none.

    A date is its midnight. `zoned`: it may name its zone, and is in UTC where it does not. Fractions keep all digits.
    """
    found = _SAID(text)
    if found is None or (found.group(5) and not zoned):
        return None
    day, minutes, seconds, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{minutes or '00:00'}:{seconds or '00'}{zone or ''}")
        naive = moment.replace(tzinfo=None) - _offset_of(moment, zone or "")
    except (ValueError, OverflowError):
        return None
    whole = naive.isoformat(" " if standard == SQL else "T")
    return f'"{whole}{_digits(fraction)}{"Z" if zoned else ""}"'.encode()


def _offset_of(moment: datetime, zone: str) -> timedelta:
    """The distance from UTC; raises ValueError for one that no zone has."""
    if zone[3:].lstrip(":") > "59" or (zone[1:3] + zone[3:].lstrip(":")).ljust(4, "0") > "1800":
        msg = f"{zone} is no zone"
        raise ValueError(msg)
    return moment.utcoffset() or timedelta()


def coarse(text: str) -> tuple[str, bool]:
    """A time without what is finer than a microsecond, and whether anything but zeros was cut."""
    found = _TOO_FINE.search(text)
    if found is None:
        return text, False
    return text[: found.end(1)] + text[found.end() :], bool(found.group(2).strip("0"))


def _digits(fraction: str | None) -> str:
    digits = (fraction or "").rstrip("0")
    return f".{digits}" if digits else ""


def _fraction(micros: int) -> str:
    return f".{micros:06d}".rstrip("0") if micros else ""


def date_text(days: int) -> bytes:
    """The JSON text of a date, from days since 1970; raises ValueError outside of the years 1 to 9999."""
    try:
        return f'"{(_EPOCH + timedelta(days=days)).date().isoformat()}"'.encode()
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc


def time_text(micros: int) -> bytes:
    """The JSON text of a time of day, from microseconds since midnight; raises ValueError outside of the day."""
    if not 0 <= micros < _DAY:
        msg = f"{micros} µs is no time of day"
        raise ValueError(msg)
    seconds, rest = divmod(micros, 1_000_000)
    return f'"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest)}"'.encode()


def timestamp_text(micros: int, standard: str = SQL, *, zoned: bool = False) -> bytes:
    """The JSON text of a timestamp, from microseconds since 1970; raises ValueError outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError as exc:
        msg = f"{micros} µs since 1970 is no time of the years 1 to 9999"
        raise ValueError(msg) from exc
    separator = " " if standard == SQL else "T"
    whole = moment.replace(microsecond=0).isoformat(separator)
    return f'"{whole}{_fraction(moment.microsecond)}{"Z" if zoned else ""}"'.encode()


def zoned_text(text: str, standard: str = SQL) -> bytes:
    """The JSON text, in UTC, of a timestamp that names its zone like `2020-01-31T12:13:14.5+02:00`; raises ValueError.

    A fraction finer than a microsecond raises, too, unless it is zeros.
    """
    if _ZONED.fullmatch(text) is None:
        msg = f"{text[:40]!r} is no timestamp with a zone"
        raise ValueError(msg)
    fraction = re.search(r"\.(\d+)", text)
    if fraction is not None and fraction.group(1)[6:].strip("0"):
        msg = f"{text!r} is finer than a microsecond"
        raise ValueError(msg)
    moment = datetime.fromisoformat(text)
    offset = moment.utcoffset() or timedelta()
    try:
        naive = moment.replace(tzinfo=None) - offset
    except OverflowError as exc:
        raise ValueError(str(exc)) from exc
    return timestamp_text((naive - _EPOCH) // timedelta(microseconds=1), standard, zoned=True)


def widen(raw: bytes, steps: int, standard: str = SQL) -> bytes:
    """A date's text as a timestamp's (1 step), or with a zone (2 steps)."""
    separator = b" " if standard == SQL else b"T"
    text = raw[:-1]
    if len(text) == 11:
        text += separator + b"00:00:00"
    return text + (b'Z"' if steps > 1 else b'"')


def days(raw: bytes) -> int:
    """Days from 1970 to the date in this JSON text."""
    return (date.fromisoformat(raw[1:11].decode()) - _EPOCH.date()).days


def micros_of_day(raw: bytes) -> int:
    """Microseconds from midnight to the time of day in this JSON text."""
    hours, minutes, *seconds = raw[1:-1].split(b":")
    whole, _, fraction = (seconds[0] if seconds else b"0").partition(b".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction[:6].ljust(6, b"0"))


def micros(raw: bytes) -> int:
    """Microseconds from 1970 to the timestamp in this JSON text, with or without its `Z`."""
    return days(raw) * _DAY + micros_of_day(b'"' + raw[12:].rstrip(b'Z"') + b'"')
