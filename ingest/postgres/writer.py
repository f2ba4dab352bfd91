"""Rows into tables: the last state of each key goes through a staging table, in one transaction with the progress.

Order per key is kept: of the states of a key since the last commit only the last one counts, and commits follow each
other. Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from ingest.errors import CommitOutcomeUnknown, InternalError, Unavailable
from ingest.postgres.connection import RETRIED, connect, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.model.commit import CommitScope, ResumePoint
    from ingest.postgres.connection import Connection, Server
    from ingest.postgres.progress import ProgressTables
    from ingest.postgres.tables import SqlTable

    Split = tuple[str, int]

_STAGING: Final = """
CREATE TEMPORARY TABLE IF NOT EXISTS ingest_rows (
  seq bigint GENERATED ALWAYS AS IDENTITY, gone boolean NOT NULL, line json NOT NULL) ON COMMIT DELETE ROWS
"""
_COPY: Final = "COPY ingest_rows (gone, line) FROM STDIN"
_ENDS: Final = bytes.maketrans(b"\n\r\t\x01\x02", b"   \n\t")
"""Of white space between values of JSON, and of what stands between lines and fields: JSON has no such bytes."""
_TRIES: Final = 5
_PAUSE_S: Final = 0.2


class PostgresWriter:
    """A task's side: keeps rows until the commit, which writes them with the progress."""

    failures = 0

    def __init__(self, server: Server, progress: ProgressTables, application: str) -> None:
        """Connect when a shard begins."""
        self._server = server
        self._progress = progress
        self._application = application
        self._connection: Connection | None = None
        self._scope: CommitScope | None = None
        self._attempt = 0
        self._what = ""
        """What is being done, for messages about errors."""
        self._rows: dict[SqlTable, dict[bytes, bytes | None]] = {}
        """By table, the JSON of the last row of each key; None: it is gone."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Take a shard over; returns how far attempts before have written it. Raise IngestError."""
        self._rows, self._scope = {}, scope
        try:
            with self._open() as connection, connection.transaction():
                self._progress.check_owner(connection, scope.run, scope.owner)
                self._attempt, resumed = self._progress.take(connection, scope)
        except psycopg.Error as exc:
            self._drop()
            raise explain(exc, f"take shard {scope.shard} over", self._server) from exc
        return resumed

    def _open(self) -> _Kept:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._server, self._application)
        return _Kept(self._connection)

    def write(self, records: Sequence[Record]) -> None:
        """Keep the rows until the commit."""
        rows = self._rows
        for table, key, value in records:
            if key is None:
                msg = "a row without a key"
                raise InternalError(msg)
            known = rows.get(table)
            if known is None:
                known = rows[table] = {}
            known.pop(key, None)  # the rows have the order of their last changes
            known[key] = None if value is None else bytes(value)

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Write the rows and the positions in one transaction. Raise IngestError.

        A transaction that another one stood in the way of is tried again.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._commit(positions, metadata, final=final)
            except psycopg.Error as exc:
                self._drop()
                if exc.sqlstate in RETRIED and left:
                    time.sleep(_PAUSE_S * (_TRIES - left))
                    continue
                found = explain(exc, self._what, self._server)
                if isinstance(found, Unavailable):  # the connection may have ended after the commit
                    raise CommitOutcomeUnknown(found.message, found.hint) from exc
                raise found from exc
            self._rows = {}
            return

    def _commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        assert self._scope is not None, "begin comes first"
        self._what = "write progress"
        with self._open() as connection, connection.transaction():
            self._progress.check_owner(connection, self._scope.run, self._scope.owner)
            self._progress.advance(connection, self._scope, self._attempt, positions, metadata, final=final)
            for table in sorted(self._rows, key=lambda one: (one.schema, one.name)):
                self._what = f"write rows of the table {table}"
                _write(connection, table, self._rows[table])
            self._what = "commit rows"

    def delivered(self) -> list[Any]:
        """Return nothing for the driver: it is in the tables."""
        return []

    def abort(self) -> None:
        """Forget what was not committed."""
        self._rows = {}
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.Error):
                self._connection.rollback()

    def close(self) -> None:
        """Give up what was not committed, and let go of the connection."""
        self._rows = {}
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class _Kept:
    """A connection for a block, at whose end it stays open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        return None


def _write(connection: Connection, table: SqlTable, rows: Mapping[bytes, bytes | None]) -> None:
    """Write the last states of a table's keys, which come in the order of their changes."""
    connection.execute(_STAGING)
    connection.execute("TRUNCATE ingest_rows")
    lines = b"\x01".join(b"t\x02" + key if row is None else b"f\x02" + row for key, row in rows.items())
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.write(lines.translate(_ENDS).replace(b"\\", b"\\\\") + b"\n")
    gone = sum(row is None for row in rows.values())
    if gone:
        connection.execute(_delete(table))
    if gone < len(rows):
        connection.execute(_upsert(table))
        if gone and table.key_texts_differ:
            connection.execute(_delete(table, later=True))


def _record(table: SqlTable, names: Iterable[str]) -> sql.Composed:
    """Return the columns of a row's JSON with their types. Bytes are texts in it, with base64."""
    wanted = set(names)
    columns = [one for one in table.columns if one.name in wanted]
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(one.name), sql.SQL("text" if one.type == "bytea" else one.type))
        for one in columns
    )


def _value(alias: str, name: str, kind: str) -> sql.Composed:
    made = sql.SQL("{}").format(sql.Identifier(alias, name))
    return sql.SQL("decode({}, 'base64')").format(made) if kind == "bytea" else made


def _upsert(table: SqlTable) -> sql.Composed:
    """Return the statement that writes rows: new ones, and in place of those under the same key."""
    names = [one.name for one in table.columns]
    others = [name for name in names if name not in table.key]
    taken = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
    then = sql.SQL("UPDATE SET {}").format(taken) if others else sql.SQL("NOTHING")
    key = sql.SQL(", ").join(sql.Identifier("r", name) for name in table.key)
    return sql.SQL(
        "INSERT INTO {} ({}) SELECT DISTINCT ON ({}) {} FROM ingest_rows AS l, json_to_record(l.line) AS r({})"
        " WHERE NOT l.gone ORDER BY {}, l.seq DESC ON CONFLICT ({}) DO {}"
    ).format(
        table.place,
        sql.SQL(", ").join(map(sql.Identifier, names)),
        key,
        sql.SQL(", ").join(_value("r", one.name, one.type) for one in table.columns),
        _record(table, names),
        key,
        sql.SQL(", ").join(map(sql.Identifier, table.key)),
        then,
    )


def _delete(table: SqlTable, *, later: bool = False) -> sql.Composed:
    """Return the statement that deletes the rows under keys.

    `later`: only of keys that no row came for after the delete. The same key may have two texts.
    """
    kinds = {one.name: one.type for one in table.columns}
    keys, record = [(name, kinds[name]) for name in table.key], _record(table, table.key)

    def same(one: Callable[[str, str], sql.Composable]) -> sql.Composed:
        return sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(one(name, kind), _value("k", name, kind)) for name, kind in keys
        )

    made = sql.SQL(
        "DELETE FROM {} AS t USING ingest_rows AS l, json_to_record(l.line) AS k({}) WHERE l.gone AND {}"
    ).format(table.place, record, same(lambda name, _: sql.Identifier("t", name)))
    if not later:
        return made
    return made + sql.SQL(
        " AND NOT EXISTS (SELECT FROM ingest_rows AS m, json_to_record(m.line) AS r({})"
        " WHERE NOT m.gone AND m.seq > l.seq AND {})"
    ).format(record, same(lambda name, kind: _value("r", name, kind)))
