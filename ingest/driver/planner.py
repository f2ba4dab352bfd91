"""Plans batches: what each reads is stored before anything of it starts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ingest.checkpoint.checkpoint import Batch
from ingest.driver import ranges

if TYPE_CHECKING:
    from ingest.driver.arrivals import Arrivals
    from ingest.driver.context import RunContext, Stop
    from ingest.driver.pacing import Pacing
    from ingest.driver.source_state import SourceMemory
    from ingest.driver.startup import Start
    from ingest.sources import SourceCoordinator


class Planner:
    """The batches of a run, one after the other."""

    def __init__(
        self,
        context: RunContext,
        start: Start,
        source: SourceCoordinator,
        arrivals: Arrivals,
        pacing: Pacing,
        stop: Stop,
        shards: int,
        memory: SourceMemory,
    ) -> None:
        """Plan nothing yet; `shards`: how many tasks work at once."""
        self._prefix = context.prefix
        self._once = context.settings.once
        self._start = start
        self._source = source
        self._arrivals = arrivals
        self._pacing = pacing
        self._stop = stop
        self._shards = shards
        self._memory = memory
        self._unfinished = start.unfinished

    def next_batch(self) -> Batch | None:
        """Return the batch that a crash left, or one of the records that are there now; None when it is time to end.

        Raises IngestError.
        """
        if self._unfinished is not None:
            batch, self._unfinished = self._unfinished, None
            return batch
        return self._plan() if self._arrivals.wait() else None

    def _plan(self) -> Batch:
        """Decide what the next batch reads, and store that."""
        checkpoint, backlog = self._start.checkpoint, self._start.backlog
        progress, ends = backlog.progress, backlog.ends
        rests = not self._once and not self._memory.hurries(progress.positions, ends)
        self._pacing.wait(self._stop, progress.positions, rests=rests)
        self._pacing.weights = self._memory.weights(ends)
        progress.shards = ranges.assign(progress.positions, progress.shards, self._shards)
        batch = Batch(
            number=progress.batch + 1,
            run=checkpoint.run,
            ids=self._source.ids,
            ranges=self._pacing.ranges(progress.positions, ends, progress.shards),
            schema_version=self._start.schemas.schemas.version,
            shards=progress.shards,
            prefix=self._prefix,
            time=int(time.time() * 1000),
            source_state=self._memory.value(checkpoint),
        )
        checkpoint.plan(batch)
        return batch
