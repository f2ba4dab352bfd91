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
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import sql

from ingest.sinks.postgres.copied import lines_maker
from ingest.sinks.postgres.history import HistoryRows
from ingest.sinks.postgres.sequenced import KeyStates, SequencedRows
from ingest.sinks.postgres.tables import MAX_COLUMNS, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.native.copy_rows import CopyRows
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


class WrittenAndDeleted(bytes):
    """The JSON of a row that was written and deleted since the last commit, where deleted rows stay."""

    __slots__ = ()


State: TypeAlias = bytes | KeyStates | None
"""The JSON of the last row of a key; None: it is gone; or all of its states."""


class StagedRows:
    """Rows of one table, as a connection with a staging table writes them."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str], number: int) -> None:
        """Make the statements. `kinds`: the types of the columns that are there; `number`: no other table's."""
        names = [one.name for one in table.columns if one.name not in table.key]
        self._statement = _json_statement(table, kinds)
        fits = len(table.columns) + len(_BESIDE) <= MAX_COLUMNS
        self._maker = lines_maker(table.key, names) if fits else None
        stage = sql.Identifier(f"ingest_rows_{number}")
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(f"{kind}{at}"), sql.SQL(read_as(kinds[name])))
            for kind, group in (("k", table.key), ("v", names))
            for at, name in enumerate(group)
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
            record=_record(table.key, sizeless),
        )

    def equal_keys(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return, for each of different keys, the first one that the database takes for equal to it.

        Keys that it cannot read are left out: they are no row's. Raise psycopg.Error.
        """
        readable: list[bytes] = []
        found: dict[bytes, bytes] = {}
        left = [keys]
        while left:
            some = left.pop()
            try:
                with connection.transaction():
                    found = self._first_equal(connection, [*readable, *some])
                readable += some
            except (psycopg.DataError, psycopg.IntegrityError):  # the second one is a domain's
                if len(some) > 1:
                    left += [some[len(some) // 2 :], some[: len(some) // 2]]
        return found

    def _first_equal(self, connection: Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        with psycopg.RawCursor(connection) as cursor:  # names may have a percent sign
            rows = cursor.execute(self._equal, [[key.decode() for key in keys]]).fetchall()
        return {key.encode(): keys[first - 1] for key, first in rows}

    def write(self, connection: Connection, rows: Mapping[bytes, State]) -> int:
        """Write the last states of keys, which come in the order of their changes; return how many are left out.

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


def rows_by_state(table: SqlTable, states: sql.Composable) -> HistoryRows | SequencedRows | None:
    """Return the statements that write all states of a key; None for a table that takes the last ones."""
    if table.history is not None:
        return HistoryRows(table, states)
    return None if table.sequence is None else SequencedRows(table, states)


def make_staging(connection: Connection) -> None:
    """Make the staging table of a connection, if it is not there. Raise psycopg.Error."""
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


def states_of(rows: Mapping[bytes, State]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys with their rows; None for a delete.

    Where all states count, they have the order in which they came: two keys may be one to the database.
    """
    if isinstance(next(iter(rows.values()), None), KeyStates):  # of all keys, or of none
        numbered = [(*one, key) for key, row in rows.items() if isinstance(row, KeyStates) for one in row]
        numbered.sort(key=itemgetter(0))
        yield from ((key, one) for _, one, key in numbered)
        return
    for key, row in rows.items():
        if row is None or type(row) is bytes:
            yield key, row
        elif isinstance(row, WrittenAndDeleted):
            yield key, bytes(row)
            yield key, None


def _json_states(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the states that were staged as JSON, with values of their types."""
    others = [one.name for one in table.columns if one.name not in table.key]
    keys = [value_of(sql.Identifier("k", name), kinds[name]) for name in table.key]
    values = [value_of(sql.Identifier("r", name), kinds[name]) for name in others]
    staged = sql.SQL("ingest_rows AS l CROSS JOIN LATERAL json_to_record(l.key) AS k({})").format(
        _record(table.key, kinds)
    )
    if others:
        rows = sql.SQL(" LEFT JOIN LATERAL json_to_record(l.line) AS r({}) ON true").format(_record(others, kinds))
        staged = sql.Composed([staged, rows])
    return _states(keys, values, sql.SQL("l.line IS NULL"), staged)


def read_values(table: SqlTable, kinds: Mapping[str, str], others: Sequence[str]) -> sql.Composed:
    """Return the query of the texts that rows of JSON would have in a table: an array of keys, and one of rows."""
    keys = [value_of(sql.Identifier("k", name), kinds[name]) for name in table.key]
    values = [value_of(sql.Identifier("r", name), kinds[name]) for name in others]
    given = sql.SQL(
        "unnest($1::text[], $2::text[]) WITH ORDINALITY AS l (key, line, nth)"
        " CROSS JOIN LATERAL json_to_record(l.key::json) AS k({})"
    ).format(_record(table.key, kinds))
    if others:
        rows = sql.SQL(" LEFT JOIN LATERAL json_to_record(l.line::json) AS r({}) ON true")
        given = sql.Composed([given, rows.format(_record(others, kinds))])
    shown = listed(sql.SQL("({})::text").format(value) for value in (*keys, *values))
    return sql.SQL("SELECT {} FROM {} ORDER BY l.nth").format(shown, given)


def read_keys(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the values `k0`, `k1`, … that keys of JSON, an array of texts, have in a table."""
    values = listed(
        sql.SQL("{} AS {}").format(value_of(sql.Identifier("k", name), kinds[name]), sql.Identifier(f"k{at}"))
        for at, name in enumerate(table.key)
    )
    return sql.SQL(
        "SELECT {} FROM unnest($1::text[]) AS l (key) CROSS JOIN LATERAL json_to_record(l.key::json) AS k({})"
    ).format(values, _record(table.key, kinds))


def _typed_states(table: SqlTable, kinds: Mapping[str, str], stage: sql.Identifier) -> sql.Composed:
    """Return the query of the states that were staged in columns."""
    others = [one.name for one in table.columns if one.name not in table.key]
    keys = [value_of(sql.Identifier("l", f"k{at}"), kinds[name]) for at, name in enumerate(table.key)]
    values = [value_of(sql.Identifier("l", f"v{at}"), kinds[name]) for at, name in enumerate(others)]
    return _states(keys, values, sql.SQL("l.gone"), sql.SQL("{} AS l").format(stage))


def _states(
    keys: Sequence[sql.Composable], values: Sequence[sql.Composable], gone: sql.Composable, staged: sql.Composable
) -> sql.Composed:
    named = [
        sql.SQL("{} AS {}").format(value, sql.Identifier(f"{kind}{at}"))
        for kind, group in (("k", keys), ("v", values))
        for at, value in enumerate(group)
    ]
    return sql.SQL("SELECT {}, {} AS gone, l.seq FROM {}").format(listed(named), gone, staged)


def _json_statement(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the statement that writes what was staged as JSON."""
    others = [one.name for one in table.columns if one.name not in table.key]
    staged = sql.SQL("ingest_rows AS l, json_to_record(l.key) AS k({})").format(_record(table.key, kinds))
    keys = [value_of(sql.Identifier("k", name), kinds[name]) for name in table.key]
    line = sql.SQL("held" if table.deleted is not None else "last")
    rows = sql.SQL(", json_to_record({}.line) AS r({})").format(line, _record(others, kinds))
    values = [value_of(sql.Identifier("r", name), kinds[name]) for name in others]
    form = _Form(staged, keys, [sql.SQL("l.line")], "l.line IS NULL", "last.line IS NULL", values, rows)
    return _statement(table, form, _HARD)


def _typed_statement(
    table: SqlTable, kinds: Mapping[str, str], stage: sql.Identifier, *, deletes: bool
) -> sql.Composed:
    """Return the statement that writes what was staged in columns. `deletes`: whether there may be some."""
    others = [one.name for one in table.columns if one.name not in table.key]
    keys = [value_of(sql.Identifier("l", f"k{at}"), kinds[name]) for at, name in enumerate(table.key)]
    columns = [sql.Identifier("l", f"v{at}") for at in range(len(others))]
    line = "held" if table.deleted is not None else "last"
    values = [value_of(sql.Identifier(line, f"v{at}"), kinds[name]) for at, name in enumerate(others)]
    staged = sql.SQL("{} AS l").format(stage)
    form = _Form(staged, keys, [*columns, sql.SQL("l.gone")], "l.gone", "last.gone", values, sql.SQL(""))
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
    others = [one.name for one in table.columns if one.name not in table.key]
    keys = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
    flag = [sql.Identifier(table.deleted)] if table.deleted is not None else []
    written = [*map(sql.Identifier, others), *flag]
    taken = listed(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in written)
    values = [*(sql.SQL("last.{}").format(key) for key in keys), *form.values]
    made = [sql.SQL("{} AS {}").format(value, key) for value, key in zip(form.keys, keys, strict=True)]
    states = {"ones": listed(form.keys), "made": listed([*made, *form.others]), "staged": form.staged}
    held = sql.SQL(" WHERE NOT ({})").format(sql.SQL(form.gone))
    return sql.SQL(_SOFT if soft else hard).format(
        last=sql.SQL(_LAST).format(which=sql.SQL(""), **states),
        held=sql.SQL(_LAST).format(which=held, **states),
        table=table.place,
        flag=listed(flag),
        gone=sql.SQL("({})").format(sql.SQL(form.last_gone)),
        same=sql.SQL(" AND ").join(
            sql.SQL("t.{} = last.{}").format(sql.Identifier(name), key)
            for name, key in zip(table.key, keys, strict=True)
        ),
        both=sql.SQL(" AND ").join(sql.SQL("held.{0} = last.{0}").format(key) for key in keys),
        names=listed([*map(sql.Identifier, table.key), *written]),
        overriding=table.overriding,
        values=listed([*values, sql.SQL(form.last_gone)] if soft else values),
        rows=form.rows if others else sql.SQL(""),
        order=sql.SQL(" ORDER BY {}").format(listed(sql.SQL("last.{}").format(key) for key in keys)),
        key=listed(map(sql.Identifier, table.key)),
        then=sql.SQL("UPDATE SET {}").format(taken) if written else sql.SQL("NOTHING"),
    )


def _record(names: Iterable[str], kinds: Mapping[str, str]) -> sql.Composed:
    """Return columns of JSON with their types. Bytes are texts in it, with Base64."""
    return listed(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(read_as(kinds[name]))) for name in names)


def read_as(kind: str) -> str:
    """Return the type that a value of JSON is read as. Bytes are texts in it, and so is JSON in keys."""
    return "text" if kind in {"bytea", "json", "jsonb"} else kind


def value_of(made: sql.Composable, kind: str) -> sql.Composable:
    """Return the value of a column, from what it was read as."""
    if kind == "bytea":
        return sql.SQL("decode({}, 'base64')").format(made)
    return sql.SQL("{}::{}").format(made, sql.SQL(kind)) if kind in {"json", "jsonb"} else made
