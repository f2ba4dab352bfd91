"""Waiting for records, and for the end."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import pytest
from driverparts import A, B, StopAfter, Told, backlog, context

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.storage import MemoryStorage
from ingest.driver.availability import Retries
from ingest.driver.batch_checks import DataLossCheck
from ingest.driver.context import LivenessFile
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.planner import BacklogWait, Planner, SplitWatch
from ingest.driver.schemas import SchemaRules, SchemaStore, policy_of, warn_withheld
from ingest.driver.sink_tables import KeyPartitions, SinkTables
from ingest.driver.source_state import SourceMemory
from ingest.driver.startup import Start
from ingest.errors import DataLoss, Unavailable
from ingest.observe.events import RunEnded
from ingest.schema.evolve import Schemas
from ingest.sinks.print import PrintCoordinator, PrintSink
from ingest.sources.stateful import SourceState
from ingest.testing.in_memory import InMemoryCoordinator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.driver.backlog import Backlog
    from ingest.driver.context import Stop
    from ingest.model.record import Split


class Growing(InMemoryCoordinator):
    """A source that has what it is told to have, look by look; an error is raised."""

    def __init__(self, *looks: Mapping[Split, int] | Exception) -> None:
        super().__init__({})
        self.publisher = self
        self.ids = {"t": "memory"}
        self.looks = list(looks)
        self.shown: list[dict[Split, int]] = []
        self.kept = 0

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, Exception):
            raise look
        return dict(look)

    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        return {} if B in positions else {B: 0}

    def commit(self, positions: Mapping[Split, int]) -> None:
        self.shown.append(dict(positions))

    def keep(self, _positions: Mapping[Split, int]) -> None:
        self.kept += 1


class Waiting:
    """A `BacklogWait`, with all that it works with."""

    def __init__(self, source: Growing, some: Backlog, stop: Stop | None = None, *, once: bool = False) -> None:
        self.told = Told()
        about, stop, liveness = context(self.told), stop or StopAfter(), LivenessFile(None, Told())
        self.summary = RunEnded("p")
        self.checkpoint = Checkpoint(MemoryStorage())
        self.checkpoint.bind({})
        sink = PrintCoordinator(PrintSink(type="print"))
        keys = KeyPartitions(about, sink, self.checkpoint)
        tables = SinkTables(sink, source, self.told, keys, same_cluster=False)
        pipeline = about.pipeline
        rules = SchemaRules(pipeline.rules, policy_of(pipeline), pipeline.source.inference(100))
        store = SchemaStore(about, rules, tables, self.checkpoint, RunCounters(self.summary, 100), warn_withheld(about))
        retries = Retries(about, stop, liveness)
        data_loss = DataLossCheck(source, some, retries)
        self.splits = SplitWatch(source, some, data_loss, retries)
        pacing = Pacing(0.0, None, None, clock=about.clock)
        self.backlog_wait = BacklogWait(self.splits, some, pacing, store, stop, liveness, self.summary, once=once)
        self.start = Start(self.checkpoint, pipeline.source, some, tables, store, Schemas())
        self.about, self.source, self.pacing, self.stop = about, source, pacing, stop

    def planner(self, start: Start | None = None) -> Planner:
        return Planner(
            self.about,
            start or self.start,
            self.source,
            self.backlog_wait,
            self.pacing,
            self.stop,
            2,
            SourceMemory(self.source),
        )


def test_records_are_waited_for_and_new_splits_found() -> None:
    source = Growing({A: 3}, {A: 3}, {A: 5, B: 1})
    some = backlog({A: 3}, {A: 3})
    waiting = Waiting(source, some)
    assert waiting.backlog_wait.wait()
    assert some.ends == {A: 5, B: 1}
    assert some.positions == {A: 3, B: 0}
    assert source.kept == 2, "positions are shown again while nothing happens"
    assert waiting.summary.stopped == ""


def test_a_run_that_drains_ends_when_all_that_was_there_is_read() -> None:
    waiting = Waiting(Growing({A: 9}), backlog({A: 3}, {A: 3}, drain=True), once=True)
    assert not waiting.backlog_wait.wait()
    assert waiting.summary.stopped == "drained"
    waiting.splits.look_past_targets()
    assert waiting.start.backlog.by_topic() == {"t": 6}, "what came meanwhile is left"


def test_a_signal_ends_the_wait() -> None:
    waiting = Waiting(Growing({A: 3}), backlog({A: 3}, {A: 3}), StopAfter(3))
    assert not waiting.backlog_wait.wait()
    assert waiting.summary.stopped == "signal"


def test_a_signal_ends_a_run_whose_broker_is_away_and_nobody_asks_that_again() -> None:
    source = Growing(Unavailable("away"))
    some = backlog({A: 3}, {A: 8})
    waiting = Waiting(source, some, StopAfter(1))
    assert not waiting.backlog_wait.wait()
    assert waiting.summary.stopped == "signal"
    source.looks = [{A: 100}]
    waiting.splits.look_past_targets()
    assert some.lag() == 5, "as of the last look"


def test_lost_data_that_nobody_explains_ends_the_run() -> None:
    with pytest.raises(DataLoss, match="gone"):
        Waiting(Growing(DataLoss("gone")), backlog({A: 3}, {A: 3})).backlog_wait.wait()


def test_a_plan_is_stored_before_anybody_has_it() -> None:
    waiting = Waiting(Growing({A: 5, B: 1}), backlog({A: 3}, {A: 3}))
    batch = waiting.planner().next_batch()
    assert batch is not None
    assert (batch.number, batch.ranges, batch.prefix) == (1, {A: (3, 5), B: (0, 1)}, None)
    assert sorted(batch.shards.values()) == [0, 1]
    stored = waiting.checkpoint.progress()[1]
    assert stored is not None
    assert (stored.number, stored.ranges) == (1, batch.ranges)


def test_a_batch_that_a_crash_left_comes_first_and_once() -> None:
    waiting = Waiting(Growing({A: 5, B: 0}), backlog({A: 5}, {A: 5}, drain=True), once=True)
    left = Batch(4, 1, {}, {A: (3, 5)}, 0, {A: 0})
    start = Start(
        waiting.checkpoint, waiting.start.source, waiting.start.backlog, waiting.start.tables, waiting.start.schemas,
        Schemas(), left, resumed=True,
    )  # fmt: skip
    planner = waiting.planner(start)
    assert planner.next_batch() is left
    assert waiting.checkpoint.progress() == (Progress(), None), "its plan is stored already, under its own run"
    assert planner.next_batch() is None
    assert waiting.summary.stopped == "drained"


def test_positions_are_shown_to_the_consumer_group() -> None:
    source = Growing({A: 3})
    Waiting(source, backlog({A: 3}, {A: 3})).splits.show()
    assert source.shown == [{A: 3}]


class WithRows(Growing):
    """A source whose second split is rows of tables, which are planned a few at a time."""

    need: Mapping[Split, int] = MappingProxyType({})

    def __init__(self, *looks: Mapping[Split, int] | Exception) -> None:
        super().__init__(*looks)
        self.stateful = cast("Any", self)

    def restore(self, _state: SourceState) -> None:
        raise AssertionError

    def state(self) -> SourceState:
        return SourceState(None, {})

    def weight(self, _split: Split) -> float:
        return 1.0

    def grows(self, split: Split) -> bool:
        return split == B

    def needed(self) -> Mapping[Split, int]:
        return self.need


@pytest.mark.parametrize(
    ("once", "more", "need", "rest"),
    [
        (False, {A: 9, B: 4}, {}, 60),
        (False, {A: 9, B: 6}, {}, 0),
        (False, {A: 9, B: 4}, {A: 8}, 0),
        (False, {A: 9, B: 4}, {A: 7}, 60),
        (True, {A: 9, B: 4}, {}, 0),
    ],
    ids=["log alone", "rows of tables", "rows wait for the log", "rows wait no more", "--once"],
)
def test_commits_are_apart_only_where_nothing_is_behind(
    once: bool, more: Mapping[Split, int], need: Mapping[Split, int], rest: int
) -> None:
    source = WithRows({A: 7, B: 4})
    some = backlog({A: 0, B: 0}, {A: 7, B: 4})
    waiting = Waiting(source, some)
    waiting.about.settings = replace(waiting.about.settings, once=once)
    waiting.pacing = Pacing(0.0, None, None, rest_s=60.0, clock=waiting.about.clock)
    planner = waiting.planner()
    assert planner.next_batch() is not None
    waiting.pacing.begin()
    some.positions.update({A: 7, B: 4})
    source.looks, source.need = [more], need
    began = waiting.about.clock.now()
    assert planner.next_batch() is not None
    assert rest <= waiting.about.clock.now() - began < rest + 3
