"""Pipelines from a MySQL server in this process, with a checkpoint that stays: runs, backfills, and their deaths.

Nothing starts Java. What each sink ends with is compared with what the server's own client says.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import inmemory
import pytest
from backfills import Killed
from mysql_servers import PASSWORD, USER

from ingest.checkpoint.backfills import BackfillRequest, ask
from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.checkpoint.run_status import status
from ingest.checkpoint.storage import LocalStorage
from ingest.driver.backfill import RowsAgainStartup
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.startup import PipelineStartup
from ingest.observe.events import RunEnded, Warned
from ingest.task import worker
from ingest.testing.in_memory_run import shared_spark
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from mysql_servers import MySql

    Death = tuple[type, str, int, str]
    """A method, which call of it is the last, and whether the run dies `before` or `after` it."""


KEYS: Final[dict[str, tuple[str, list[str]]]] = {
    "whole": ("INT", ["1", "2", "-3", "4", "5"]),
    "big": ("BIGINT UNSIGNED", ["0", "18446744073709551615", "7", "9223372036854775808"]),
    "exact": ("DECIMAL(10,2)", ["1.5", "-0.05", "0", "7"]),
    "texts": ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci", ["'a'", "'Åsa'", "'b\"\\\\'", "''"]),
    "days": ("DATE", ["'2020-01-31'", "'1000-01-01'", "'9999-12-31'"]),
    "moments": ("DATETIME(3)", ["'2020-01-31 12:13:14.5'", "'2020-01-31 12:13:14'", "'1999-12-31 23:59:59.999'"]),
    "instants": ("TIMESTAMP(6)", ["'2020-10-25 02:30:00.000001'", "'2020-01-31 12:13:14'", "'2001-01-01'"]),
    "bytes_": ("BINARY(3)", ["X'000102'", "X'FF0000'", "X'41'"]),
    "labels": ("ENUM('a','B''s','ü,x')", ["'a'", "'B''s'", "'ü,x'"]),
}
"""Types of keys, with values: the first one is deleted, the last one is new, where the log does not see it."""


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
        endpoints = Endpoints(pipeline.source, pipeline.sink, None)
        parts = make_parts(context, pipeline.rules, endpoints, engine, NoStop(), listeners)
        parts = replace(parts, pacing=Pacing(0.0, None, None))
        summary = RunEnded("test")
        counters = RunCounters(summary, 100)
        startup: Any = PipelineStartup(context, parts, counters)
        if tables or everything:
            startup = RowsAgainStartup(context, parts, counters, [f"{self.database}.{table}" for table in tables])
        try:
            with (
                CheckpointAccess(CheckpointLocation(str(self.folder / "c"))) as access,
                started(context, parts, startup, access, counters) as (_, driver),
            ):
                if while_it_runs is not None:
                    while_it_runs()
                startup.carry_out(driver, summary) if tables or everything else driver.run()
        finally:
            worker.forget()
            self.warnings = [event.text for event in seen if isinstance(event, Warned)]
        return summary

    def marked(self) -> list[str]:
        """The tables whose rows may differ, as `ingest status` shows them."""
        return sorted(status(Checkpoint(LocalStorage(self.folder / "c", lock=False)))["marked"])

    def rows(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        """What the server has, as texts."""
        return texts(self.execute(f"SELECT {columns} FROM {table}"))


def make(pipeline: InProcessPipeline, **tables: tuple[str, list[str]]) -> None:
    """Make tables, with all rows but the last."""
    for name, (kind, values) in tables.items():
        rows = ", ".join(f"({value}, {at})" for at, value in enumerate(values[:-1]))
        pipeline.execute(
            f"CREATE TABLE {name} (k {kind} NOT NULL PRIMARY KEY, v INT) CHARACTER SET utf8mb4",
            f"INSERT INTO {name} VALUES {rows}",
        )


def change(pipeline: InProcessPipeline, **tables: tuple[str, list[str]]) -> None:
    """Delete the first row of each, change the second, insert the last: of which the log has nothing."""
    for name, (_, values) in tables.items():
        pipeline.unlogged(
            f"DELETE FROM {name} WHERE v = 0",
            f"UPDATE {name} SET v = 100 WHERE v = 1",
            f"INSERT INTO {name} VALUES ({values[-1]}, 9)",
        )


BEGINNINGS: Final = ("tables", "all", "request")
"""How tables are read again: by a run of its own, of some tables or after a lost log, or by the active run."""


def read_again(pipeline: InProcessPipeline, beginning: str, *tables: str) -> None:
    """Let tables be read again, and leave nothing undone but what a death leaves."""
    if beginning == "request":
        storage, names = LocalStorage(pipeline.folder / "c", lock=False), [f"{pipeline.database}.{t}" for t in tables]
        pipeline.run(while_it_runs=lambda: _ask_once(storage, names))
    elif beginning == "all":
        pipeline.server.rotate()
        pipeline.server.purge(pipeline.server.position()[0])
        pipeline.run(everything=True)
    else:
        pipeline.run(*tables)


def _ask_once(storage: LocalStorage, names: list[str]) -> None:
    ask(storage, BackfillRequest(names))


def is_at_rest(pipeline: InProcessPipeline) -> bool:
    """Whether another run finds nothing to read: what was asked is done, and is not done once more."""
    summary = pipeline.run()
    left = LocalStorage(pipeline.folder / "c", lock=False).names("requests")
    again = [one for one in pipeline.warnings if "read again" in one]
    return (summary.records, again, [one for one in left if one.endswith(".request")]) == (0, [], [])


def texts(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in an order, each value as a text."""
    out = [
        tuple(one.hex() if isinstance(one, bytes | bytearray | memoryview) else None if one is None else str(one)
              for one in row) for row in rows
    ]  # fmt: skip
    return sorted(out, key=repr)


def dies_and_goes_on(
    pipeline: InProcessPipeline, beginning: str, dies: AbstractContextManager[None],
    stored: Callable[[str], list[tuple[Any, ...]]],
) -> None:  # fmt: skip
    """Let tables be read again, the run die of it, and the next one go on. `stored`: the sink's rows of a table."""
    some = {name: KEYS[name] for name in ("whole", "texts")}
    make(pipeline, **some)
    pipeline.run()
    change(pipeline, **some)
    with dies:
        read_again(pipeline, beginning, *some)
    pipeline.execute("INSERT INTO whole VALUES (50, 50)", "DELETE FROM whole WHERE v = 2", "UPDATE texts SET v = v + 7")
    pipeline.run()
    for name in some:
        assert texts(stored(name)) == pipeline.rows(name, "k, v")
    assert is_at_rest(pipeline)


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
