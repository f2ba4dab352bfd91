"""How large batches are, and when they start."""

from __future__ import annotations

from driverparts import A, B, Hands, StopAfter

from ingest.driver import pacing
from ingest.driver.pacing import FIRST, GROWTH, POLL_S, Pacing, shard_count
from ingest.task.task import Counters, TaskProgress, TaskResult, Telemetry


def done(read: int, seconds: float) -> TaskResult:
    return TaskResult(0, TaskProgress({}), Counters(read=read), telemetry=Telemetry(seconds=seconds))


def test_the_first_batch_is_small_and_the_next_follows_the_rate() -> None:
    pacing = Pacing(0.0, None, None)
    ends = {A: 10 * FIRST * GROWTH}
    assert pacing.ranges({A: 0}, ends, {A: 0}) == {A: (0, FIRST)}
    pacing.begin()
    pacing.learn([done(FIRST, 0.01), done(1, 5)])
    assert pacing.ranges({A: 0}, ends, {A: 0}) == {A: (0, int(FIRST / 5 * 5))}, "the slowest task took 5 s for it"


def test_a_sink_that_cannot_take_any_number_limits_batches() -> None:
    pacing = Pacing(0.0, None, FIRST + 1)
    pacing.learn([done(FIRST, 0.01)])
    assert pacing.ranges({A: 0}, {A: 1 << 40}, {A: 0}) == {A: (0, FIRST + 1)}


def test_a_batch_takes_the_time_since_its_start_and_not_that_of_its_tasks() -> None:
    hands = Hands()
    pacing = Pacing(0.0, None, None, clock=hands.clock)
    pacing.begin()
    hands.move(3.0)
    assert pacing.learn([done(1, 5)]) == 3.0


def test_a_rate_limit_is_shared_by_all_splits() -> None:
    hands = Hands()
    pacing = Pacing(0.0, 10.0, None, clock=hands.clock)
    assert not pacing.ready(), "nothing is saved up yet"
    hands.move(0.19)
    assert not pacing.ready(), "less than a fifth of a second's records"
    hands.move(0.06)
    assert pacing.ready()
    found = pacing.ranges({A: 0, B: 0}, {A: 50, B: 50}, {A: 0, B: 1})
    assert sum(end - start for start, end in found.values()) == 2
    pacing.begin()
    pacing.learn([done(2, 0.1)])
    assert not pacing.ready(), "it was used up"
    hands.move(100.0)
    found = pacing.ranges({A: 0, B: 0}, {A: 50, B: 50}, {A: 0, B: 1})
    assert sum(end - start for start, end in found.values()) == 10, "no more than a second's records are saved up"


def waited(pacing: Pacing, hands: Hands, positions: dict[tuple[str, int], int], stop: StopAfter | None = None) -> float:
    """The seconds that a wait takes."""
    began = hands.at
    pacing.wait(stop or StopAfter(), positions)
    return round(hands.at - began, 6)


def test_batches_keep_their_interval_unless_somebody_asks_to_stop() -> None:
    hands = Hands()
    pacing = Pacing(0.3, None, None, clock=hands.clock)
    pacing.begin()
    hands.move(0.1)
    assert waited(pacing, hands, {}) == 0.2, "since the start of the last batch"
    assert waited(pacing, hands, {}) == 0.0
    pacing.begin()
    assert waited(pacing, hands, {}, StopAfter(2)) == 2 * POLL_S


def test_a_batch_that_read_all_is_followed_by_a_rest() -> None:
    hands = Hands()
    pacing = Pacing(0.0, None, None, rest_s=60.0, clock=hands.clock)
    pacing.ranges({A: 0}, {A: 50}, {A: 0})
    pacing.begin()
    assert waited(pacing, hands, {A: 49}) == 0.0, "there is more to read"
    assert waited(pacing, hands, {A: 50}) == 60.0


def test_a_batch_that_an_earlier_run_has_planned_is_not_followed_by_a_rest() -> None:
    """Nobody has looked yet what there is: after a crash, records that wait would wait a minute longer."""
    hands = Hands()
    pacing = Pacing(0.0, None, None, rest_s=60.0, clock=hands.clock)
    pacing.begin()
    assert waited(pacing, hands, {A: 0}) == 0.0


def test_shards_are_those_of_the_file_or_the_checkpoint_or_the_slots() -> None:
    assert shard_count({}, None, 4, None) == 4
    assert shard_count({A: 0, B: 6}, None, 4, None) == 7
    assert shard_count({A: 0, B: 6}, 3, 4, None) == 3
    assert shard_count({}, 8, 4, 2) == 2


def test_ranges_go_by_what_a_position_stands_for() -> None:
    log, lane = ("log", 0), ("lane", 0)
    positions, ends, shards = {log: 1000, lane: 2}, {log: 9_000_000, lane: 50}, {log: 0, lane: 0}
    found = pacing.weighted_ranges(positions, ends, shards, 20_000, {log: 0.01, lane: 5000.0})
    assert found == {log: (1000, 1_001_000), lane: (2, 4)}, "half of the budget for each"
    assert pacing.weighted_ranges({log: 5}, {log: 5}, {log: 0}, 20_000, {log: 0.01}) == {}
    assert pacing.weighted_ranges({lane: 0}, {lane: 9}, {lane: 0}, 10, {lane: 5000.0}) == {lane: (0, 1)}, "at least one"


def test_a_log_goes_on_beside_chunks_that_fill_the_budget() -> None:
    """They may wait for the log to pass a statement: it would go on by one transaction in each batch."""
    lanes = [("snapshot", lane) for lane in range(8)]
    log, weights = ("binlog", 0), {("binlog", 0): 0.01, **dict.fromkeys(lanes, 32_768.0)}
    ends = {log: 9_000_000_000, **dict.fromkeys(lanes, 2)}
    positions, shards = dict.fromkeys(ends, 0), dict.fromkeys(ends, 0)
    found = pacing.weighted_ranges(positions, ends, shards, 20_000, weights)
    assert found == {log: (0, 222_222), **dict.fromkeys(lanes, (0, 1))}
