"""The patience of a run with a source or a sink that went away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

from ingest.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.driver.context import RunContext
    from ingest.driver.life import LifeFile
    from ingest.driver.stop import Stop

_T = TypeVar("_T")
PATIENCE_S: Final = 300.0
"""The time that a run with `--once` waits for a source or a sink that went away, in seconds. Others have no limit."""
AGAIN_S: Final = 1.0
"""The time between two attempts, in seconds."""


class Patience:
    """Questions to the source or the sink that are asked until there is an answer."""

    def __init__(self, context: RunContext, stop: Stop, life: LifeFile) -> None:
        """Wait for nothing yet."""
        self._limit = PATIENCE_S if context.settings.once else math.inf
        self.clock = context.clock
        self._context = context
        self._stop = stop
        self._life = life

    def ask(self, question: Callable[[], _T]) -> _T:
        """Return the answer; raises Unavailable where `--once` has no more time, or somebody asks to stop."""
        since = self.clock.now()
        while True:
            try:
                answer = question()
            except Unavailable as exc:
                if self._stop.asked or self.clock.now() - since > self._limit:
                    raise
                self._life.touch()
                self._context.warn_once(f"{exc.message}; waiting")
                self.clock.sleep(AGAIN_S)
            else:
                return answer
