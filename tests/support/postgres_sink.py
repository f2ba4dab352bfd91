"""The sink `postgres` on a real server, without a run: a driver's side and tasks of one checkpoint."""

from __future__ import annotations

import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ingest.model import types
from ingest.model.commit import CommitScope
from ingest.model.schema import Column, TableSchema
from ingest.postgres.tables import table_of
from ingest.sinks.postgres import PostgresSink

if TYPE_CHECKING:
    from postgres import Database

    from ingest.postgres.tables import SqlTable
    from ingest.postgres.writer import PostgresWriter
    from ingest.sinks.postgres_coordinator import PostgresCoordinator

SPLIT = ("t", 0)


def schema(*columns: str, key: str = "id") -> TableSchema:
    """A table of columns, each with its type after a space."""
    made = [one.partition(" ") for one in columns]
    return TableSchema(tuple(Column(name, types.parse(kind), nullable=name != key) for name, _, kind in made), (key,))


def options(postgres: Database, **more: Any) -> PostgresSink:
    given = {
        "type": "postgres", "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
        "password": "of-the-tests", "sink.transactional-id-prefix": uuid.uuid4().hex, **more,
    }  # fmt: skip
    return PostgresSink.model_validate(given)


warnings: list[str] = []
opened: list[Any] = []


def driver_of(sink: PostgresSink, pipeline: str = "p") -> PostgresCoordinator:
    """The driver's side."""
    found = sink.coordinator(pipeline, warnings.append)
    opened.append(found)
    return found


def owned(sink: PostgresSink, run: int = 1) -> PostgresCoordinator:
    """The driver's side of a run that has begun."""
    found = driver_of(sink)
    found.connect()
    found.acquire("checkpoint", run)
    return found


def task(sink: PostgresSink, run: int = 1) -> PostgresWriter:
    """A task's side."""
    found = sink.writer("p", run)
    opened.append(found)
    return found


def scope(run: int = 1, batch: int = 1, shard: int = 0) -> CommitScope:
    return CommitScope("checkpoint", run, batch, run, shard, {SPLIT: 0}, kept=False)


def write(sink: PostgresSink, table: SqlTable, *rows: tuple[str, str | None], run: int = 1, batch: int = 1) -> None:
    """Write rows and commit."""
    with closing(task(sink, run)) as writer:
        writer.begin(scope(run, batch))
        writer.write([(table, key.encode(), None if row is None else row.encode()) for key, row in rows])
        writer.commit({SPLIT: len(rows)}, b"", final=True)


def made(sink: PostgresSink, name: str, table: TableSchema) -> SqlTable:
    """The table, which is there now."""
    found = owned(sink)
    found.declare({(name, "t"): table})
    return table_of((name, "t"), table, "public")
