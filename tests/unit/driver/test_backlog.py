"""Where splits stand and end, and what waits between."""

from __future__ import annotations

from driverparts import A, B, backlog

from ingest.checkpoint.checkpoint import Progress
from ingest.driver.backlog import Backlog


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


def test_what_waits_is_records_where_positions_count_bytes() -> None:
    progress = Progress(positions={A: 100, B: 1})
    some = Backlog(
        progress,
        {A: 141, B: 3},
        drain=False,
        weights=lambda ends: {split: 0.05 if split == A else 50.0 for split in ends},
    )
    assert some.waiting() == {A: 3, B: 100}, "less than a record is one"
    progress.positions[A] = 141
    assert some.waiting() == {A: 0, B: 100}


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
