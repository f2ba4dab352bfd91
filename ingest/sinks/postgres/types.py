"""Types of PostgreSQL by their names as the server spells them, the types of rows that they hold, and limits of names.

Rules: docs/spec/postgres.md#types.
"""

from __future__ import annotations

import re
from typing import Final

from ingest.model import types
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, NullType, StructType, TimeType

MAX_NAME: Final = 63
"""Length of a name in bytes. The server cuts longer ones, so that two would become one."""
SYSTEM_COLUMNS: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Columns that each table of PostgreSQL has: no other one can have such a name."""
_PLAIN: Final = {
    types.BOOLEAN: "boolean",
    types.TINYINT: "smallint",
    types.SMALLINT: "smallint",
    types.INT: "integer",
    types.BIGINT: "bigint",
    types.FLOAT: "real",
    types.DOUBLE: "double precision",
    types.STRING: "text",
    types.BYTES: "bytea",
    types.DATE: "date",
    types.TIMESTAMP: "timestamp without time zone",
    types.TIMESTAMP_LTZ: "timestamp with time zone",
}
_DIGITS: Final = {"smallint": 5, "integer": 10, "bigint": 19}
_FLOATS: Final = ("real", "double precision")
_EXACT: Final = {"real": ("smallint",), "double precision": ("smallint", "integer", "bigint")}
"""Integers whose rows may go where such numbers are: rows of BIGINT, too, as with DOUBLE they are one column here."""
MAX_DIGITS: Final = 1000
_NUMERIC: Final = re.compile(r"numeric(?:\((\d+),(\d+)\))?")
_TIME: Final = re.compile(r"time(?:\((\d)\))? without time zone")
_MOMENT: Final = re.compile(r"timestamp(?:\((\d)\))? (with|without) time zone")
_TEXTS: Final = re.compile(r"text|character varying")
_PADDED: Final = re.compile(r"character\((\d+)\)")
_FOLDED: Final = re.compile(r"(?:.*\.)?citext|bpchar")
"""Types of any texts with an equality of their own: of the case of letters, and of blanks at the end."""


def type_of(data_type: DataType) -> str | None:
    """Return the type of a column as the server spells it; None for a column that is null in each row so far."""
    if isinstance(data_type, NullType):
        return None
    if types.is_text(data_type):
        return "text"
    if isinstance(data_type, DecimalType):
        return f"numeric({data_type.precision},{data_type.scale})"
    if isinstance(data_type, TimeType):
        return f"time({min(data_type.precision, 6)}) without time zone"
    if isinstance(data_type, (ArrayType, MapType, StructType)):
        return "jsonb"
    return _PLAIN[data_type]


def type_of_kind(kind: str) -> DataType | None:
    """Return our type of the values that a column of the server's type takes, all of them; None where there is none."""
    match = _NUMERIC.fullmatch(kind)
    if match is not None and match[1] is not None and int(match[1]) <= types.MAX_PRECISION and int(match[2]) >= 0:
        return DecimalType(int(match[1]), int(match[2]))
    time = _TIME.fullmatch(kind)
    if time is not None:
        return TimeType(int(time[1] or 6))
    return next((ours for ours, theirs in _PLAIN.items() if theirs == kind and ours != types.TINYINT), None)


def is_number(kind: str) -> bool:
    """Return whether a type is one of numbers."""
    return kind in _DIGITS or kind in _FLOATS or _NUMERIC.fullmatch(kind) is not None


def has_order(kind: str) -> bool:
    """Return whether one of two values of a type may be the greater one: of numbers, texts and times."""
    return is_number(kind) or kind == "date" or kind.startswith(("text", "character", "time"))


def joined(known: str, wanted: str) -> str | None:
    """Return the type that holds all values of two types, as they are; None where there is none.

    Where one of them holds the other's values, it is that one.
    """
    if holds(known, wanted):
        return known
    if holds(wanted, known) and (known, wanted) != ("bigint", _FLOATS[1]):  # large ones would lose digits
        return wanted
    if is_number(known) and is_number(wanted):
        return _number_of_both(known, wanted)
    times = _MOMENT.fullmatch(known), _MOMENT.fullmatch(wanted)
    if times[0] is not None and times[1] is not None:
        return f"timestamp {'with' if 'with' in (times[0][2], times[1][2]) else 'without'} time zone"
    return "text" if wanted == "text" or known.startswith("character") else None


def _number_of_both(known: str, wanted: str) -> str:
    sizes = [_size_of(known), _size_of(wanted)]
    if None in sizes:
        return "numeric" if "bigint" in (known, wanted) or not {known, wanted} <= {*_DIGITS, *_FLOATS} else _FLOATS[1]
    whole, scale = (max(size[place] for size in sizes if size is not None) for place in (0, 1))
    return f"numeric({whole + scale},{scale})" if whole + scale <= MAX_DIGITS else "numeric"


def _size_of(kind: str) -> tuple[int, int] | None:
    """Return the digits of numbers before and behind the point; None where they are not bound."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    match = _NUMERIC.fullmatch(kind)
    return None if match is None or match[1] is None else (int(match[1]) - int(match[2]), int(match[2]))


def stays_key(known: str, wanted: str) -> bool:
    """Return whether a column of a key keeps its type, as two keys that are equal in it would not be so in a text.

    A text may be too long for it: that one is refused as a row (docs/spec/postgres.md#types).
    """
    if _FOLDED.fullmatch(known) is not None:
        return wanted != "bytea"
    padded = _PADDED.fullmatch(known)
    return padded is not None and (wanted == "text" or _DIGITS.get(wanted, MAX_DIGITS) < int(padded[1]))


def holds(known: str, wanted: str) -> bool:
    """Return whether a column of a type takes all values of another one, as they are."""
    if known == wanted or (_TEXTS.fullmatch(known) is not None and wanted != "bytea"):
        return True
    if {known, wanted} <= {"json", "jsonb"}:
        return True
    if known in _DIGITS and wanted in _DIGITS:
        return _DIGITS[known] >= _DIGITS[wanted]
    if known in _FLOATS:
        return wanted in _FLOATS[: _FLOATS.index(known) + 1] or wanted in _EXACT[known]
    times = _TIME.fullmatch(known), _TIME.fullmatch(wanted)
    if times[0] is not None and times[1] is not None:
        return int(times[0][1] or 6) >= int(times[1][1] or 6)
    moment, other = _MOMENT.fullmatch(known), _MOMENT.fullmatch(wanted)
    if moment is not None and (other is not None or wanted == "date"):
        fine = other is None or int(moment[1] or 6) >= int(other[1] or 6)
        return fine and (moment[2] == "with" or other is None or other[2] == "without")
    number, size = _NUMERIC.fullmatch(known), _size_of(wanted)
    if number is None:
        return False
    if number[1] is None:
        return is_number(wanted)
    whole = int(number[1]) - int(number[2])
    return size is not None and whole >= size[0] and int(number[2]) >= size[1]
