"""The keys that a table keeps: all other rows of it are deleted, in one statement.

In: keys as JSON. Out: a table without other rows. The database itself compares keys, as values of its columns. Rule:
docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.sinks.postgres.array_statements import given_keys
from ingest.sinks.postgres.reading import ExpectedTexts
from ingest.sinks.postgres.statements import read_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.sinks.postgres.connection import Connection
    from ingest.sinks.postgres.tables import SqlTable

_OTHERS: Final = "NOT EXISTS (SELECT 1 FROM ({kept}) AS kept WHERE {same})"
_DELETE: Final = "DELETE FROM {table} AS t WHERE {others}"
_MARK: Final = "UPDATE {table} AS t SET {flag} = true WHERE {flag} IS DISTINCT FROM true AND {others}"


def keep_only(
    connection: Connection, table: SqlTable, kinds: Mapping[str, str], keys: Sequence[bytes], *, stages: bool
) -> int:
    """Delete the rows of other keys than these, or mark them; returns how many. Raise psycopg.Error.

    `kinds`: the types of the columns that are there. `stages`: whether the server has staging tables. Keys that the
    database cannot read are no row's.
    """
    names = [sql.Identifier(f"k{at}") for at in range(len(table.key))]
    same = sql.SQL(" AND ").join(
        sql.SQL("t.{} = kept.{}").format(sql.Identifier(name), key) for name, key in zip(table.key, names, strict=True)
    )
    others = sql.SQL(_OTHERS).format(kept=(read_keys if stages else given_keys)(table, kinds), same=same)
    parts: dict[str, Any] = {"table": table.place, "others": others}
    if table.deleted is not None:
        parts["flag"] = sql.Identifier(table.deleted)
    query = sql.SQL(_DELETE if table.deleted is None else _MARK).format(**parts)
    texts = [key.decode() for key in keys]
    try:
        with connection.transaction(), psycopg.RawCursor(connection) as cursor:  # names may have a percent sign
            return cursor.execute(query, [texts]).rowcount
    except (psycopg.DataError, psycopg.IntegrityError):
        found = ExpectedTexts(table, kinds, stages=stages).of(connection, [(key, None) for key in keys])
        readable = [text for text, row in zip(texts, found, strict=True) if row is not None]
        if len(readable) == len(texts):
            raise
        if not readable:
            return 0  # it can hold none of them: so nobody knows whose its rows are
        with psycopg.RawCursor(connection) as cursor:
            return cursor.execute(query, [readable]).rowcount
