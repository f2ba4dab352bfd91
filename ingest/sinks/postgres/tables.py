"""Tables of a database: the one that rows need, the one that exists, and the parts that statements about them share.

Rules: docs/spec/postgres.md#tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.model.numbers import LARGEST
from ingest.model.reject import RowError
from ingest.sinks.postgres.dialect import POSTGRES, SqlDialect, dialect_of
from ingest.sinks.postgres.types import MAX_NAME, SYSTEM_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.options import SqlSinkOptions

MAX_COLUMNS: Final = 1600
OWN: Final = ("ingest_run", "ingest_progress")
"""Tables of the progress, in the default schema."""
_OWN_NAMES: Final = frozenset({*OWN, *(f"{name}_pkey" for name in OWN)})
"""Names of these tables and of their indexes: tables and indexes of a schema share their names."""
KEY_NAME: Final = "ingest_pkey_"
"""Prefix of the names of indexes that the tool creates. No table can have such a name."""
_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attidentity = 'a',
  COALESCE(to_jsonb(a) ->> 'attgenerated', '') <> '', quote_ident(n.nspname) || '.' || quote_ident(l.collname),
  CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation AND a.attcollation <> t.typcollation
LEFT JOIN pg_namespace n ON n.oid = l.collnamespace
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
"""Columns of a table. Servers before PostgreSQL 12, as Hologres is, have no `attgenerated`: so it is asked of JSON."""
_FIXED: Final = """
SELECT a.attname, min(CASE d.classid WHEN 'pg_rewrite'::regclass THEN 'a view or a rule uses it'
  WHEN 'pg_trigger'::regclass THEN 'a trigger uses it' WHEN 'pg_policy'::regclass THEN 'a policy uses it'
  ELSE 'a generated column uses it' END)
FROM pg_depend d JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = %s AND d.deptype = 'n' AND d.classid IN (
  'pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_attrdef'::regclass)
GROUP BY a.attname
UNION ALL
SELECT a.attname, CASE WHEN a.attinhcount > 0 THEN 'it is of another table, of which this one is a part'
  ELSE 'the table is partitioned by it' END
FROM pg_attribute a LEFT JOIN pg_partitioned_table p ON p.partrelid = a.attrelid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
  AND (a.attinhcount > 0 OR a.attnum = ANY (p.partattrs))
"""
_KEYS: Final = """
SELECT array_agg(a.attname::text) FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) WITH ORDINALITY AS part (attnum, by, nth)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum
LEFT JOIN pg_collation one ON one.oid = part.by LEFT JOIN pg_collation other ON other.oid = a.attcollation
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL
  AND i.indexprs IS NULL AND part.nth <= i.indnkeyatts
GROUP BY i.indexrelid
HAVING bool_and(part.by = a.attcollation OR (COALESCE((to_jsonb(one) ->> 'collisdeterministic')::boolean, true)
  AND COALESCE((to_jsonb(other) ->> 'collisdeterministic')::boolean, true)))
"""
"""Columns of unique indexes in which values are equal that are so in the columns: of collations, only those that are
not deterministic take other texts than the same bytes for equal."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column that rows have."""

    name: str
    type: str
    """Type of the column where the tool creates it, as the server spells it."""
    values: str
    """Type of the values that rows have in it."""


@dataclass(frozen=True, slots=True)
class HistoryColumns:
    """The columns of the time in which a state of a key was the current one: docs/spec/sinks.md#history-of-rows."""

    valid_from: str
    """The column of its beginning, which is part of the table's key."""
    valid_to: str
    """The column of its end; it is null in the current row."""
    unit: str = "microseconds"
    """The smallest unit of time that the server keeps, as SQL calls it."""

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.valid_from, self.valid_to


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table that rows go to."""

    schema: str
    name: str
    columns: tuple[SqlColumn, ...]
    key: tuple[str, ...]
    deleted: str | None = None
    """The column that says of a row that it is deleted; None where such rows are removed."""
    sequence: str | None = None
    """The column that says which of two changes of a row is the newer one; None where the order of changes does."""
    options: tuple[tuple[str, str], ...] = ()
    """Storage parameters, with which it is created."""
    overrides: bool = False
    """True if the server has values of its own for the key, in place of which it is to take those of rows."""
    history: HistoryColumns | None = None
    """The columns of the time of a state, where each state of a key is a row; None where a key has one row."""

    @property
    def non_key(self) -> tuple[str, ...]:
        """The names of the columns beside the key."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    @property
    def row_key(self) -> tuple[str, ...]:
        """The columns by which a row is found."""
        return self.key if self.history is None else (*self.key, self.history.valid_from)

    @property
    def takes_all_states(self) -> bool:
        """True if all states of a key since the last commit are written, not only the last one."""
        return self.sequence is not None or self.history is not None

    @property
    def has_key(self) -> bool:
        """True if it has all columns of its key: one that had only nulls so far has no type."""
        return {column.name for column in self.columns}.issuperset(self.key)

    @property
    def flag(self) -> list[sql.Identifier]:
        """The column `deleted`, if it has one."""
        return [] if self.deleted is None else [sql.Identifier(self.deleted)]

    @property
    def overriding(self) -> sql.SQL:
        """What an INSERT says between the columns and their values."""
        return sql.SQL(" OVERRIDING SYSTEM VALUE" if self.overrides else "")

    def written_to(self, existing: ExistingTable) -> SqlTable:
        """Return the table without the columns whose values the server computes."""
        columns = tuple(column for column in self.columns if column.name not in existing.generated)
        return replace(self, columns=columns, overrides=not existing.identities.isdisjoint(self.key))

    def __str__(self) -> str:
        """Return the name as messages show it."""
        return f"{self.schema}.{self.name}"

    @property
    def place(self) -> sql.Identifier:
        """The name with its quotes."""
        return sql.Identifier(self.schema, self.name)


@dataclass(frozen=True, slots=True)
class ExistingTable:
    """A table as the database has it."""

    columns: Mapping[str, str]
    """Types by the names of the columns, as the server spells them."""
    keys: frozenset[frozenset[str]]
    """Columns of the indexes by which a row is found: unique, on all rows, at once."""
    generated: frozenset[str] = frozenset()
    """Columns that the server computes from others."""
    identities: frozenset[str] = frozenset()
    """Columns that are `GENERATED ALWAYS AS IDENTITY`."""
    collations: Mapping[str, str] = field(default_factory=dict)
    """Collations of columns that have another one than their type, as SQL."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Types that domains are made of, by the columns that have such a domain."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Columns whose type the server does not change, with the reasons."""
    hides_rows: bool = False
    """True if the server's row-level security may hide rows from this user."""

    @property
    def kinds(self) -> dict[str, str]:
        """Types by the names of the columns, with their collations, as SQL: values are equal by both."""
        collated = {name: f"{self.columns[name]} COLLATE {by}" for name, by in self.collations.items()}
        return {**self.columns, **collated}


def table_by(options: SqlSinkOptions, table: TableId, schema: TableSchema) -> SqlTable:
    """Return the table that rows of a target go to by a sink's options. Raise RowError as `table_of` does."""
    dialect, history = dialect_of(options), None
    if options.write_mode == "history":
        history = HistoryColumns(options.valid_from, options.valid_to, dialect.unit)
    return table_of(table, schema, options.default_schema, options.deleted, dialect, options.sequence_by, history)


def table_of(
    table: TableId,
    schema: TableSchema,
    default: str,
    deleted: str | None = None,
    dialect: SqlDialect = POSTGRES,
    sequence: str | None = None,
    history: HistoryColumns | None = None,
) -> SqlTable:
    """Return the table of a sink table's rows. `default`: the schema of tables whose id has one part.

    `deleted`, `history`: see `SqlTable`. `sequence`: the same, of tables that have the column beside their key. Raise
    RowError for names that the server cannot have, and for rows that have a column which the tool adds.
    """
    place, name = table[-2] if len(table) > 1 else default, table[-1]
    reserved = name.startswith(KEY_NAME) or (place == default and name in _OWN_NAMES)
    if reserved or place.startswith("pg_") or place == "information_schema":
        msg = f"{place}.{name} is a table of PostgreSQL or of this tool; route it to another name"
        raise RowError("bad-name", msg[:300])
    kinds = {c.name: dialect.types_of(c.type, of_key=c.name in schema.primary_key) for c in schema.columns}
    columns = [SqlColumn(column, *types) for column, types in kinds.items() if types is not None]
    for text in (place, name, *(column.name for column in columns)):
        if not is_name(text):
            msg = f"{text[:100]!r} cannot be a name in PostgreSQL, which has up to {MAX_NAME} bytes; rename or route it"
            raise RowError("bad-name", msg)
    taken = next((column.name for column in columns if column.name in SYSTEM_COLUMNS), None)
    if taken is not None:
        raise RowError("bad-name", f"{taken!r} is a column that each table of PostgreSQL has; rename it in a transform")
    size = len(columns) + (deleted is not None) + (0 if history is None else len(history.names))
    if size > MAX_COLUMNS:
        raise RowError("bad-name", f"it has {size} columns, and a table of PostgreSQL has up to {MAX_COLUMNS}")
    if deleted in kinds:
        msg = f"its rows have a column {deleted!r}, which says of a row that it is deleted (sink.delete-column)"
        raise RowError("column-clash", msg)
    taken = None if history is None else next((column for column in kinds if column in history.names), None)
    if taken is not None:
        msg = f"its rows have a column {taken!r}, which says when a row is valid; rename one"
        raise RowError("column-clash", f"{msg} (sink.valid-from-column, …)")
    ordered = kinds.get(sequence or "") is not None and sequence not in schema.primary_key
    key = tuple(schema.primary_key)
    return SqlTable(place, name, tuple(columns), key, deleted, sequence if ordered else None, history=history)


def is_name(text: str) -> bool:
    """Return whether a text can be a name: the driver and the server would cut others, so that two become one."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return 0 < size <= MAX_NAME and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def look_up(connection: Connection, table: SqlTable) -> ExistingTable | None:
    """Return the table as it exists; None if it does not. Raise psycopg.Error."""
    row = connection.execute(
        "SELECT c.oid, CASE WHEN c.relrowsecurity THEN row_security_active(c.oid) ELSE false END"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (table.schema, table.name),
    ).fetchone()
    if row is None:
        return None
    oid, hides_rows = row
    columns = connection.execute(_COLUMNS, (oid,)).fetchall()
    keys = connection.execute(_KEYS, (oid,)).fetchall()
    fixed = connection.execute(_FIXED, (oid, oid)).fetchall()
    return ExistingTable(
        {name: kind for name, kind, *_ in columns},
        frozenset(frozenset(names) for (names,) in keys),
        generated=frozenset(name for name, _, _, generated, *_ in columns if generated),
        identities=frozenset(name for name, _, always, *_ in columns if always),
        collations={name: by for name, _, _, _, by, _ in columns if by is not None},
        bases={name: base for name, *_, base in columns if base is not None},
        fixed=dict(fixed),
        hides_rows=hides_rows,
    )


def has_rows(connection: Connection, schema: str, name: str) -> bool:
    """Return whether a table exists and has rows. Raise psycopg.Error."""
    exists = connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (schema, name),
    ).fetchone()
    query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(schema, name))
    return exists is not None and connection.execute(query).fetchone() is not None


def beyond(connection: Connection, table: SqlTable, names: Iterable[str]) -> set[str]:
    """Return those of the columns that are `bigint` and hold an integer beyond ±2^53. Raise psycopg.Error."""
    existing = look_up(connection, table)
    query = sql.SQL("SELECT EXISTS (SELECT FROM {table} WHERE {column} > {most} OR {column} < -{most})")
    out = set()
    for name in names:
        if existing is not None and existing.columns.get(name) == "bigint":
            asked = query.format(table=table.place, column=sql.Identifier(name), most=sql.Literal(LARGEST))
            if connection.execute(asked).fetchone() == (True,):
                out.add(name)
    return out


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Return parts of a statement with commas between them."""
    return sql.SQL(", ").join(parts)


def named(names: Iterable[str]) -> list[sql.Composable]:
    """Return names with their quotes."""
    return [sql.Identifier(name) for name in names]


def numbered(letter: str, columns: Iterable[object]) -> list[sql.Composable]:
    """Return a name for each column, `k0`, `k1` and so on: those of a table may clash with a statement's own."""
    return [sql.Identifier(f"{letter}{at}") for at, _ in enumerate(columns)]


def of_alias(alias: str, names: Iterable[sql.Composable]) -> list[sql.Composable]:
    """Return names as columns of what a statement calls `alias`."""
    return [sql.SQL("{}.{}").format(sql.SQL(alias), name) for name in names]


def renamed(values: Iterable[sql.Composable], names: Iterable[sql.Composable]) -> sql.Composed:
    """Return values under names, as a SELECT has them."""
    return listed(sql.SQL("{} AS {}").format(value, name) for value, name in zip(values, names, strict=True))


def all_equal(left: Iterable[sql.Composable], right: Iterable[sql.Composable]) -> sql.Composed:
    """Return the condition that the values are equal, one by one."""
    pairs = zip(left, right, strict=True)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(value, other) for value, other in pairs)


def excluded(columns: Iterable[sql.Composable]) -> sql.Composed:
    """Return the assignments by which ON CONFLICT takes the new row's values."""
    return listed(sql.SQL("{0} = EXCLUDED.{0}").format(column) for column in columns)
