"""The order in which things become durable, and where a task goes on that was begun before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness import time_with
from inmemory import pipeline

from ingest.encode.encode import EncoderCache
from ingest.errors import Unavailable
from ingest.model.commit import CommitScope, ResumePoint
from ingest.schema.evolve import Schemas
from ingest.task import write_half
from ingest.task.task import Counters, Setup, TableCounters, Task, TaskProgress, TaskResult
from ingest.task.write_half import Committer, EncoderCounters, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

SPLIT = ("topic", 0)


class Broadcast:
    """What a worker sees of a broadcast."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Steps:
    """A sink's writer, dead letters and a changelog, which note what they are told to do."""

    leaving_out = by_one = reporting = None

    def __init__(self, resumed: ResumePoint | None = None, error: Exception | None = None) -> None:
        self.failures = 3
        self.done: list[Any] = []
        self.scope: CommitScope | None = None
        self._resumed = resumed
        self._error = error

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        self.scope = scope
        if self._error is not None:
            raise self._error
        return self._resumed

    def commit(
        self, positions: Mapping[Any, int] | None = None, metadata: bytes | None = None, *, final: bool | None = None
    ) -> None:
        if positions is None:
            self.done.append("letters")
        elif metadata is None:
            self.done.append(("changelog", dict(positions)))
        else:
            self.done.append(("data", dict(positions), Counters.read_from(metadata)[0], final))

    def delivered(self) -> list[str]:
        return ["line"]

    def abort(self) -> None:
        self.failures += 100
        self.done.append("abort")


def committer(steps: Any, result: TaskResult, positions: dict[Any, int]) -> Committer:
    made = pipeline()
    counters = EncoderCounters(EncoderCache(made.sink.encoder, made.source.inference(10)), None, result)
    return Committer(steps, steps, steps, counters, positions, result)


def a_task(last: str = "") -> Task:
    made = pipeline()
    setup: Any = Broadcast(Setup("c", 9, "p", made.source, made.sink, None, made.source.inference(10), 10, made.rules))
    base: Any = Broadcast(Schemas())
    return Task(5, 8, 2, {SPLIT: (10, 20)}, {"topic": "id"}, 0, 5.0, last, setup, base, 0, ())


def test_letters_come_before_data_and_the_changelog_last() -> None:
    steps, result, positions = (
        Steps(),
        TaskResult(0, TaskProgress({SPLIT: 10}), Counters(read=4, rejected=1)),
        {SPLIT: 10},
    )
    made = committer(steps, result, positions)
    positions[SPLIT] = 15
    made.commit()
    assert steps.done == [
        "letters", ("data", {SPLIT: 15}, Counters(4, 1), False), ("changelog", {SPLIT: 15}),
    ]  # fmt: skip
    assert (result.progress.positions, result.progress.delivered) == ({SPLIT: 15}, ["line"])
    assert result.telemetry.first_ack is not None
    positions[SPLIT] = 20
    assert result.progress.positions == {SPLIT: 15}, "progress is what was committed"
    made.commit(final=True)
    assert steps.done[-2] == ("data", {SPLIT: 20}, Counters(4, 1), True)


def test_what_fails_is_given_up_and_counted() -> None:
    steps, result = Steps(), TaskResult(0, TaskProgress({SPLIT: 10}))

    def fail() -> None:
        with committer(steps, result, {SPLIT: 10}).writing():
            steps.failures += 2
            raise Unavailable("gone")

    with pytest.raises(Unavailable):
        fail()
    assert steps.done == ["abort"]
    assert result.counters.lost_deliveries == 2, "those that are given up are not lost"
    with committer(steps, result, {SPLIT: 10}).writing():
        pass
    assert (steps.done, result.counters.lost_deliveries) == (["abort"], 0)


def test_what_a_failed_task_counts_is_what_it_committed() -> None:
    result, positions = TaskResult(0, TaskProgress({SPLIT: 10})), {SPLIT: 10}
    made = committer(Steps(), result, positions)

    def take(until: int) -> None:
        result.counters.read += until - positions[SPLIT]
        result.counters.tables.setdefault(("t",), TableCounters()).inserted += until - positions[SPLIT]
        result.counters.skip("tombstone", 1)
        result.counters.cut[("t",), "at"] = result.counters.withheld[("t",), "n"] = until
        result.counters.rejected += 1
        positions[SPLIT] = until

    def fail() -> None:
        with made.writing():
            take(13)
            made.commit()
            take(17)
            raise Unavailable("full")

    with pytest.raises(Unavailable):
        fail()
    assert result.progress.positions == {SPLIT: 13}
    assert (result.counters.read, result.counters.rejected, result.counters.skipped) == (3, 1, {"tombstone": 1})
    assert result.counters.tables == {("t",): TableCounters(inserted=3)}
    assert (result.counters.cut, result.counters.withheld) == ({(("t",), "at"): 13}, {(("t",), "n"): 13})


@pytest.mark.parametrize("final", [True, False])
def test_a_task_goes_on_where_an_attempt_before_it_committed(final: bool) -> None:
    counted = Counters(7, 2, {("t",): TableCounters(0, 1, 2, 3, 4)})
    steps, result, positions = (
        Steps(ResumePoint({SPLIT: 17}, counted.text(), final)),
        TaskResult(2, TaskProgress({SPLIT: 10})),
        {},
    )
    positions[SPLIT] = 10
    assert committer(steps, result, positions).resume(a_task(), "me") is final
    assert steps.scope == CommitScope("c", 9, 5, 8, 2, {SPLIT: 10}, kept=False)
    assert (positions, result.progress.positions) == ({SPLIT: 17}, {SPLIT: 17})
    assert (result.counters.read, result.counters.rejected, result.counters.tables, result.worker) == (
        7,
        2,
        counted.tables,
        "me",
    )


def test_a_worker_says_whether_it_was_the_last_to_write_its_shard() -> None:
    for last, kept in [("me", True), ("you", False)]:
        steps, result = Steps(), TaskResult(2, TaskProgress({SPLIT: 10}))
        assert committer(steps, result, {SPLIT: 10}).resume(a_task(last), "me") is False
        assert steps.scope is not None
        assert steps.scope.kept is kept
        assert (result.counters.read, result.progress.positions) == (0, {SPLIT: 10})


def test_an_error_of_the_first_attempt_is_what_it_is() -> None:
    error = Unavailable("no broker")
    with pytest.raises(Unavailable, match="no broker") as caught:
        committer(Steps(error=error), TaskResult(2, TaskProgress({SPLIT: 10})), {SPLIT: 10}).resume(a_task(), "me")
    assert caught.value is error


def test_an_interval_passes_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(write_half, "time", time_with(monotonic=lambda: now[0]))
    interval = Interval(5)
    found = []
    for at in (104, 105, 106, 110, 111.5, 116, 116.6):
        now[0] = at
        found.append(interval.passed())
    assert found == [False, False, True, False, True, False, True]
