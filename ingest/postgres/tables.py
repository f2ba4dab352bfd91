"""Tables of a database: their types beside ours, and the statements that make or widen one.

In: the table that rows need, and the one that is there. Out: statements, or the reason why none will do. Each statement
may be repeated. Rules: docs/spec/postgres.md#tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.model import types
from ingest.model.data_type import ArrayType, DecimalType, MapType, NullType, StructType, TimeType
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.postgres.connection import Connection

MAX_NAME: Final = 63
"""Bytes of a name. The server cuts longer ones, so that two would become one."""
MAX_COLUMNS: Final = 1600
OWN: Final = ("ingest_run", "ingest_progress")
"""Tables of the progress, in the default schema."""
_SYSTEM: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Names that no column can have."""
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
_DELETED: Final = "boolean NOT NULL DEFAULT false"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('ingest'))"
"""Statement that lets one run at a time make and change tables."""
_NUMERIC: Final = re.compile(r"numeric(?:\((\d+),(\d+)\))?")
_TIME: Final = re.compile(r"time(?:\((\d)\))? without time zone")
_MOMENT: Final = re.compile(r"timestamp(?:\((\d)\))? (with|without) time zone")
_TEXTS: Final = re.compile(r"text|character varying")


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column that rows have."""

    name: str
    type: str
    """Type as the server spells it."""


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table that rows go to."""

    schema: str
    name: str
    columns: tuple[SqlColumn, ...]
    key: tuple[str, ...]
    deleted: str | None = None
    """The column that says of a row that it is deleted; None where such rows are removed."""
    options: tuple[tuple[str, str], ...] = ()
    """Storage parameters, with which it is made."""

    @property
    def has_key(self) -> bool:
        """True if it has all columns of its key: one that had only nulls so far has no type."""
        return {one.name for one in self.columns}.issuperset(self.key)

    def __str__(self) -> str:
        """Return the name as messages show it."""
        return f"{self.schema}.{self.name}"

    @property
    def place(self) -> sql.Identifier:
        """The name with its quotes."""
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table that is there."""

    columns: Mapping[str, str]
    """Types by the names of the columns, as the server spells them."""
    keys: frozenset[frozenset[str]]
    """Columns of the indexes by which a row is found: unique, on all rows, at once."""


class ChangeError(ValueError):
    """Error about a change that would lose something. Its text says which."""


def planned(connection: Connection, table: SqlTable) -> list[sql.Composed]:
    """Return the statements after which a table takes the rows. Raise ChangeError for a change that loses something.

    No other run changes tables until the transaction ends. Raise psycopg.Error.
    """
    connection.execute(LOCK)
    return [*schema_planned(connection, table.schema), *changes(table, look_up(connection, table))]


def schema_planned(connection: Connection, name: str) -> list[sql.Composed]:
    """Return the statement that makes a schema, if it is not there: the right to make one is needed only then."""
    there = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is not None
    return [] if there else [sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name))]


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


def is_name(text: str) -> bool:
    """Return whether a text can be a name: the driver and the server would cut others, so that two become one."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return 0 < size <= MAX_NAME and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def table_of(table: TableId, schema: TableSchema, default: str, deleted: str | None = None) -> SqlTable:
    """Return the table of a sink table's rows. `default`: the schema of tables whose id has one part.

    `deleted`: see `SqlTable`. Raise RowError for names that the server cannot have, and for rows that have that column.
    """
    place, name = table[-2] if len(table) > 1 else default, table[-1]
    if place.startswith("pg_") or place == "information_schema" or (place == default and name in OWN):
        msg = f"{place}.{name} is a table of PostgreSQL or of this tool; route it to another name"
        raise RowError("bad-name", msg[:300])
    columns = [SqlColumn(one.name, kind) for one in schema.columns if (kind := type_of(one.type)) is not None]
    for text in (place, name, *(one.name for one in columns)):
        if not is_name(text):
            msg = f"{text[:100]!r} cannot be a name in PostgreSQL, which has up to {MAX_NAME} bytes; rename or route it"
            raise RowError("bad-name", msg)
    taken = next((one.name for one in columns if one.name in _SYSTEM), None)
    if taken is not None:
        msg = f"{taken!r} is a column that each table of PostgreSQL has; rename it in a transform"
        raise RowError("bad-name", msg)
    size = len(columns) + (deleted is not None)
    if size > MAX_COLUMNS:
        msg = f"it has {size} columns, and a table of PostgreSQL has up to {MAX_COLUMNS}"
        raise RowError("bad-name", msg)
    if deleted is not None and any(one.name == deleted for one in schema.columns):
        msg = f"its rows have a column {deleted!r}, which says of a row that it is deleted (sink.delete-column)"
        raise RowError("column-clash", msg)
    return SqlTable(place, name, tuple(columns), tuple(schema.primary_key), deleted)


def look_up(connection: Connection, table: SqlTable) -> ExistingTable | None:
    """Return the table that is there; None if there is none. Raise psycopg.Error."""
    found = connection.execute(
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (table.schema, table.name),
    ).fetchone()
    if found is None:
        return None
    columns = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
        found,
    ).fetchall()
    keys = connection.execute(
        "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a"
        " ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])"
        " WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL"
        " AND i.indexprs IS NULL GROUP BY i.indexrelid",
        found,
    ).fetchall()
    return ExistingTable(dict(columns), frozenset(frozenset(names) for (names,) in keys))


def changes(table: SqlTable, there: ExistingTable | None) -> Iterator[sql.Composed]:
    """Yield the statements after which a table takes the rows. Raise ChangeError for a change that loses something."""
    if there is None:
        parts = [sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(one.type)) for one in table.columns]
        if table.deleted is not None:
            parts.append(sql.SQL("{} {}").format(sql.Identifier(table.deleted), sql.SQL(_DELETED)))
        parts.append(sql.SQL("PRIMARY KEY ({})").format(listed(map(sql.Identifier, table.key))))
        yield sql.SQL("CREATE TABLE {} ({}){}").format(table.place, listed(parts), _storage(table.options))
        return
    if frozenset(table.key) not in there.keys:
        known = ", ".join(sorted(f"({', '.join(sorted(key))})" for key in there.keys)) or "none"
        msg = f"it has no unique index of ({', '.join(table.key)}), by which rows are found (there: {known})"
        raise ChangeError(msg)
    if table.deleted is not None:
        known_type = there.columns.get(table.deleted)
        if known_type is None:
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            yield statement.format(table.place, sql.Identifier(table.deleted), sql.SQL(_DELETED))
        elif known_type != "boolean":
            msg = f"its column {table.deleted!r} is {known_type}, and says of no row that it is deleted"
            raise ChangeError(msg)
    for one in table.columns:
        known_type = there.columns.get(one.name)
        column = sql.Identifier(one.name)
        if known_type is None:
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            yield statement.format(table.place, column, sql.SQL(one.type))
        elif not holds(known_type, one.type):
            to = joined(known_type, one.type)
            if to is None:
                raise ChangeError(_apart(one, known_type))
            using = _converted(column, known_type, to, of_key=one.name in table.key)
            statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {} USING {}")
            yield statement.format(table.place, column, sql.SQL(to), using)


def unfit(table: SqlTable, there: ExistingTable | None) -> dict[str, str]:
    """Return the columns of rows that no change makes a table take, each with the reason."""
    known = {} if there is None else there.columns
    return {
        one.name: _apart(one, known[one.name])
        for one in table.columns
        if one.name in known and not holds(known[one.name], one.type) and joined(known[one.name], one.type) is None
    }


def _apart(column: SqlColumn, known: str) -> str:
    return f"its column {column.name!r} is {known}, and no type holds its values and those of {column.type}"


def _storage(options: Iterable[tuple[str, str]]) -> sql.Composable:
    """Return the clause that has the storage parameters of a new table."""
    entry = sql.SQL("{} = {}")
    given = [entry.format(sql.Identifier(*name.split(".")), sql.Literal(value)) for name, value in options]
    return sql.SQL(" WITH ({})").format(listed(given)) if given else sql.SQL("")


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Return parts of a statement with commas between them."""
    return sql.SQL(", ").join(parts)


def _converted(column: sql.Identifier, known: str, to: str, *, of_key: bool) -> sql.Composed:
    """Return the expression that makes values of a column's new type: numbers by their digits, moments in UTC."""
    as_text = "{}::text"
    if known == "bytea":
        as_text = "translate(encode({}, 'base64'), E'\\n', '')"
    elif known.endswith("with time zone"):
        as_text = "replace({}::text, '+00', 'Z')"
    elif of_key and is_number(known):  # as keys have it
        as_text = "trim_scale({}::text::numeric)::text"
    if to == "text":
        return sql.SQL(as_text).format(column)
    if to.endswith("with time zone"):
        return sql.SQL("{}::timestamp AT TIME ZONE 'UTC'").format(column)
    return sql.SQL("{}::text::{}" if is_number(known) else "{}::{}").format(column, sql.SQL(to))


def is_number(kind: str) -> bool:
    """Return whether a type is one of numbers."""
    return kind in _DIGITS or kind in _FLOATS or _NUMERIC.fullmatch(kind) is not None


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
    found = _NUMERIC.fullmatch(kind)
    return None if found is None or found[1] is None else (int(found[1]) - int(found[2]), int(found[2]))


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
