"""Dates and times as JSON text: which text is one, and the text of one that has to be produced.

In: JSON text of a value, or a count since 1970. Out: whether it is such a value, or its JSON text. All in UTC; the
machine's time zone never matters. Rules: docs/spec/values.md#texts-that-are-produced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from types import MappingProxyType
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
_ZONE: Final = r"(Z|[+-][0-9]{2}(?:[0-9]{2}(?:[0-9]{2})?|:[0-9]{2}(?::[0-9]{2})?)?)"
"""A zone, with the seconds that old local times have: `+00:19:32` is Amsterdam's until 1937."""
_SAID: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9})0*)?)? ?" + _ZONE + r"?)?"
).fullmatch
_TIME_SAID: Final = re.compile(r"([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9})0*)?)?").fullmatch
_TOO_FINE: Final = re.compile(r"(\.[0-9]{6})([0-9]{1,3})")
_ZONED: Final = re.compile(
    r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})"
    r"[T ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9})0*)?)?" + _ZONE
).fullmatch
_LONG_DAY: Final = 839 * 3_600_000_000
"""Microseconds that a TIME of MySQL is smaller than, and its opposite larger."""
_is_long_time: Final = re.compile(rb'"-?[0-8]?[0-9]{2}:[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"').fullmatch
_CLOCK: Final = rb"(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?Z?)?"
_is_far: Final = re.compile(
    rb'"(?:-?infinity|[1-9][0-9]{4,8}-[0-9]{2}-[0-9]{2}'
    + _CLOCK
    + rb"|[0-9]{4,9}-[0-9]{2}-[0-9]{2}"
    + _CLOCK
    + rb' BC)"'
).fullmatch
_NONE: Final[Mapping[int, bytes]] = MappingProxyType({})
_FOUR_CENTURIES: Final = date(401, 1, 1).toordinal() - 1
"""Days after which the calendar is the same again."""
_INFINITY: Final = b'"infinity"'
_MINUS_INFINITY: Final = b'"-infinity"'
INFINITE: Final = frozenset((_INFINITY, _MINUS_INFINITY))
"""JSON texts of times that PostgreSQL has after and before all others."""
INFINITE_COUNTS: Final = {
    **{unit * 9_223_372_036_825_200_000: _INFINITY for unit in (1, 1000)},
    **{unit * -9_223_372_036_832_400_000: _MINUS_INFINITY for unit in (1, 1000)},
    (1 << 63) - 1: _INFINITY,
    -(1 << 63): _MINUS_INFINITY,
}
"""Microseconds that stand for them in Debezium: the counts of PostgreSQL's driver, as microseconds or as milliseconds
(`PGStatement.DATE_POSITIVE_INFINITY`), and the ends of 64 bits."""
INFINITE_DAYS: Final = {2_146_033_979: _INFINITY, -2_147_472_692: _INFINITY, -2_147_472_691: _MINUS_INFINITY}
"""Days that stand for them in Debezium's dates: 5877611-06-21, earlier with a minus, and -5877611-06-22."""
_INFINITE_TEXTS: Final = {
    "infinity": _INFINITY,
    "-infinity": _MINUS_INFINITY,
    # The same counts, as milliseconds
    "+292278994-08-16T23:00:00Z": _INFINITY,
    "-292275055-05-16T23:00:00Z": _MINUS_INFINITY,
}


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
    clock = zone[1:].replace(":", "").ljust(6, "0")
    if max(clock[2:4], clock[4:]) > "59" or clock > "180000":
        raise ValueError(f"{zone} is no zone")
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


def time_text(micros: int) -> bytes:
    """The JSON text of a time of day, from microseconds since midnight, or of a TIME of MySQL: `"-838:59:59"`.

    Raises ValueError for what is no TIME of any database.
    """
    if not -_LONG_DAY < micros < _LONG_DAY:
        raise ValueError(f"{micros} µs, which is neither a time of day nor a TIME of MySQL (-838:59:59 to 838:59:59)")
    seconds, rest = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return f'"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest)}"'.encode()


def is_long_time(raw: bytes) -> bool:
    """Whether this JSON text is a time of a database that is none of the day: `"838:59:59"`, `"-01:00:00"`."""
    if _is_long_time(raw) is None or is_time(raw) or is_fine_time(raw):
        return False
    return int(raw[1:-1].lstrip(b"-").partition(b":")[0]) < 839


def timestamp_text(micros: int, standard: str = SQL, *, zoned: bool = False) -> bytes:
    """The JSON text of a timestamp, from microseconds since 1970; raises ValueError outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError as exc:
        raise ValueError(f"{micros} µs since 1970 is no time of the years 1 to 9999") from exc
    separator = " " if standard == SQL else "T"
    whole = moment.replace(microsecond=0).isoformat(separator)
    return f'"{whole}{_fraction(moment.microsecond)}{"Z" if zoned else ""}"'.encode()


def zoned_text(text: str, standard: str = SQL) -> bytes:
    """The JSON text, in UTC, of a timestamp that names its zone like `2020-01-31T12:13:14.5+02:00`; raises ValueError.

    A fraction keeps its digits, nine at most. A time outside of the years 1 to 9999 is as in `any_timestamp_text`.
    """
    if text in _INFINITE_TEXTS:
        return _INFINITE_TEXTS[text]
    found = _ZONED(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no timestamp with a zone")
    year, month, day, minutes, seconds, fraction, zone = found.groups()
    shift, rest = divmod(int(year) - 1, 400)
    moment = datetime.fromisoformat(f"{rest + 401:04d}-{month}-{day}T{minutes}:{seconds or '00'}{zone}")
    naive = moment.replace(tzinfo=None) - _offset_of(moment, zone)
    count = (naive - _EPOCH) // timedelta(microseconds=1) + (shift - 1) * _FOUR_CENTURIES * _DAY
    return _moment_text(count, _digits(fraction), standard, zoned=True)


# -- Outside of the calendar that types have ---------------------------------------------------------------------------


def is_far(raw: bytes) -> bool:
    """Whether this JSON text is PostgreSQL's of a date or timestamp outside of the years 1 to 9999.

    For example `"infinity"`, `"10000-01-01 00:00:00"`, `"0044-03-15 BC"`.
    """
    return _is_far(raw) is not None


def any_date_text(days: int, infinite: Mapping[int, bytes] = _NONE) -> bytes:
    """The JSON text of a date of whatever year, from days since 1970: as PostgreSQL writes it.

    `infinite`: counts that stand for another text.
    """
    day, era = _day_of(days)
    return infinite.get(days) or f'"{day}{era}"'.encode()


def any_timestamp_text(micros: int, infinite: Mapping[int, bytes] = _NONE, *, zoned: bool = False) -> bytes:
    """The JSON text of a timestamp of whatever year, from microseconds since 1970: as PostgreSQL writes it.

    `infinite`: counts that stand for another text.
    """
    return infinite.get(micros) or _moment_text(micros, None, SQL, zoned=zoned)


def _moment_text(micros: int, fraction: str | None, standard: str, *, zoned: bool) -> bytes:
    """The JSON text of a timestamp of whatever year; `fraction`: the text in place of what its microseconds are."""
    days, rest = divmod(micros, _DAY)
    day, era = _day_of(days)
    if fraction is not None:
        rest -= rest % 1_000_000
    separator = " " if standard == SQL else "T"
    time = time_text(rest)[1:-1].decode()
    return f'"{day}{separator}{time}{fraction or ""}{"Z" if zoned else ""}{era}"'.encode()


def _day_of(days: int) -> tuple[str, str]:
    """A date of whatever year, and ` BC` if it is before the year 1."""
    shift, rest = divmod(days + _EPOCH.toordinal() - 1, _FOUR_CENTURIES)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * shift
    return f"{year if year > 0 else 1 - year:04d}-{day.month:02d}-{day.day:02d}", "" if year > 0 else " BC"


def widen(raw: bytes, steps: int, standard: str = SQL) -> bytes:
    """A date's text as a timestamp's (1 step), or with a zone (2 steps)."""
    if raw in INFINITE:
        return raw
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
