"""Rows into tables: the last state of each key goes through a staging table, in one transaction with the progress.

Order per key is kept: of the states of a key since the last commit only the last one counts, and commits follow each
other. Rows that the database refuses are found by halving, and nothing is committed then: the task takes them out, and
writes the others again. Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import psycopg

from ingest.errors import CommitOutcomeUnknown, InternalError, Unavailable
from ingest.model.commit import OLDER, RefusedRow, RowsRefused
from ingest.postgres.array_statements import ArrayRows
from ingest.postgres.connection import RETRIED, connect, explain
from ingest.postgres.refusals import find_refused, refusal_of
from ingest.postgres.sequenced import KeyStates
from ingest.postgres.statements import StagedRows, WrittenAndDeleted, make_staging
from ingest.postgres.tables import look_up

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.model.commit import CommitScope, ResumePoint, Split
    from ingest.postgres.connection import Connection, Server
    from ingest.postgres.progress import ProgressTables
    from ingest.postgres.refusals import Refusal
    from ingest.postgres.statements import State
    from ingest.postgres.tables import SqlTable

_TRIES: Final = 5
_PAUSE_S: Final = 0.2
MAX_SEARCHED: Final = 1_000
"""Rows of a commit among which those at fault are looked for at once; of more rows, fewer are committed first."""


class _State(NamedTuple):
    """A state of a key."""

    table: SqlTable
    key: bytes
    line: State


class PostgresWriter:
    """A task's side: keeps rows until the commit, which writes them with the progress."""

    failures = 0

    def __init__(
        self, server: Server, progress: ProgressTables, application: str, deletes: Literal["hard", "soft", "ignore"]
    ) -> None:
        """Connect when a shard begins. `deletes`: what becomes of rows that are gone (`sinks/deletes.py`)."""
        self._server = server
        self._progress = progress
        self._application = application
        self._deletes = deletes
        self._connection: Connection | None = None
        self._scope: CommitScope | None = None
        self._attempt = 0
        self._what = ""
        """The step that is being done, for messages about errors."""
        self._statements: dict[SqlTable, StagedRows | ArrayRows] = {}
        """Statements that write the rows of tables, as long as a connection lives."""
        self._rows: dict[SqlTable, dict[bytes, State]] = {}
        """By table and key, its last state, or all of them."""
        self._older = 0
        """Changes that the transaction in hand leaves out, as they are older than what is there."""
        self._left_out: dict[str, int] = {}
        self._put_off = False
        """True if the search for rows at fault was put off since the last commit: next time it is done."""
        self._watched: dict[tuple[SqlTable, bytes], list[bytes | None]] = {}
        """All states of the keys whose last state was refused since the last commit: those before it may be, too."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Take a shard over; returns how far attempts before have written it. Raise IngestError."""
        self._forget()
        self._scope = scope
        try:
            connection = self._open()
            with connection.transaction():
                self._progress.check_owner(connection, scope.run, scope.owner)
                self._attempt, resumed = self._progress.take(connection, scope)
        except psycopg.Error as exc:
            self._drop()
            raise explain(exc, f"take shard {scope.shard} over", self._server) from exc
        return resumed

    def _open(self) -> Connection:
        """Return the connection, which has a staging table where there are such tables."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._server, self._application)
            if self._server.dialect.stages:
                make_staging(self._connection)
                self._connection.commit()
        return self._connection

    def write(self, records: Sequence[Record]) -> None:
        """Keep the rows until the commit."""
        if self._deletes == "ignore":
            records = [record for record in records if record[2] is not None]
        if self._watched:
            for table, key, value in records:
                states = self._watched.get((table, key or b""))
                if states is not None:
                    states.append(None if value is None else bytes(value))
        last, known = None, {}
        for table, key, value in records:
            if key is None:
                msg = "a row without a key"
                raise InternalError(msg)
            if table is not last:  # to look a table up, all of its columns are hashed
                last, known = table, self._rows.setdefault(table, {})
            before = known.pop(key, None)  # the rows have the order of their last changes
            if table.takes_all_states:
                known[key] = states = before if isinstance(before, KeyStates) else KeyStates()
                states.append(None if value is None else bytes(value))
            elif value is not None:
                known[key] = bytes(value)
            else:
                written = before if isinstance(before, bytes) and self._deletes == "soft" else None
                known[key] = None if written is None else WrittenAndDeleted(written)

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Write the rows and the positions in one transaction. Raise IngestError; RowsRefused where rows are at fault.

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
            self._forget()
            if self._older:
                self._left_out[OLDER] = self._left_out.get(OLDER, 0) + self._older
            return

    def _commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Write all rows at once, or look for those at fault."""
        try:
            with self._transaction(positions, metadata, final=final) as connection:
                self._write_rows(connection, self._rows)
        except psycopg.Error as exc:
            if refusal_of(exc) is None:
                raise
            told = explain(exc, self._what, self._server)
            rows = [_State(table, *row) for table, found in self._rows.items() for row in found.items()]
            if len(rows) > MAX_SEARCHED and not self._put_off:
                self._put_off = True
                raise RowsRefused(told.message, told.hint) from exc
            if self._server.dialect.has_savepoints:
                with self._transaction(positions, metadata, final=final) as connection:
                    refused = self._find_refused(connection, rows)
                    if refused:
                        raise RowsRefused(told.message, told.hint, refused) from exc
                return
            refused = self._find_refused(self._open(), rows)  # which writes nothing
            if refused:
                raise RowsRefused(told.message, told.hint, refused) from exc
            with self._transaction(positions, metadata, final=final) as connection:
                self._write_rows(connection, self._rows)

    @contextmanager
    def _transaction(
        self, positions: Mapping[Split, int], metadata: bytes, *, final: bool
    ) -> Generator[Connection, None, None]:
        """Return a connection whose transaction has the progress in it; it is committed with the block."""
        assert self._scope is not None, "begin comes first"
        self._what = "write progress"
        self._older = 0
        connection = self._open()
        with connection.transaction():
            self._progress.check_owner(connection, self._scope.run, self._scope.owner)
            self._progress.advance(connection, self._scope, self._attempt, positions, metadata, final=final)
            yield connection
            self._what = "commit rows"

    def _write_rows(self, connection: Connection, rows: Mapping[SqlTable, Mapping[bytes, State]]) -> None:
        for table in sorted(rows, key=lambda one: (one.schema, one.name)):
            self._what = f"write rows of the table {table}"
            if table.history is not None:
                self._server.dialect.lock_rows(connection, str(table))
            self._older += self._statement_of(connection, table).write(connection, rows[table])

    def _find_refused(self, connection: Connection, rows: Sequence[_State]) -> list[RefusedRow]:
        """Write the rows that the database takes, or none without savepoints; returns the others.

        Of such a row the states before it are tried, too, as far as they were kept, up to the first that is taken.
        """
        found = find_refused(rows, partial(self._write_some, connection))
        out: list[RefusedRow] = []
        for row, why in found:
            line = row.line
            if isinstance(line, KeyStates):
                tried = [(one, self._write_some(connection, [row._replace(line=one)])) for one in line]
                at_fault = [(one, refusal) for one, refusal in tried if refusal is not None] or [(line[-1], why)]
                out += [RefusedRow(row.table, row.key, one, refusal.text) for one, refusal in at_fault]
                continue
            if isinstance(line, WrittenAndDeleted):  # one of two records is at fault
                line = bytes(line)
                if self._write_some(connection, [row._replace(line=line)]) is None:
                    line = None
            out.append(RefusedRow(row.table, row.key, line, why.text))
            for line in reversed(self._watched.setdefault((row.table, row.key), [])[:-1]):
                refusal = self._write_some(connection, [row._replace(line=line)])
                if refusal is None:
                    break
                out.append(RefusedRow(row.table, row.key, line, refusal.text))
        return out

    def _write_some(self, connection: Connection, rows: Sequence[_State]) -> Refusal | None:
        """Write some rows, and check all constraints; or write nothing and return why the database refuses them.

        Without savepoints they are written in a transaction of their own, which is rolled back.
        """
        inside, older = self._server.dialect.has_savepoints, self._older
        by_table: dict[SqlTable, dict[bytes, State]] = {}
        for table, key, line in rows:
            by_table.setdefault(table, {})[key] = line
        try:
            with connection.transaction(force_rollback=not inside):
                if inside:
                    connection.execute("SET CONSTRAINTS ALL DEFERRED")
                self._write_rows(connection, by_table)
                if inside:
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except psycopg.Error as exc:
            refusal = refusal_of(exc)
            if refusal is None:
                raise
            self._older = older
            return refusal
        return None

    def _statement_of(self, connection: Connection, table: SqlTable) -> StagedRows | ArrayRows:
        """Return what writes a table's rows, by the types of its columns, which may be wider."""
        found = self._statements.get(table)
        if found is None:
            there, wanted = look_up(connection, table), {one.name: one.type for one in table.columns}
            kinds = wanted if there is None else {**wanted, **there.kinds}
            written = table if there is None else table.written_to(there)
            staged = self._server.dialect.stages
            found = StagedRows(written, kinds, len(self._statements)) if staged else ArrayRows(written, kinds)
            self._statements[table] = found
        return found

    def delivered(self) -> list[Any]:
        """Return nothing for the driver: it is in the tables."""
        return []

    def left_out(self) -> dict[str, int]:
        """Return, by reason, how many changes have been left out by what was committed since the last call."""
        found, self._left_out = self._left_out, {}
        return found

    def abort(self) -> None:
        """Forget what was not committed, but for the keys to watch: after RowsRefused their rows come again."""
        self._rows = {}
        self._watched = {key: [] for key in self._watched}
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.Error):
                self._connection.rollback()

    def close(self) -> None:
        """Give up what was not committed, and let go of the connection."""
        self._forget()
        self._drop()

    def _forget(self) -> None:
        """Begin anew after a commit."""
        self._rows, self._watched, self._put_off = {}, {}, False

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._statements = {}
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
