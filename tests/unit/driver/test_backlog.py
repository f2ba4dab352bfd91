"""Where splits stand and end, and what waits between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driverparts import A, B, Hands, backlog

from ingest.checkpoint.checkpoint import Progress
from ingest.driver.backlog import Backlog
from ingest.model.standing import Standing, TableProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.record import Split


def test_what_waits_is_between_positions_and_ends() -> None:
    some = backlog({A: 3, B: 9}, {A: 10, B: 7})
    assert some.some()
    assert some.waiting() == {A: 7, B: 0}
    assert some.lag() == 7
    assert some.by_topic() == {"t": 7}
    some.positions[A] = 10
    assert not some.some()
    assert some.by_topic() == {}


def test_a_run_that_drains_ends_where_the_splits_ended_at_its_start() -> None:
    drained = backlog({A: 0}, {A: 5}, drain=True)
    drained.see({A: 100})
    assert drained.ends == {A: 5}
    drained.positions[A] = 5
    assert not drained.some()
    drained.look_past_targets({A: 100})
    assert drained.lag() == 95, "what came meanwhile is left"


def test_a_run_that_goes_on_follows_the_ends() -> None:
    going = backlog({A: 0}, {A: 5})
    going.see({A: 100})
    assert going.ends == {A: 100}
    assert going.targets == {}


def test_what_came_while_a_batch_runs_waits_when_it_is_done() -> None:
    going = backlog({A: 0}, {A: 5})
    assert going.waiting({A: 8}) == {A: 8}
    going.positions[A] = 5
    assert going.waiting() == {A: 3}, "the driver has not looked since its batch was planned"
    going.see({A: 9})
    assert going.waiting({A: 8}) == {A: 4}, "an answer to a question that was asked before the driver looked"


def test_a_database_is_behind_since_the_end_was_seen_that_is_reached() -> None:
    """An old event that was read last says nothing of a log that was quiet since."""
    progress, hands, log = Progress(positions={A: 100}), Hands(), {"read": 0, "rows": 40}

    def standing(positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Standing:
        tables = {"t": TableProgress(log["rows"], 100, 1, 2)}
        return Standing("b.1", positions[A], ends[A] - positions[A], log["read"], tables=tables)

    def behind(seen: int | None = None) -> tuple[int, float, float | None]:
        found = some.standing(None if seen is None else {A: seen})
        assert found is not None
        return found.lag_bytes, found.lag_s, found.seconds_left

    hands.move(10_000)
    some = Backlog(progress, {A: 141}, drain=False, standing=standing, now=hands.clock.now)
    start = hands.clock.now()
    assert (some.waiting(), some.lag(), some.by_topic()) == ({}, None, {}), "no byte is a record"
    assert behind() == (41, 0.0, None), "nobody knows since when"
    log["read"] = int(start) - 3_600
    assert behind() == (41, start - log["read"], None)
    progress.positions[A], log["rows"] = 141, 60
    hands.move(10)
    assert behind() == (0, 0.0, 20.0), "20 rows in 10 seconds"
    assert behind(150) == (9, 10.0, 20.0), "that is newer than the end that was seen at the start"
    some.see({A: 150})
    hands.move(5)
    assert behind()[:2] == (9, 15.0)
    log["read"] = int(hands.clock.now()) - 2
    assert behind()[1] == hands.clock.now() - log["read"]


def test_a_run_that_drains_follows_splits_that_grow_while_it_reads() -> None:
    drained = Backlog(
        Progress(positions={A: 0, B: 0}), {A: 5, B: 1}, drain=True,
        fixed=lambda ends: {split: end for split, end in ends.items() if split == A},
    )  # fmt: skip
    drained.see({A: 100, B: 9})
    assert drained.ends == {A: 5, B: 9}
    drained.positions.update({A: 5, B: 9})
    assert not drained.some()
    drained.look_past_targets({A: 100, B: 9})
    assert drained.by_topic() == {"t": 95}
