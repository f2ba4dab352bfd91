"""Numbers and times as the server packs them into bytes, to their texts. The reference.

The layouts are those of the server's `decimal.c` and `my_time.c`, and for MariaDB's older times of its `field.cc`.
"""

from __future__ import annotations

from typing import Final

from ingest.sources.mysql.events import BadEvent

_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits that are left beside groups of nine."""


def decimal_size(precision: int, scale: int) -> int:
    """Return the bytes of a packed DECIMAL. Raise BadEvent."""
    if not 0 <= scale <= precision <= 65 or scale > 38 or precision == 0:
        msg = f"DECIMAL({precision},{scale})"
        raise BadEvent(msg)
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def decimal(data: bytes, precision: int, scale: int) -> str:
    """Return the text of a DECIMAL with all digits of its scale. Raise BadEvent."""
    size = decimal_size(precision, scale)
    if len(data) < size:
        msg = f"DECIMAL({precision},{scale}) of {len(data)} bytes"
        raise BadEvent(msg)
    positive = bool(data[0] & 0x80)
    flipped = bytes(byte ^ (0 if positive else 0xFF) for byte in bytes((data[0] ^ 0x80,)) + data[1:size])
    whole = precision - scale
    groups = [whole % 9] * bool(whole % 9) + [9] * (whole // 9) + [9] * (scale // 9) + [scale % 9] * bool(scale % 9)
    digits, at = "", 0
    for group in groups:
        end = at + _DIGIT_BYTES[group]
        number = int.from_bytes(flipped[at:end], "big")
        if number >= 10**group:
            msg = f"DECIMAL({precision},{scale}) with {number} in place of {group} digits"
            raise BadEvent(msg)
        digits += str(number).zfill(group)
        at = end
    before, after = digits[:whole].lstrip("0") or "0", digits[whole:]
    negative = not positive and digits.strip("0")
    return f"{'-' if negative else ''}{before}{'.' if after else ''}{after}"


def fraction(micros: int) -> str:
    """Return the fraction of a second, with its point, without zeros at its end."""
    return f".{micros:06d}".rstrip("0") if micros else ""


def read_fraction(data: bytes) -> int:
    """Return the microseconds of a fraction of up to three bytes."""
    return int.from_bytes(data, "big") * (1, 10_000, 100, 1)[len(data)]


def datetime2(data: bytes) -> str:
    """Return the text of a DATETIME of five bytes and its fraction."""
    number = int.from_bytes(data[:5], "big") - (1 << 39)
    if number < 0:
        msg = "a DATETIME below zero"
        raise BadEvent(msg)
    return date_parts(number >> 17) + " " + _clock(number & 0x1FFFF) + fraction(read_fraction(data[5:]))


def date_parts(number: int) -> str:
    """Return the text of a date of a packed moment: years times 13 and months, above five bits of days."""
    months, day = number >> 5, number & 31
    return f"{months // 13:04d}-{months % 13:02d}-{day:02d}"


def _clock(number: int) -> str:
    return f"{number >> 12:02d}:{number >> 6 & 63:02d}:{number & 63:02d}"


def time2(data: bytes) -> str:
    """Return the text of a TIME of three bytes and its fraction, which are one number."""
    places = len(data) - 3
    number = int.from_bytes(data, "big") - (1 << (23 + 8 * places))
    sign, number = ("-", -number) if number < 0 else ("", number)
    rest = (number & ((1 << 8 * places) - 1)).to_bytes(places, "big")
    return f"{sign}{_clock(number >> 8 * places)}{fraction(read_fraction(rest))}"


def moment(number: int, field: int) -> str:
    """Return the text of a date or time of JSON, with six digits of a fraction where it has a time."""
    sign, number = ("-", -number) if number < 0 else ("", number)
    micros, number = number & 0xFFFFFF, number >> 24
    if field == 10:
        return date_parts(number >> 17)
    if field in {11, 19}:
        return f"{sign}{_clock(number)}.{micros:06d}"
    return f"{date_parts(number >> 17)} {_clock(number & 0x1FFFF)}.{micros:06d}"


_TIME_BYTES: Final = (3, 4, 4, 5, 5, 5, 6)
_DATETIME_BYTES: Final = (8, 6, 6, 7, 7, 7, 8)
_TIMESTAMP_BYTES: Final = (4, 5, 5, 6, 6, 7, 7)
OLD_SIZES: Final = {11: _TIME_BYTES, 12: _DATETIME_BYTES, 7: _TIMESTAMP_BYTES}
"""Bytes of TIME, DATETIME and TIMESTAMP before MySQL 5.6, and of MariaDB's with so many digits of a fraction."""
_TIME_ZERO: Final = 3_020_400 * 1_000_000


def old_time(data: bytes, fsp: int) -> str:
    """Return the text of a TIME in the format before MySQL 5.6, or in MariaDB's of that time."""
    if not fsp:
        number = int.from_bytes(data, "little", signed=True)
        sign, number = ("-", -number) if number < 0 else ("", number)
        return f"{sign}{number // 10_000:02d}:{number // 100 % 100:02d}:{number % 100:02d}"
    unit = 10 ** (6 - fsp)
    micros = (int.from_bytes(data, "big") - _TIME_ZERO // unit) * unit
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds = micros // 1_000_000
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction(micros % 1_000_000)}"


def old_datetime(data: bytes, fsp: int) -> str:
    """Return the text of a DATETIME in the format before MySQL 5.6, or in MariaDB's of that time."""
    if not fsp:
        text = f"{int.from_bytes(data, 'little'):014d}"
        return f"{text[:-10]}-{text[-10:-8]}-{text[-8:-6]} {text[-6:-4]}:{text[-4:-2]}:{text[-2:]}"
    number = int.from_bytes(data, "big") * 10 ** (6 - fsp)
    number, micros = divmod(number, 1_000_000)
    number, second = divmod(number, 60)
    number, minute = divmod(number, 60)
    number, hour = divmod(number, 24)
    number, day = divmod(number, 32)
    year, month = divmod(number, 13)
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction(micros)}"
