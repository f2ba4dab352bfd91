"""The file by whose time of change a probe sees that a run gets on."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingest.driver.clock import CLOCK
from ingest.observe.events import Alive

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.driver.clock import Clock
    from ingest.observe.events import Observer

LIFE_S: Final = 1.0
"""The time between two touches, in seconds."""


class LifeFile:
    """A file that is touched now and then, no file where nobody watches one; observers are told, too."""

    def __init__(self, path: Path | None, observer: Observer, clock: Clock = CLOCK) -> None:
        """Touch nothing yet."""
        self._path = path
        self._observer = observer
        self._clock = clock
        self._touched = 0.0

    def touch(self) -> None:
        """Touch the file, unless that was done a moment ago. Raises nothing: whoever watches will notice."""
        now = self._clock.now()
        if now - self._touched <= LIFE_S:
            return
        self._touched = now
        self._observer(Alive())
        if self._path is not None:
            with suppress(OSError):
                self._path.touch()
