"""Rows into tables: the last state of each key goes through a staging table, in one transaction with the progress.

Order per key is kept: of the states of a key since the last commit only the last one counts, and commits follow each
other. Where the database refuses these, the changes are written in their order. Those that are refused even so are
found by halving, and nothing is committed then: the task takes them out, and writes the others again. Rules:
docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

import psycopg

from ingest.encode.upsert_encoder import PartialRow, Record
from ingest.errors import CommitOutcomeUnknown, IngestError, InternalError, Unavailable
from ingest.model.commit import NO_ROW, OLDER, CommitScope, RefusedRow, ResumePoint, RowsRefused
from ingest.sinks.postgres.all_states import KeyStates, WrittenAndDeleted
from ingest.sinks.postgres.array_statements import ArrayRows
from ingest.sinks.postgres.connection import LOCKED, RETRIED, TIMED_OUT, connect, explain, server_of
from ingest.sinks.postgres.partial_rows import KeyedChanges, PartialRows, add_part
from ingest.sinks.postgres.progress import ProgressTables
from ingest.sinks.postgres.refusals import Refusal, find_refused, refusal_of
from ingest.sinks.postgres.statements import StagedRows, make_staging
from ingest.sinks.postgres.tables import SqlTable, look_up

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from ingest.model.record import Split
    from ingest.sinks.postgres.connection import Connection, Server
    from ingest.sinks.postgres.options import SqlSinkOptions

_TRIES: Final = 5
_PAUSE_S: Final = 0.2
MAX_SEARCHED: Final = 1_000
"""Changes of a commit among which those at fault are looked for at once; of more, fewer are committed first."""


def _line(value: Any) -> bytes | None:
    """Return a record's value as it is kept."""
    return value if value is None or type(value) is PartialRow else bytes(value)


class _Change(NamedTuple):
    """A change of a row: its table, its key, and the row's JSON; None for a delete."""

    table: SqlTable
    key: bytes
    line: bytes | None

    def place(self, equal: Mapping[SqlTable, Mapping[bytes, bytes]]) -> tuple[SqlTable, bytes] | None:
        """Return the key of which only the last change counts; None where all do.

        `equal`: by table and key, the one that stands for all that the database takes for equal to it.
        """
        if self.table.takes_all_states:
            return None
        return self.table, equal.get(self.table, {}).get(self.key, self.key)


class PostgresWriter:
    """The writer of a task. It keeps rows until the commit, which writes them and the progress in one transaction."""

    failures = 0

    by_one: None = None
    reporting: None = None

    def __init__(
        self, server: Server, progress: ProgressTables, application: str, deletes: Literal["hard", "soft", "ignore"]
    ) -> None:
        """`deletes`: what a delete does to a row (`sinks/sink.py`)."""
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
        self._parts: dict[SqlTable, PartialRows] = {}
        """The same, where only some columns of rows came."""
        self._rows: dict[SqlTable, list[KeyedChanges]] = {}
        """By table, the steps in which its rows are written."""
        self._number = 0
        """The number of the last state that was kept, where all states of a key count."""
        self._older = self._no_row = 0
        """Changes that the open transaction leaves out, as they are older than what is there, or as there is no row
        for the columns that came."""
        self._left_out: dict[str, int] = {}
        self._put_off = False
        """True if the search for rows at fault was put off since the last commit: next time it is done."""
        self._changes: list[_Change] | None = []
        """All changes since the last commit, in their order; None if they are too many to be kept."""

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Take a shard over; returns how far attempts before have written it. Raise IngestError."""
        self._forget()
        self._scope = scope
        kept = self._connection
        try:
            try:
                return self._take(scope)
            except psycopg.OperationalError:
                if kept is None or not kept.closed:
                    raise
                self._drop()  # the server was restarted since the last batch, and shows that now
                return self._take(scope)
        except psycopg.Error as exc:
            self._drop()
            raise explain(exc, f"take shard {scope.shard} over", self._server) from exc

    def _take(self, scope: CommitScope) -> ResumePoint | None:
        connection = self._open()
        with connection.transaction():
            self._progress.check_owner(connection, scope.run, scope.owner)
            self._attempt, resumed = self._progress.take(connection, scope)
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
        rows: Sequence[Any] = records
        if self._deletes == "ignore":
            rows = [record for record in records if record[2] is not None]
        if self._changes is not None:
            self._changes += [_Change(table, key or b"", _line(value)) for table, key, value in rows]
            if len(self._changes) > MAX_SEARCHED and not self._put_off:
                self._changes = None
        self._add(self._rows, rows)

    def _add(
        self, rows: dict[SqlTable, list[KeyedChanges]], records: Iterable[tuple[SqlTable, bytes | None, Any]]
    ) -> None:
        """Add records to the last states of keys, or to all of them."""
        last, steps, known, parts = None, [], {}, {}
        for table, key, value in records:
            if key is None:
                raise InternalError("a row without a key")
            if table is not last:  # to look a table up, all of its columns are hashed
                last, steps = table, rows.setdefault(table, [])
                if not steps:
                    steps.append(KeyedChanges())
                known, parts = steps[-1].states, steps[-1].parts
            if type(value) is PartialRow:
                add_part(steps, key, value)
                known, parts = steps[-1].states, steps[-1].parts
                continue
            if parts:
                parts.pop(key, None)
            before = known.pop(key, None)  # the rows have the order of their last changes
            if table.takes_all_states:
                known[key] = states = before if isinstance(before, KeyStates) else KeyStates()
                self._number += 1
                states.append((self._number, None if value is None else bytes(value)))
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
                error = explain(exc, self._what, self._server)
                if isinstance(error, Unavailable) and exc.sqlstate not in {LOCKED, *TIMED_OUT}:
                    # the connection may have ended after the commit
                    raise CommitOutcomeUnknown(error.message, error.hint) from exc
                raise error from exc
            self._forget()
            for reason, count in ((OLDER, self._older), (NO_ROW, self._no_row)):
                if count:
                    self._left_out[reason] = self._left_out.get(reason, 0) + count
            return

    def _commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Write all rows at once, or look for those at fault."""
        try:
            with self._transaction(positions, metadata, final=final) as connection:
                self._write_rows(connection, self._rows)
        except psycopg.Error as exc:
            if refusal_of(exc) is None:
                raise
            error = explain(exc, self._what, self._server)
            changes = self._changes
            if changes is None:
                self._put_off = True
                raise RowsRefused(error.message, error.hint) from exc
            if self._server.dialect.has_savepoints:
                with self._transaction(positions, metadata, final=final) as connection:
                    self._see_refused(connection, changes, error, exc)
                return
            if self._write_in_order(changes, positions, metadata, final=final):
                return
            self._see_refused(self._open(), changes, error, exc)  # which writes nothing
            with self._transaction(positions, metadata, final=final) as connection:
                self._write_rows(connection, self._rows)

    def _write_in_order(
        self, changes: Sequence[_Change], positions: Mapping[Split, int], metadata: bytes, *, final: bool
    ) -> bool:
        """Write changes one by one and commit; returns False, and writes none, where one of them is refused."""
        try:
            with self._transaction(positions, metadata, final=final) as connection:
                for change in changes:
                    self._write_changes(connection, [change])
        except psycopg.Error as exc:
            if refusal_of(exc) is None:
                raise
            return False
        return True

    @contextmanager
    def _transaction(
        self, positions: Mapping[Split, int], metadata: bytes, *, final: bool
    ) -> Generator[Connection, None, None]:
        """Return a connection whose transaction has the progress in it; it is committed with the block."""
        assert self._scope is not None, "begin comes first"
        self._what = "write progress"
        self._older = self._no_row = 0
        connection = self._open()
        with connection.transaction():
            self._progress.check_owner(connection, self._scope.run, self._scope.owner)
            self._progress.advance(connection, self._scope, self._attempt, positions, metadata, final=final)
            yield connection
            self._what = "commit rows"

    def _write_rows(self, connection: Connection, rows: Mapping[SqlTable, Sequence[KeyedChanges]]) -> None:
        for table in sorted(rows, key=lambda table: (table.schema, table.name)):
            self._what = f"write rows of the table {table}"
            if table.history is not None:
                self._server.dialect.lock_rows(connection, str(table))
            for step in rows[table]:
                if step.move is not None:
                    self._no_row += self._parts_of(connection, table).move(connection, step.move)
                if step.states:
                    self._older += self._statement_of(connection, table).write(connection, step.states)
                if step.parts:
                    self._no_row += self._parts_of(connection, table).write(connection, step.parts)

    def _write_changes(self, connection: Connection, changes: Iterable[_Change]) -> None:
        rows: dict[SqlTable, list[KeyedChanges]] = {}
        self._add(rows, changes)
        self._write_rows(connection, rows)

    def _see_refused(
        self, connection: Connection, changes: Sequence[_Change], told: IngestError, exc: psycopg.Error
    ) -> None:
        """Write the changes, or none without savepoints. Raise RowsRefused where the database does not take all."""
        soft = self._deletes == "soft"  # a delete keeps the row's last values then
        if any(type(change.line) is PartialRow for change in changes):  # each stands on those before it
            tried = ((change, self._write_some(connection, [change])) for change in changes)
            refused = [(change, why) for change, why in tried if why is not None]
        else:
            equal = self._equal_keys(connection, changes)
            refused = find_refused(
                changes,
                partial(self._write_some, connection),
                lambda change: change.place(equal),
                lambda change: not soft or change.line is not None,
            )
        rows = [RefusedRow(*change, why.text, may_pass=why.is_between_rows) for change, why in refused]
        if rows:
            raise RowsRefused(told.message, told.hint, rows) from exc

    def _equal_keys(self, connection: Connection, changes: Sequence[_Change]) -> dict[SqlTable, dict[bytes, bytes]]:
        """Return, by table and key, the first of the changes' keys that the database takes for equal.

        Without savepoints each change is tried by itself, so that none is written over a later one.
        """
        if not self._server.dialect.has_savepoints:
            return {}
        keys: dict[SqlTable, dict[bytes, None]] = {}
        for change in changes:
            keys.setdefault(change.table, {})[change.key] = None
        out = {}
        for table, of_table in keys.items():
            statement = self._statement_of(connection, table)
            if isinstance(statement, StagedRows) and not table.takes_all_states:
                out[table] = statement.equal_keys(connection, [*of_table])
        return out

    def _write_some(self, connection: Connection, changes: Sequence[_Change]) -> Refusal | None:
        """Write some changes, and check all constraints; or write nothing and return why the database refuses them.

        Without savepoints they are written in a transaction of their own, which is rolled back.
        """
        inside, left_out = self._server.dialect.has_savepoints, (self._older, self._no_row)
        try:
            with connection.transaction(force_rollback=not inside):
                if inside:
                    connection.execute("SET CONSTRAINTS ALL DEFERRED")
                self._write_changes(connection, changes)
                if inside:
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except psycopg.Error as exc:
            refusal = refusal_of(exc)
            if refusal is None:
                raise
            self._older, self._no_row = left_out
            return refusal
        return None

    def _statement_of(self, connection: Connection, table: SqlTable) -> StagedRows | ArrayRows:
        """Return what writes a table's rows, by the types of its columns, which may be wider."""
        statement = self._statements.get(table)
        if statement is None:
            written, kinds = self._as_it_is(connection, table)
            staged = self._server.dialect.stages
            statement = StagedRows(written, kinds, len(self._statements)) if staged else ArrayRows(written, kinds)
            self._statements[table] = statement
        return statement

    def _parts_of(self, connection: Connection, table: SqlTable) -> PartialRows:
        """Return the same for rows of which only some columns came."""
        if table not in self._parts:
            self._parts[table] = PartialRows(*self._as_it_is(connection, table), self._deletes)
        return self._parts[table]

    @staticmethod
    def _as_it_is(connection: Connection, table: SqlTable) -> tuple[SqlTable, Mapping[str, str]]:
        """Return a table without what the server computes, and the types of its columns."""
        existing, kinds = look_up(connection, table), {column.name: column.type for column in table.columns}
        return (table, kinds) if existing is None else (table.written_to(existing), {**kinds, **existing.kinds})

    def delivered(self) -> list[Any]:
        """Return nothing for the driver: it is in the tables."""
        return []

    @property
    def leaving_out(self) -> Self:
        """Itself: changes that are older than their rows are left out."""
        return self

    def left_out(self) -> dict[str, int]:
        """Return, by reason, how many changes have been left out by what was committed since the last call."""
        counts, self._left_out = self._left_out, {}
        return counts

    def abort(self) -> None:
        """Forget what was not committed: after RowsRefused it comes again."""
        self._rows, self._changes = {}, []
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.Error):
                self._connection.rollback()

    def close(self) -> None:
        """Give up what was not committed, and close the connection."""
        self._forget()
        self._drop()

    def _forget(self) -> None:
        """Start over after a commit."""
        self._rows, self._changes, self._put_off = {}, [], False

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._statements, self._parts = {}, {}
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


def postgres_writer(options: SqlSinkOptions, pipeline: str) -> PostgresWriter:
    """Return a task's side of the sink."""
    server = server_of(options)
    progress = ProgressTables(options.default_schema, options.prefix(pipeline), server.dialect)
    return PostgresWriter(server, progress, f"ingest {pipeline}", options.delete_strategy)
