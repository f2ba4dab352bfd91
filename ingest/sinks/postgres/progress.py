"""The progress of shards, in tables of the database that their rows go to: it commits with the rows.

    ingest_run         for each prefix, the run that writes under it; a commit holds its row, so a newer run waits
    ingest_progress    for each shard of a scope, how far it is written, and the attempt that writes it

Rules: docs/spec/postgres.md#delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec
from psycopg import sql

from ingest.errors import CommitOutcomeUnknown
from ingest.model.commit import CommitScope, ResumePoint, begun_already, taken_over
from ingest.sinks.postgres.ddl import schema_planned
from ingest.sinks.postgres.dialect import POSTGRES, SqlDialect
from ingest.sinks.postgres.tables import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.record import Split
    from ingest.sinks.postgres.connection import Connection

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS {run} (
  prefix text PRIMARY KEY, pipeline text NOT NULL, checkpoint text NOT NULL, run bigint NOT NULL,
  batch bigint NOT NULL DEFAULT 0, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS {progress} (
  prefix text NOT NULL, scope text NOT NULL, shard integer NOT NULL, attempt bigint NOT NULL, batch bigint NOT NULL,
  planned bigint NOT NULL, positions jsonb NOT NULL, counters text NOT NULL, final boolean NOT NULL,
  PRIMARY KEY (prefix, scope, shard));
"""
_RUN: Final = "SELECT pipeline, checkpoint, run FROM {run} WHERE prefix = %s"


class RunOwner(msgspec.Struct, frozen=True):
    """The run that writes under a prefix."""

    pipeline: str
    checkpoint: str
    run: int


class ProgressTables:
    """The progress tables in one schema, with their queries. All methods raise psycopg.Error."""

    def __init__(self, schema: str, prefix: str, dialect: SqlDialect = POSTGRES) -> None:
        """`prefix`: the name under which one run at a time writes."""
        self._dialect = dialect
        escaped = schema.replace("%", "%%")  # of statements with parameters
        self._names = {"run": sql.Identifier(escaped, OWN[0]), "progress": sql.Identifier(escaped, OWN[1])}
        self._schema, self._prefix = schema, prefix

    def _sql(self, text: str) -> sql.Composed:
        """Return a statement with parameters."""
        return sql.SQL(text).format(**self._names)

    def create(self, connection: Connection) -> None:
        """Create the tables where they do not exist: rights are needed only for what is created.

        The transaction is to end with it: some servers take no rows in one that creates tables.
        """
        self._dialect.lock(connection)
        for statement in schema_planned(connection, self._schema, self._dialect):
            connection.execute(statement)
        tables = connection.execute(
            "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = ANY(%s)", (self._schema, list(OWN))
        ).fetchall()
        if len(tables) < len(OWN):
            run, progress = (sql.Identifier(self._schema, name) for name in OWN)
            connection.execute(sql.SQL(_CREATE).format(run=run, progress=progress))

    def acquire(self, connection: Connection, owner: RunOwner) -> RunOwner | None:
        """Store this run as the writer, and return the previous one. Raise Fenced where a newer run has begun.

        Waits until commits of older runs have ended.
        """
        row = self._held(connection, "FOR UPDATE")
        before = None if row is None else RunOwner(*row)
        if before is not None and before.checkpoint == owner.checkpoint and before.run > owner.run:
            raise begun_already(before.run, owner.run)
        connection.execute(
            self._sql(
                "INSERT INTO {run} (prefix, pipeline, checkpoint, run) VALUES (%s, %s, %s, %s) ON CONFLICT (prefix) DO"
                " UPDATE SET pipeline = EXCLUDED.pipeline, checkpoint = EXCLUDED.checkpoint, run = EXCLUDED.run,"
                " batch = 0, at = now()"
            ),
            (self._prefix, owner.pipeline, owner.checkpoint, owner.run),
        )
        return before

    def _held(self, connection: Connection, how: Literal["FOR UPDATE", "FOR SHARE", ""]) -> tuple[str, str, int] | None:
        """Return the stored writer, with its row locked until the transaction ends; None without one."""
        if not self._dialect.locks_rows:  # what is written is held everywhere
            with self._dialect.queueing(connection):
                connection.execute(self._sql("UPDATE {run} SET at = now() WHERE prefix = %s"), (self._prefix,))
            how = ""
        query = sql.SQL("{} {}").format(self._sql(_RUN), sql.SQL(how))
        return connection.execute(query, (self._prefix,)).fetchone()

    def check_owner(self, connection: Connection, run: int, scope: str) -> None:
        """Hold the run's row until the transaction ends. Raise Fenced where another run writes now.

        `scope`: of what the checkpoint's id is the beginning.
        """
        row = self._held(connection, "FOR SHARE")
        if row is None or row[2] != run or not scope.startswith(row[1]):
            who = "nobody" if row is None else f"pipeline {row[0]}, checkpoint {row[1]}, run {row[2]}"
            raise taken_over(self._prefix, who)

    def begin_batch(self, connection: Connection, owner: RunOwner, batch: int) -> None:
        """Record the number of the batch that is about to be written. Raise Fenced where another run writes now."""
        self.check_owner(connection, owner.run, owner.checkpoint)
        connection.execute(
            self._sql("UPDATE {run} SET batch = %s, at = now() WHERE prefix = %s"), (batch, self._prefix)
        )

    def take(self, connection: Connection, scope: CommitScope) -> tuple[int, ResumePoint | None]:
        """Take a shard over from earlier attempts: they can commit no more.

        Return this attempt's number, and how far the earlier ones have written this batch (None: not at all).
        """
        which = (self._prefix, scope.owner, scope.shard)
        connection.execute(
            self._sql(
                "INSERT INTO {progress} AS p VALUES (%s, %s, %s, 1, 0, 0, '[]', '', false)"
                " ON CONFLICT (prefix, scope, shard) DO UPDATE SET attempt = p.attempt + 1"
            ),
            which,
        )
        row = connection.execute(
            self._sql(
                "SELECT attempt, batch, planned, positions::text, counters, final FROM {progress}"
                " WHERE prefix = %s AND scope = %s AND shard = %s"
            ),
            which,
        ).fetchone()
        assert row is not None, "it was written"
        return row[0], _resumed(row[1:], scope.batch, scope.planned)

    def advance(
        self,
        connection: Connection,
        scope: CommitScope,
        attempt: int,
        positions: Mapping[Split, int],
        counters: bytes,
        *,
        final: bool,
    ) -> None:
        """Write the positions of a shard, in the transaction of its rows.

        Raise CommitOutcomeUnknown where another attempt has taken the shard over.
        """
        at = msgspec.json.encode([[*split, offset] for split, offset in positions.items()]).decode()
        done = connection.execute(
            self._sql(
                "UPDATE {progress} SET batch = %s, planned = %s, positions = %s::jsonb, counters = %s, final = %s"
                " WHERE prefix = %s AND scope = %s AND shard = %s AND attempt = %s"
            ),
            (scope.batch, scope.planned, at, counters.decode(), final, self._prefix, scope.owner, scope.shard, attempt),
        )
        if done.rowcount != 1:
            msg = f"another attempt writes shard {scope.shard} of batch {scope.batch} now"
            raise CommitOutcomeUnknown(msg, "nothing is lost: that attempt goes on")

    def read(self, connection: Connection, scope: str, number: int, planned: int) -> tuple[int, dict[int, ResumePoint]]:
        """Return the newest batch of a scope, and how far each shard has written the batch `number`."""
        rows = connection.execute(
            self._sql(
                "SELECT shard, batch, planned, positions::text, counters, final FROM {progress}"
                " WHERE prefix = %s AND scope = %s"
            ),
            (self._prefix, scope),
        ).fetchall()
        points = {row[0]: _resumed(row[1:], number, planned) for row in rows}
        newest = max((row[1] for row in rows), default=0)
        return newest, {shard: point for shard, point in points.items() if point is not None}


def _resumed(row: tuple[int, int, str, str, bool], batch: int, planned: int) -> ResumePoint | None:
    """Return how far a shard is written in a batch; None where its progress is of another batch."""
    if (row[0], row[1]) != (batch, planned):
        return None
    positions = {(topic, partition): offset for topic, partition, offset in msgspec.json.decode(row[2])}
    return ResumePoint(positions, row[3].encode(), row[4])
