"""Rows of a table as texts, and rows of JSON as that table would have them: the two sides of a comparison.

In: a table, and the types of its columns that are there. Out: the texts by which the server shows values. Nothing is
written, no transaction lasts longer than the rows that are asked for at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.array_statements import given_values
from ingest.sinks.postgres.statements import read_values
from ingest.sinks.postgres.tables import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import SqlTable

CHUNK: Final = 20_000
"""Rows that are read in one transaction."""
_ROWS: Final = "SELECT {columns} FROM {table}{beyond} ORDER BY {key} LIMIT {most}"


def rows_by_key(
    connection: Connection, table: SqlTable, kinds: Mapping[str, str], names: Sequence[str], most: int = CHUNK
) -> Iterator[list[tuple[str | None, ...]]]:
    """Yield the texts of these columns, in the order of the key, so many rows in one transaction.

    Rows of one key come together. `kinds`: the types of the columns that are there. Raise psycopg.Error.
    """
    key = table.row_key
    places = [sql.Identifier(name) for name in key]
    shown = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in (*names, *key)]
    given = [sql.SQL("${}::text::{}").format(sql.Literal(at), sql.SQL(kinds[n])) for at, n in enumerate(key, 1)]
    beyond = sql.SQL(" WHERE ({}) >= ({})").format(listed(places), listed(given))
    parts: dict[str, Any] = {"columns": listed(shown), "table": table.place, "key": listed(places)}
    last: tuple[str | None, ...] | None = None
    while True:
        query = sql.SQL(_ROWS).format(beyond=sql.SQL("") if last is None else beyond, most=sql.Literal(most), **parts)
        with connection.transaction(), psycopg.RawCursor(connection) as cursor:
            found = cursor.execute(query, last).fetchall()
        if len(found) < most:
            yield [row[: len(names)] for row in found]
            return
        last = found[-1][len(names) :]
        # Where nothing keeps keys apart, more rows of the last one may follow: it begins the next chunk
        whole = [row[: len(names)] for row in found if row[len(names) :] != last]
        most = most if whole else 2 * most
        yield whole


class ExpectedTexts:
    """What a table would have of rows of JSON."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str], *, stages: bool) -> None:
        """`kinds`: the types of the columns that are there. `stages`: whether the server has staging tables."""
        self._others = [one.name for one in table.columns if one.name not in table.key and one.name in kinds]
        self.names = [*table.key, *self._others]
        """The columns whose texts are returned."""
        make = read_values if stages else given_values
        self._query = make(table, kinds, self._others)

    def of(
        self, connection: Connection, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[tuple[str | None, ...] | None]:
        """Return the texts of each record's row; of a delete only those of the key. None for one that is refused.

        Raise psycopg.Error.
        """
        with suppress(psycopg.DataError, psycopg.IntegrityError):  # the second one is a domain's
            given = [[key.decode() for key, _ in records], [v if v is None else v.decode() for _, v in records]]
            with connection.transaction(), psycopg.RawCursor(connection) as cursor:
                return list(cursor.execute(self._query, given).fetchall())
        if len(records) == 1:
            return [None]
        half = len(records) // 2
        return [*self.of(connection, records[:half]), *self.of(connection, records[half:])]
