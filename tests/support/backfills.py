"""Pipelines in this process with a checkpoint that stays: runs, backfills, and their deaths. Nothing starts Java."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import inmemory
from harness import debezium

from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.driver import pacing
from ingest.driver.backfill import BackfillStartup
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.startup import PipelineStartup
from ingest.observe.events import RunEnded, Warned
from ingest.sources.backfill import BackfillSource
from ingest.task import worker
from ingest.testing.capturing import Captured, capturing_sink
from ingest.testing.in_memory import InMemoryCoordinator, MemoryRecord, in_memory
from ingest.testing.in_memory_run import by_split, shared_spark
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ingest.config.pipeline import Pipeline
    from ingest.model.reject import RejectedRecord
    from ingest.testing.in_memory import InMemorySource

NEW = [{"source-table": "shop.orders", "sink-table": "ods.orders2"}]


class Killed(BaseException):
    """The death of a process."""


class Dying:
    """A run that is killed when it is asked for the so-many-th time whether it is to stop."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._none = NoStop()
        self.installed, self.listen = self._none.installed, self._none.listen

    @property
    def asked(self) -> bool:
        self._left -= 1
        if not self._left:
            raise Killed
        return False


class Slow(Pacing):
    """Batches of so many records."""

    def __init__(self, at_once: int) -> None:
        super().__init__(0.0, None, None)
        self._at_once = at_once

    def ranges(self, positions: Any, ends: Any, shards: Any) -> dict[tuple[str, int], tuple[int, int]]:
        return pacing.even_ranges(positions, ends, shards, self._at_once)


@dataclass
class BackfillShop:
    """Records, and pipelines over them with one checkpoint."""

    folder: Path
    messages: list[tuple[int, bytes | None, bytes | None]] = field(default_factory=list)
    topics: tuple[str, ...] = ("topic", "topic")
    """The topic of each split of `messages`."""
    first: int = 0
    """The first position that the topic still has."""
    warnings: list[str] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    rejects: list[RejectedRecord] = field(default_factory=list)
    own_sink: bool = False
    """True if rows go to the pipeline's own sink."""
    own_source: bool = False
    """True if records come from the pipeline's own source, not from `messages`."""

    def add(self, op: str, key: int, n: Any = None, table: str = "orders", split: int = 0, **more: Any) -> None:
        row = {"id": key, "n": n, **more}
        value = debezium(op, row if op == "d" else None, None if op == "d" else row, table=table)
        self.messages.append((split, json.dumps({"id": key}).encode(), value))

    def source(self, pipeline: Pipeline) -> InMemorySource:
        records = by_split([MemoryRecord(i, self.topics[p], k, v) for i, (p, k, v) in enumerate(self.messages)])
        made = in_memory(pipeline.source, records or {("topic", 0): []})
        return replace(made, side=Expiring(records, self.first))

    def go(self, tables: Iterable[str] = (), dies: int = 0, at_once: int = 1000, **sections: Any) -> Any:
        """Run the pipeline, or read tables once more; returns the records that were written, and the summary."""
        pipeline = inmemory.pipeline(**sections)
        self.warnings, self.rejects = [], []
        seen = self.events = []
        context = RunContext(pipeline, Settings(str(self.folder / "c"), self.folder, once=True), seen.append)
        captured: Captured = Captured()
        source: Any = pipeline.source if self.own_source else self.source(pipeline)
        sink = pipeline.sink if self.own_sink else capturing_sink(pipeline.sink, captured, "test", context.warn)
        endpoints = Endpoints(BackfillSource(source) if tables else source, sink, None)
        engine = InProcessEngine(InProcessRunner(_no_java), shared_spark, context.prefix)
        listeners = Listeners(self.rejects.append, lambda *_: None)
        parts = make_parts(context, pipeline.rules, endpoints, engine, Dying(dies) if dies else NoStop(), listeners)
        parts = replace(parts, pacing=Slow(at_once))
        summary = RunEnded("test")
        counters = RunCounters(summary, 100)
        startup: Any = PipelineStartup(context, parts, counters)
        if tables:
            startup = BackfillStartup(context, parts, counters, [*tables])
        try:
            with (
                CheckpointAccess(CheckpointLocation(str(self.folder / "c"))) as access,
                started(context, parts, startup, access, counters) as (_, driver),
            ):
                startup.carry_out(driver, summary) if tables else driver.run()
        except Killed:
            pass
        finally:
            worker.discard()
            self.warnings = [event.text for event in seen if isinstance(event, Warned)]
        return captured.records, summary


class Expiring(InMemoryCoordinator):
    """The driver's side of records of which the first are gone."""

    def __init__(self, records: Any, first: int) -> None:
        super().__init__(records or {("topic", 0): []})
        self._first = first

    def resolve(self, splits: Iterable[tuple[str, int]], to: object) -> dict[tuple[str, int], int]:
        found = super().resolve(splits, to)
        return {split: max(at, self._first) for split, at in found.items()}


def _no_java() -> tuple[Any, Any]:
    raise AssertionError


def table(records: Iterable[tuple[str, bytes | None, bytes | None]], topic: str) -> dict[int, Any]:
    """The rows of a topic after these records: `n` by key."""
    rows: dict[int, Any] = {}
    for to, key, value in records:
        if to == topic:
            at = json.loads(key or b"")["id"]
            rows.pop(at, None)
            if value is not None:
                rows[at] = json.loads(value)["n"]
    return rows
