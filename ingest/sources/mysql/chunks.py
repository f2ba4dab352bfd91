"""How a table is split into chunks: pieces of its key, in the server's order, each read by one statement.

In: a table, and a connection. Out: bounds, one after the other, so that a table of any size is split while it is read;
and the conditions of the statements that read what lies between two of them. A bound is a row's key as the server gave
it, in texts that a checkpoint can hold, and it goes back to the server as a literal of the column's own type: the
server alone orders and compares. Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ingest.errors import ConfigError
from ingest.model.table import selector
from ingest.sources.mysql.types import BINARIES, FIXED, TEXTS, Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.sources.mysql.connection import Connection

Bound: TypeAlias = "tuple[str, ...]"
"""A key, a text for each of its columns: hexadecimal digits for texts (in their own character set) and binary values,
else the number or the text that the server prints."""

INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
NUMBERED: Final = frozenset({"enum", "set", "bit"})
"""Types that the server keeps, and orders, as whole numbers."""
TIMES: Final = frozenset({"date", "datetime", "timestamp", "time"})
FLOATS: Final = frozenset({"float", "double"})
_SPLIT_BY: Final = INTEGERS | NUMBERED | TIMES | FLOATS | TEXTS | BINARIES - {"vector"} | {"decimal", "year", *FIXED}

_KEY_COLUMN: Final = re.compile(r"\s*([^:;]+):([^:;]+)\s*")
_EXACT_LABELS: Final = 53
_CHUNK_BYTES: Final = 64 << 20
"""Bytes of a chunk, about, at most."""
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").fullmatch
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*").fullmatch
_MOMENT: Final = re.compile(r"-?[0-9][-0-9 :.]*").fullmatch
_ADDRESS: Final = re.compile(r"[-0-9A-Fa-f:.]+").fullmatch
_CHARSET: Final = re.compile(r"[a-z0-9_]+").fullmatch


class ChunkColumn(NamedTuple):
    """A column by which some tables are cut into chunks."""

    tables: str
    """A selector."""
    column: str


@dataclass(frozen=True, slots=True)
class TableChunk:
    """A chunk of a table: the rows whose key is above `lower` and at most `upper`."""

    lower: Bound | None = None
    """None: from the first row on."""
    upper: Bound | None = None
    """None: to the last row."""


WHOLE: Final = TableChunk()
"""All rows of a table."""


def chunk_columns(text: str) -> tuple[ChunkColumn, ...]:
    """Parse the option `scan.incremental.snapshot.chunk.key-column`. Raise ValueError."""
    out = []
    for part in filter(str.strip, text.split(";")):
        match = _KEY_COLUMN.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip()[:100]!r} is not TABLE:COLUMN; several are separated by ';'")
        selector(match[1].strip())
        out.append(ChunkColumn(match[1].strip(), match[2].strip()))
    return tuple(out)


def quoted(name: str) -> str:
    """Return an identifier in backticks for SQL statements, with backticks in it doubled."""
    return "`" + name.replace("`", "``") + "`"


def name_of(table: Table) -> str:
    """Return a table's qualified name for SQL statements, quoted."""
    return f"{quoted(table.database)}.{quoted(table.name)}"


def split_key(table: Table, chosen: str | None = None) -> tuple[Column, ...]:
    """Return the columns by which a table is split into chunks; empty if it is read as one. Raise ConfigError.

    They are the whole primary key, or the first unique key without nulls. `chosen` (the option
    `scan.incremental.snapshot.chunk.key-column`) is another column: it may not be null, and should have an index.
    """
    columns = {column.name.lower(): column for column in table.columns}
    if chosen is not None:
        column = columns.get(chosen.lower())
        where = f"scan.incremental.snapshot.chunk.key-column: {table.database}.{table.name}"
        if column is None:
            msg = f"{where} has no column {chosen}"
            raise ConfigError(msg, f"its columns: {', '.join(column.name for column in table.columns)[:200]}")
        if column.nullable:
            msg = f"{where}: {column.name} may be null, and such rows are in no chunk"
            raise ConfigError(msg, "choose a column that is NOT NULL, or leave the option out")
        if column.type not in _SPLIT_BY:
            msg = f"{where}: rows cannot be split by {column.name}, as {column.type} has no order"
            raise ConfigError(msg, "choose another column, or leave the option out")
        return (column,)
    for names in (table.primary_key, *table.unique_keys):
        key = tuple(column for name in names if (column := columns.get(name.lower())) is not None)
        if key and len(key) == len(names) and all(map(_may_split, key)):
            return key
    return ()


def _may_split(column: Column) -> bool:
    """Return whether each row has a value of a column, in the log as well, and values have an order."""
    return column.type in _SPLIT_BY and not (column.nullable or column.generated or column.hidden)


def keeps_order(before: Table, now: Table, key: Sequence[str]) -> bool:
    """Return whether chunk bounds keep their meaning after a table's definition has changed.

    They have another one where the key consists of other columns, or its texts or labels have another order: then the
    table is split from its first row on again.
    """
    return [_order_of(before, name) for name in key] == [_order_of(now, name) for name in key] != []


def _order_of(table: Table, name: str) -> object:
    column = table.find(name)
    if column is None:
        return table.name, table.columns
    whole = column.type in INTEGERS
    return "integer" if whole else column.type, column.charset, column.collation, column.labels


def rows_at_once(connection: Connection, table: Table, rows: int) -> int:
    """Return how many rows a chunk should have: fewer than `rows` where they are large. Raise pymysql.MySQLError.

    MySQL's chunks are kept until the log was read up to their mark.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT AVG_ROW_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (table.database, table.name),
        )
        found = cursor.fetchone()
    average = int(found[0] or 0) if found is not None else 0
    return max(1, min(rows, _CHUNK_BYTES // max(average, 1)))


def next_bound(
    connection: Connection, table: Table, key: Sequence[Column], after: Bound | None, rows: int
) -> Bound | None:
    """Return the key of the row `rows` after a bound; None where fewer rows follow. Raise pymysql.MySQLError.

    The server goes along its index, so chunks have equally many rows, however keys are spread. A chunk's upper bound is
    the lower one of the next; the chunk behind the last bound has no upper one.
    """
    columns = ", ".join(f"{_text(column)}" for column in key)
    order = ", ".join(quoted(column.name) for column in key)
    where = "" if after is None else f" WHERE {above(key, after)}"
    limit = f" ORDER BY {order} LIMIT {rows - 1}, 1"
    sql = f"SELECT {columns} FROM {source_of(table, key)}{where}{limit}"
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found = cursor.fetchone()
    return None if found is None else tuple(map(str, found))


def source_of(table: Table, key: Sequence[Column]) -> str:
    """Return the FROM clause; it forces the primary key's index where the table is split by the primary key.

    Another index may be invisible to statements, and naming it then is an error.
    """
    by_primary = key and tuple(column.name.lower() for column in key) == tuple(map(str.lower, table.primary_key))
    return f"{name_of(table)} FORCE INDEX (PRIMARY)" if by_primary else name_of(table)


def condition(key: Sequence[Column], chunk: TableChunk) -> str:
    """Return the WHERE condition of a chunk's rows; empty for a chunk without bounds."""
    parts = []
    if chunk.lower is not None:
        parts.append(above(key, chunk.lower))
    if chunk.upper is not None:
        parts.append(_compared(key, chunk.upper, "<"))
    return " AND ".join(parts)


def above(key: Sequence[Column], bound: Bound) -> str:
    """Return the condition of keys that are above a bound."""
    return _compared(key, bound, ">")


def _compared(key: Sequence[Column], bound: Bound, sign: str) -> str:
    """Return the SQL comparison of a key with a bound; `<` includes the bound itself.

    Comparing rows in brackets, (a, b) > (1, 2), is right as well, but servers read the whole index for it.
    """
    literals = [literal(column, text) for column, text in zip(key, bound, strict=True)]
    names = [_compared_as(column) for column in key]
    last = len(key) - 1
    out = f"{names[last]} {'<=' if sign == '<' else '>'} {literals[last]}"
    for name, text in zip(reversed(names[:last]), reversed(literals[:last]), strict=True):
        out = f"({name} {sign} {text} OR ({name} = {text} AND {out}))"
    return out if last == 0 else f"({names[0]} {sign}= {literals[0]} AND {out})"


def _compared_as(column: Column) -> str:
    """Return the SQL expression by which a column is compared: a SET is compared as a number of 53 bits."""
    name = quoted(column.name)
    return f"CAST({name} AS UNSIGNED)" if column.type == "set" and len(column.labels) > _EXACT_LABELS else name


def _text(column: Column) -> str:
    """Return the SQL expression of a column's value in the form that bounds have."""
    name = quoted(column.name)
    if column.type in TEXTS or column.type in BINARIES:
        return f"HEX({name})"
    if column.type in NUMBERED:
        return f"CAST(CAST({name} AS UNSIGNED) AS CHAR)"  # `+ 0` would make a SET a number with 53 bits
    if column.type in FLOATS:
        return f"CAST({name} * 1e0 AS CHAR)"  # FLOAT is printed with six digits
    return f"CAST({name} AS CHAR)"


def literal(column: Column, text: str) -> str:
    """Return a key's text as a literal that the server compares with the column as it compares the column's values.

    Nothing in it can be anything but a value: numbers, hexadecimal digits, or a few characters in quotes. Raise
    ValueError for any other text.
    """
    kind = column.type
    if kind in TEXTS and _HEX(text) and _CHARSET(column.charset or ""):
        return f"_{column.charset or ''} X'{text}'"
    if kind in BINARIES and _HEX(text):
        return f"X'{text}'"
    if kind in FLOATS and _NUMBER(text):
        return text if "e" in text.lower() else f"{text}e0"
    if (kind in INTEGERS or kind in NUMBERED or kind == "decimal") and _NUMBER(text):
        return text
    # A year as a number of one or two digits would be another year
    if ((kind in TIMES or kind == "year") and _MOMENT(text)) or (kind in FIXED and _ADDRESS(text)):
        return f"'{text}'"
    raise ValueError(f"{text[:100]!r} is no key of a column {kind}")
