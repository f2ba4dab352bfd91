"""Columns that a server keeps for itself: rows of the log have them, behind all others, and no query does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ingest.sources.mysql import charset_names
from ingest.sources.mysql.columns import Column
from ingest.sources.mysql.types import BINARIES, GEOMETRIES, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROW_START: Final = Column("row_start", "timestamp", fsp=6, nullable=False, generated=True, invisible=True, hidden=True)
ROW_END: Final = replace(ROW_START, name="row_end")
"""What a versioned table of MariaDB has where it names no columns for its periods."""
_LONGEST_KEY: Final = 3072
"""Bytes of a key of InnoDB. MariaDB keeps a longer unique key by a hash, in a hidden column."""


def row_hash(number: int) -> Column:
    """Return the hidden column of MariaDB's unique key that is kept by a hash; `number`: which one of the table."""
    return Column(f"DB_ROW_HASH_{number}", "bigint", length=20, unsigned=True, invisible=True, hidden=True)


def is_hashed(columns: Iterable[Column]) -> bool:
    """Return whether MariaDB keeps a unique key of these columns, without prefixes, by a hash."""
    size = 0
    for column in columns:
        if column.type in {"char", "varchar"}:
            size += (column.length or 0) * charset_names.width(column.charset)
        elif column.type in {"binary", "varbinary"}:
            size += column.length or 0
        elif column.type in TEXTS or column.type in BINARIES or column.type in GEOMETRIES:
            return True
    return size > _LONGEST_KEY


def with_expressions(columns: tuple[Column, ...], expressions: Sequence[tuple[str, int]]) -> tuple[Column, ...]:
    """Return columns with the hidden ones of MySQL's indexes of expressions: name of each, and how many it has."""
    return (
        *columns,
        *(
            Column(f"!hidden!{name}!{at}!0", "", generated=True, invisible=True, hidden=True)
            for name, count in expressions
            for at in range(count)
        ),
    )
