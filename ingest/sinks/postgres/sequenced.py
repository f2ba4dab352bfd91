"""Statements that write changes by a column that says which of them is the newer one: older ones are left out.

In: states of keys with values of the columns' types, in the order in which they came. Out: rows in the table, and the
number of changes that are older than one before them, or than the row that is there. It is the server that compares.
Rules: docs/spec/sinks.md#changes-that-come-out-of-order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.tables import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import SqlTable

_OLDER: Final = """
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
_INSERT: Final = """
INSERT INTO {table} AS t ({names}){overriding} SELECT {values} FROM (
  SELECT given.*, row_number() OVER (PARTITION BY {keys} ORDER BY {by} DESC NULLS LAST, seq DESC) AS nth
  FROM ({states}) AS given WHERE NOT gone
) AS one{deletes} WHERE one.nth = 1 ORDER BY {ordered}
ON CONFLICT ({key}) DO UPDATE SET {taken} WHERE t.{column} IS NULL OR EXCLUDED.{column} >= t.{column}
"""
_DELETES: Final = """
LEFT JOIN (SELECT {keys}, max(seq) AS at FROM ({states}) AS given WHERE gone GROUP BY {keys}) AS gone ON {both}"""


class KeyStates(list[tuple[int, bytes | None]]):
    """All states of a key since the last commit, with their numbers in the order of all; None for a delete."""

    __slots__ = ()


class SequencedRows:
    """Statements for one table, of which `sequence` is set."""

    def __init__(self, table: SqlTable, states: sql.Composable) -> None:
        """Make the statements.

        `states`: a query with the columns of the key as `k0` and so on, the others as `v0` and so on, `seq` and `gone`.
        """
        assert table.sequence is not None, "the table has the column"
        others = [one.name for one in table.columns if one.name not in table.key]
        keys = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
        flag = [] if table.deleted is None else [sql.Identifier(table.deleted)]
        written = [*map(sql.Identifier, others), *flag]
        parts: dict[str, Any] = {
            "table": table.place,
            "states": states,
            "keys": listed(keys),
            "key": listed(map(sql.Identifier, table.key)),
            "by": sql.Identifier(f"v{others.index(table.sequence)}"),
            "column": sql.Identifier(table.sequence),
            "flag": listed(flag),
            "same": all_equal(zip(of_alias("t", map(sql.Identifier, table.key)), of_alias("one", keys), strict=True)),
            "both": all_equal(zip(of_alias("gone", keys), of_alias("one", keys), strict=True)),
            "ordered": listed(of_alias("one", keys)),
            "names": listed([*map(sql.Identifier, table.key), *written]),
            "overriding": table.overriding,
            "taken": listed(sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in written),
        }
        values = [*of_alias("one", keys), *of_alias("one", [sql.Identifier(f"v{at}") for at in range(len(others))])]
        if flag:
            values.append(sql.SQL("COALESCE(gone.at > one.seq, false)"))
        deletes = sql.SQL(_DELETES if flag else "").format(**parts)
        self._older = sql.SQL(_OLDER).format(**parts)
        self._mark = sql.SQL(_MARK).format(**parts) if flag else None
        self._insert = sql.SQL(_INSERT).format(values=listed(values), deletes=deletes, **parts)

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


def of_alias(alias: str, names: Any) -> list[sql.Composable]:
    """Return names as columns of what a statement calls `alias`."""
    return [sql.SQL("{}.{}").format(sql.SQL(alias), name) for name in names]


def all_equal(pairs: Any) -> sql.Composed:
    """Return the condition that both of each pair are equal."""
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(one, other) for one, other in pairs)
