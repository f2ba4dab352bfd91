"""Waits until there are records for a batch, or nothing more to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.driver.pacing import POLL_S
from ingest.errors import Unavailable

if TYPE_CHECKING:
    from ingest.driver.backlog import Backlog
    from ingest.driver.context import LivenessFile, Stop
    from ingest.driver.pacing import Pacing
    from ingest.driver.schemas import SchemaStore
    from ingest.driver.splits import SplitWatch
    from ingest.observe.events import RunEnded


class Arrivals:
    """Waits until there are records for a batch, or the run is over."""

    def __init__(
        self,
        splits: SplitWatch,
        backlog: Backlog,
        pacing: Pacing,
        schemas: SchemaStore,
        stop: Stop,
        liveness: LivenessFile,
        summary: RunEnded,
        *,
        once: bool,
    ) -> None:
        """`once`: whether the run is over when the source is drained."""
        self._splits = splits
        self._backlog = backlog
        self._pacing = pacing
        self._schemas = schemas
        self._stop = stop
        self._liveness = liveness
        self._summary = summary
        self._once = once

    def wait(self) -> bool:
        """Wait; returns whether there are records, and says in the summary why the run is over where it is.

        Raises IngestError.
        """
        try:
            while not self._stop.asked:
                self._liveness.touch()
                if not self._splits.look():
                    continue
                if not self._backlog.some():
                    if self._over():
                        self._summary.stopped = "drained"
                        return False
                elif self._pacing.ready():
                    if self._splits.confirm():
                        return True
                    continue
                self._pacing.clock.sleep(POLL_S)
        except Unavailable:
            if not self._stop.asked:  # told to stop while the broker is away: there is no batch in hand
                raise
            self._splits.give_up()
        self._summary.stopped = "signal"
        return False

    def _over(self) -> bool:
        """Tell whether everything was read that ever will be."""
        self._schemas.tell_unmatched()
        if self._once or self._splits.finished():
            return True
        self._splits.keep()
        return False
