"""The driver's side of the sinks `postgres` and `hologres`: it makes and widens tables, and keeps one run at a time.

Rules: docs/spec/postgres.md.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from ingest.errors import SchemaChangeRefused
from ingest.model.commit import old_copy
from ingest.model.layout import PLAIN
from ingest.model.reject import RowError
from ingest.model.table import show
from ingest.postgres.connection import connect, explain
from ingest.postgres.history_columns import ChangeError
from ingest.postgres.progress import ProgressTables, RunOwner
from ingest.postgres.tables import look_up, planned, unfit
from ingest.sinks.sequence import no_sequence
from ingest.sinks.sink import PlainSinkCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from ingest.model.commit import ResumePoint, Split
    from ingest.model.layout import TableLayout
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.postgres.connection import Connection
    from ingest.postgres.tables import SqlTable
    from ingest.sinks.sql import SqlSinkOptions


class PostgresCoordinator(PlainSinkCoordinator):
    """The driver's side. Raises IngestError only."""

    def __init__(self, options: SqlSinkOptions, pipeline: str, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._server, self._dialect = options.server, options.dialect
        self._pipeline = pipeline
        self._warn = warn
        self._prefix = options.prefix(pipeline)
        self._progress = ProgressTables(options.default_schema, self._prefix, self._dialect)
        self._owner: RunOwner | None = None
        self._connection: Connection | None = None
        self._places: dict[tuple[str, str], TableId] = {}
        self._layouts: dict[TableId, TableLayout] = {}
        self._unordered: set[TableId] = set()
        """Tables of which it was said that they lack the column by which changes are newer."""

    @contextmanager
    def _asking(self, what: str) -> Generator[Connection]:
        """Return a connection in a transaction, which ends with the block; its errors are those of a run."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(self._server, f"ingest {self._pipeline}")
            with self._connection.transaction():
                yield self._connection
        except psycopg.Error as exc:
            self.close()
            raise explain(exc, what, self._server) from exc

    def connect(self) -> str:
        """Return the database's name; raises Unavailable where it does not answer."""
        with self._asking("connect"):
            return self._server.name

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": self._options.type, "database": identity}

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Take the layouts of tables that may have to be made."""
        self._layouts.update(layouts)

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Make and widen the tables, before their rows are written. Raise SchemaChangeRefused for what cannot be."""
        for table, wanted in self._wanted(schemas):
            with self._changing(table, wanted) as connection:
                for statement in planned(connection, wanted, self._dialect):
                    connection.execute(statement)

    def unfit(self, table: TableId, schema: TableSchema) -> Mapping[str, str]:
        """Return the columns that no statement makes its table take, each with the reason."""
        try:
            wanted = self._options.table_for(table, schema)
        except RowError:
            return {}  # its rows are rejects, in the task
        with self._asking(f"look the table {wanted} up") as connection:
            return unfit(wanted, look_up(connection, wanted), self._dialect)

    def _wanted(self, schemas: Mapping[TableId, TableSchema]) -> Iterator[tuple[TableId, SqlTable]]:
        """Yield the tables that rows need. Raise SchemaChangeRefused where two would be one."""
        options = self._options
        for table, schema in schemas.items():
            try:
                wanted = options.table_for(table, schema)
            except RowError:
                continue  # its rows are rejects, in the task
            other = self._places.setdefault((wanted.schema, wanted.name), table)
            if other != table:
                msg = f"the tables {show(other)} and {show(table)} would be one table there: {wanted}"
                raise SchemaChangeRefused(msg, "route one of them to another name")
            by = options.sequence_by
            if by is not None and wanted.sequence is None and by not in wanted.key and table not in self._unordered:
                self._unordered.add(table)
                self._warn(no_sequence(table, by))
            if wanted.has_key:
                yield table, replace(wanted, options=self._layouts.get(table, PLAIN).options)

    @contextmanager
    def _changing(self, table: TableId, wanted: SqlTable) -> Generator[Connection]:
        """Return a connection whose transaction changes a table. Raise SchemaChangeRefused for what cannot be."""
        with self._asking(f"change the table {wanted}") as connection:
            try:
                yield connection
            except ChangeError as exc:
                msg = f"the table {wanted} of {show(table)} cannot be changed: {exc}"
                raise SchemaChangeRefused(msg, exc.hint or self._dialect.refused) from None

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return the statements by which `declare` would make and widen the tables. Raise what it would raise."""
        found: set[str] = set()
        for table, wanted in self._wanted(schemas):
            with self._changing(table, wanted) as connection:
                found.update(
                    statement.as_string(connection) for statement in planned(connection, wanted, self._dialect)
                )
        return found

    def acquire(self, checkpoint: str, run: int) -> None:
        """Become the only run that writes under the prefix. Raise IngestError."""
        self._owner = RunOwner(self._pipeline, checkpoint, run)
        with self._asking("keep progress") as connection:
            self._progress.make(connection)
        with self._asking("keep progress") as connection:
            before = self._progress.acquire(connection, self._owner)
        if before is not None and before.checkpoint != checkpoint:
            who = "this pipeline" if before.pipeline == self._pipeline else f"pipeline {before.pipeline}"
            self._warn(
                f"older progress of {who} was found at the sink (checkpoint {before.checkpoint}), of which this "
                "checkpoint knows nothing: all that it begins with is written, whether it was before or not"
            )

    def recover_in_doubt(
        self,
        scope: str,
        number: int,
        planned: int,
        starts: Mapping[int, Mapping[Split, int]],
        _age_s: float,
    ) -> dict[int, ResumePoint]:
        """Return how far each shard has written a batch whose end no driver saw. Raise CheckpointError."""
        with self._asking("read progress") as connection:
            newest, found = self._progress.read(connection, scope, number, planned)
        if newest > number:
            raise old_copy(newest, number)
        return {shard: point for shard, point in found.items() if shard in starts}

    def begin_batch(self, batch: int, _shards: int) -> None:
        """Say that a batch is about to be written. Raise Fenced where a newer run has begun."""
        if self._owner is not None:
            with self._asking("begin a batch") as connection:
                self._progress.begin_batch(connection, self._owner, batch)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
