"""The types of Canal's columns: by JDBC type codes (`sqlType`) and by MySQL's type names (`mysqlType`).

Out: for each column its type and how its values are read; Canal writes every value as a text. Rules:
docs/spec/canal-json.md#types.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Final

import msgspec

from ingest.formats.typed import Reads, TypedColumn, reads_quoted
from ingest.model import types
from ingest.model.spelling import number, plain_number
from ingest.model.types import CharType, DataType, DecimalType, TimeType, VarcharType


def _inner(raw: bytes) -> bytes:
    """Return the text between the quotes; the text itself where it has none."""
    return raw[1:-1] if raw[:1] == b'"' else raw


def _number(raw: bytes) -> bytes:
    return number(_inner(raw))


def _decimal(raw: bytes) -> bytes:
    return plain_number(_inner(raw))


_TRUE: Final = (b"1", b"true", b"b'1'", b"\\u0001", b"TRUE")
_FALSE: Final = (b"0", b"false", b"b'0'", b"\\u0000", b"FALSE")


def _boolean(raw: bytes) -> bytes:
    text = _inner(raw)
    if text in _TRUE:
        return b"true"
    if text in _FALSE:
        return b"false"
    raise ValueError("neither 0 nor 1")


def _count(raw: bytes) -> bytes:
    """Return a value that may be a boolean as the number that the database has."""
    text = _inner(raw)
    return b"1" if text in _TRUE else b"0" if text in _FALSE else number(text)


def _text(raw: bytes) -> bytes:
    """Any value as a text, quoted."""
    if raw[:1] == b'"':
        return raw
    return msgspec.json.encode(raw.decode())


def _bytes(raw: bytes) -> bytes:
    """Canal writes bytes as a text with one character for each."""
    text: str = msgspec.json.decode(raw, type=str)
    return b'"' + base64.b64encode(text.encode("latin-1")) + b'"'


def _bits(width: int) -> TypedColumn:
    """Return a BIT(n) column: a number, as so many bytes."""

    def convert(raw: bytes) -> bytes:
        text = _inner(raw)
        if not text.isdigit():
            raise ValueError("not a number")
        try:
            return b'"' + base64.b64encode(int(text).to_bytes(width, "big")) + b'"'
        except OverflowError as exc:
            raise ValueError(str(exc)) from exc

    return TypedColumn(types.BYTES, convert, reads=(Reads.BITS, width, 0), number=_number)


def _zoned(raw: bytes) -> bytes:
    """Return a TIMESTAMP column's text, taken as UTC."""
    return raw[:-1] + b'Z"' if raw[:1] == b'"' else raw


def _num(data_type: DataType) -> TypedColumn:
    convert = _decimal if isinstance(data_type, DecimalType) else _number
    return TypedColumn(data_type, convert, reads_quoted(data_type))


def _unsized() -> TypedColumn:
    """Return the column of a decimal without a size. MySQL always has one; here the values decide."""
    return TypedColumn(types.NULL, _decimal, (Reads.QUOTED_DECIMAL, 38, 18))


def _txt(data_type: DataType) -> TypedColumn:
    most = data_type.length if isinstance(data_type, (CharType, VarcharType)) else -1
    return TypedColumn(data_type, _text, (Reads.TEXT, most, 0))


def _bit() -> TypedColumn:
    return TypedColumn(types.BOOLEAN, _boolean, reads=(Reads.BIT, 0, 0), number=_count)


def _blob() -> TypedColumn:
    return TypedColumn(types.BYTES, _bytes, reads=(Reads.LATIN, 0, 0))


def _day() -> TypedColumn:
    return TypedColumn(types.DATE, reads=(Reads.DATE_TEXT, 0, 0))


def _time(precision: int) -> TypedColumn:
    return TypedColumn(TimeType(precision), reads=(Reads.TIME_TEXT, 0, 0))


def _moment() -> TypedColumn:
    return TypedColumn(types.TIMESTAMP, reads=(Reads.MOMENT_TEXT, 0, 0))


def _instant() -> TypedColumn:
    return TypedColumn(types.TIMESTAMP_LTZ, _zoned, reads=(Reads.UTC_TEXT, 0, 0))


_INTEGERS: Final[tuple[DataType, ...]] = (
    types.TINYINT,
    types.SMALLINT,
    types.INT,
    types.INT,
    types.BIGINT,
    DecimalType(20, 0),
)
_STRING: Final = _txt(types.STRING)

_BY_CODE: Final[dict[int, TypedColumn]] = {
    **dict.fromkeys((-7, 16), _bit()),
    -6: _num(types.TINYINT),
    5: _num(types.SMALLINT),
    4: _num(types.INT),
    -5: _num(types.BIGINT),
    **dict.fromkeys((3, 2), _num(DecimalType(38, 18))._replace(sized=False)),
    **dict.fromkeys((7, 6), _num(types.FLOAT)),
    8: _num(types.DOUBLE),
    **dict.fromkeys((-2, -3, -4, 2004), _blob()),
    91: _day(),
    92: _time(6),
    93: _moment(),
}
"""The reference's table. SMALLINT is 5 in JDBC; the -5 printed there is BIGINT. Other codes are STRING."""


def by_code(sql_types: dict[str, Any]) -> dict[str, TypedColumn]:
    """Return columns from `sqlType`."""
    return {name: _BY_CODE.get(code, _STRING) for name, code in sql_types.items() if type(code) is int}


_NAME: Final = re.compile(r"\s*([a-z0-9_]+)\s*(?:\(([^)]*)\))?\s*(.*)", re.IGNORECASE | re.DOTALL)
_LENGTH: Final = re.compile(r"\s*[0-9]{1,9}\s*").fullmatch
"""Longer ones no database has: they come from messages, and are not for `int` and patterns to choke on."""
_BITS: Final = 64
_WHOLE: Final = {"tinyint": 0, "smallint": 1, "mediumint": 2, "int": 3, "integer": 3, "bigint": 4}
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def by_mysql_name(
    mysql_types: dict[str, Any], *, timestamp_ltz: bool, tinyint1_boolean: bool
) -> dict[str, TypedColumn]:
    """Return columns from `mysqlType`, as Flink CDC's MySQL connector has them."""
    return {
        name: _mysql(text, timestamp_ltz=timestamp_ltz, tinyint1_boolean=tinyint1_boolean)
        for name, text in mysql_types.items()
        if isinstance(text, str)
    }


def _mysql(text: str, *, timestamp_ltz: bool, tinyint1_boolean: bool) -> TypedColumn:
    found = _NAME.match(text)
    if found is None:
        return _STRING
    name, rest = found.group(1).lower(), found.group(3).lower()
    parts = [part for part in (found.group(2) or "").split(",") if part.strip()]
    if not all(map(_LENGTH, parts)):
        return _STRING  # an ENUM or a SET
    numbers = [int(part) for part in parts]
    if name in _WHOLE:
        unsigned = "unsigned" in rest or "zerofill" in rest
        if name == "tinyint" and numbers == [1] and not unsigned and tinyint1_boolean:
            return _bit()
        step = 1 if unsigned and name != "mediumint" else 0
        return _num(_INTEGERS[_WHOLE[name] + step])
    if name in {"decimal", "numeric", "dec", "fixed"}:
        if not numbers:
            return _unsized()
        precision, scale = ([*numbers, 0])[:2]
        exact = scale <= precision <= types.MAX_PRECISION and precision > 0
        return _num(DecimalType(precision, scale)) if exact else _STRING._replace(is_number=True)
    sized = numbers[0] if numbers else 1
    if name == "bit" and sized > _BITS:
        return _STRING
    simple: dict[str, TypedColumn] = {
        "float": _num(types.DOUBLE if numbers else types.FLOAT),
        "double": _num(types.DOUBLE),
        "real": _num(types.DOUBLE),
        "bool": _bit(),
        "boolean": _bit(),
        "date": _day(),
        "datetime": _moment(),
        "year": _num(types.INT),
        "time": _time(min(numbers[0] if numbers else 0, 6)),
        "timestamp": _instant() if timestamp_ltz else _moment(),
        "bit": _bit() if sized == 1 else _bits((sized + 7) // 8),
        "char": _txt(CharType(max(sized, 1))),
        "nchar": _txt(CharType(max(sized, 1))),
        "varchar": _txt(VarcharType(max(sized, 1))),
        "nvarchar": _txt(VarcharType(max(sized, 1))),
    }
    if name in _BYTES:
        return _blob()
    if "char" in name and not numbers:
        return _STRING  # as for decimals
    return simple.get(name, _STRING)
