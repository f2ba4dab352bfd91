"""Statements that create a table or make it take the rows, or the reason why none will do; and its comments.

Each statement may be repeated. Rules: docs/spec/postgres.md#tables.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Final

from psycopg import sql

from ingest.model.jsontext import MAX_ZEROS
from ingest.model.numbers import stored_as
from ingest.model.schema import NO_ORDER, Misfit, TableComments
from ingest.model.types import STRING, DataType, DecimalType, is_text
from ingest.sinks.postgres.dialect import POSTGRES, SqlDialect
from ingest.sinks.postgres.tables import KEY_NAME, listed, look_up, named
from ingest.sinks.postgres.types import MAX_NAME, has_order, is_number, type_of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import ExistingTable, HistoryColumns, SqlColumn, SqlTable

_KINDS: Final = {
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
    "v": "a view",
    "m": "a materialized view",
    "c": "a composite type",
    "f": "a foreign table",
}
_MOMENT: Final = "timestamp with time zone"
"""Type of the columns of a history."""
_MOMENTS: Final = re.compile(r"timestamp(\(6\))? with time zone")
_DATED: Final = re.compile(r"date|timestamp(\(\d\))? with(out)? time zone")
_ANOTHER: Final = "route the rows to a table that is not there, so that it is made, or change the one that is"
_SHORTEST: Final = {
    "double precision": (15, 16, 1 << 53, 10**40),
    "real": (6, 8, 1 << 24, 10**30),
    "numeric": (1, 0, 0, 0),
}
"""Numbers whose key may have an exponent, each with the digits that may be enough for some between two sizes, of which
the server's own text has more: it has 9.999999999999999e+22 for 1e23, which is as near to another double."""
_KEY_TEXT: Final = """
CREATE OR REPLACE FUNCTION pg_temp.ingest_key_text(value {0}) RETURNS text LANGUAGE sql AS $$
SELECT CASE
  WHEN digits ~ '^-?[1-9][0-9]*0{{{5}}}$'
    THEN rtrim(digits, '0') || 'e' || length(digits) - length(rtrim(digits, '0'))
  WHEN digits ~ '^-?0[.]0{{{5}}}'
    THEN substring(digits, '^-?') || ltrim(digits, '-0.') || 'e-' || length(split_part(digits, '.', 2))
  ELSE digits END
FROM (SELECT value::text::numeric AS number) AS said, LATERAL (SELECT trim_scale(COALESCE(
  (SELECT shorter FROM generate_series({1}, {2}) AS count, round(number, count - length(trunc(abs(number))::text))
    AS shorter WHERE abs(number) BETWEEN {3} AND {4} AND shorter::{0} = value ORDER BY count LIMIT 1), number)
)::text AS digits) AS plain $$
""".strip()
"""Function of this session that returns the text of a number in keys (docs/spec/keys.md#text-of-a-key-value)."""
_COMMENTS: Final = """
SELECT a.attname, coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid, 'pg_class'), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped
"""
"""Each column of a table, its comment, and the comment of the table."""


class ChangeError(ValueError):
    """Error about a change that would lose something. Its text says which."""

    def __init__(self, text: str, hint: str | None = None) -> None:
        """`hint`: what to do; None where that depends on the server."""
        super().__init__(text)
        self.hint = hint


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
    existing = look_up(connection, table)
    key_name = None
    if existing is None:
        _check_name(connection, table)
        key_name = _key_name(connection, table) if dialect.names_keys else None
    elif tell is not None:
        for column in table.columns:
            if column.name in existing.generated:
                tell(column.name)
    return [*schema, *changes(table, existing, dialect, key_name)], stored(table, existing, dialect)


def schema_planned(connection: Connection, name: str, dialect: SqlDialect) -> list[sql.Composed]:
    """Return the statement that creates a schema, if it does not exist: the right to create one is needed only then."""
    exists = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchone() is not None
    return [] if exists else [sql.SQL(dialect.make_schema).format(sql.Identifier(name))]


def _check_name(connection: Connection, table: SqlTable) -> None:
    """Raise ChangeError where a table's name is that of something else, for example of another table's index."""
    relation = _relation(connection, table.schema, table.name)
    if relation is not None:
        kind, indexed = relation
        of = "" if indexed is None else f" of {indexed}"
        msg = f"its name is that of {_KINDS.get(kind, 'something else')}{of}"
        raise ChangeError(msg, "rename that one (ALTER … RENAME TO …), or route the rows to another table")


def _key_name(connection: Connection, table: SqlTable) -> str:
    """Return a name for the index of a table's key that nothing in its schema has, and no table of the source can."""
    whole = f"{KEY_NAME}{table.name}".encode()
    ends = (f"_{number}" if number else "" for number in count())
    names = (whole[: MAX_NAME - len(end)].decode(errors="ignore") + end for end in ends)
    return next(name for name in names if _relation(connection, table.schema, name) is None)


def _relation(connection: Connection, schema: str, name: str) -> tuple[str, str | None] | None:
    """Return what in a schema has a name: the letter of its kind, and the table of an index; None: nothing."""
    row = connection.execute(
        "SELECT c.relkind::text, i.indrelid::regclass::text FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid"
        " WHERE n.nspname = %s AND c.relname = %s",
        (schema, name),
    ).fetchone()
    return None if row is None else (row[0], row[1])


def changes(
    table: SqlTable, existing: ExistingTable | None, dialect: SqlDialect = POSTGRES, key_name: str | None = None
) -> Iterator[sql.Composed]:
    """Yield the statements after which a table takes the rows. Raise ChangeError for a change that loses something.

    `key_name`: the name of the index of its key, where it is created; None: the server chooses.
    """
    _check_sequence(table, {} if existing is None else existing.columns)
    if existing is None:
        yield _create(table, dialect, key_name)
        yield from dialect.properties_of(table.place, table.options)
        return
    if table.history is not None:
        _check_history(table.history, table.key, existing)
    elif frozenset(table.key) not in existing.keys:
        indexes = ", ".join(sorted(f"({', '.join(sorted(key))})" for key in existing.keys)) or "none"
        msg = f"it has no unique index of ({', '.join(table.key)}), by which rows are found (there: {indexes})"
        raise ChangeError(msg)
    _check_own_values(table, existing)
    add = sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {} {}")
    if table.deleted is not None:
        known = existing.columns.get(table.deleted)
        if known is None:
            yield add.format(table.place, *table.flag, sql.SQL(dialect.added_flag))
        elif known != "boolean":
            raise ChangeError(f"its column {table.deleted!r} is {known}, and says of no row that it is deleted")
    for column in table.columns:
        if column.name in existing.generated:
            continue
        if column.name not in existing.columns:
            yield add.format(table.place, sql.Identifier(column.name), sql.SQL(column.type))
        elif (to := _widened(table, existing, column, dialect)) is not None:
            if isinstance(to, ChangeError):
                raise to
            yield from _alter(table, existing, column.name, to)


def _create(table: SqlTable, dialect: SqlDialect, key_name: str | None) -> sql.Composed:
    columns = [(sql.Identifier(column.name), column.type) for column in table.columns]
    columns += [(flag, dialect.flag) for flag in table.flag]
    if table.history is not None:
        valid_from, valid_to = map(sql.Identifier, table.history.names)
        columns += [(valid_from, f"{_MOMENT} NOT NULL"), (valid_to, _MOMENT)]
    constraint = sql.SQL("" if key_name is None else "CONSTRAINT {} ").format(sql.Identifier(key_name or ""))
    parts = [sql.SQL("{} {}").format(name, sql.SQL(kind)) for name, kind in columns]
    parts.append(sql.SQL("{}PRIMARY KEY ({})").format(constraint, listed(named(table.row_key))))
    statement = sql.SQL(dialect.make_table).format(table.place, listed(parts))
    return sql.Composed([statement, dialect.clause_of(table.options)])


def _alter(table: SqlTable, existing: ExistingTable, name: str, to: str) -> Iterator[sql.Composed]:
    """Yield the statements after which a column has another type, and its values are as rows have them in that."""
    known, of_key, column = existing.columns[name], name in table.key, sql.Identifier(name)
    collation = existing.collations.get(name) if to == "text" else None
    number = _long_number(known) if of_key and to == "text" else None
    if number is not None:
        yield sql.SQL(_KEY_TEXT).format(
            sql.SQL(number), *map(sql.Literal, _SHORTEST[number]), sql.SQL(str(MAX_ZEROS + 1))
        )
    kind = sql.SQL(to if collation is None else f"{to} COLLATE {collation}")
    statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} TYPE {} USING {}")
    yield statement.format(table.place, column, kind, _converted(column, known, to, of_key=of_key))


def _converted(column: sql.Identifier, known: str, to: str, *, of_key: bool) -> sql.Composed:
    """Return the expression of a column's values in its new type: numbers by their digits, moments in UTC."""
    if to != "text":
        if to.endswith("with time zone"):
            return sql.SQL("{}::timestamp AT TIME ZONE 'UTC'").format(column)
        return sql.SQL("{}::text::{}" if is_number(known) else "{}::{}").format(column, sql.SQL(to))
    as_text = "{}::text"
    if known == "bytea":
        as_text = "translate(encode({}, 'base64'), E'\\n', '')"
    elif known.endswith("with time zone"):
        as_text = "replace({}::text, '+00', 'Z')"
    elif of_key and _long_number(known) is not None:
        as_text = "pg_temp.ingest_key_text({})"
    elif of_key and is_number(known):  # as keys have it, which is without an exponent for so few digits
        as_text = "trim_scale({}::text::numeric)::text"
    return sql.SQL(as_text).format(column)


def _long_number(known: str) -> str | None:
    """Return the type of numbers whose text in keys may have an exponent; None for any other type."""
    kind = type_of_kind(known)
    return None if isinstance(kind, DecimalType) else next((name for name in _SHORTEST if known.startswith(name)), None)


def _check_sequence(table: SqlTable, columns: Mapping[str, str]) -> None:
    """Raise ChangeError for a column of no order that is to say which change is the newer one."""
    column = next((column for column in table.columns if column.name == table.sequence), None)
    if column is None:
        return
    kind = columns.get(column.name, column.type)
    if table.history is None and not has_order(kind):
        msg = f"its column {column.name!r} is {kind}, by which no change is newer than another one (sink.sequence-by)"
        raise ChangeError(msg)
    if table.history is not None and not _DATED.fullmatch(column.values):
        what = f"its column {column.name!r} has values of {column.values}"
        hint = "name a column of TIMESTAMP, TIMESTAMP_LTZ or DATE, or none: then it is the server's clock"
        raise ChangeError(f"{what}, which do not say when a row begins (sink.sequence-by)", hint)


def _check_history(history: HistoryColumns, key: tuple[str, ...], existing: ExistingTable) -> None:
    """Raise ChangeError for a table that keeps no states of rows."""
    for name in history.names:
        kind = existing.columns.get(name)
        if kind is None or not _MOMENTS.fullmatch(kind):
            what = f"its column {name!r} is {kind}" if kind is not None else f"it has no column {name!r}"
            raise ChangeError(f"{what}, and a history of rows needs one of {_MOMENT} (sink.write-mode)", _ANOTHER)
    if frozenset(key) in existing.keys:
        msg = f"its unique index of ({', '.join(key)}) lets no key have a second row (sink.write-mode: history)"
        raise ChangeError(msg, _ANOTHER)
    if frozenset({*key, history.valid_from}) not in existing.keys:
        msg = f"it has no unique index of ({', '.join((*key, history.valid_from))}), by which rows are found"
        raise ChangeError(msg, _ANOTHER)


def _check_own_values(table: SqlTable, existing: ExistingTable) -> None:
    """Raise ChangeError for a table of which rows are hidden, or for a column that has to have the rows' values."""
    if existing.hides_rows:
        msg = "its row-level security hides rows from this user, so that updates and deletes would miss them"
        raise ChangeError(msg, "let the user own the table or have BYPASSRLS: ALTER ROLE … BYPASSRLS")
    history = () if table.history is None else table.history.names
    for name in (*table.key, table.sequence, table.deleted, *history):
        if name in existing.generated:
            msg = f"its column {name!r} is generated by the database, and rows are found or ordered by its values"
            raise ChangeError(msg, "let it be an ordinary column, or route the rows to another table")


def unfit(table: SqlTable, existing: ExistingTable | None, dialect: SqlDialect = POSTGRES) -> dict[str, Misfit]:
    """Return the columns of rows that no change makes a table take, each with the reason and its type there."""
    if existing is None:
        return {}
    misfits = {}
    for column in table.written_to(existing).columns:
        known = existing.columns.get(column.name)
        if known is None:
            continue
        kind = None if column.name in existing.identities else type_of_kind(known)
        to = _widened(table, existing, column, dialect)
        of_texts = column.name == table.sequence and type_of_kind(column.values) == STRING
        if isinstance(to, ChangeError):
            misfits[column.name] = Misfit(str(to), kind)
        elif of_texts and kind is not None and not is_text(kind):
            misfits[column.name] = Misfit(NO_ORDER, kind)
    return misfits


def _widened(
    table: SqlTable, existing: ExistingTable, column: SqlColumn, dialect: SqlDialect
) -> str | ChangeError | None:
    """Return the type that an existing column has to become; None: it stays; an error: there is none."""
    known, of_key = existing.columns[column.name], column.name in table.key
    if column.name in existing.identities and not of_key:
        msg = f"its column {column.name!r} is GENERATED ALWAYS AS IDENTITY, so that no update can change it"
        return ChangeError(msg, "let it take the rows' values: ALTER COLUMN … SET GENERATED BY DEFAULT")
    # A domain stays in a key where its type would
    base = existing.bases.get(column.name, known) if of_key else known
    if dialect.holds(base, column.values, of_key=of_key):
        return None
    to = dialect.changed(known, column.values)
    if to is None:
        msg = f"its column {column.name!r} is {known}, and no type holds its values and those of {column.values}"
        return ChangeError(msg)
    fixed = existing.fixed.get(column.name)
    return to if fixed is None else ChangeError(f"its column {column.name!r} is {known}, not {to}: {fixed}")


def stored(table: SqlTable, existing: ExistingTable | None, dialect: SqlDialect) -> dict[str, DataType]:
    """Return the types by which a table keeps numbers of columns after `changes`, where these are not the rows' own."""
    out: dict[str, DataType] = {}
    for column in table.columns:
        known, rows = column.type, type_of_kind(column.values)
        if existing is not None and column.name in existing.columns:
            to = _widened(table, existing, column, dialect)
            known = to if isinstance(to, str) else existing.bases.get(column.name, existing.columns[column.name])
        all_digits = dialect.keeps_digits(known, of_key=column.name in table.key)
        kept = STRING if all_digits else type_of_kind(known) if is_number(known) else None
        kind = None if rows is None else stored_as(rows, kept)
        if kind is not None:
            out[column.name] = kind
    return out


def comment_statements(
    connection: Connection, schema: str, name: str, comments: TableComments
) -> Iterator[sql.Composed]:
    """Yield the statements that set those comments of a table and its columns that differ. Raise psycopg.Error.

    A comment is a literal, whatever is in it; a NUL, which no text may have here, is left out.
    """
    rows = connection.execute(_COMMENTS, (schema, name)).fetchall()
    for _, _, known in rows[:1] if comments.table is not None else ():
        text = (comments.table or "").replace("\0", "")
        if text != known:
            yield sql.SQL("COMMENT ON TABLE {} IS {}").format(sql.Identifier(schema, name), sql.Literal(text or None))
    for column, known, _ in rows:
        text = comments.columns.get(column, known).replace("\0", "")
        if text != known:
            place = sql.Identifier(schema, name, column)
            yield sql.SQL("COMMENT ON COLUMN {} IS {}").format(place, sql.Literal(text or None))
