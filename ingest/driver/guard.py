"""The decision after each batch whether the run goes on: rejects, lost data, and batches without progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.driver.availability import GIVE_UP_S
from ingest.errors import InternalError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.driver.backlog import Backlog
    from ingest.driver.books import Merged
    from ingest.driver.context import RunContext
    from ingest.driver.error_budget import ErrorBudget
    from ingest.driver.losses import Losses
    from ingest.task.result import TaskResult


class Guard:
    """The end of a batch, once its progress is stored."""

    def __init__(self, context: RunContext, backlog: Backlog, errors: ErrorBudget, losses: Losses) -> None:
        """Have seen no batch yet."""
        self._context = context
        self._backlog = backlog
        self._errors = errors
        self._losses = losses
        self._stalled = 0.0
        """Since when batches bring nothing, as the clock has it; zero where they do."""

    def check(self, merged: Merged, results: Sequence[TaskResult], *, evolved: bool) -> bool:
        """Tell whether a batch did what it was to do; raises IngestError where the run has to end.

        A batch that met lost data did not, and the run goes on where `scan.on-data-loss` says so.
        """
        self._errors.check(results)
        if merged.failure is not None:
            self._losses.survive(merged.failure)
            return False
        self._see_progress(merged, results, evolved=evolved)
        return True

    def _see_progress(self, merged: Merged, results: Sequence[TaskResult], *, evolved: bool) -> None:
        """Check that the run gets on: a batch without progress is a broker that is away, or a bug of ours."""
        positions = self._backlog.positions
        # where the sink has refused records, the next batch gets on, or fails
        to_go_back = any(result.progress.refused_before or result.progress.waited for result in results)
        if evolved or merged.learnt or to_go_back or any(positions[split] != at for split, at in merged.before.items()):
            self._stalled = 0.0
            self._losses.explained()
            return
        stuck = [split for result in results if result.progress.drifted for split in result.progress.positions]
        if stuck:
            places = ", ".join(f"{topic}[{p}] at offset {positions[topic, p]}" for topic, p in stuck[:5])
            msg = f"a batch came to nothing: a schema takes a row and yet does not; at one of {places}"
            raise InternalError(msg, "please report this with the message")
        self._stalled = self._stalled or self._context.clock.now()
        self._losses.suspect()
        if self._context.clock.now() - self._stalled > GIVE_UP_S:
            msg = f"nothing could be read for {GIVE_UP_S:.0f} s though there are records"
            raise Unavailable(msg, "see whether every partition of the source has a leader")
        self._context.warn_once("there are records, but none could be read; trying on")
