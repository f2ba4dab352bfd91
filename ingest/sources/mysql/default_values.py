"""The values of columns that an inserted row of the log lacks, with `binlog_row_image` MINIMAL: literal defaults.

What a statement names, and what the server computes for a row (`CURRENT_TIMESTAMP`, an expression, a counter), is in
the log. In: a column, as the server or a statement defines it. Out: the JSON text of its default, where that is sure.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import orjson

from ingest.model.floats import shortest
from ingest.sources.mysql.types import BINARIES, TEXTS, boolean, is_tinyint1

if TYPE_CHECKING:
    from ingest.sources.mysql.columns import Column

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
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
    """Return the JSON text of a column's default; None where it is not sure what the server takes.

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
    """Return the JSON text of a literal; raises ValueError or InvalidOperation for what is none of its type."""
    kind = column.type
    if kind in _INTEGERS:
        number = int(text)
        return boolean(number) if tinyint1_as_boolean and is_tinyint1(column) else b"%d" % number
    if kind == "decimal":
        made = b"%s" % f"{Decimal(text):.{column.scale or 0}f}".encode()
        return made if (column.precision or 10) <= 38 else b'"' + made + b'"'
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
