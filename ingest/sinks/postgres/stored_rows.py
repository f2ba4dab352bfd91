"""Rows that a table has: their texts, those that rows of JSON would have, and the deletion of all but some of them.

The server compares and shows values, by the types of the table's columns. No transaction lasts longer than the rows
that are asked for at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.array_statements import given_keys, given_values
from ingest.sinks.postgres.statements import read_keys, read_values
from ingest.sinks.postgres.tables import SqlTable, all_equal, listed, named, numbered, of_alias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection

CHUNK: Final = 20_000
"""Rows that are read in one transaction."""
_ROWS: Final = "SELECT {columns} FROM {table}{beyond} ORDER BY {key} LIMIT {most}"
_OTHERS: Final = "NOT EXISTS (SELECT 1 FROM ({kept}) AS kept WHERE {same})"
_DELETE: Final = "DELETE FROM {table} AS t WHERE {others}"
_MARK: Final = "UPDATE {table} AS t SET {flag} = true WHERE {flag} IS DISTINCT FROM true AND {others}"


def rows_by_key(
    connection: Connection, table: SqlTable, kinds: Mapping[str, str], names: Sequence[str], most: int = CHUNK
) -> Iterator[list[tuple[str | None, ...]]]:
    """Yield groups of stored rows, as texts of these columns, ordered by key; each group is one transaction.

    Rows of one key are in the same list. `kinds`: the types of the table's columns. Raise psycopg.Error.
    """
    key = table.row_key
    places = named(key)
    shown = [sql.SQL("{}::text").format(sql.Identifier(name)) for name in (*names, *key)]
    parameters = [sql.SQL("${}::text::{}").format(sql.Literal(at), sql.SQL(kinds[n])) for at, n in enumerate(key, 1)]
    beyond = sql.SQL(" WHERE ({}) >= ({})").format(listed(places), listed(parameters))
    parts: dict[str, Any] = {"columns": listed(shown), "table": table.place, "key": listed(places)}
    last: tuple[str | None, ...] | None = None
    while True:
        query = sql.SQL(_ROWS).format(beyond=sql.SQL("") if last is None else beyond, most=sql.Literal(most), **parts)
        with connection.transaction(), psycopg.RawCursor(connection) as cursor:
            rows = cursor.execute(query, last).fetchall()
        if len(rows) < most:
            yield [row[: len(names)] for row in rows]
            return
        last = rows[-1][len(names) :]
        # Where nothing keeps keys apart, more rows of the last one may follow: it begins the next chunk
        whole = [row[: len(names)] for row in rows if row[len(names) :] != last]
        most = most if whole else 2 * most
        yield whole


class ExpectedTexts:
    """Asks the database which texts rows of JSON would have in a table."""

    def __init__(self, table: SqlTable, kinds: Mapping[str, str], *, stages: bool) -> None:
        """`kinds`: the types of the table's columns. `stages`: whether the server has staging tables."""
        others = [name for name in table.non_key if name in kinds]
        self.names = [*table.key, *others]
        """The columns whose texts are returned."""
        self._query = (read_values if stages else given_values)(table, kinds, others)

    def of(
        self, connection: Connection, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[tuple[str | None, ...] | None]:
        """Return the texts of each record's row; of a delete only those of the key. None for one that is refused.

        Raise psycopg.Error.
        """
        with suppress(psycopg.DataError, psycopg.IntegrityError):  # the second one is a domain's
            parameters = [[key.decode() for key, _ in records], [v if v is None else v.decode() for _, v in records]]
            with connection.transaction(), psycopg.RawCursor(connection) as cursor:
                return list(cursor.execute(self._query, parameters).fetchall())
        if len(records) == 1:
            return [None]
        half = len(records) // 2
        return [*self.of(connection, records[:half]), *self.of(connection, records[half:])]


def keep_only(
    connection: Connection, table: SqlTable, kinds: Mapping[str, str], keys: Sequence[bytes], *, stages: bool
) -> int:
    """Delete all rows with keys other than these, or mark them as deleted. Return their number. Raise psycopg.Error.

    `kinds`: the types of the columns that are there. `stages`: whether the server has staging tables. Keys that the
    database cannot read are no row's.
    """
    same = all_equal(of_alias("t", named(table.key)), of_alias("kept", numbered("k", table.key)))
    others = sql.SQL(_OTHERS).format(kept=(read_keys if stages else given_keys)(table, kinds), same=same)
    query = sql.SQL(_DELETE if table.deleted is None else _MARK).format(
        table=table.place, others=others, flag=listed(table.flag)
    )
    texts = [key.decode() for key in keys]
    try:
        with connection.transaction(), psycopg.RawCursor(connection) as cursor:  # names may have a percent sign
            return cursor.execute(query, [texts]).rowcount
    except (psycopg.DataError, psycopg.IntegrityError):
        rows = ExpectedTexts(table, kinds, stages=stages).of(connection, [(key, None) for key in keys])
        readable = [text for text, row in zip(texts, rows, strict=True) if row is not None]
        if len(readable) == len(texts):
            raise
        if not readable:
            return 0  # it can hold none of them: so nobody knows whose its rows are
        with psycopg.RawCursor(connection) as cursor:
            return cursor.execute(query, [readable]).rowcount
