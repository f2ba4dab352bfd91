"""A run's parts for tests of single ones: the source is in memory, and what is told is kept."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inmemory

from ingest.checkpoint.checkpoint import Progress
from ingest.driver.availability import Retries
from ingest.driver.backlog import Backlog
from ingest.driver.context import Clock, LivenessFile, RunContext, Settings
from ingest.observe.events import Warned
from ingest.testing.in_memory import InMemoryCoordinator, MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from ingest.model.record import Split
    from ingest.observe.events import Event

A, B = ("t", 0), ("t", 1)


class Told:
    """Everything that an observer was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event, /) -> None:
        self.events.append(event)

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Warned)]


class StopAfter:
    """A stop that is asked for when it was looked at so many times."""

    def __init__(self, looks: int = 1 << 62) -> None:
        self.looks = looks

    @property
    def asked(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    def installed(self) -> AbstractContextManager[None]:
        return nullcontext()

    def listen(self) -> None:
        return


class Hands:
    """A clock that goes on when somebody waits, or moves its hands."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.clock = Clock(lambda: self.at, self.move)

    def move(self, seconds: float) -> None:
        self.at += seconds


def context(told: Told, hands: Hands | None = None, /, **sections: Any) -> RunContext:
    settings = Settings("c", Path("logs"), once=True)
    return RunContext(inmemory.pipeline(**sections), settings, told, (hands or Hands()).clock)


def coordinator(counts: Mapping[Split, int]) -> InMemoryCoordinator:
    """A source with so many records in each split."""
    return InMemoryCoordinator(
        {split: [MemoryRecord(i, split[0], None, b"{}") for i in range(count)] for split, count in counts.items()}
    )


def backlog(
    positions: Mapping[Split, int], ends: Mapping[Split, int], *, drain: bool = False, errors: int = 0
) -> Backlog:
    return Backlog(Progress(positions=dict(positions), errors=errors), ends, drain=drain)


def retries(told: Told, stop: StopAfter | None = None, hands: Hands | None = None) -> Retries:
    return Retries(context(told, hands), stop or StopAfter(), LivenessFile(None, Told()))
