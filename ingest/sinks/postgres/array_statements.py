"""Statements that write rows from arrays, for servers without temporary tables: one for rows, one for deletes.

In: states of keys, as JSON. Out: rows in the table; of the states of a key only the last one counts, however its key is
spelled. A value in a text column is the text by which the server shows a value of the rows' type. Rules:
docs/spec/postgres.md#hologres.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.all_states import State, rows_by_state, states_of
from ingest.sinks.postgres.tables import SqlTable, all_equal, excluded, listed, named, numbered, of_alias, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection

MAX_ROWS: Final = 5_000
"""States of keys in one statement."""
_LAST: Final = """
  SELECT {keys}, line FROM (
    SELECT {keys}, line, row_number() OVER (PARTITION BY {keys} ORDER BY seq DESC) AS nth FROM (
      SELECT seq, {made}, line FROM (
        SELECT unnest($1::bigint[]) AS seq, unnest($2::text[])::json AS key, unnest($3::text[])::json AS line
      ) AS given{which}
    ) AS typed
  ) AS numbered WHERE nth = 1
"""
_GIVEN: Final = """
  SELECT {made}, line IS NULL AS gone, seq FROM (
    SELECT unnest($1::bigint[]) AS seq, unnest($2::text[])::json AS key, unnest($3::text[])::json AS line
  ) AS given
"""
_INSERT: Final = """
INSERT INTO {table} ({names}){overriding}
SELECT {values} FROM ({last}) AS last WHERE last.line IS NOT NULL ORDER BY {keys}
ON CONFLICT ({key}) DO {then}
"""
_DELETE: Final = """
DELETE FROM {table} AS t WHERE EXISTS (SELECT 1 FROM ({last}) AS last WHERE last.line IS NULL AND {same})
"""
_MARK: Final = """
UPDATE {table} AS t SET {flag} = true FROM ({last}) AS last WHERE last.line IS NULL AND {same}
"""
_SIZE: Final = re.compile(r"^([a-z ]+)\(\d+\)")
"""The size of texts: a cast to it would cut what does not fit, which is to be refused."""
_TEXTS: Final = ("text", "character")


class ArrayRows:
    """Rows of one table, as a connection writes them."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str]) -> None:
        """`kinds`: the types of the table's columns."""
        soft = table.deleted is not None
        values = _row_values(table, kinds, table.non_key, "last.line")
        keys, written = numbered("k", table.key), [*named(table.non_key), *table.flag]
        key_columns = renamed(_key_values(table, kinds), keys)
        parts: dict[str, Any] = {
            "table": table.place,
            "keys": listed(keys),
            "key": listed(named(table.key)),
            "flag": listed(table.flag),
            "same": all_equal(of_alias("t", named(table.key)), of_alias("last", keys)),
            "names": listed([*named(table.key), *written]),
            "overriding": table.overriding,
            "values": listed([*keys, *values, *(sql.SQL("false") for _ in table.flag)]),
            "then": sql.SQL("UPDATE SET {}").format(excluded(written)) if written else sql.SQL("NOTHING"),
        }
        last, shown = (
            sql.SQL(_LAST).format(made=key_columns, keys=listed(keys), which=sql.SQL(which))
            for which in ("", " WHERE line IS NOT NULL" if soft else "")
        )
        self._insert = sql.SQL(_INSERT).format(last=shown, **parts)
        self._remove = sql.SQL(_MARK if soft else _DELETE).format(last=last, **parts)
        columns = [*_key_values(table, kinds), *_row_values(table, kinds, table.non_key, "line")]
        states = sql.SQL(_GIVEN).format(made=renamed(columns, [*keys, *numbered("v", table.non_key)]))
        self._by_state = rows_by_state(table, states)

    def write(self, connection: Connection, rows: Mapping[bytes, State]) -> int:
        """Write the states of keys. `rows`: by key, in the order of their changes.

        Return how many changes were left out, as the table has a newer row of their key.

        Raise psycopg.Error.
        """
        older = 0
        states = ((key.decode(), None if row is None else row.decode()) for key, row in states_of(rows))
        with psycopg.RawCursor(connection) as cursor:  # of values by number: names may have a percent sign
            while some := list(islice(states, MAX_ROWS)):
                parameters = [list(range(len(some))), [key for key, _ in some], [line for _, line in some]]
                if self._by_state is not None:
                    older += self._by_state.write(connection, parameters)
                    continue
                if any(line is not None for _, line in some):
                    cursor.execute(self._insert, parameters)
                if any(line is None for _, line in some):
                    cursor.execute(self._remove, parameters)
        return older


def given_values(table: SqlTable, kinds: Mapping[str, str], others: Sequence[str]) -> sql.Composed:
    """Return the query of the texts that rows of JSON would have in a table: an array of keys, and one of rows."""
    values = [*_key_values(table, kinds), *_row_values(table, kinds, others, "line")]
    shown = listed(sql.SQL("({})::text").format(value) for value in values)
    return sql.SQL(
        "SELECT {} FROM (SELECT unnest($1::text[])::json AS key, unnest($2::text[])::json AS line) AS given"
    ).format(shown)


def given_keys(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the values `k0`, `k1`, … that keys of JSON, an array of texts, have in a table."""
    values = renamed(_key_values(table, kinds), numbered("k", table.key))
    return sql.SQL("SELECT {} FROM (SELECT unnest($1::text[])::json AS key) AS given").format(values)


def _key_values(table: SqlTable, kinds: Mapping[str, str]) -> list[sql.Composed]:
    """Return the values of the columns of the key, which in a text column are the texts that keys have."""
    return [_value(name, kinds[name], "text", "key") for name in table.key]


def _row_values(table: SqlTable, kinds: Mapping[str, str], names: Sequence[str], line: str) -> list[sql.Composed]:
    """Return the values of other columns, of the JSON of a row that a statement calls `line`."""
    values = {column.name: column.values for column in table.columns}
    return [_value(name, kinds[name], values[name], line) for name in names]


def _value(name: str, kind: str, values: str, line: str) -> sql.Composed:
    """Return the value of a column of type `kind`, for rows with values of another type in JSON."""
    text = sql.SQL("({} ->> {})").format(sql.SQL(line), sql.Literal(name))
    if kind.startswith(_TEXTS):
        if values.startswith((*_TEXTS, "json")):
            return sql.SQL("{}::{}").format(text, sql.SQL(_SIZE.sub(r"\1", kind.replace("character(", "bpchar("))))
        return sql.SQL("({})::text").format(_value(name, values, values, line))
    if kind == "bytea":
        return sql.SQL("decode({}, 'base64')").format(text)
    return sql.SQL("{}::{}").format(text, sql.SQL(kind))
