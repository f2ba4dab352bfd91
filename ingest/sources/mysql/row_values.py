"""Values of row images to JSON texts, by the column that they are of. The reference.

In: bytes of a row image, the column as its table's history has it, type and metadata of the table map. Out: the JSON
text of the value in the column's type.

`default_text` is for columns that an inserted row of the log lacks, with `binlog_row_image` MINIMAL: what a statement
names, and what the server computes for a row (`CURRENT_TIMESTAMP`, an expression, a counter), is in the log, so that
only literal defaults are needed. Rules: docs/spec/mysql.md.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from struct import unpack
from typing import Final

import orjson

from ingest.model.floats import shortest
from ingest.sources.mysql import json_binary
from ingest.sources.mysql.binary_values import (
    OLD_SIZES,
    datetime2,
    decimal,
    decimal_size,
    decode_text,
    fraction,
    geometry,
    old_datetime,
    old_time,
    read_fraction,
    time2,
)
from ingest.sources.mysql.events import BadEvent, Cursor, unpack_column
from ingest.sources.mysql.types import BINARIES, FIXED, GEOMETRIES, TEXTS, Column, boolean, is_tinyint1

_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_LONG: Final = BINARIES | TEXTS | GEOMETRIES | {"json", "xmltype"}
_TYPES: Final = {
    0: {"decimal"}, 1: {"tinyint"}, 2: {"smallint"}, 3: {"int"}, 4: {"float"}, 5: {"double"}, 7: {"timestamp"},
    8: {"bigint"}, 9: {"mediumint"}, 10: {"date"}, 11: {"time"}, 12: {"datetime"}, 13: {"year"}, 14: {"date"},
    15: {"varchar", "varbinary", "vector"}, 16: {"bit"}, 17: {"timestamp"}, 18: {"datetime"}, 19: {"time"},
    140: _LONG, 141: {"varchar", "varbinary"}, 242: {"vector"}, 245: {"json"}, 246: {"decimal"},
    247: {"enum"}, 248: {"set"}, 252: _LONG, 253: {"varchar", "varbinary"},
    254: {"char", "binary", "enum", "set", *FIXED}, 255: GEOMETRIES,
}  # fmt: skip
"""Types of columns that each code of a table map may stand for."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  (UTC throughout)


def real_type(code: int, metadata: bytes) -> tuple[int, int]:
    """Return a column's real type code and its maximum size in bytes, from the code and metadata of a table map."""
    if code in {254, 247, 248}:
        first, second = metadata
        if first & 0x30 != 0x30:
            return first | 0x30, second | ((first & 0x30 ^ 0x30) << 4)
        return first, second
    return code, int.from_bytes(metadata, "little")


def mismatch(column: Column, code: int, metadata: bytes) -> str:
    """Return how a column of the log differs from the one in the history of schemas; empty if it does not."""
    real, _ = real_type(code, metadata)
    if column.type not in _TYPES.get(real, ()):
        return f"has the type {column.type} in the history of schemas, and the code {real} in the log"
    if real in {17, 18, 19} and metadata[0] != column.fsp:
        return f"has {column.fsp} digits of a second in the history of schemas, and {metadata[0]} in the log"
    if real == 246 and (metadata[0], metadata[1]) != (column.precision, column.scale):
        declared = f"DECIMAL({column.precision or 0},{column.scale or 0})"
        return f"is {declared} in the history of schemas, and DECIMAL({metadata[0]},{metadata[1]}) in the log"
    return ""


class ValueReader:
    """Reads values of row images. Counts bytes that are no characters of a column's character set."""

    def __init__(self, *, tinyint1_as_boolean: bool = False) -> None:
        """Take the option `treat-tinyint1-as-boolean.enabled`."""
        self.tinyint1_as_boolean = tinyint1_as_boolean
        self.invalid: dict[str, int] = {}
        """For each column: the number of its values with such bytes, for which U+FFFD stands."""
        self.table = ""
        """The name of the table that values are read of."""

    def read(self, cursor: Cursor, column: Column, code: int, metadata: bytes) -> bytes:
        """Return the JSON text of the next value of an image. Raise BadEvent."""
        real, most = real_type(code, metadata)
        if real in _INTEGERS:
            number = int.from_bytes(cursor.take(_INTEGERS[real]), "little", signed=not column.unsigned)
            return boolean(number) if self.tinyint1_as_boolean and is_tinyint1(column) else str(number).encode()
        if real in {4, 5}:
            return _floating(cursor, real)
        if real == 246:
            found = decimal(cursor.take(decimal_size(*metadata)), *metadata).encode()
            return found if metadata[0] <= 38 else b'"' + found + b'"'
        if real in {10, 14}:
            number = cursor.number(3)
            return f'"{number >> 9:04d}-{number >> 5 & 15:02d}-{number & 31:02d}"'.encode()
        if real == 13:
            year = cursor.number(1)
            return str(year + 1900 if year else 0).encode()
        if real in {7, 11, 12, 17, 18, 19}:
            return f'"{_moment(cursor, real, metadata[0] if metadata else column.fsp)}"'.encode()
        if real == 16:
            bits = metadata[1] * 8 + metadata[0]
            number = int.from_bytes(cursor.take((bits + 7) // 8), "big")
            return (b"true" if number else b"false") if bits == 1 else _base64(number.to_bytes((bits + 7) // 8, "big"))
        if real in {247, 248}:
            return _labels(cursor.number(most), column, real)
        return self._bytes(_body(cursor, real, most), column, real)

    def _bytes(self, data: bytes, column: Column, real: int) -> bytes:
        """Return the JSON text of a value whose bytes have a length."""
        if real in {140, 141}:
            data = unpack_column(data)
        if real == 245:
            return orjson.dumps(json_binary.document(data))
        if column.type in GEOMETRIES:
            try:
                return geometry(data)
            except ValueError as exc:
                raise BadEvent(f"column {column.name}: {exc}") from exc
        if column.type in FIXED:
            return f'"{fixed_text(column.type, data)}"'.encode()
        if column.type == "binary":
            data = data.ljust(column.length or 1, b"\0")
        if column.type in BINARIES or column.charset in {None, "binary"}:
            return _base64(data)
        text, valid = decode_text(column.charset or "binary", data)
        if not valid:
            name = f"{self.table}.{column.name}"
            self.invalid[name] = self.invalid.get(name, 0) + 1
        return orjson.dumps(text)


def _floating(cursor: Cursor, real: int) -> bytes:
    number = unpack("<f", cursor.take(4))[0] if real == 4 else unpack("<d", cursor.take(8))[0]
    if number - number != 0:
        raise BadEvent(f"a number that is {number}")
    return orjson.dumps(shortest(number) if real == 4 else number)


def _base64(data: bytes) -> bytes:
    return b'"' + base64.b64encode(data) + b'"'


def _body(cursor: Cursor, real: int, most: int) -> bytes:
    """Return the bytes of a length-prefixed value."""
    if real in {15, 253, 254, 141}:
        return cursor.take(cursor.number(2 if most > 255 else 1))
    if real in {140, 242, 245, 252, 255} and 1 <= most <= 4:
        return cursor.take(cursor.number(most))
    raise BadEvent(f"a value of the type {real} with {most} bytes of length")


def _labels(number: int, column: Column, real: int) -> bytes:
    """Return the labels of an ENUM or SET."""
    labels = column.labels
    if column.hidden:
        return b"null"
    if real == 247:
        if number > len(labels):
            raise BadEvent(f"column {column.name} has label {number}, and the history of schemas has {len(labels)}")
        return orjson.dumps(labels[number - 1] if number else "")
    if number >> len(labels):
        raise BadEvent(f"column {column.name} has the labels {number:#b}, and the history of schemas has {len(labels)}")
    return orjson.dumps(",".join(label for at, label in enumerate(labels) if number >> at & 1))


def _moment(cursor: Cursor, real: int, fsp: int) -> str:
    """Return the text of a time."""
    if not 0 <= fsp <= 6:
        raise BadEvent(f"a time with {fsp} digits of a second")
    places = (fsp + 1) // 2
    if real == 18:
        return datetime2(cursor.take(5 + places))
    if real == 19:
        return time2(cursor.take(3 + places))
    if real == 17:
        seconds = int.from_bytes(cursor.take(4), "big")
        return _instant(seconds, read_fraction(cursor.take(places)))
    data = cursor.take(OLD_SIZES[real][fsp])
    if real == 11:
        return old_time(data, fsp)
    if real == 12:
        return old_datetime(data, fsp)
    if not fsp:
        return _instant(int.from_bytes(data, "little"), 0)
    return _instant(int.from_bytes(data[:4], "big"), int.from_bytes(data[4:], "big") * 10 ** (6 - fsp))


def _instant(seconds: int, micros: int) -> str:
    if not seconds and not micros:
        return "0000-00-00 00:00:00Z"
    return f"{_EPOCH + timedelta(seconds=seconds)}{fraction(micros)}Z"


def fixed_text(kind: str, data: bytes) -> str:
    """Return the text of a value of MariaDB's UUID, INET6 or INET4, as the server prints it."""
    data = data.ljust(FIXED[kind], b"\0")
    if kind == "inet4":
        return str(ipaddress.IPv4Address(data[:4]))
    if kind == "inet6":
        return inet6_text(data)
    if data[6] & 0x80 and 0 < data[8] < 0x60:  # stored with its time last, so that its order is that of time
        data = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[:6]
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def inet6_text(data: bytes) -> str:
    """Return the text of an address as the server prints it: the first longest run of zeros is left out."""
    groups = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    mapped = groups[:5] == [0] * 5 and groups[5] in {0, 0xFFFF} and (groups[5] or groups[6])
    ends = [f"{group:x}" for group in (groups[:6] if mapped else groups)]
    best, length = 0, 0
    for at in range(len(ends)):
        run = 0
        while at + run < len(ends) and ends[at + run] == "0":
            run += 1
        if run > length and run > 1:
            best, length = at, run
    dotted = [".".join(map(str, data[12:16]))] if mapped else []
    if not length:
        return ":".join(ends + dotted)
    return f"{':'.join(ends[:best])}::{':'.join(ends[best + length :] + dotted)}"


_INTEGER_TYPES: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_ZEROS: Final = {
    "date": b'"0000-00-00"',
    "datetime": b'"0000-00-00 00:00:00"',
    "timestamp": b'"0000-00-00 00:00:00Z"',
    "time": b'"00:00:00"',
    "enum": b'""',
    "set": b'""',
}
_MOMENT: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|-?\d{2,3}:\d\d:\d\d)(\.\d{1,6})?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


def default_text(column: Column, *, tinyint1_as_boolean: bool = False) -> bytes | None:
    """Return a column's default value as JSON; None where the server's value cannot be determined.

    A column that may not be null and has no default is zero, or empty, where the server is not strict.
    """
    if column.generated:
        return None
    if column.default is None:
        return b"null" if column.nullable else _implicit(column, tinyint1_as_boolean=tinyint1_as_boolean)
    try:
        return _literal(column, column.default, tinyint1_as_boolean=tinyint1_as_boolean)
    except (ValueError, InvalidOperation, OverflowError):
        return None  # an expression, or a form of a literal that is rare


def _implicit(column: Column, *, tinyint1_as_boolean: bool) -> bytes | None:
    kind = column.type
    if kind in TEXTS:
        return b'""'
    if kind in BINARIES:
        size = (column.length or 1) if kind == "binary" else 0
        return None if kind == "vector" else b'"' + base64.b64encode(bytes(size)) + b'"'
    if kind == "enum":
        return orjson.dumps(column.labels[0]) if column.labels else None
    if kind in _ZEROS:
        return _ZEROS[kind]
    return _literal(column, "0", tinyint1_as_boolean=tinyint1_as_boolean)


def _literal(column: Column, text: str, *, tinyint1_as_boolean: bool) -> bytes | None:
    """Return a literal as JSON of its column's type.

    Raise ValueError or InvalidOperation for a literal of another type.
    """
    kind = column.type
    if kind in _INTEGER_TYPES:
        number = int(text)
        return boolean(number) if tinyint1_as_boolean and is_tinyint1(column) else b"%d" % number
    if kind == "decimal":
        literal = b"%s" % f"{Decimal(text):.{column.scale or 0}f}".encode()
        return literal if (column.precision or 10) <= 38 else b'"' + literal + b'"'
    if kind in {"float", "double"}:
        return orjson.dumps(shortest(float(text)) if kind == "float" else float(text))
    if kind in TEXTS:
        return orjson.dumps(text.rstrip(" ") if kind == "char" else text)
    if kind == "enum":
        return next((orjson.dumps(label) for label in column.labels if label == text), None)
    if kind == "set":
        chosen = text.split(",") if text else []
        return orjson.dumps(text) if chosen == [label for label in column.labels if label in chosen] else None
    if kind == "date" and _DAY.fullmatch(text):
        return orjson.dumps(text)
    if kind in {"datetime", "time"} and (found := _MOMENT.fullmatch(text)) and (" " in text) == (kind == "datetime"):
        fraction = (found[2] or "")[: 1 + column.fsp].rstrip("0").rstrip(".")
        return orjson.dumps(found[1] + fraction)
    return None  # a TIMESTAMP is as of the statement's time zone
