"""Plans batches: waits until there are records, and stores what each batch reads before anything of it starts."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ingest.checkpoint.checkpoint import Batch
from ingest.driver.pacing import POLL_S, Pacing, assign_shards
from ingest.errors import DataLoss, IngestError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.driver.availability import Retries
    from ingest.driver.backlog import Backlog
    from ingest.driver.batch_checks import DataLossCheck
    from ingest.driver.context import LivenessFile, RunContext, Stop
    from ingest.driver.schemas import SchemaStore
    from ingest.driver.source_state import SourceMemory
    from ingest.driver.startup import Start
    from ingest.model.standing import Standing
    from ingest.observe.events import RunEnded
    from ingest.sources import SourceCoordinator


class Planner:
    """Planner of a run's batches: each has the ranges of records that are available."""

    def __init__(
        self,
        context: RunContext,
        start: Start,
        source: SourceCoordinator,
        backlog_wait: BacklogWait,
        pacing: Pacing,
        stop: Stop,
        shards: int,
        memory: SourceMemory,
    ) -> None:
        """`shards`: how many tasks work at once."""
        self._prefix = context.prefix
        self._once = context.settings.once
        self._start = start
        self._source = source
        self._backlog_wait = backlog_wait
        self._pacing = pacing
        self._stop = stop
        self._shards = shards
        self._memory = memory
        self._unfinished = start.unfinished

    def next_batch(self) -> Batch | None:
        """Return the batch that a crash left unfinished, or a new one of available records; None if the run is over.

        Raises IngestError.
        """
        if self._unfinished is not None:
            batch, self._unfinished = self._unfinished, None
            return batch
        return self._plan() if self._backlog_wait.wait() else None

    def _plan(self) -> Batch:
        """Plan the ranges of the next batch, and store the plan."""
        checkpoint, backlog = self._start.checkpoint, self._start.backlog
        progress, ends = backlog.progress, backlog.ends
        rests = not self._once and not self._memory.hurries(progress.positions, ends)
        self._pacing.wait(self._stop, progress.positions, rests=rests)
        self._pacing.weights = self._memory.weights(ends)
        progress.shards = assign_shards(progress.positions, progress.shards, self._shards)
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


class BacklogWait:
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
        """Wait for a backlog. Return whether there is one; if not, set the reason of the run's end in the summary.

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
            if not self._stop.asked:  # told to stop while the broker is away: there is no batch in progress
                raise
            self._splits.give_up()
        self._summary.stopped = "signal"
        return False

    def _over(self) -> bool:
        """Return whether the source is read to its end."""
        self._schemas.tell_unmatched()
        if self._once or self._splits.finished():
            return True
        self._splits.keep()
        return False


class SplitWatch:
    """Watch on the source's splits: finds new ones, and the end of each."""

    def __init__(
        self,
        source: SourceCoordinator,
        backlog: Backlog,
        data_loss: DataLossCheck,
        retries: Retries,
        asked: Callable[[], None] = lambda: None,
    ) -> None:
        """`asked` applies the backfill requests of other commands."""
        self._source = source
        self._backlog = backlog
        self._data_loss = data_loss
        self._retries = retries
        self._asked = asked
        self._away = False
        """True if the broker did not answer when the run was told to stop."""

    def look(self) -> bool:
        """Update the splits and their ends from the source. Return whether that succeeded.

        It is not where data was lost and the run goes on. Raises IngestError.
        """
        backlog = self._backlog
        self._asked()
        try:
            new = self._retries.until_answered(lambda: self._source.discover(backlog.positions))
            backlog.positions.update(new)
            backlog.see(self._retries.until_answered(lambda: self._source.ends(backlog.positions)))
        except DataLoss as exc:
            self._data_loss.tolerate(exc)
            return False
        return True

    def confirm(self) -> bool:
        """Return whether the next records still exist; checked only if there is a reason. Raises IngestError."""
        return not (self._data_loss.doubtful() and self._data_loss.recheck())

    def finished(self) -> bool:
        """Return whether a bounded source was read to its end."""
        return self._source.finished(self._backlog.positions)

    def keep(self) -> None:
        """Commit the positions to the consumer group again from time to time, while there is no backlog."""
        if self._source.publisher is not None:
            self._source.publisher.keep(self._backlog.positions)

    def show(self) -> None:
        """Commit the positions to the consumer group, for monitoring."""
        if self._source.publisher is not None:
            self._source.publisher.commit(self._backlog.positions)

    @property
    def waiting(self) -> int | None:
        """The backlog in records at the last look; None of a database."""
        return self._backlog.lag()

    @property
    def standing(self) -> Standing | None:
        """Where the reading of a database stands."""
        return self._backlog.standing()

    def give_up(self) -> None:
        """Do not ask the broker again: it is away, and the run is over."""
        self._away = True

    def look_past_targets(self) -> None:
        """Look where the splits end when the run is over: the backlog, and new records.

        Where the source does not answer, what was left at the last look counts.
        """
        if not self._away:
            with suppress(IngestError):
                self._backlog.look_past_targets(self._source.ends(self._backlog.positions))
