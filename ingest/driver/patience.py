"""The patience of a run with a broker that went away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import Unavailable
from ingest.observe.events import SourceAnswers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.driver.context import RunContext
    from ingest.driver.life import LifeFile
    from ingest.driver.stop import Stop
    from ingest.kafka.admin import Split

PATIENCE_S: Final = 300.0
"""The time that a running pipeline waits for a broker that went away, in seconds."""
AGAIN_S: Final = 1.0
"""The time between two attempts, in seconds."""


class Patience:
    """Questions to Kafka that are asked until there is an answer."""

    def __init__(self, context: RunContext, stop: Stop, life: LifeFile) -> None:
        """Wait for nothing yet."""
        self.clock = context.clock
        self._context = context
        self._stop = stop
        self._life = life
        self._answers = True

    def ask(self, question: Callable[[], dict[Split, int]]) -> dict[Split, int]:
        """Return the answer; raises Unavailable where there is none in `PATIENCE_S`, or somebody asks to stop."""
        since = self.clock.now()
        while True:
            try:
                answer = question()
            except Unavailable as exc:
                self._tell(answers=False)
                if self._stop.asked or self.clock.now() - since > PATIENCE_S:
                    raise
                self._life.touch()
                self._context.warn_once(f"{exc.message}; waiting")
                self.clock.sleep(AGAIN_S)
            else:
                self._tell(answers=True)
                return answer

    def _tell(self, *, answers: bool) -> None:
        """Tell the observer whether the source answers, when that changes."""
        if answers != self._answers:
            self._answers = answers
            self._context.observer(SourceAnswers(answers))
