"""Pipelines from a MySQL server in this process, with a checkpoint that stays: runs, backfills, and their deaths.

Nothing starts Java. What each sink ends with is compared with what the server's own client says.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from backfills import Killed
from mysql_servers import PASSWORD, USER

from ingest.checkpoint.place import CheckpointAccess, StoredPlace
from ingest.driver.backfill import RowsAgainStartup
from ingest.driver.context import RunContext, Settings
from ingest.driver.counters import Counters
from ingest.driver.pacing import Pacing
from ingest.driver.parts import Listeners, Sides, make_parts
from ingest.driver.run import started
from ingest.driver.startup import PipelineStartup
from ingest.observe.events import RunEnded, Warned
from ingest.task import worker
from ingest.testing.in_memory_run import shared_spark
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mysql_servers import MySql

    Death = tuple[type, str, int, str]
    """A method, which call of it is the last, and whether the run dies `before` or `after` it."""


class InProcessPipeline:
    """A pipeline from a database of a test's own."""

    def __init__(self, folder: Path, server: MySql, database: str, sink: dict[str, Any], **more: Any) -> None:
        self.folder, self.server, self.database = folder, server, database
        self.source: dict[str, Any] = {
            "type": "mysql", "hostname": "127.0.0.1", "port": server.port, "username": USER, "password": PASSWORD,
            "tables": rf"{database}.\.*", "ssl.mode": "disabled", "scan.incremental.snapshot.chunk.size": 2,
        }  # fmt: skip
        self.sections: dict[str, Any] = {"sink": sink, **more}
        self.warnings: list[str] = []
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.database)

    def unlogged(self, *statements: str) -> None:
        """Statements of which the log has nothing."""
        self.execute("SET sql_log_bin = 0", *statements)

    def run(self, *tables: str, everything: bool = False, while_it_runs: Callable[[], None] | None = None) -> RunEnded:
        """Run once, or read tables once more. `while_it_runs` is called before the run looks for its first batch."""
        pipeline = inmemory.pipeline(source=self.source, **self.sections)
        seen: list[Any] = []
        context = RunContext(pipeline, Settings(str(self.folder / "c"), self.folder, once=True), seen.append)
        engine = InProcessEngine(InProcessRunner(_no_java), shared_spark, context.prefix)
        listeners = Listeners(lambda _: None, lambda *_: None)
        sides = Sides(pipeline.source, pipeline.sink, None)
        parts = make_parts(context, pipeline.rules, sides, engine, NoStop(), listeners)
        parts = replace(parts, pacing=Pacing(0.0, None, None))
        summary = RunEnded("test")
        counters = Counters(summary, 100)
        startup: Any = PipelineStartup(context, parts, counters)
        if tables or everything:
            startup = RowsAgainStartup(context, parts, counters, [f"{self.database}.{table}" for table in tables])
        try:
            with (
                CheckpointAccess(StoredPlace(str(self.folder / "c"))) as access,
                started(context, parts, startup, access, counters) as (_, driver),
            ):
                if while_it_runs is not None:
                    while_it_runs()
                startup.carry_out(driver, summary) if tables or everything else driver.run()
        finally:
            worker.forget()
            self.warnings = [event.text for event in seen if isinstance(event, Warned)]
        return summary

    def rows(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        """What the server has, as texts."""
        return texts(self.execute(f"SELECT {columns} FROM {table}"))  # noqa: S608  (the test's own)


def texts(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order, each value as a text."""
    out = [
        tuple(one.hex() if isinstance(one, bytes | bytearray | memoryview) else None if one is None else str(one)
              for one in row) for row in rows
    ]  # fmt: skip
    return sorted(out, key=repr)


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, death: Death) -> Iterator[None]:
    """Let a run in the block die at a place."""
    kind, name, left, when = death
    real = getattr(kind, name)
    calls = 0

    def called(*given: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == left and when == "before":
            raise Killed
        found = real(*given, **more)
        if calls == left:
            raise Killed
        return found

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, called)
        with pytest.raises(Killed):
            yield


def _no_java() -> tuple[Any, Any]:
    raise AssertionError
