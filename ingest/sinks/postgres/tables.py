"""Tables of a database: the one that rows need beside the one that is there, and the statements that make or widen it.

In: the table that rows need, and the one that is there. Out: statements, or the reason why none will do. Each statement
may be repeated. Rules: docs/spec/postgres.md#tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.model.numbers import LARGEST, stored_as
from ingest.model.reject import RowError
from ingest.model.schema import NO_ORDER, Misfit
from ingest.model.types import STRING, is_text
from ingest.sinks.postgres.converted import becoming
from ingest.sinks.postgres.dialect import POSTGRES
from ingest.sinks.postgres.history_columns import ChangeError
from ingest.sinks.postgres.types import has_order, is_number, type_of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.dialect import SqlDialect
    from ingest.sinks.postgres.history_columns import HistoryColumns

MAX_NAME: Final = 63
"""Bytes of a name. The server cuts longer ones, so that two would become one."""
MAX_COLUMNS: Final = 1600
OWN: Final = ("ingest_run", "ingest_progress")
"""Tables of the progress, in the default schema."""
_OWN_NAMES: Final = frozenset({*OWN, *(f"{name}_pkey" for name in OWN)})
"""Names of these tables and of their indexes: tables and indexes of a schema share their names."""
_KEY_NAME: Final = "ingest_pkey_"
"""Beginning of the names of indexes that the tool makes. No table can have such a name."""
_KINDS: Final = {
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
    "v": "a view",
    "m": "a materialized view",
    "c": "a composite type",
    "f": "a foreign table",
}
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
_SYSTEM: Final = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Names that no column can have."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column that rows have."""

    name: str
    type: str
    """Type of the column where the tool makes it, as the server spells it."""
    values: str
    """Type of the values that rows have in it."""


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
    """Storage parameters, with which it is made."""
    overrides: bool = False
    """True if the server has values of its own for the key, in place of which it is to take those of rows."""
    history: HistoryColumns | None = None
    """The columns of the time of a state, where each state of a key is a row; None where a key has one row."""

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
        return {one.name for one in self.columns}.issuperset(self.key)

    @property
    def overriding(self) -> sql.SQL:
        """What an INSERT says between the columns and their values."""
        return sql.SQL(" OVERRIDING SYSTEM VALUE" if self.overrides else "")

    def written_to(self, there: ExistingTable) -> SqlTable:
        """Return the table without the columns whose values the server computes."""
        columns = tuple(one for one in self.columns if one.name not in there.generated)
        return replace(self, columns=columns, overrides=not there.identities.isdisjoint(self.key))

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


def planned(
    connection: Connection, table: SqlTable, dialect: SqlDialect = POSTGRES, tell: Callable[[str], None] | None = None
) -> tuple[list[sql.Composed], dict[str, DataType]]:
    """Return the statements after which a table takes the rows, and what `stored` returns.

    No other run changes tables until the transaction ends, where the server has such locks. Raise ChangeError for a
    change that loses something, and psycopg.Error.
    `tell` gets the name of each column whose values are the server's own.
    """
    dialect.lock(connection)
    schema = schema_planned(connection, table.schema, dialect)
    there = look_up(connection, table)
    key_name = None
    if there is None:
        _check_name(connection, table)
        key_name = _key_name(connection, table) if dialect.names_keys else None
    elif tell is not None:
        for one in table.columns:
            if one.name in there.generated:
                tell(one.name)
    return [*schema, *changes(table, there, dialect, key_name)], stored(table, there, dialect)


def _check_name(connection: Connection, table: SqlTable) -> None:
    """Raise ChangeError where a table's name is that of something else, for example of another table's index."""
    found = _named(connection, table.schema, table.name)
    if found is not None:
        of = "" if found[1] is None else f" of {found[1]}"
        msg = f"its name is that of {_KINDS.get(found[0], 'something else')}{of}"
        raise ChangeError(msg, "rename that one (ALTER … RENAME TO …), or route the rows to another table")


def _key_name(connection: Connection, table: SqlTable) -> str:
    """Return a name for the index of a table's key that nothing in its schema has, and no table of the source can."""
    whole = f"{_KEY_NAME}{table.name}".encode()
    ends = (f"_{number}" if number else "" for number in count())
    names = (whole[: MAX_NAME - len(end)].decode(errors="ignore") + end for end in ends)
    return next(name for name in names if _named(connection, table.schema, name) is None)


def _named(connection: Connection, schema: str, name: str) -> tuple[str, str | None] | None:
    """Return what in a schema has a name: the letter of its kind, and the table of an index; None: nothing."""
    found = connection.execute(
        "SELECT c.relkind::text, i.indrelid::regclass::text FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE n.nspname = %s AND c.relname = %s",
        (schema, name),
    ).fetchone()
    return None if found is None else (found[0], found[1])


def schema_planned(connection: Connection, name: str, dialect: SqlDialect) -> list[sql.Composed]:
    """Return the statement that makes a schema, if it is not there: the right to make one is needed only then."""
    there = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is not None
    return [] if there else [sql.SQL(dialect.make_schema).format(sql.Identifier(name))]


def is_name(text: str) -> bool:
    """Return whether a text can be a name: the driver and the server would cut others, so that two become one."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return 0 < size <= MAX_NAME and "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


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
    own = name.startswith(_KEY_NAME) or (place == default and name in _OWN_NAMES)
    if own or place.startswith("pg_") or place == "information_schema":
        msg = f"{place}.{name} is a table of PostgreSQL or of this tool; route it to another name"
        raise RowError("bad-name", msg[:300])
    kinds = {one.name: dialect.types_of(one.type, of_key=one.name in schema.primary_key) for one in schema.columns}
    columns = [SqlColumn(name, *found) for name, found in kinds.items() if found is not None]
    for text in (place, name, *(one.name for one in columns)):
        if not is_name(text):
            msg = f"{text[:100]!r} cannot be a name in PostgreSQL, which has up to {MAX_NAME} bytes; rename or route it"
            raise RowError("bad-name", msg)
    taken = next((one.name for one in columns if one.name in _SYSTEM), None)
    if taken is not None:
        msg = f"{taken!r} is a column that each table of PostgreSQL has; rename it in a transform"
        raise RowError("bad-name", msg)
    size = len(columns) + (deleted is not None) + (0 if history is None else len(history.names))
    if size > MAX_COLUMNS:
        msg = f"it has {size} columns, and a table of PostgreSQL has up to {MAX_COLUMNS}"
        raise RowError("bad-name", msg)
    if deleted is not None and any(one.name == deleted for one in schema.columns):
        msg = f"its rows have a column {deleted!r}, which says of a row that it is deleted (sink.delete-column)"
        raise RowError("column-clash", msg)
    taken = next((one.name for one in schema.columns if history is not None and one.name in history.names), None)
    if taken is not None:
        msg = (
            f"its rows have a column {taken!r}, which says when a row is valid; rename one (sink.valid-from-column, …)"
        )
        raise RowError("column-clash", msg)
    ordered = any(one.name == sequence for one in columns) and sequence not in schema.primary_key
    key = tuple(schema.primary_key)
    return SqlTable(place, name, tuple(columns), key, deleted, sequence if ordered else None, history=history)


def has_rows(connection: Connection, schema: str, name: str) -> bool:
    """Return whether a table is there and has rows. Raise psycopg.Error."""
    there = connection.execute(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (schema, name),
    ).fetchone()
    query = sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(schema, name))
    return there is not None and connection.execute(query).fetchone() is not None


def look_up(connection: Connection, table: SqlTable) -> ExistingTable | None:
    """Return the table that is there; None if there is none. Raise psycopg.Error."""
    found = connection.execute(
        "SELECT c.oid, CASE WHEN c.relrowsecurity THEN row_security_active(c.oid) ELSE false END"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        (table.schema, table.name),
    ).fetchone()
    if found is None:
        return None
    oid, hides_rows = found
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


def changes(
    table: SqlTable, there: ExistingTable | None, dialect: SqlDialect = POSTGRES, key_name: str | None = None
) -> Iterator[sql.Composed]:
    """Yield the statements after which a table takes the rows. Raise ChangeError for a change that loses something.

    `key_name`: the name of the index of its key, where it is made; None: the server chooses.
    """
    _check_sequence(table, {} if there is None else there.columns)
    if there is None:
        parts = [sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL(one.type)) for one in table.columns]
        if table.deleted is not None:
            parts.append(sql.SQL("{} {}").format(sql.Identifier(table.deleted), sql.SQL(dialect.flag)))
        if table.history is not None:
            parts.extend(table.history.parts())
        named = sql.SQL("" if key_name is None else "CONSTRAINT {} ").format(sql.Identifier(key_name or ""))
        parts.append(sql.SQL("{}PRIMARY KEY ({})").format(named, listed(map(sql.Identifier, table.row_key))))
        make = sql.SQL(dialect.make_table).format(table.place, listed(parts))
        yield sql.Composed([make, dialect.clause_of(table.options)])
        yield from dialect.properties_of(table.place, table.options)
        return
    if table.history is not None:
        table.history.check(there.columns, table.key, there.keys)
    elif frozenset(table.key) not in there.keys:
        known = ", ".join(sorted(f"({', '.join(sorted(key))})" for key in there.keys)) or "none"
        msg = f"it has no unique index of ({', '.join(table.key)}), by which rows are found (there: {known})"
        raise ChangeError(msg)
    _check_own_values(table, there)
    if table.deleted is not None:
        known_type = there.columns.get(table.deleted)
        if known_type is None:
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            yield statement.format(table.place, sql.Identifier(table.deleted), sql.SQL(dialect.added_flag))
        elif known_type != "boolean":
            msg = f"its column {table.deleted!r} is {known_type}, and says of no row that it is deleted"
            raise ChangeError(msg)
    for one in table.columns:
        known_type = there.columns.get(one.name)
        column = sql.Identifier(one.name)
        if one.name in there.generated:
            continue
        if known_type is None:
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
            yield statement.format(table.place, column, sql.SQL(one.type))
        elif (to := _widened(table, there, one, dialect)) is not None:
            if isinstance(to, ChangeError):
                raise to
            by = there.collations.get(one.name) if to == "text" else None
            kinds = known_type, to if by is None else f"{to} COLLATE {by}"
            yield from becoming(table.place, column, *kinds, of_key=one.name in table.key)


def _check_own_values(table: SqlTable, there: ExistingTable) -> None:
    """Raise ChangeError for a table of which rows are hidden, or for a column that has to have the rows' values."""
    if there.hides_rows:
        msg = "its row-level security hides rows from this user, so that updates and deletes would miss them"
        raise ChangeError(msg, "let the user own the table or have BYPASSRLS: ALTER ROLE … BYPASSRLS")
    history = () if table.history is None else table.history.names
    for name in (*table.key, table.sequence, table.deleted, *history):
        if name in there.generated:
            msg = f"its column {name!r} is generated by the database, and rows are found or ordered by its values"
            raise ChangeError(msg, "let it be an ordinary column, or route the rows to another table")


def unfit(table: SqlTable, there: ExistingTable | None, dialect: SqlDialect = POSTGRES) -> dict[str, Misfit]:
    """Return the columns of rows that no change makes a table take, each with the reason and its type there."""
    if there is None:
        return {}
    known = [one for one in table.written_to(there).columns if one.name in there.columns]
    tried = {one.name: _widened(table, there, one, dialect) for one in known}
    types = {name: None if name in there.identities else type_of_kind(there.columns[name]) for name in tried}
    found = {name: Misfit(str(to), types[name]) for name, to in tried.items() if isinstance(to, ChangeError)}
    for one in known:
        kind = types[one.name]
        of_texts = one.name == table.sequence and type_of_kind(one.values) == STRING
        if of_texts and kind is not None and not is_text(kind):
            found.setdefault(one.name, Misfit(NO_ORDER, kind))
    return found


def _widened(table: SqlTable, there: ExistingTable, column: SqlColumn, dialect: SqlDialect) -> str | ChangeError | None:
    """Return the type that a column that is there has to become; None: it stays; an error: there is none."""
    if column.name in there.identities and column.name not in table.key:
        msg = f"its column {column.name!r} is GENERATED ALWAYS AS IDENTITY, so that no update can change it"
        return ChangeError(msg, "let it take the rows' values: ALTER COLUMN … SET GENERATED BY DEFAULT")
    if _takes(table, there, column, dialect):
        return None
    known = there.columns[column.name]
    to = dialect.changed(known, column.values)
    if to is None:
        return ChangeError(_apart(column, known))
    fixed = there.fixed.get(column.name)
    return to if fixed is None else ChangeError(f"its column {column.name!r} is {known}, not {to}: {fixed}")


def _takes(table: SqlTable, there: ExistingTable, column: SqlColumn, dialect: SqlDialect) -> bool:
    """Return whether a column that is there stays as it is. A domain does in a key, where its type would."""
    known, of_key = there.columns[column.name], column.name in table.key
    if of_key:
        known = there.bases.get(column.name, known)
    return dialect.holds(known, column.values, of_key=of_key)


def stored(table: SqlTable, there: ExistingTable | None, dialect: SqlDialect) -> dict[str, DataType]:
    """Return the types by which a table keeps numbers of columns after `changes`, where these are not the rows' own."""
    out: dict[str, DataType] = {}
    for one in table.columns:
        known, rows = one.type, type_of_kind(one.values)
        if there is not None and one.name in there.columns:
            to = _widened(table, there, one, dialect)
            known = to if isinstance(to, str) else there.bases.get(one.name, there.columns[one.name])
        all_digits = dialect.keeps_digits(known, of_key=one.name in table.key)
        kept = STRING if all_digits else type_of_kind(known) if is_number(known) else None
        kind = None if rows is None else stored_as(rows, kept)
        if kind is not None:
            out[one.name] = kind
    return out


def beyond(connection: Connection, table: SqlTable, names: Iterable[str]) -> set[str]:
    """Return those of the columns that are `bigint` and hold an integer beyond ±2^53. Raise psycopg.Error."""
    there = look_up(connection, table)
    query = sql.SQL("SELECT EXISTS (SELECT FROM {table} WHERE {column} > {most} OR {column} < -{most})")
    out = set()
    for name in names:
        if there is not None and there.columns.get(name) == "bigint":
            asked = query.format(table=table.place, column=sql.Identifier(name), most=sql.Literal(LARGEST))
            if connection.execute(asked).fetchone() == (True,):
                out.add(name)
    return out


def _apart(column: SqlColumn, known: str) -> str:
    return f"its column {column.name!r} is {known}, and no type holds its values and those of {column.values}"


def _check_sequence(table: SqlTable, there: Mapping[str, str]) -> None:
    """Raise ChangeError for a column of no order that is to say which change is the newer one."""
    for one in table.columns:
        kind = there.get(one.name, one.type)
        if one.name == table.sequence and table.history is not None:
            table.history.check_sequence(one.name, one.values)
        elif one.name == table.sequence and not has_order(kind):
            msg = f"its column {one.name!r} is {kind}, by which no change is newer than another one (sink.sequence-by)"
            raise ChangeError(msg)


def listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    """Return parts of a statement with commas between them."""
    return sql.SQL(", ").join(parts)
