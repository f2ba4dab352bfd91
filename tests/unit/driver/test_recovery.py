"""A batch whose end no driver saw: the sink knows of it, or all of it is written again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from driverparts import A, B, Told, context

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.storage import MemoryStorage
from ingest.driver.startup import Recovery, still_there
from ingest.errors import ConfigError
from ingest.model.commit import ResumePoint
from ingest.sinks import SinkCoordinator

if TYPE_CHECKING:
    from collections.abc import Mapping

ONCE = {"sink": {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "mine"}}


class Remembering(SinkCoordinator):
    """A sink that knows how far each shard came."""

    def __init__(self, found: Mapping[int, ResumePoint]) -> None:
        self.transactions = self
        self.found = found
        self.asked: tuple[Any, ...] = ()

    def connect(self) -> str:
        return "sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        return

    def acquire(self, _checkpoint: str, _run: int) -> None:
        return

    def begin_batch(self, _batch: int, _shards: int) -> None:
        return

    def recover_in_doubt(self, *question: Any) -> dict[int, ResumePoint]:
        self.asked = question
        return dict(self.found)


def checkpoint() -> Checkpoint:
    opened = Checkpoint(MemoryStorage())
    opened.bind({})
    return opened


def batch(prefix: str | None) -> Batch:
    ranges = {A: (3, 9), B: (0, 4)}
    millis = int(time.time() * 1000) - 60_000
    return Batch(7, 2, {"t": "id"}, ranges, 1, {A: 0, B: 1}, prefix, millis)


def test_what_the_sink_knows_becomes_the_progress() -> None:
    tally = orjson.dumps({"read": 5, "rejected": 2, "tables": []})
    sink = Remembering({0: ResumePoint({A: 9}, tally, final=True), 1: ResumePoint({B: 2}, b"", final=False)})
    progress = Progress(6, {A: 3, B: 0}, {"t": "old"}, errors=1)
    opened = checkpoint()
    assert Recovery(context(Told(), **ONCE), sink).recover(opened, progress, batch("mine"))
    assert progress == Progress(7, {A: 9, B: 2}, {"t": "id"}, errors=3)
    scope, number, planned, starts, age_s = sink.asked
    assert (scope, number, planned, starts) == (opened.id, 7, 2, {0: {A: 3}, 1: {B: 0}})
    assert 59 < age_s < 120


def test_a_sink_without_transactions_is_written_again() -> None:
    sink, told = Remembering({}), Told()
    progress = Progress(6, {A: 3})
    assert not Recovery(context(told), sink).recover(checkpoint(), progress, batch(None))
    assert progress == Progress(6, {A: 3})
    assert told.warnings == []


def test_older_runs_are_ended_where_no_batch_is_in_doubt_too() -> None:
    sink = Remembering({})
    assert not Recovery(context(Told(), **ONCE), sink).recover(checkpoint(), Progress(6), None)
    assert sink.asked[1:] == (6, 0, {}, 0.0)


def test_another_prefix_than_that_of_the_batch_is_refused() -> None:
    sink = Remembering({})
    with pytest.raises(ConfigError, match=r"under sink\.transactional-id-prefix theirs, now mine"):
        Recovery(context(Told(), **ONCE), sink).recover(checkpoint(), Progress(6), batch("theirs"))
    assert sink.asked == ()


def test_a_batch_that_was_begun_exactly_once_may_be_finished_without() -> None:
    sink, told = Remembering({}), Told()
    assert not Recovery(context(told), sink).recover(checkpoint(), Progress(6), batch("mine"))
    assert told.warnings == ["batch 7 was begun exactly-once and is finished without: all of it is written again"]
    assert sink.asked[1:] == (7, 0, {}, 0.0)


def test_of_a_batch_to_do_again_those_ranges_stay_that_begin_where_their_split_stands() -> None:
    left = still_there(batch(None), {A: 3, B: 4})
    assert left is not None
    assert left.ranges == {A: (3, 9)}
    assert still_there(batch(None), {A: 4}) is None
