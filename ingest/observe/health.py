"""The health of a run: whether both of its ends answer, and whether it gets on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ingest.observe.events import Alive, BatchDone, RunEnded, RunStarted, SourceAnswers

if TYPE_CHECKING:
    from ingest.observe.events import Event


class Health:
    """An observer that knows how a run is. It may be asked in any thread."""

    def __init__(self, deadline_s: float) -> None:
        """`deadline_s`: the run is dead when it has not got on for so many seconds."""
        self._deadline_s = deadline_s
        self._began = False
        self._ended = False
        self._answers = True
        self._alive = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Take what the event says."""
        match event:
            case RunStarted():
                self._began, self._alive = True, time.monotonic()
            case SourceAnswers():
                self._answers = event.answers
            case Alive() | BatchDone():
                self._alive = time.monotonic()
            case RunEnded():
                self._ended = True
            case _:
                pass

    def unready(self) -> str:
        """Return why the run is not ready; an empty text if source and sink have answered, and it runs."""
        if self._ended:
            return "the run has ended"
        if not self._began:
            return "source and sink have not answered yet"
        return "" if self._answers else "the source does not answer"

    def dead(self) -> str:
        """Return why the run is to be started anew; an empty text if it gets on."""
        silent = time.monotonic() - self._alive
        if silent <= self._deadline_s:
            return ""
        return f"nothing has got on for {silent:.0f} s: neither a batch nor waiting for one"
