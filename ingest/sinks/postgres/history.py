"""Statements that keep each state of a key as a row, with the time from which and to which it was the current one.

In: states of keys with values of the columns' types, in the order in which they came. Out: a row for each state; the
row before it ends where it begins. No row is removed. Rules: docs/spec/sinks.md#history-of-rows.

The newest row of a key that is there is the one that began last. It ends first, then the new rows are added. For both,
the server works out the same times from the same states, whether the newest row has its end by then or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.sequenced import all_equal, of_alias
from ingest.sinks.postgres.tables import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import SqlTable

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
_OLDER: Final = "{compared} SELECT count(*) FROM compared WHERE {older}"
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


class HistoryRows:
    """Statements for one table, of which `history` is set."""

    def __init__(self, table: SqlTable, states: sql.Composable) -> None:
        """Make the statements.

        `states`: a query with the columns of the key as `k0` and so on, the others as `v0` and so on, `seq` and `gone`.
        """
        assert table.history is not None, "the table has the columns"
        valid_from, valid_to = map(sql.Identifier, table.history.names)
        others = [one.name for one in table.columns if one.name not in table.key]
        keys = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
        values = [sql.Identifier(f"v{at}") for at in range(len(others))]
        unit = sql.Literal(table.history.unit)
        tick = sql.SQL("INTERVAL {}").format(sql.Literal(f"1 {table.history.unit}"))
        by: sql.Composable = sql.SQL("NULL::timestamptz")
        before = by
        base = sql.SQL("GREATEST(t.{}, t.{} - {})").format(valid_from, valid_to, tick)
        if table.sequence is not None:
            to_time = sql.SQL("{}::timestamptz")  # sessions are in UTC
            by = to_time.format(values[others.index(table.sequence)])
            before = to_time.format(sql.Identifier("t", table.sequence))
            base = sql.SQL("t.{}").format(valid_from)
        of_table = of_alias("t", map(sql.Identifier, table.key))
        taken = [*map(sql.Identifier, others), valid_to]
        parts: dict[str, Any] = {
            "table": table.place,
            "states": states,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "keys": listed(keys),
            "ones": listed(of_alias("one", keys)),
            "same": all_equal(zip(of_table, of_alias("one", keys), strict=True)),
            "both": all_equal(zip(of_alias("newest", keys), of_alias("one", keys), strict=True)),
            "by": by,
            "before": before,
            "base": base,
            "unit": unit,
            "tick": tick,
            "clock": sql.SQL("date_trunc({}, now())").format(unit),
            "older": sql.SQL(_IS_OLDER),
            "overriding": table.overriding,
            "names": listed(map(sql.Identifier, (*table.key, *others, *table.history.names))),
            "values": listed([*keys, *values]),
            "key": listed(map(sql.Identifier, table.row_key)),
            "taken": listed(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in taken),
        }
        parts["compared"] = sql.SQL(_COMPARED).format(**parts)
        parts["timed"] = sql.SQL(_TIMED).format(**parts)
        self._older = sql.SQL(_OLDER).format(**parts) if table.sequence is not None else None
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
