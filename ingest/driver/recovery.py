"""Recovers a batch whose end no driver saw: a sink with transactions knows how far it was written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ingest.errors import ConfigError
from ingest.task.counters import CommitMetadata

if TYPE_CHECKING:
    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.driver.context import RunContext
    from ingest.sinks import SinkCoordinator


class Recovery:
    """Asks the sink about batches in doubt."""

    def __init__(self, context: RunContext, sink: SinkCoordinator) -> None:
        """Ask nothing yet."""
        self._context = context
        self._sink = sink
        self.notes: list[Any] = []
        """What the sink kept for a source with a state, of the batch that was recovered last."""

    def recover(self, checkpoint: Checkpoint, progress: Progress, batch: Batch | None) -> bool:
        """Add to the progress how far the sink was written in a batch; returns whether the sink knows that.

        `batch` is the one that was planned and not finished, None where there is none. In any case nothing of an older
        run is committed after this. Raises IngestError.
        """
        self.notes = []
        prefix = self._context.prefix
        if batch is not None and self._carry_out(checkpoint, progress, batch.number):
            return True
        if batch is not None and batch.prefix != prefix:
            self._see_prefix(batch, prefix)
        known = batch if batch is not None and batch.prefix == prefix else None
        starts = {} if known is None else {
            shard: {split: start for split, (start, _) in ranges.items()} for shard, ranges in known.by_shard().items()
        }  # fmt: skip
        number = progress.batch if batch is None else batch.number
        planned, age_s = (0, 0.0) if known is None else (known.run, time.time() - known.time / 1000)
        found = self._sink.recover_in_doubt(checkpoint.scope, number, planned, starts, age_s)
        if known is None or prefix is None:
            return False
        progress.batch = known.number
        progress.ids, progress.source_state = dict(known.ids), known.source_state
        for resumed in found.values():
            progress.positions.update(resumed.positions)
            kept = CommitMetadata.read_from(resumed.metadata)
            progress.errors += kept.rejected
            self.notes += [] if kept.note is None else [kept.note]
        return True

    def _carry_out(self, checkpoint: Checkpoint, progress: Progress, number: int) -> bool:
        """Add to the sink's tables what was decided of a batch; returns whether anything was. Raise IngestError."""
        decided = checkpoint.decided(number)
        if decided is None:
            return False
        reached, additions = decided
        self._sink.add(checkpoint.scope, number, additions)
        progress.batch, progress.ids, progress.shards = number, reached.ids, reached.shards
        progress.positions, progress.errors = reached.positions, reached.errors
        progress.marks, progress.source_state = self._sink.marks(), reached.source_state
        return True

    def _see_prefix(self, batch: Batch, prefix: str | None) -> None:
        """Refuse a batch in doubt under another prefix than now: nobody knows its end. Raises ConfigError."""
        if batch.prefix is None:
            return
        if prefix is not None:
            msg = f"batch {batch.number} was begun under sink.transactional-id-prefix {batch.prefix}, now {prefix}"
            raise ConfigError(msg, "run it once as it was, with --once; then change the prefix")
        self._context.warn(
            f"batch {batch.number} was begun exactly-once and is finished without: all of it is written again"
        )
