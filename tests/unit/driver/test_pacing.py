"""How large batches are, and when they start."""

from __future__ import annotations

import time

from driverparts import A, B, StopAfter

from ingest.driver.pacing import FIRST, GROWTH, Pacing
from ingest.driver.ranges import shard_count
from ingest.task.assignment import TaskResult


def done(read: int, seconds: float) -> TaskResult:
    return TaskResult(0, {}, read=read, seconds=seconds)


def test_the_first_batch_is_small_and_the_next_follows_the_rate() -> None:
    pacing = Pacing(0.0, None, None)
    ends = {A: 10 * FIRST * GROWTH}
    assert pacing.ranges({A: 0}, ends, {A: 0}) == {A: (0, FIRST)}
    pacing.begin()
    assert 0 <= pacing.learn([done(FIRST, 0.01), done(1, 5)]) < 1, "seconds since its start, not of its tasks"
    assert pacing.ranges({A: 0}, ends, {A: 0}) == {A: (0, int(FIRST / 5 * 5))}, "the slowest task took 5 s for it"


def test_a_sink_that_cannot_take_any_number_limits_batches() -> None:
    pacing = Pacing(0.0, None, FIRST + 1)
    pacing.learn([done(FIRST, 0.01)])
    assert pacing.ranges({A: 0}, {A: 1 << 40}, {A: 0}) == {A: (0, FIRST + 1)}


def test_a_rate_limit_is_shared_by_all_splits() -> None:
    pacing = Pacing(0.0, 10.0, None)
    assert not pacing.ready(), "nothing is saved up yet"
    time.sleep(0.25)
    assert pacing.ready()
    found = pacing.ranges({A: 0, B: 0}, {A: 50, B: 50}, {A: 0, B: 1})
    assert 2 <= sum(end - start for start, end in found.values()) <= 9
    pacing.begin()
    pacing.learn([done(9, 0.1)])
    assert not pacing.ready(), "it was used up"


def test_batches_keep_their_interval_unless_somebody_asks_to_stop() -> None:
    pacing = Pacing(0.3, None, None)
    pacing.begin()
    began = time.monotonic()
    pacing.wait(StopAfter(), {})
    assert 0.25 < time.monotonic() - began < 5
    pacing.begin()
    slow = Pacing(60.0, None, None)
    slow.begin()
    began = time.monotonic()
    slow.wait(StopAfter(2), {})
    assert time.monotonic() - began < 5


def test_a_batch_that_read_all_is_followed_by_a_rest() -> None:
    pacing = Pacing(0.0, None, None, rest_s=0.3)
    pacing.ranges({A: 0}, {A: 50}, {A: 0})
    pacing.begin()
    began = time.monotonic()
    pacing.wait(StopAfter(), {A: 49})
    assert time.monotonic() - began < 0.2, "there is more to read"
    pacing.wait(StopAfter(), {A: 50})
    assert 0.25 < time.monotonic() - began < 5


def test_a_batch_that_an_earlier_run_has_planned_is_not_followed_by_a_rest() -> None:
    """Nobody has looked yet what there is: after a crash, records that wait would wait a minute longer."""
    pacing = Pacing(0.0, None, None, rest_s=60.0)
    pacing.begin()
    began = time.monotonic()
    pacing.wait(StopAfter(10**6), {A: 0})
    assert time.monotonic() - began < 1


def test_shards_are_those_of_the_file_or_the_checkpoint_or_the_slots() -> None:
    assert shard_count({}, None, 4, None) == 4
    assert shard_count({A: 0, B: 6}, None, 4, None) == 7
    assert shard_count({A: 0, B: 6}, 3, 4, None) == 3
    assert shard_count({}, 8, 4, 2) == 2
