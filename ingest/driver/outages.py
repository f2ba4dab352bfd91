"""What a run does when its source or its sink goes away: it waits until both answer, and begins again.

One rule for every source and sink, at the start, between batches, in the middle of one and at its commit: what failed
is Unavailable, and the checkpoint says where to go on. With `--once` nothing is waited for here. Rules:
docs/spec/delivery.md#a-side-that-is-away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.driver.patience import AGAIN_S, PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.driver.context import RunContext
    from ingest.driver.side_watch import SideWatch
    from ingest.driver.stop import Stop
    from ingest.errors import Unavailable

LONGEST_S: Final = 30.0
"""The longest time between two attempts where no side is seen to be away, in seconds."""


class Outages:
    """The times in which a run cannot go on."""

    def __init__(self, context: RunContext, stop: Stop, lives: Callable[[], bool]) -> None:
        """Have met none yet. `lives`: whether Java does, without which no attempt gets anywhere."""
        self._context = context
        self._stop = stop
        self._lives = lives
        self._since: float | None = None
        """Since when attempts fail though no side is seen to be away, as the clock has it."""
        self._pause = AGAIN_S
        self._records = 0
        self.over = False
        """True if the last attempt at the run failed for an outage that is over: the run begins again."""

    def wait(self, error: Unavailable, watch: SideWatch, records: int) -> None:
        """Wait until both sides answer. Raises the error where the run has to end.

        It has to with `--once`, where somebody asks to stop, and where the error comes again and again for `PATIENCE_S`
        though both sides answer. `records`: how many were read so far.
        """
        self.over = False
        context, clock = self._context, self._context.clock
        if context.settings.once or not self._lives():
            raise error
        if records > self._records:
            self._records, self._since, self._pause = records, None, AGAIN_S
        began = clock.now()
        context.warn_once(f"{error.message}; waiting")
        away = False
        while not (clock.now() - began >= self._pause and watch.answers_since(began)):
            if self._stop.asked:
                raise error
            context.life.touch()
            clock.sleep(AGAIN_S)
            away = away or watch.away
        if away:
            self._since, self._pause = None, AGAIN_S
        else:
            self._since = began if self._since is None else self._since
            if clock.now() - self._since > PATIENCE_S:
                raise error
            self._pause = min(2 * self._pause, LONGEST_S)
        self.over = context.begun_before = True
