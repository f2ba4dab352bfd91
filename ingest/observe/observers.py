"""Observers of a run: several as one, the run's health, and files that are replaced atomically."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Final

from ingest.model.text import reason_of
from ingest.observe.events import Alive, BatchDone, RunEnded, RunStarted, SideAnswers, Stopping, Warned
from ingest.paths import open_own

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.observe.events import Event, Observer, SideName


class Observers:
    """Several observers as one. Each gets every event; `shown` gets it last, after the others have counted it."""

    def __init__(self, shown: Observer, others: list[Observer]) -> None:
        self._all = (*others, shown)
        self._lock = RLock()

    def __call__(self, event: Event) -> None:
        """Pass an event to all observers, one event at a time."""
        # A signal handler must not wait for a lock that whoever it has interrupted may hold
        with nullcontext() if isinstance(event, Stopping) else self._lock:
            for observer in self._all:
                observer(event)


STALE_S: Final = 10.0
"""The time that an answer of a side counts, in seconds: it is asked every two."""


class Health:
    """An observer that derives a run's readiness and liveness from its events. Any thread may call it."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s`: the run is dead when no batch ended, and it waited for nothing, for so many seconds."""
        self._deadline_s = deadline_s
        self._began = False
        self._ended = False
        self._away: dict[SideName, str] = {}
        """Why a side does not answer."""
        self._answered: dict[SideName, float] = {}
        """When a side that is asked has answered last."""
        self._alive = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Update the health from an event."""
        match event:
            case RunStarted():
                self._began, self._alive = True, time.monotonic()
            case SideAnswers():
                self._take(event)
            case Alive() | BatchDone():
                self._alive = time.monotonic()
            case RunEnded():
                self._ended = True
            case _:
                pass

    def _take(self, event: SideAnswers) -> None:
        if event.answers:
            self._answered[event.side] = time.monotonic()
            if self._away.pop(event.side, ""):
                self._alive = time.monotonic()  # until now the run had to wait
        else:
            self._away[event.side] = event.why

    def away(self, side: SideName) -> str:
        """Return why a side does not answer; an empty text if it has, or cannot be asked."""
        why = self._away.get(side)
        if why is not None:
            return f"the {side} does not answer: {why}"
        silent = time.monotonic() - self._answered.get(side, time.monotonic())
        return f"the {side} has not answered for {silent:.0f} s" if silent > STALE_S else ""

    def unready(self) -> str:
        """Return why the run is not ready; an empty text if it has started, and source and sink answer."""
        if self._ended:
            return "the run has ended"
        away = "; ".join(filter(None, (self.away("source"), self.away("sink"))))
        return away if self._began or away else "source and sink have not answered yet"

    def dead(self) -> str:
        """Return why the run should be restarted; an empty text if batches end, or it waits for records or a side."""
        silent = time.monotonic() - self._alive
        if silent <= self._deadline_s or self._away:
            return ""
        return f"no batch completed for {silent:.0f} s, and the run waited neither for records nor for source or sink"


class AtomicFile:
    """A file that is replaced atomically: a reader sees the old content or the new one."""

    def __init__(self, path: Path, what: str, tell: Observer, *, private: bool = False) -> None:
        """`tell` gets the first failure as a warning: `what` cannot be written.

        `private`: only this user may read it.
        """
        self._private = private
        self._path = path
        self._what = what
        self._tell: Observer | None = tell

    def write(self, data: bytes) -> None:
        """Rewrite the file."""
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with open_own(beside, "wb") if self._private else beside.open("wb") as file:
                file.write(data)
            beside.replace(self._path)
        except OSError as exc:
            if self._tell is not None:
                self._tell(Warned(f"{self._what} cannot be written to {self._path}: {reason_of(exc)}"))
            self._tell = None
