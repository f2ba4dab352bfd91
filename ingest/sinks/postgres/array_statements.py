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

from ingest.sinks.postgres.statements import rows_by_state, states_of
from ingest.sinks.postgres.tables import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.statements import State
    from ingest.sinks.postgres.tables import SqlTable

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
        """Make the statements. `kinds`: the types of the columns that are there."""
        values = {one.name: one.values for one in table.columns}
        others = [name for name in values if name not in table.key]
        keys = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
        flag = [sql.Identifier(table.deleted)] if table.deleted is not None else []
        made = [
            sql.SQL("{} AS {}").format(_key_value(name, kinds[name]), key)
            for name, key in zip(table.key, keys, strict=True)
        ]
        written = [*map(sql.Identifier, others), *flag]
        parts: dict[str, Any] = {
            "table": table.place,
            "keys": listed(keys),
            "key": listed(map(sql.Identifier, table.key)),
            "flag": listed(flag),
            "same": sql.SQL(" AND ").join(
                sql.SQL("t.{} = last.{}").format(sql.Identifier(name), key)
                for name, key in zip(table.key, keys, strict=True)
            ),
            "names": listed([*map(sql.Identifier, table.key), *written]),
            "overriding": table.overriding,
            "values": listed(
                [
                    *keys,
                    *(_value(name, kinds[name], values[name]) for name in others),
                    *(sql.SQL("false") for _ in flag),
                ]
            ),
            "then": sql.SQL("UPDATE SET {}").format(
                listed(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in written)
            )
            if written
            else sql.SQL("NOTHING"),
        }
        soft = table.deleted is not None
        held = sql.SQL(" WHERE line IS NOT NULL" if soft else "")
        last, shown = (
            sql.SQL(_LAST).format(made=listed(made), keys=listed(keys), which=w) for w in (sql.SQL(""), held)
        )
        self._insert = sql.SQL(_INSERT).format(last=shown, **parts)
        self._remove = sql.SQL(_MARK if soft else _DELETE).format(last=last, **parts)
        given = [
            sql.SQL("{} AS {}").format(_value(name, kinds[name], values[name], "line"), sql.Identifier(f"v{at}"))
            for at, name in enumerate(others)
        ]
        query = sql.SQL(_GIVEN).format(made=listed([*made, *given]))
        self._by_state = rows_by_state(table, query)

    def write(self, connection: Connection, rows: Mapping[bytes, State]) -> int:
        """Write the last states of keys, which come in the order of their changes; return how many are left out.

        Raise psycopg.Error.
        """
        older = 0
        states = ((key.decode(), None if row is None else row.decode()) for key, row in states_of(rows))
        with psycopg.RawCursor(connection) as cursor:  # of values by number: names may have a percent sign
            while some := list(islice(states, MAX_ROWS)):
                given = [list(range(len(some))), [key for key, _ in some], [line for _, line in some]]
                if self._by_state is not None:
                    older += self._by_state.write(connection, given)
                    continue
                if any(line is not None for _, line in some):
                    cursor.execute(self._insert, given)
                if any(line is None for _, line in some):
                    cursor.execute(self._remove, given)
        return older


def given_values(table: SqlTable, kinds: Mapping[str, str], others: Sequence[str]) -> sql.Composed:
    """Return the query of the texts that rows of JSON would have in a table: an array of keys, and one of rows."""
    values = {one.name: one.values for one in table.columns}
    keys = [_key_value(name, kinds[name]) for name in table.key]
    made = [*keys, *(_value(name, kinds[name], values[name], "line") for name in others)]
    shown = listed(sql.SQL("({})::text").format(value) for value in made)
    return sql.SQL(
        "SELECT {} FROM (SELECT unnest($1::text[])::json AS key, unnest($2::text[])::json AS line) AS given"
    ).format(shown)


def given_keys(table: SqlTable, kinds: Mapping[str, str]) -> sql.Composed:
    """Return the query of the values `k0`, `k1`, … that keys of JSON, an array of texts, have in a table."""
    values = listed(
        sql.SQL("{} AS {}").format(_key_value(name, kinds[name]), sql.Identifier(f"k{at}"))
        for at, name in enumerate(table.key)
    )
    return sql.SQL("SELECT {} FROM (SELECT unnest($1::text[])::json AS key) AS given").format(values)


def _key_value(name: str, kind: str) -> sql.Composed:
    """Return the value of a column of the key, which in a text column is the text that keys have."""
    return _value(name, kind, "text", "key")


def _value(name: str, kind: str, values: str, line: str = "last.line") -> sql.Composed:
    """Return the value of a column of type `kind`, for rows with values of another type in JSON."""
    text = sql.SQL("({} ->> {})").format(sql.SQL(line), sql.Literal(name))
    if kind.startswith(_TEXTS):
        if values.startswith((*_TEXTS, "json")):
            return sql.SQL("{}::{}").format(text, sql.SQL(_SIZE.sub(r"\1", kind.replace("character(", "bpchar("))))
        return sql.SQL("({})::text").format(_value(name, values, values, line))
    if kind == "bytea":
        return sql.SQL("decode({}, 'base64')").format(text)
    return sql.SQL("{}::{}").format(text, sql.SQL(kind))
