"""Tables of a database: their types beside ours, and the statements that make or widen one.

In: the table that rows need, and the one that is there. Out: statements, or the reason why none will do. Each statement
may be repeated. Rules: docs/spec/postgres.md#tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import DataError, sql

from ingest.model import types
from ingest.model.data_type import ArrayType, DecimalType, MapType, NullType, StructType, TimeType
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.postgres.connection import Connection

MAX_NAME: Final = 63
"""Bytes of a name. The server cuts longer ones, so that two would become one."""
MAX_COLUMNS: Final = 1600
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
_ORDERS: Final = (
    ("smallint", "integer", "bigint"),
    ("real", "double precision"),
    ("date", "timestamp without time zone"),
)
"""Types of which a later one holds each value of those before it."""
_NUMERIC: Final = re.compile(r"numeric(?:\((\d+),(\d+)\))?")
_TIME: Final = re.compile(r"time(?:\((\d)\))? without time zone")
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

    @property
    def has_key(self) -> bool:
        """True if it has all columns of its key: one that had only nulls so far has no type."""
        return {one.name for one in self.columns}.issuperset(self.key)

    def __str__(self) -> str:
        """Return the name as messages show it."""
        return f"{self.schema}.{self.name}"

    @property
    def key_texts_differ(self) -> bool:
        """True if values of the key that are equal in the database may have two texts as keys have them."""
        kinds = {one.name: one.type for one in self.columns}
        return any(kinds[name] in {"text", "real", "double precision"} for name in self.key)

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


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change of a table."""

    statement: sql.Composed
    loss: str = ""
    """What is wrong where `check` finds a row."""
    check: sql.Composed | None = None
    """Query for a row whose value the change would change, or that fails for one; None where there is none."""


class ChangeError(ValueError):
    """Error about a change that would lose something. Its text says which."""


def planned(connection: Connection, table: SqlTable) -> list[TableChange]:
    """Return the changes after which a table takes the rows. Raise ChangeError for one that loses something.

    Raise psycopg.Error.
    """
    found = list(changes(table, look_up(connection, table)))
    for change in found:
        if change.check is None:
            continue
        try:
            with connection.transaction():
                lost = connection.execute(change.check).fetchone() is not None
        except DataError:
            lost = True
        if lost:
            raise ChangeError(change.loss)
    return found


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


def table_of(table: TableId, schema: TableSchema, default: str) -> SqlTable:
    """Return the table of a sink table's rows. `default`: the schema of tables whose id has one part.

    Raise RowError for names that the server cannot have.
    """
    place, name = table[-2] if len(table) > 1 else default, table[-1]
    columns = [SqlColumn(one.name, kind) for one in schema.columns if (kind := type_of(one.type)) is not None]
    for text in (place, name, *(one.name for one in columns)):
        size = len(text.encode("utf-8", "surrogatepass"))
        if not text or size > MAX_NAME or "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
            msg = f"{text[:100]!r} cannot be a name in PostgreSQL, which has up to {MAX_NAME} bytes; rename or route it"
            raise RowError("bad-name", msg)
    taken = next((one.name for one in columns if one.name in _SYSTEM), None)
    if taken is not None:
        msg = f"{taken!r} is a column that each table of PostgreSQL has; rename it in a transform"
        raise RowError("bad-name", msg)
    if len(columns) > MAX_COLUMNS:
        msg = f"it has {len(columns)} columns, and a table of PostgreSQL has up to {MAX_COLUMNS}"
        raise RowError("bad-name", msg)
    return SqlTable(place, name, tuple(columns), tuple(schema.primary_key))


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


def changes(table: SqlTable, there: ExistingTable | None) -> Iterator[TableChange]:
    """Yield the changes after which a table takes the rows. Raise ChangeError for one that loses something."""
    if there is None:
        yield TableChange(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(table.schema)))
        parts = [sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(one.type)) for one in table.columns]
        parts.append(sql.SQL("PRIMARY KEY ({})").format(_names(table.key)))
        yield TableChange(sql.SQL("CREATE TABLE {} ({})").format(table.place, sql.SQL(", ").join(parts)))
        return
    if frozenset(table.key) not in there.keys:
        known = ", ".join(sorted(f"({', '.join(sorted(key))})" for key in there.keys)) or "none"
        msg = f"it has no unique index of ({', '.join(table.key)}), by which rows are found (there: {known})"
        raise ChangeError(msg)
    for one in table.columns:
        known_type = there.columns.get(one.name)
        column = sql.Identifier(one.name)
        if known_type is None:
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            yield TableChange(statement.format(table.place, column, sql.SQL(one.type)))
        elif not holds(known_type, one.type):
            yield _widened(table, column, known_type, one)


def _names(names: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _widened(table: SqlTable, column: sql.Identifier, known: str, wanted: SqlColumn) -> TableChange:
    """Return the change of a column's type. Raise ChangeError where values of the old one cannot be of the new one."""
    to, check = wanted.type, None
    using = sql.SQL("{}::{}").format(column, sql.SQL(to))
    if to == "text" and known == "bytea":
        using = sql.SQL("translate(encode({}, 'base64'), E'\\n', '')").format(column)
    elif to == "timestamp with time zone" and known in {"date", "timestamp without time zone"}:
        using = sql.SQL("{}::timestamp AT TIME ZONE 'UTC'").format(column)
    elif to != "text" and not holds(to, known):
        if not (_is_number(known) and _is_number(to)):
            msg = f"its column {wanted.name!r} is {known}, and {to} does not hold all of its values"
            raise ChangeError(msg)
        check = sql.SQL("SELECT FROM {} WHERE {}::{}::numeric IS DISTINCT FROM {}::numeric LIMIT 1").format(
            table.place, column, sql.SQL(to), column
        )
    statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {} USING {}")
    made = statement.format(table.place, column, sql.SQL(to), using)
    return TableChange(made, f"its column {wanted.name!r} is {known}, and holds values that {to} does not", check)


def _is_number(kind: str) -> bool:
    return kind in _DIGITS or kind in {"real", "double precision"} or _NUMERIC.fullmatch(kind) is not None


def holds(known: str, wanted: str) -> bool:
    """Return whether a column of a type takes all values of another one, as they are."""
    if known == wanted or (_TEXTS.fullmatch(known) is not None and wanted != "bytea"):
        return True
    if {known, wanted} <= {"json", "jsonb"}:
        return True
    for order in _ORDERS:
        if known in order and wanted in order:
            return order.index(known) >= order.index(wanted)
    times = _TIME.fullmatch(known), _TIME.fullmatch(wanted)
    if times[0] is not None and times[1] is not None:
        return int(times[0][1] or 6) >= int(times[1][1] or 6)
    number = _NUMERIC.fullmatch(known)
    return number is not None and _number_holds(number, wanted)


def _number_holds(number: re.Match[str], wanted: str) -> bool:
    """Return whether numbers of a NUMERIC hold all values of a type."""
    if wanted in _DIGITS:
        return number[1] is None or int(number[1]) - int(number[2]) >= _DIGITS[wanted]
    other = _NUMERIC.fullmatch(wanted)
    if other is None:
        return False
    if number[1] is None or other[1] is None:
        return number[1] is None
    whole = [int(one[1]) - int(one[2]) for one in (number, other)]
    return whole[0] >= whole[1] and int(number[2]) >= int(other[2])
