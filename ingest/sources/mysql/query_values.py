"""Values of a SELECT as the JSON texts that the log's reader writes for the same values.

In: what a server sends for a row in its text protocol, in a session of `connection.settle` (UTC, utf8mb4). Out: the
text by docs/spec/mysql.md#types. This is the reference; `native/` writes the same for the common types.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import orjson

from ingest.model import types
from ingest.model.floats import shortest
from ingest.sources.mysql.binary_values import geometry
from ingest.sources.mysql.chunks import FLOATS, INTEGERS, TIMES, quoted
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.types import BINARIES, GEOMETRIES, Column, boolean, is_tinyint1

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    ValueWriter: TypeAlias = "Callable[[bytes], bytes]"

_N = TypeVar("_N")


def is_selectable(column: Column) -> bool:
    """Return whether a statement can name a column. All are named, also invisible ones, but for the server's own."""
    return not column.hidden


def selected(columns: Sequence[Column]) -> str:
    """Return the select list of columns, cast where a plain SELECT would lose digits."""
    return ", ".join(_expression(column) for column in columns)


def _expression(column: Column) -> str:
    name = quoted(column.name)
    # The text protocol prints FLOAT with six digits, and FLOAT(p, s) and DOUBLE(p, s) with s behind the point. The
    # product is a DOUBLE with all digits; a sum would lose the sign of -0
    return f"{name} * 1e0" if column.type in FLOATS else name


def value_writer(column: Column, *, tinyint1_as_boolean: bool = False) -> ValueWriter:
    """Return a function from the text of a value that is not NULL to its JSON text."""
    kind = column.type
    if tinyint1_as_boolean and is_tinyint1(column):
        return truth
    if kind in INTEGERS or kind == "year":
        return number
    if kind == "decimal":
        wide = column.precision is not None and column.precision > types.MAX_PRECISION
        return quoted_number if wide else number
    if kind == "float":
        return single
    if kind == "double":
        return double
    if kind == "bit":
        return flag if column.length in {None, 1} else base64
    if kind in TIMES:
        return instant if kind == "timestamp" else moment
    if kind in BINARIES:
        return base64
    return geometry if kind in GEOMETRIES else characters


def number(text: bytes) -> bytes:
    """Return a number without the zeros in front that ZEROFILL and YEAR have."""
    sign, digits = (b"-", text[1:]) if text.startswith(b"-") else (b"", text)
    whole = digits.lstrip(b"0")
    return sign + (whole if whole[:1].isdigit() else b"0" + whole)


def quoted_number(text: bytes) -> bytes:
    """Return a DECIMAL that no type of numbers holds."""
    return b'"' + number(text) + b'"'


def truth(text: bytes) -> bytes:
    """Return a TINYINT(1) that the pipeline takes as a BOOLEAN. Raise BadEvent."""
    return boolean(_number(int, text))


def single(text: bytes) -> bytes:
    """Return a FLOAT, which the statement asks for as a DOUBLE. Raise BadEvent."""
    return orjson.dumps(shortest(_number(float, text)))


def double(text: bytes) -> bytes:
    """Return a DOUBLE. Raise BadEvent."""
    return orjson.dumps(_number(float, text))


def _number(of: Callable[[bytes], _N], text: bytes) -> _N:
    try:
        return of(text)
    except ValueError as exc:
        raise BadEvent(f"{text[:40].decode('latin-1')!r} is no number") from exc


def flag(value: bytes) -> bytes:
    """Return a BIT(1)."""
    return b"true" if value == b"\x01" else b"false"


def base64(value: bytes) -> bytes:
    """Return bytes."""
    return b'"' + b64encode(value) + b'"'


def moment(text: bytes) -> bytes:
    """Return a date or a time, without zeros at the end of a fraction."""
    if b"." in text:
        text = text.rstrip(b"0").removesuffix(b".")
    return b'"' + text + b'"'


def instant(text: bytes) -> bytes:
    """Return a TIMESTAMP, which the session has in UTC."""
    return moment(text)[:-1] + b'Z"'


def characters(value: bytes) -> bytes:
    """Return a text. The server has checked it; bytes that are no UTF-8 in spite of that become U+FFFD."""
    return orjson.dumps(value.decode("utf-8", "replace"))
