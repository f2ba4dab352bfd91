"""Where splits stand and end, and what waits between."""

from __future__ import annotations

from driverparts import A, B, backlog


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
