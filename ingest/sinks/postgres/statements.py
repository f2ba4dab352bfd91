"""Statements that write rows: a staging table that takes the states of keys, and one statement for each table.

In: states of keys, as JSON. Out: rows in the table; of the states of a key only the last one counts, however its key is
spelled. A few rows are staged as JSON, which the server takes apart. For many there is a staging table with the columns
of their table, and native code takes them apart; where it leaves one of them, all go as JSON. Both ways write the same
rows. Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import psycopg
from psycopg import sql

from ingest import compiled
from ingest.sinks.postgres.all_states import State, rows_by_state, states_of
from ingest.sinks.postgres.tables import MAX_COLUMNS, all_equal, excluded, listed, named, numbered, of_alias, renamed

if compiled.BUILT:
    from ingest.sinks.postgres.native.copy_rows import CopyRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import SqlTable

_STAGING: Final = """
CREATE TEMPORARY TABLE IF NOT EXISTS ingest_rows (
  seq bigint GENERATED ALWAYS AS IDENTITY, key json NOT NULL, line json) ON COMMIT DELETE ROWS
"""
_COPY: Final = "COPY ingest_rows (key, line) FROM STDIN"
_ENDS: Final = bytes.maketrans(b"\n\r\t\x01\x02", b"   \n\t")
"""Of white space between values of JSON, and of what stands between lines and fields: JSON has no such bytes."""
_STAGE: Final = """
CREATE TEMPORARY TABLE IF NOT EXISTS {stage} (seq bigint, gone boolean, {columns}) ON COMMIT DELETE ROWS
"""
_BESIDE: Final = ("seq", "gone")
"""Columns of such a table that are not its table's."""
_LAST: Final = """
  SELECT DISTINCT ON ({ones}) {made} FROM {staged}{which} ORDER BY {ones}, l.seq DESC
"""
_INSERT: Final = """
INSERT INTO {table} ({names}){overriding} SELECT {values} FROM ({last}) AS last{order}
ON CONFLICT ({key}) DO {then}
"""
_HARD: Final = """
WITH last AS ({last}),
gone AS (DELETE FROM {table} AS t USING last WHERE {gone} AND {same})
INSERT INTO {table} ({names}){overriding} SELECT {values} FROM last{rows} WHERE NOT {gone}{order}
ON CONFLICT ({key}) DO {then}
"""
_SOFT: Final = """
WITH last AS ({last}), held AS ({held}),
gone AS (
  UPDATE {table} AS t SET {flag} = true FROM last
  WHERE {gone} AND {same} AND NOT EXISTS (SELECT FROM held WHERE {both}))
INSERT INTO {table} ({names}){overriding} SELECT {values} FROM held JOIN last ON {both}{rows}{order}
ON CONFLICT ({key}) DO {then}
"""
_EQUAL: Final = """
SELECT l.key, min(l.nth) OVER (PARTITION BY {keys}) FROM unnest($1::text[]) WITH ORDINALITY AS l (key, nth)
CROSS JOIN LATERAL json_to_record(l.key::json) AS k({record})
"""
"""Keys, each with the number of the first one that is equal to it."""
_SIZE: Final = re.compile(r"^character( varying)?\(\d+\)")
"""Types of texts of a size: what is too long for one is equal to no row."""
MIN_TYPED: Final = 2_000
"""Rows for which a staging table with their columns is made. To make one takes as long as to write hundreds."""
_CHUNK: Final = 2_000
"""Rows whose lines are made while the server reads those before them."""


class CopyColumnSpec(msgspec.Struct, frozen=True):
    """A column of rows that become lines of COPY, for native code."""

    name: bytes
    of_key: bool = False
    """True if the value is the one that the record's key has."""


def lines_maker(key: Sequence[str], others: Sequence[str]) -> CopyRows | None:
    """Return the native maker of lines, whose columns are those of the key and then the others; None without it."""
    if not compiled.USED:
        return None
    columns = [*((name, True) for name in key), *((name, False) for name in others)]
    try:
        return CopyRows(tuple(CopyColumnSpec(name.encode(), of_key) for name, of_key in columns))
    except UnicodeEncodeError:
        return None


class StagedRows:
    """Rows of one table, as a connection with a staging table writes them."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str], number: int) -> None:
        """`kinds`: the types of the table's columns; `number`: a number that no other table has."""
        self._statement = _json_statement(table, kinds)
        fits = len(table.columns) + len(_BESIDE) <= MAX_COLUMNS
        self._maker = lines_maker(table.key, table.non_key) if fits else None
        stage = sql.Identifier(f"ingest_rows_{number}")
        columns = [
            sql.SQL("{} {}").format(column, sql.SQL(read_as(kinds[name])))
            for letter, group in (("k", table.key), ("v", table.non_key))
            for name, column in zip(group, numbered(letter, group), strict=True)
        ]
        self._stage = sql.SQL(_STAGE).format(stage=stage, columns=listed(columns))
        self._truncate = sql.SQL("TRUNCATE {}").format(stage)
        self._copy = sql.SQL("COPY {} FROM STDIN").format(stage)
        self._typed = [_typed_statement(table, kinds, stage, deletes=deletes) for deletes in (False, True)]
        self._by_state = [
            rows_by_state(table, states) for states in (_json_states(table, kinds), _typed_states(table, kinds, stage))
        ]
        """The same, of rows as JSON and in columns, where all states of a key are written."""
        sizeless = {
            name: _SIZE.sub("varchar" if kinds[name].startswith("character varying") else "bpchar", kinds[name])
            for name in table.key
        }
        self._equal = sql.SQL(_EQUAL).format(
            keys=listed(value_of(sql.Identifier("k", name), kind) for name, kind in sizeless.items()),
            record=record_of(table.key, sizeless),
        )

    def equal_keys(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return, for each of different keys, the first one that the database takes for equal to it.

        Keys that it cannot read are left out: they are no row's. Raise psycopg.Error.
        """
        readable: list[bytes] = []
        equal: dict[bytes, bytes] = {}
        left = [keys]
        while left:
            some = left.pop()
            try:
                with connection.transaction():
                    equal = self._first_equal(connection, [*readable, *some])
                readable += some
            except (psycopg.DataError, psycopg.IntegrityError):  # the second one is a domain's
                if len(some) > 1:
                    left += [some[len(some) // 2 :], some[: len(some) // 2]]
        return equal

    def _first_equal(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        with psycopg.RawCursor(connection) as cursor:  # names may have a percent sign
            rows = cursor.execute(self._equal, [[key.decode() for key in keys]]).fetchall()
        return {key.encode(): keys[first - 1] for key, first in rows}

    def write(self, connection: Connection, rows: Mapping[bytes, State]) -> int:
        """Write the states of keys. `rows`: by key, in the order of their changes.

        Return how many changes were left out, as the table has a newer row of their key.

        Raise psycopg.Error.
        """
        if self._maker is not None and len(rows) >= MIN_TYPED:
            with suppress(_LeftError), connection.transaction():
                return self._write_typed(connection, self._maker, rows)
        _stage(connection, rows)
        if self._by_state[0] is not None:
            return self._by_state[0].write(connection)
        connection.execute(self._statement)
        return 0

    def _write_typed(self, connection: Connection, maker: CopyRows, rows: Mapping[bytes, State]) -> int:
        """Write the states by way of a staging table with their columns. Raise _LeftError, psycopg.Error."""
        connection.execute(self._stage)
        connection.execute(self._truncate)  # an attempt before may have left rows there
        states, first, deletes = states_of(rows), 0, False
        with connection.cursor() as cursor, cursor.copy(self._copy) as copy:
            while some := list(islice(states, _CHUNK)):
                lines = maker.lines(some, first)
                if lines is None:
                    raise _LeftError
                deletes = deletes or any(row is None for _, row in some)
                first += len(some)
                copy.write(lines)
        if self._by_state[1] is not None:
            return self._by_state[1].write(connection)
        connection.execute(self._typed[deletes])
        return 0


class _LeftError(Exception):
    """Error about a row that native code leaves."""


def make_staging(connection: Connection) -> None:
    """Create the connection's staging table unless it exists. Raise psycopg.Error."""
    connection.execute(_STAGING)


def _stage(connection: Connection, rows: Mapping[bytes, State]) -> None:
    """Copy the last states of a table's keys into the staging table."""
    connection.execute("TRUNCATE ingest_rows")
    lines = b"\x01".join(_lines(rows)).translate(_ENDS).replace(b"\\", b"\\\\").replace(b"\x03", b"\\N")
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.write(lines + b"\n")


def _lines(rows: Mapping[bytes, State]) -> Iterator[bytes]:
    for key, row in states_of(rows):
        yield key + b"\x02" + (b"\x03" if row is None else row)


def _json_states(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the states that were staged as JSON, with values of their types."""
    staged = _records("ingest_rows AS l", table, kinds, table.non_key)
    return _states(table, read(kinds, "k", table.key), read(kinds, "r", table.non_key), "l.line IS NULL", staged)


def _typed_states(table: SqlTable, kinds: Mapping[str, str], stage: sql.Identifier) -> sql.Composed:
    """Return the query of the states that were staged in columns."""
    keys, values = _staged(kinds, "l", "k", table.key), _staged(kinds, "l", "v", table.non_key)
    return _states(table, keys, values, "l.gone", sql.SQL("{} AS l").format(stage))


def _states(
    table: SqlTable, keys: Sequence[sql.Composable], values: Sequence[sql.Composable], gone: str, staged: sql.Composable
) -> sql.Composed:
    names = [*numbered("k", table.key), *numbered("v", table.non_key)]
    columns = renamed([*keys, *values], names)
    return sql.SQL("SELECT {}, {} AS gone, l.seq FROM {}").format(columns, sql.SQL(gone), staged)


def read_values(table: SqlTable, kinds: Mapping[str, str], others: Sequence[str]) -> sql.Composed:
    """Return the query of the texts that rows of JSON would have in a table: an array of keys, and one of rows."""
    rows = _records("unnest($1::text[], $2::text[]) WITH ORDINALITY AS l (key, line, nth)", table, kinds, others)
    values = [*read(kinds, "k", table.key), *read(kinds, "r", others)]
    shown = listed(sql.SQL("({})::text").format(value) for value in values)
    return sql.SQL("SELECT {} FROM {} ORDER BY l.nth").format(shown, rows)


def read_keys(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the values `k0`, `k1`, … that keys of JSON, an array of texts, have in a table."""
    values = renamed(read(kinds, "k", table.key), numbered("k", table.key))
    return sql.SQL("SELECT {} FROM {}").format(values, _records("unnest($1::text[]) AS l (key)", table, kinds, ()))


def _records(source: str, table: SqlTable, kinds: Mapping[str, str], others: Sequence[str]) -> sql.Composed:
    """Return a source of keys and lines of JSON as `l`, with the columns of the key as `k` and the others as `r`."""
    keys = sql.SQL(" CROSS JOIN LATERAL json_to_record(l.key::json) AS k({})").format(record_of(table.key, kinds))
    rows = sql.SQL(" LEFT JOIN LATERAL json_to_record(l.line::json) AS r({}) ON true")
    return sql.Composed([sql.SQL(source), keys, *([rows.format(record_of(others, kinds))] if others else [])])


def _json_statement(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the statement that writes the rows staged as JSON."""
    staged = sql.SQL("ingest_rows AS l, json_to_record(l.key) AS k({})").format(record_of(table.key, kinds))
    line = sql.SQL("held" if table.deleted is not None else "last")
    rows = sql.SQL(", json_to_record({}.line) AS r({})").format(line, record_of(table.non_key, kinds))
    keys, values = read(kinds, "k", table.key), read(kinds, "r", table.non_key)
    form = _Form(staged, keys, [sql.SQL("l.line")], "l.line IS NULL", "last.line IS NULL", values, rows)
    return _statement(table, form, _HARD)


def _typed_statement(
    table: SqlTable, kinds: Mapping[str, str], stage: sql.Identifier, *, deletes: bool
) -> sql.Composed:
    """Return the statement that writes the rows staged in typed columns. `deletes`: whether it also deletes rows."""
    rest = [*of_alias("l", numbered("v", table.non_key)), sql.SQL("l.gone")]
    values = _staged(kinds, "held" if table.deleted is not None else "last", "v", table.non_key)
    keys, staged = _staged(kinds, "l", "k", table.key), sql.SQL("{} AS l").format(stage)
    form = _Form(staged, keys, rest, "l.gone", "last.gone", values, sql.SQL(""))
    return _statement(table, form, _HARD if deletes else _INSERT)


class _Form(NamedTuple):
    """The way in which states are staged."""

    staged: sql.Composable
    keys: Sequence[sql.Composable]
    """Values of the key's columns, of what is staged as `l`."""
    others: Sequence[sql.Composable]
    """The rest of it."""
    gone: str
    """Whether a state is a delete."""
    last_gone: str
    """The same of a last state."""
    values: Sequence[sql.Composable]
    """Values of the other columns."""
    rows: sql.Composable
    """A table that has these values, in addition to the states."""


def _statement(table: SqlTable, form: _Form, hard: str) -> sql.Composed:
    """Return the statement that writes rows and deletes, those that a key had last, in the order of the keys.

    The columns of the key are taken from the key, in rows that are written, too: a delete finds them by it. Where the
    table has a column for it, rows that are gone stay, with `true` there; the last values that they had are written.
    """
    soft = table.deleted is not None
    keys = numbered("k", table.key)
    last_keys, written = of_alias("last", keys), [*named(table.non_key), *table.flag]
    values = [*last_keys, *form.values, *(sql.SQL(form.last_gone) for _ in table.flag)]
    staged_columns = sql.SQL(", ").join([renamed(form.keys, keys), *form.others])
    states = {"ones": listed(form.keys), "made": staged_columns, "staged": form.staged}
    held = sql.SQL(" WHERE NOT ({})").format(sql.SQL(form.gone))
    return sql.SQL(_SOFT if soft else hard).format(
        last=sql.SQL(_LAST).format(which=sql.SQL(""), **states),
        held=sql.SQL(_LAST).format(which=held, **states),
        table=table.place,
        flag=listed(table.flag),
        gone=sql.SQL("({})").format(sql.SQL(form.last_gone)),
        same=all_equal(of_alias("t", named(table.key)), last_keys),
        both=all_equal(of_alias("held", keys), last_keys),
        names=listed([*named(table.key), *written]),
        overriding=table.overriding,
        values=listed(values),
        rows=form.rows if table.non_key else sql.SQL(""),
        order=sql.SQL(" ORDER BY {}").format(listed(last_keys)),
        key=listed(named(table.key)),
        then=sql.SQL("UPDATE SET {}").format(excluded(written)) if written else sql.SQL("NOTHING"),
    )


def record_of(names: Iterable[str], kinds: Mapping[str, str]) -> sql.Composed:
    """Return columns of JSON with their types. Bytes are texts in it, with Base64."""
    return listed(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(read_as(kinds[name]))) for name in names)


def read_as(kind: str) -> str:
    """Return the type that a value of JSON is read as. Bytes are texts in it, and so is JSON in keys."""
    return "text" if kind in {"bytea", "json", "jsonb"} else kind


def read(kinds: Mapping[str, str], alias: str, names: Iterable[str]) -> list[sql.Composable]:
    """Return the values of columns, of the record of JSON that a statement calls `alias`."""
    return [value_of(sql.Identifier(alias, name), kinds[name]) for name in names]


def _staged(kinds: Mapping[str, str], alias: str, letter: str, names: Sequence[str]) -> list[sql.Composable]:
    """Return the values of columns that were staged under numbers."""
    columns = of_alias(alias, numbered(letter, names))
    return [value_of(column, kinds[name]) for name, column in zip(names, columns, strict=True)]


def value_of(column: sql.Composable, kind: str) -> sql.Composable:
    """Return the SQL expression of a column's value, converted from the type in which it was read."""
    if kind == "bytea":
        return sql.SQL("decode({}, 'base64')").format(column)
    return sql.SQL("{}::{}").format(column, sql.SQL(kind)) if kind in {"json", "jsonb"} else column
