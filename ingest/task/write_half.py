"""The write half of a task: encoded records go to the sink's writer and become durable, with how far that is.

Only what is committed is progress. The order is: dead letters, the sink's data with its progress, the rows of a
changelog. A crash in between loses nothing: dead letters may come twice, and the rows of a changelog are read again
from where they end.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext

from ingest.encode.coercer import OTHERS
from ingest.errors import CommitOutcomeUnknown, Fenced, IngestError, PartitionerError
from ingest.model.cache import count_up
from ingest.model.commit import CommitScope, RowsRefused, reports
from ingest.model.record import Split, offset_of
from ingest.task.rejects import RejectLimit, Rejects
from ingest.task.task import UNREPRESENTABLE, Counters, TableCounters, Task, TaskResult, add_counts

if TYPE_CHECKING:
    from collections.abc import Generator

    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.encode import EncoderCache
    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.native.native import NativeEncoders
    from ingest.sinks import Writer
    from ingest.sources.stateful import StatefulReader
    from ingest.task.changelog import Changelog
    from ingest.task.encoding import EncodedPart
    from ingest.task.read_half import ReadChunk
    from ingest.task.worker import WorkerState


COMMIT_S: Final = 5.0
"""A task commits within a range at least this often, in seconds."""


class Interval:
    """A time that passes again and again."""

    def __init__(self, seconds: float) -> None:
        """Begin now."""
        self._seconds = seconds
        self._since = time.monotonic()

    def passed(self) -> bool:
        """Return whether the time has passed since this was last so, or since the beginning."""
        now = time.monotonic()
        if now - self._since <= self._seconds:
            return False
        self._since = now
        return True


class EncoderCounters:
    """The counters that the encoders of tables keep while they encode, on their way into a task's result."""

    def __init__(self, cache: EncoderCache, native: NativeEncoders | None, result: TaskResult) -> None:
        """`native`: the native encoders that count for these encoders, if there are any."""
        self._cache = cache
        self._native = native
        self._counters, self._telemetry = result.counters, result.telemetry

    def collect(self) -> None:
        """Move the counters of all encoders into the result."""
        if self._native is not None:
            self._native.settle()
        for encoder in self._cache.compiled.values():
            self._collect(encoder)

    def _collect(self, encoder: TableEncoder) -> None:
        counters, table = self._counters, encoder.table
        if encoder.bytes_in or encoder.bytes_out:
            self._telemetry.of_table(table, encoder.bytes_in, encoder.bytes_out)
            encoder.bytes_in = encoder.bytes_out = 0
        if encoder.inserted or encoder.updated or encoder.deleted:
            counts = counters.tables.setdefault(table, TableCounters())
            counts.inserted += encoder.inserted
            counts.updated += encoder.updated
            counts.deleted += encoder.deleted
            encoder.inserted = encoder.updated = encoder.deleted = 0
        if encoder.unrepresentable:
            counters.skip(UNREPRESENTABLE, encoder.unrepresentable)
            encoder.unrepresentable = 0
        cut = encoder.cut
        add_counts(counters.cut, {(table, column): count for column, count in cut.items()})
        cut.clear()
        by_column = (
            (encoder.withheld, counters.withheld),
            (encoder.unread, counters.unread),
            (encoder.rounded, counters.rounded),
        )
        for counted, total in by_column:
            for column, number in counted.items():
                count_up(total, (table, column), number, (table, OTHERS))
            counted.clear()


class Committer:
    """A task's hold on the sink's writer: takes a shard over, and commits what was written of it."""

    def __init__(
        self,
        writer: Writer,
        letters: DeadLetters | None,
        changelog: Changelog | None,
        counters: EncoderCounters,
        positions: dict[Split, int],
        result: TaskResult,
        reader: StatefulReader | None = None,
    ) -> None:
        """`positions`: how far each split is written, when something is committed.

        `reader`: that of a source with a state, of which the sink keeps a note with each commit.
        """
        self._reader = reader
        self._writer = writer
        self._letters = letters
        self.changelog = changelog
        """The rows that are kept with each commit; None if there are none."""
        self._counters = counters
        self._positions = positions
        self._result = result
        self._committed = result.counters.copy()
        self._kept_rejects = len(result.progress.rejects)
        self._lost_before = writer.failures

    @contextmanager
    def writing(self) -> Generator[None]:
        """Give up what was written since the last commit, if the block fails.

        The result then counts what was committed only, as its positions do: the rest is read and counted again.
        """
        self._lost_before = self._writer.failures
        failed = True
        try:
            yield
            failed = False
        finally:
            lost = self._writer.failures - self._lost_before
            self._result.telemetry.reports += reports(self._writer.reporting)
            if failed:
                with suppress(IngestError):  # what went wrong before says more
                    self._writer.abort()
            self._counters.collect()
            if failed:
                self._result.counters.restore(self._committed)
            self._result.counters.lost_deliveries = lost

    def go_back(self) -> dict[Split, int]:
        """Give up what was written since the last commit, to go on from there; returns the positions before.

        Positions and the result are then what they were at that commit. The writer is told that chunks come one by one.
        """
        progress, reached, lost = self._result.progress, dict(self._positions), self._writer.failures
        self._writer.abort()
        self.come_apart(apart=True)
        self._lost_before += self._writer.failures - lost
        self._counters.collect()
        self._result.counters.restore(self._committed)
        self._positions.update(progress.positions)
        del progress.rejects[self._kept_rejects :]
        progress.stopped_by_reject = progress.drifted = False
        progress.observed, progress.widening = {}, {}
        return reached

    def come_apart(self, *, apart: bool) -> None:
        """Tell the writer whether each chunk is committed by itself from now on."""
        if self._writer.by_one is not None:
            self._writer.by_one.apart(on=apart)

    def resume(self, task: Task, worker: str) -> bool:
        """Take the shard over, and go on where an earlier attempt ended, if the sink knows that.

        Returns whether nothing is left to do. Raises IngestError.
        """
        result = self._result
        result.worker = worker
        context = TaskContext.get()
        first = context is None or context.attemptNumber() == 0
        setup = task.setup.value
        kept = first and task.last == worker
        starts = dict(self._positions)
        partitions = {} if task.partitions is None else task.partitions.value
        scope = CommitScope(setup.scope, setup.run, task.batch, task.planned, task.shard, starts, kept, partitions)
        try:
            resumed = self._writer.begin(scope)
        except (CommitOutcomeUnknown, Fenced):
            raise
        except IngestError as exc:
            if first:
                raise
            # How far an earlier attempt came is not known: that must not look as if it had not begun
            raise CommitOutcomeUnknown(exc.message, exc.hint) from exc
        if resumed is None:
            return False
        self._committed, note = Counters.read_from(resumed.metadata)
        result.counters.restore(self._committed)
        if self._reader is not None and note is not None:
            self._reader.resume(note)
        result.progress.positions.update(resumed.positions)
        self._positions.update(resumed.positions)
        return resumed.final

    def commit(self, *, final: bool = False) -> None:
        """Make durable what was written up to the positions; `final`: the task ends there. Raises IngestError."""
        positions, result = dict(self._positions), self._result
        if self._letters is not None:
            self._letters.commit()
        self._counters.collect()
        note = None if self._reader is None else self._reader.commit_note(positions)
        began = time.monotonic()
        self._writer.commit(positions, result.counters.text(note), final=final)
        result.telemetry.acknowledged(time.monotonic() - began)
        if self.changelog is not None:
            self.changelog.commit(positions)
        result.progress.delivered += self._writer.delivered()
        if self._writer.leaving_out is not None:
            add_counts(result.counters.skipped, self._writer.leaving_out.left_out())
        if result.telemetry.first_ack is None and result.counters.read:
            result.telemetry.first_ack = time.time()
        result.progress.positions = positions
        self._committed, self._kept_rejects = result.counters.copy(), len(result.progress.rejects)


class WriteHalf:
    """The writer of a task with its rejects and commits, and how far each split is written."""

    def __init__(
        self,
        task: Task,
        state: WorkerState,
        encoders: EncoderCounters,
        limit: RejectLimit,
        result: TaskResult,
        reader: StatefulReader | None = None,
    ) -> None:
        """`encoders`: of those whose records are written; `reader`: see `Committer`. Raises IngestError."""
        setup = state.setup
        self.writer, letters = state.clients.writer(), state.clients.letters()
        self.positions = dict(result.progress.positions)
        """How far each split is written; `TaskProgress` has how far each is committed."""
        self.rejects = Rejects(setup, limit, letters, len(state.schemas.sources), result, task.assigned)
        self.committer = Committer(self.writer, letters, None, encoders, self.positions, result, reader)
        self.within: set[Split] = set()
        """Splits of which records are written whose position others have as well that are not: a commit is no progress
        there, and would leave in the sink what is read again."""
        self._left_out = setup.source.capabilities.left_out
        self._counters, self._telemetry = result.counters, result.telemetry

    def write(self, split: Split, part: EncodedPart) -> None:
        """Write the records of a part, and account for the rest. Raises IngestError."""
        self._telemetry.sent(part.records)
        try:
            self.writer.write(part.records)
            for reject in part.rejects:
                self.rejects.add(split, reject)
        except PartitionerError as exc:
            first = offset_of(part.messages[part.start]) if part.start < part.stop else part.position - 1
            raise exc.read_from(*split, first, part.position) from exc
        except RowsRefused:
            self.positions[split] = max(part.position, part.end)  # those at fault are before it
            raise
        for reason, count in part.skipped.items():
            self._counters.skip(reason, count)
        self._counters.read += part.stop - part.start
        self.positions[split] = part.position
        if part.within:
            self.within.add(split)
        elif part.stop > part.start:
            self.within.discard(split)

    def leave_out(self, chunk: ReadChunk) -> None:
        """Account for the records of a chunk that are not wanted, as far as its split is written."""
        count = len(chunk.left_out_before(self.positions[chunk.split]))
        self._counters.skip(self._left_out, count)
        self._counters.read += count

    def commit(self, *, final: bool = False) -> None:
        """Commit what was written; `final`: the task ends there. Raises IngestError."""
        self.committer.commit(final=final)
        self.rejects.committed()

    def go_back(self) -> dict[Split, int]:
        """Give up what was written since the last commit; returns the positions before."""
        self.rejects.went_back()
        return self.committer.go_back()
