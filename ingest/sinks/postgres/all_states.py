"""Statements that write all states of a key since the last commit, not only the last one.

By a column that says which of two changes is the newer one (docs/spec/sinks.md#changes-that-come-out-of-order), or as a
history, in which each state is a row with the time from which and to which it was the current one
(docs/spec/sinks.md#history-of-rows). States come in their order, as a query with the columns of the key as `k0` and so
on, the others as `v0` and so on, `seq` and `gone`. It is the server that compares.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg import sql

from ingest.sinks.postgres.tables import SqlTable, all_equal, excluded, listed, named, numbered, of_alias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection

_OLDER_CHANGES: Final = """
SELECT count(*) FROM (
  SELECT {keys}, {by}, max({by}) OVER (
    PARTITION BY {keys} ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS most
  FROM ({states}) AS given WHERE NOT gone
) AS one LEFT JOIN {table} AS t ON {same}
WHERE one.{by} < GREATEST(one.most, t.{column})
  OR (one.{by} IS NULL AND GREATEST(one.most, t.{column}) IS NOT NULL)
"""
_MARK: Final = """
UPDATE {table} AS t SET {flag} = true FROM (SELECT DISTINCT {keys} FROM ({states}) AS given WHERE gone) AS one
WHERE {same}
"""
_INSERT_NEWEST: Final = """
INSERT INTO {table} AS t ({names}){overriding} SELECT {values} FROM (
  SELECT given.*, row_number() OVER (PARTITION BY {keys} ORDER BY {by} DESC NULLS LAST, seq DESC) AS nth
  FROM ({states}) AS given WHERE NOT gone
) AS one{deletes} WHERE one.nth = 1 ORDER BY {ordered}
ON CONFLICT ({key}) DO UPDATE SET {taken} WHERE t.{column} IS NULL OR EXCLUDED.{column} >= t.{column}
"""
_DELETES: Final = """
LEFT JOIN (SELECT {keys}, max(seq) AS at FROM ({states}) AS given WHERE gone GROUP BY {keys}) AS gone ON {both}"""
_COMPARED: Final = """
WITH given AS ({states}),
newest AS (
  SELECT {ones}, t.{valid_from} AS began, t.{valid_to} AS ended, {before} AS said, {base} AS base
  FROM (
    SELECT {keys}, (SELECT max(t.{valid_from}) FROM {table} AS t WHERE {same}) AS last
    FROM (SELECT DISTINCT {keys} FROM given) AS one
  ) AS one JOIN {table} AS t ON {same} AND t.{valid_from} = one.last
),
dated AS (SELECT given.*, CASE WHEN NOT gone THEN {by} END AS at FROM given),
compared AS (
  SELECT one.*, newest.began, newest.ended, newest.said, newest.base, GREATEST(newest.said, max(one.at) OVER (
    PARTITION BY {ones} ORDER BY one.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS most
  FROM dated AS one LEFT JOIN newest ON {both}
)
"""
"""States beside the newest row: `said` is the time that the row itself has, which may be another than its beginning."""
_IS_OLDER: Final = "NOT gone AND (at < most OR (at IS NULL AND most IS NOT NULL))"
_OLDER_STATES: Final = "{compared} SELECT count(*) FROM compared WHERE {older}"
_TIMED: Final = """
{compared},
counted AS (
  SELECT *, lead(gone) OVER (PARTITION BY {keys} ORDER BY seq) AS then_gone,
    lag(seq) OVER (PARTITION BY {keys} ORDER BY seq) IS NULL AS first,
    lead(at) OVER (PARTITION BY {keys}, gone ORDER BY seq) AS next_at
  FROM compared WHERE ({older}) IS NOT TRUE
),
numbered AS (
  SELECT *, sum(CASE WHEN gone OR at = said THEN 0 ELSE 1 END) OVER (PARTITION BY {keys} ORDER BY seq) AS nth
  FROM counted WHERE gone OR (at = next_at) IS NOT TRUE
),
timed AS (
  SELECT *, CASE WHEN nth = 0 THEN began ELSE nth * {tick} + GREATEST(base, max(
    CASE WHEN NOT gone THEN date_trunc({unit}, COALESCE(at, now())) - nth * {tick} END
  ) OVER (PARTITION BY {keys} ORDER BY seq)) END AS begins
  FROM numbered
)
"""
"""States that count, with the time at which each begins: its own or the clock's, and later than the one before it.

Of states with one time only the last one is left; with the newest row's time they are that row, which is number 0."""
_END: Final = """
UPDATE {table} AS t SET {valid_to} = one.ends FROM (
  {timed}
  SELECT {keys}, began, LEAST(ended, min(CASE WHEN NOT gone THEN begins END),
    max(CASE WHEN gone AND first AND ended IS NULL THEN GREATEST({clock}, began + {tick}) END)) AS ends
  FROM timed WHERE began IS NOT NULL GROUP BY {keys}, began, ended
  HAVING COALESCE(min(CASE WHEN NOT gone THEN nth END), 1) > 0
) AS one WHERE {same} AND t.{valid_from} = one.began AND (t.{valid_to} IS NULL OR t.{valid_to} > one.ends)
"""
_ADD: Final = """
INSERT INTO {table} ({names}){overriding}
SELECT {values}, begins, LEAST(next_begins, CASE WHEN then_gone THEN GREATEST({clock}, begins + {tick}) END) FROM (
  {timed}
  SELECT *, lead(begins) OVER (PARTITION BY {keys} ORDER BY seq) AS next_begins FROM timed WHERE NOT gone
) AS one ORDER BY {keys}, begins
ON CONFLICT ({key}) DO UPDATE SET {taken}
"""


class WrittenAndDeleted(bytes):
    """The JSON of a row that was written and deleted since the last commit, where deleted rows stay."""

    __slots__ = ()


class KeyStates(list[tuple[int, bytes | None]]):
    """All states of a key since the last commit, with their numbers in the order of all; None for a delete."""

    __slots__ = ()


State: TypeAlias = bytes | KeyStates | None
"""The JSON of the last row of a key; None: it is gone; or all of its states."""


def states_of(rows: Mapping[bytes, State]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield keys with their rows; None for a delete.

    Where all states count, they have the order in which they came: two keys may be one to the database.
    """
    if isinstance(next(iter(rows.values()), None), KeyStates):  # of all keys, or of none
        states = [(*state, key) for key, row in rows.items() if isinstance(row, KeyStates) for state in row]
        states.sort(key=itemgetter(0))
        yield from ((key, state) for _, state, key in states)
        return
    for key, row in rows.items():
        if row is None or type(row) is bytes:
            yield key, row
        elif isinstance(row, WrittenAndDeleted):
            yield key, bytes(row)
            yield key, None


def rows_by_state(table: SqlTable, states: sql.Composable) -> HistoryRows | SequencedRows | None:
    """Return the statements for a table that stores all states of a key; None for one that stores last states only."""
    if table.history is not None:
        return HistoryRows(table, states)
    return None if table.sequence is None else SequencedRows(table, states)


class SequencedRows:
    """Statements for one table, of which `sequence` is set: older changes are left out."""

    def __init__(self, table: SqlTable, states: sql.Composable) -> None:
        assert table.sequence is not None, "the table has the column"
        keys, values = numbered("k", table.key), numbered("v", table.non_key)
        written = [*named(table.non_key), *table.flag]
        parts: dict[str, Any] = {
            "table": table.place,
            "states": states,
            "keys": listed(keys),
            "key": listed(named(table.key)),
            "by": values[table.non_key.index(table.sequence)],
            "column": sql.Identifier(table.sequence),
            "flag": listed(table.flag),
            "same": all_equal(of_alias("t", named(table.key)), of_alias("one", keys)),
            "both": all_equal(of_alias("gone", keys), of_alias("one", keys)),
            "ordered": listed(of_alias("one", keys)),
            "names": listed([*named(table.key), *written]),
            "overriding": table.overriding,
            "taken": excluded(written),
        }
        flag = [sql.SQL("COALESCE(gone.at > one.seq, false)") for _ in table.flag]
        parts["values"] = listed([*of_alias("one", [*keys, *values]), *flag])
        parts["deletes"] = sql.SQL(_DELETES if flag else "").format(**parts)
        self._older = sql.SQL(_OLDER_CHANGES).format(**parts)
        self._mark = sql.SQL(_MARK).format(**parts) if flag else None
        self._insert = sql.SQL(_INSERT_NEWEST).format(**parts)

    def write(self, connection: Connection, given: Sequence[object] = ()) -> int:
        """Write the states; return how many changes are left out. Raise psycopg.Error.

        `given`: parameters of the states' query, by number.
        """
        with psycopg.RawCursor(connection) as cursor:
            older = cursor.execute(self._older, given).fetchone()
            if self._mark is not None:
                cursor.execute(self._mark, given)
            cursor.execute(self._insert, given)
        assert older is not None, "a count has a row"
        return int(older[0])


class HistoryRows:
    """Statements for one table, of which `history` is set: a row for each state, which ends where the next one begins.

    No row is removed. The newest row of a key in the table is the one that began last. It ends first, then the new rows
    are added. For both, the server works out the same times from the same states, whether the newest row has its end by
    then or not.
    """

    def __init__(self, table: SqlTable, states: sql.Composable) -> None:
        assert table.history is not None, "the table has the columns"
        valid_from, valid_to = named(table.history.names)
        keys, values = numbered("k", table.key), numbered("v", table.non_key)
        tick = sql.SQL("INTERVAL {}").format(sql.Literal(f"1 {table.history.unit}"))
        unit = sql.Literal(table.history.unit)
        by: sql.Composable = sql.SQL("NULL::timestamptz")
        before = by
        base = sql.SQL("GREATEST(t.{}, t.{} - {})").format(valid_from, valid_to, tick)
        if table.sequence is not None:
            to_time = sql.SQL("{}::timestamptz")  # sessions are in UTC
            by = to_time.format(values[table.non_key.index(table.sequence)])
            before = to_time.format(sql.Identifier("t", table.sequence))
            base = sql.SQL("t.{}").format(valid_from)
        parts: dict[str, Any] = {
            "table": table.place,
            "states": states,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "keys": listed(keys),
            "ones": listed(of_alias("one", keys)),
            "same": all_equal(of_alias("t", named(table.key)), of_alias("one", keys)),
            "both": all_equal(of_alias("newest", keys), of_alias("one", keys)),
            "by": by,
            "before": before,
            "base": base,
            "unit": unit,
            "tick": tick,
            "clock": sql.SQL("date_trunc({}, now())").format(unit),
            "older": sql.SQL(_IS_OLDER),
            "overriding": table.overriding,
            "names": listed(named((*table.key, *table.non_key, *table.history.names))),
            "values": listed([*keys, *values]),
            "key": listed(named(table.row_key)),
            "taken": excluded(named((*table.non_key, table.history.valid_to))),
        }
        parts["compared"] = sql.SQL(_COMPARED).format(**parts)
        parts["timed"] = sql.SQL(_TIMED).format(**parts)
        self._older = sql.SQL(_OLDER_STATES).format(**parts) if table.sequence is not None else None
        self._end = sql.SQL(_END).format(**parts)
        self._add = sql.SQL(_ADD).format(**parts)

    def write(self, connection: Connection, given: Sequence[object] = ()) -> int:
        """Write the states; return how many changes are left out. Raise psycopg.Error.

        `given`: parameters of the states' query, by number.
        """
        older = None
        with psycopg.RawCursor(connection) as cursor:
            if self._older is not None:
                older = cursor.execute(self._older, given).fetchone()
            cursor.execute(self._end, given)
            cursor.execute(self._add, given)
        return 0 if older is None else int(older[0])
