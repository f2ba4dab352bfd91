"""A side that is away is reported at once, each minute, and when it is back; also if a question is never answered."""

from __future__ import annotations

import time
from threading import Event as Signal
from threading import Thread
from typing import TYPE_CHECKING, cast

from driverparts import A, B, Hands, Told, backlog, coordinator

from ingest.driver.availability import SAY_S, WITHIN_S, Asker, SideWatch, askers_of
from ingest.driver.context import LivenessFile
from ingest.errors import Unavailable
from ingest.observe.events import Alive, Pending, SideAnswers
from ingest.sinks.print import PrintCoordinator, PrintSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from ingest.driver.run_parts import RunParts
    from ingest.model.record import Split


class Side:
    """A side that answers with the ends of splits, or raises."""

    def __init__(self) -> None:
        self.ends: dict[Split, int] | None = None
        self.error: Exception | None = None
        self.hold: Signal | None = None
        self.closed = False

    def ask(self, positions: Mapping[Split, int]) -> Mapping[Split, int] | None:
        if self.hold is not None:
            self.hold.wait(60)
        if self.error is not None:
            raise self.error
        return None if self.ends is None else {split: self.ends[split] for split in positions}

    def close(self) -> None:
        self.closed = True


class Watched:
    """Both sides of a run that has read 3 of split A and nothing of B, and what is told of them."""

    def __init__(self) -> None:
        self.hands, self.told = Hands(), Told()
        self.source, self.sink = Side(), Side()
        self.backlog = backlog({A: 3, B: 0}, {A: 3, B: 0})
        now = self.hands.clock.now
        self.askers = [
            Asker("source", self.source, lambda: self.backlog.positions, now),
            Asker("sink", self.sink, lambda: self.backlog.positions, now),
        ]
        liveness = LivenessFile(None, self.told, self.hands.clock)
        self.watch = SideWatch(self.askers, lambda: self.backlog, liveness, self.told, now)

    def look(self, seconds: float = 2.0) -> list[object]:
        """What is told when both were asked after so many seconds."""
        self.hands.move(seconds)
        for asker in self.askers:
            asker.ask()
        del self.told.events[:]
        self.watch.look()
        return [event for event in self.told.events if not (isinstance(event, SideAnswers) and not event.news)]


def test_what_waits_is_told_while_a_batch_runs() -> None:
    watched = Watched()
    watched.source.ends = {A: 10, B: 1}
    assert watched.look() == [Pending({A: 7, B: 1})]
    watched.backlog.positions[A] = 9
    watched.source.ends = {A: 12, B: 1}
    assert watched.look() == [Pending({A: 3, B: 1})]
    assert [e.answers for e in watched.told.events if isinstance(e, SideAnswers)] == [True, True]


def test_a_side_that_is_away_is_said_at_once_each_minute_and_when_it_is_back() -> None:
    watched = Watched()
    assert watched.look() == []
    watched.sink.error = Unavailable("cannot connect", "see whether it runs")
    said = SideAnswers("sink", answers=False, why="cannot connect", news=True)
    assert watched.look() == [said, Alive()], "and the run is alive: it waits"
    assert watched.look(SAY_S - 2) == [Alive()]
    (again, _) = watched.look(2)
    assert again == SideAnswers("sink", answers=False, why="cannot connect", away_s=SAY_S, news=True)
    watched.sink.error = None
    assert watched.look(5) == [SideAnswers("sink", answers=True, away_s=SAY_S + 5, news=True)]
    assert watched.look(SAY_S) == []


def test_whatever_a_client_raises_is_no_answer() -> None:
    watched = Watched()
    watched.source.error = RuntimeError("no epoch")
    (away, _) = watched.look()
    assert away == SideAnswers("source", answers=False, why="RuntimeError: no epoch", news=True)


def test_a_question_that_never_comes_back_is_no_answer() -> None:
    watched = Watched()
    watched.look()
    watched.sink.hold = Signal()
    sink = watched.askers[1]
    asking = Thread(target=sink.ask)
    asking.start()
    deadline = time.monotonic() + 10
    while sink._began is None and time.monotonic() < deadline:
        time.sleep(0.001)
    watched.hands.move(WITHIN_S)
    assert sink.silence() == "", "it may still come"
    watched.hands.move(1)
    assert sink.silence() == "the sink has not answered a question for 6 s"
    watched.sink.hold.set()
    asking.join(10)
    assert sink.silence() == ""


def test_sides_are_asked_and_told_of_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.driver.availability.ASK_S", 0.001)
    monkeypatch.setattr("ingest.driver.availability.LOOK_S", 0.001)
    watched = Watched()
    watched.source.ends = {A: 4, B: 0}
    with watched.watch.watching():
        deadline = time.monotonic() + 20
        while Pending({A: 1, B: 0}) not in watched.told.events:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    while not (watched.source.closed and watched.sink.closed):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_coordinators_that_cannot_be_asked_are_not() -> None:
    class Parts:
        source, sink = coordinator({A: 1}), PrintCoordinator(PrintSink(type="print"))

    assert askers_of(cast("RunParts", Parts()), dict) == []


def test_sides_answer_since_a_moment_when_they_were_asked_after_it_and_that_was_told() -> None:
    watched = Watched()
    now = watched.hands.clock.now
    failed = now()
    assert not watched.watch.answers_since(failed), "nobody was asked yet"
    watched.sink.error = Unavailable("cannot connect")
    assert watched.look()[0] == SideAnswers("sink", answers=False, why="cannot connect", news=True)
    watched.sink.error = None
    watched.hands.move(1)
    for asker in watched.askers:
        asker.ask()
    assert not watched.watch.answers_since(failed), "its answer was not told"
    watched.watch.look()
    assert watched.watch.answers_since(failed)
    watched.hands.move(1)
    assert not watched.watch.answers_since(now()), "that was before"


def test_before_the_start_is_over_a_side_is_seen_to_be_away_and_nothing_waits() -> None:
    watched = Watched()
    watched.watch = SideWatch(watched.askers, lambda: None, LivenessFile(None, Told()), watched.told)
    watched.backlog.positions.clear()
    watched.source.ends = {A: 7}
    watched.sink.error = Unavailable("cannot connect")
    assert watched.look() == [SideAnswers("sink", answers=False, why="cannot connect", news=True)]
    assert watched.askers[0].ends is None, "there are no splits yet, so no ends of them"
