"""A side that goes away is waited for as long as it takes, and the run begins again; what is no outage ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from driverparts import Hands, StopAfter, Told, context

from ingest.driver.availability import GIVE_UP_S, LONGEST_S, Outages, Retries
from ingest.errors import Unavailable
from ingest.observe.events import Alive

if TYPE_CHECKING:
    from ingest.driver.availability import SideWatch

AWAY = Unavailable("cannot connect at the database", "see whether it runs")


class Sides:
    """Sides that are seen to be away until some moment; `blind`: nobody can be asked."""

    def __init__(self, hands: Hands, back: float = 0.0) -> None:
        self.hands, self.back = hands, back

    @property
    def away(self) -> bool:
        return self.hands.at < self.back

    def answers_since(self, moment: float) -> bool:
        return not self.away and self.hands.at > moment


class Run:
    """A run that is no `--once`, and its outages."""

    def __init__(self, *, once: bool = False, stop: StopAfter | None = None, lives: bool = True) -> None:
        self.hands, self.told = Hands(), Told()
        self.context = context(self.told, self.hands)
        self.context.settings = replace(self.context.settings, once=once)
        self.outages = Outages(self.context, stop or StopAfter(), lambda: lives)

    def wait(self, away_s: float, records: int = 0) -> float:
        """For how long a failure was waited out, after which a side was away for so long."""
        began = self.hands.at
        sides = cast("SideWatch", Sides(self.hands, began + away_s))
        self.outages.wait(AWAY, sides, records)
        assert self.outages.over
        return self.hands.at - began


def test_a_side_that_is_away_is_waited_for_without_an_end() -> None:
    run = Run()
    day = 86_400.0
    assert run.wait(day) == day
    assert run.context.begun_before
    assert run.told.warnings == ["cannot connect at the database; waiting"]
    assert sum(isinstance(event, Alive) for event in run.told.events) > day / 3, "whoever watches sees that it waits"
    assert run.wait(2 * GIVE_UP_S) == 2 * GIVE_UP_S, "and again"


def test_what_comes_again_though_both_sides_answer_ends_the_run_after_a_while() -> None:
    run = Run()
    waits = [run.wait(0) for _ in range(13)]
    with pytest.raises(Unavailable, match="cannot connect"):
        run.wait(0)
    assert not run.outages.over
    assert waits[:6] == [1, 2, 4, 8, 16, LONGEST_S]
    assert GIVE_UP_S - LONGEST_S <= sum(waits) <= GIVE_UP_S + LONGEST_S


def test_a_run_that_gets_on_has_all_its_time_again() -> None:
    run = Run()
    for records in range(100):
        assert run.wait(0, records) <= 2


def test_with_once_nothing_is_waited_for_here() -> None:
    with pytest.raises(Unavailable):
        Run(once=True).wait(5)


def test_a_run_that_is_told_to_stop_waits_no_longer() -> None:
    run = Run(stop=StopAfter(3))
    with pytest.raises(Unavailable):
        run.wait(1000)
    assert run.hands.at < 1010


def test_without_java_no_attempt_would_get_anywhere() -> None:
    with pytest.raises(Unavailable):
        Run(lives=False).wait(5)


def test_a_question_of_a_run_without_once_is_asked_until_there_is_an_answer() -> None:
    run, asked = Run(), iter(range(5000))

    def question() -> str:
        if next(asked) < 4000:
            raise AWAY
        return "here"

    assert Retries(run.context, StopAfter(), run.context.liveness).until_answered(question) == "here"
    assert run.hands.at > 1000 + 10 * GIVE_UP_S
