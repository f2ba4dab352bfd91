"""Whether a column that gets another definition keeps the values that are stored.

The answer is for a statement that succeeded: under a strict sql_mode a value that does not fit makes it fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.sources.mysql import charset_names
from ingest.sources.mysql.types import BINARIES, GEOMETRIES, TEXTS

if TYPE_CHECKING:
    from ingest.sources.mysql.columns import Column

_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "mediumint": 8, "int": 10, "bigint": 20}
_TEXT_BYTES: Final = {
    "tinytext": 255,
    "text": 65535,
    "mediumtext": (1 << 24) - 1,
    "longtext": (1 << 32) - 1,
    "tinyblob": 255,
    "blob": 65535,
    "mediumblob": (1 << 24) - 1,
    "longblob": (1 << 32) - 1,
}


def changes_values(before: Column, after: Column, *, strict: bool) -> str | None:
    """Return what a new definition may do to stored values, for people; None where they stay as they are."""
    if after.generated or before.generated:
        return None if _same(before, after) and after.generated and before.generated else "a generated column"
    if before.nullable and not after.nullable and not strict:
        return "NOT NULL where the sql_mode is not strict"
    return None if _keeps(before, after, strict=strict) else f"a change from {_shown(before)} to {_shown(after)}"


def _same(before: Column, after: Column) -> bool:
    return _shown(before) == _shown(after) and before.charset == after.charset


def _keeps(before: Column, after: Column, *, strict: bool) -> bool:  # noqa: PLR0911  (a line for each family of types)
    a, b = before.type, after.type
    if a in _BITS and b in _BITS:
        return strict or _wider(before, after)
    if a in _BITS and b == "decimal":
        return strict or (after.precision or 10) - (after.scale or 0) >= _DIGITS[a]
    if a == b == "decimal":
        whole = [(column.precision or 10) - (column.scale or 0) for column in (before, after)]
        return (after.scale or 0) >= (before.scale or 0) and (strict or whole[1] >= whole[0])
    if a in TEXTS and b in TEXTS:
        return _texts(before, after)
    if a in BINARIES and b in BINARIES:
        return (b == a == "binary" and before.length == after.length) or (
            b != "binary" and _room(after) >= _room(before)
        )
    if a == b == "enum":
        return set(before.labels) <= set(after.labels)
    if a == b == "set":
        kept = [label for label in after.labels if label in before.labels]
        return kept == list(before.labels)
    if a == "enum" and b in TEXTS:
        return b != "char" and _characters(after) >= max(map(len, before.labels), default=0)
    if a == b and a in {"time", "datetime", "timestamp"}:
        return after.fsp >= before.fsp
    if a == b and a in {"float", "double"}:
        return before.precision is None and after.precision is None
    if (a, b) == ("date", "datetime"):
        return True
    if a == b == "bit":
        return before.length == after.length
    if a in GEOMETRIES and b == "geometry":
        return True
    return a == b and (before.length or 0) == (after.length or 0)


def _wider(before: Column, after: Column) -> bool:
    if before.unsigned == after.unsigned:
        return _BITS[after.type] >= _BITS[before.type]
    return before.unsigned and _BITS[after.type] > _BITS[before.type]


def _texts(before: Column, after: Column) -> bool:
    """Return whether texts stay. Blanks at the end are cut in silence where a text becomes shorter."""
    if before.charset != after.charset and after.charset not in charset_names.UNICODE and before.charset != "ascii":
        return False
    if after.type == "char" and before.type != "char":
        return False
    if before.type == after.type and after.type in _TEXT_BYTES:
        return True
    return _characters(after) >= _characters(before)


def _characters(column: Column) -> int:
    """Return how many characters a text certainly has room for, or may have."""
    if column.type in {"char", "varchar"}:
        return column.length or 0
    return _TEXT_BYTES[column.type] // charset_names.width(column.charset)


def _room(column: Column) -> int:
    return column.length or 0 if column.type in {"binary", "varbinary", "vector"} else _TEXT_BYTES[column.type]


def _shown(column: Column) -> str:
    """Return a type as people write it."""
    size = column.length if column.precision is None else column.precision
    if column.labels:
        inside = ", ".join(f"'{label}'" for label in column.labels)
    else:
        inside = "" if size is None else str(size) + (f", {column.scale}" if column.scale else "")
    inside = inside or (str(column.fsp) if column.fsp else "")
    return f"{column.type.upper()}{f'({inside})' if inside else ''}{' UNSIGNED' if column.unsigned else ''}"
