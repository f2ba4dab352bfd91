"""The stages of a task with transforms in a row, in two halves with Spark SQL between them: see `pipeline.py`.

They have a module of their own, as they need Arrow: a worker that has no transforms starts without it.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ingest.errors import PartitionerError
from ingest.model.commit import RowsRefused
from ingest.task import worker
from ingest.task.pipeline import Stopwatch, attempt
from ingest.task.read_half import ReadHalf
from ingest.task.rejects import RefusedRecords, RejectLimit, Stopped
from ingest.task.task import Task, TaskProgress, TaskResult
from ingest.task.write_half import COMMIT_S, EncoderCounters, Interval, WriteHalf
from ingest.transform.merging import NEVER, ChunkMerger
from ingest.transform.rows import MARK, NativeRows, Results, RetainedRows, ReturnedRows, layout, lost, rows_of
from ingest.transform.spill import ChunkManifest, NativeToRows, Spilled, SpillStage, SpillStore

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import pyarrow as pa

    from ingest.encode.compiled_transform import CompiledTransforms


class TransformReadStage:
    """The first half of a task with transforms: reads, decodes and encodes, and leaves the rest to the second half."""

    def __init__(
        self, task: Task, transforms: CompiledTransforms, store: SpillStore, result: TaskResult, deadline: float
    ) -> None:
        """`deadline`: see `ShardTask`. Raises IngestError."""
        state = worker.state_for(task)
        self._reader = state.clients.stateful(task)
        setup, encoders = state.setup, state.records
        encoders.send_to_expressions(transforms)
        self._positions = dict(result.progress.positions)
        self._ends = task.ends
        limit = RejectLimit(task.tolerated, result.counters, setup.source.ignored_errors)
        rows = rows_of(layout(transforms))
        native = None
        if encoders.native is not None and isinstance(rows, NativeRows):
            native = NativeToRows(encoders, rows)
        self._source = ReadHalf(task, state, native, limit, result, deadline, marked=True)
        self._spill = SpillStage(
            transforms, rows, store, encoders, limit, setup.source.capabilities.left_out, self._positions, result
        )
        self._counters = EncoderCounters(encoders.cache, encoders.native, result)
        self._progress = result.progress

    def batches(self) -> Generator[pa.RecordBatch]:
        """Yield the rows for expressions, chunk by chunk. Raises IngestError."""
        source, spill, positions = self._source, self._spill, self._positions
        try:
            with closing(source):
                source.prepare(positions)
                interval = Interval(COMMIT_S)
                with closing(source.read(positions, self._ends)) as chunks:
                    for chunk in chunks:
                        if chunk is not None:
                            manifest = spill.begin(chunk.split, more=chunk.more, place=chunk.place)
                            for part in source.encode(chunk):
                                spill.add(manifest, part)
                            spill.leave_out(manifest, chunk)
                            yield spill.flush(manifest)
                        if source.ended():
                            break
                        if interval.passed():
                            source.keep_rows(positions)
                    source.pass_gaps(positions)
                    source.keep_rows(positions)
        finally:
            self._counters.collect()
        self._progress.positions = dict(positions)
        if self._reader is not None:
            self._progress.notes = self._reader.notes(positions)


class TransformWriteStage:
    """The second half of a task with transforms: puts results into rows, writes and commits.

    It owns the transaction: positions, rejects and what was observed come from the first half with each chunk.

    Where the sink refuses records, the task ends at its last commit. The next task commits each chunk by itself up to
    there, and merges a chunk of which records are refused again: what Spark has computed of it is still available then.
    """

    def __init__(self, task: Task, transforms: CompiledTransforms, store: SpillStore, result: TaskResult) -> None:
        """`transforms`: those that the rows went to. Raises IngestError."""
        self._task = task
        self._transforms = transforms
        self._store = store
        self._state = state = worker.state_for(task)
        limit = RejectLimit(task.tolerated, result.counters, state.setup.source.ignored_errors)
        self._merger = ChunkMerger(transforms, state, limit, result)
        self._sink = WriteHalf(task, state, EncoderCounters(state.results.cache, None, result), limit, result)
        self._committer, self._positions = self._sink.committer, self._sink.positions
        self._resumed = False
        """True if an earlier attempt has committed a part of it."""
        self._result, self._progress = result, result.progress

    def run(self, returned: ReturnedRows) -> None:
        """Do all stages, chunk by chunk. Raises IngestError."""
        starts = dict(self._positions)
        with self._committer.writing():
            done = self._committer.resume(self._task, self._state.token)
            self._resumed = self._positions != starts
            interval = Interval(COMMIT_S)
            ended = False
            while returned.wait():
                spilled = self._store.take()
                results = Results(
                    returned.take(spilled.sent), self._transforms.results, has_errors=self._transforms.has_errors
                )
                returned.take(spilled.padding)
                if isinstance(spilled.content, TaskResult):
                    self._take_over(spilled.content)
                    if not done and self._sink.within:
                        self._give_up_part(spilled.content.progress)
                    elif not done:
                        self._reach(spilled.content.progress)
                        with self._going_back():
                            self._sink.commit(final=True)
                            self._learn(spilled.content.progress)
                    ended = True
                    continue
                self._merger.learn(spilled.content)
                if done or not self._is_new(spilled.content):
                    continue
                retained = RetainedRows(spilled.rows)
                if self._is_apart():
                    self._write_apart(spilled.content, retained, results)
                    continue
                with self._going_back(spilled.content):
                    self._write(spilled.content, retained, results, RefusedRecords())
                    if not self._sink.within and interval.passed():
                        self._sink.commit()
                if self._progress.refused_before:
                    return
            if not ended:
                raise lost("the end")

    def _give_up_part(self, read: TaskProgress) -> None:
        """End at the last commit: of records that have one position only a part was read, and they are read again."""
        self._reach(read)
        stopped = Stopped.of(self._result)
        self._sink.go_back()
        self._committer.come_apart(apart=False)
        stopped.put_back(self._result)

    @contextmanager
    def _going_back(self, chunk: ChunkManifest | None = None) -> Generator[None]:
        """Go back to the last commit if the sink refuses records in the block, which the next task is told of.

        `chunk`: the one that is written there.
        """
        try:
            yield
        except RowsRefused:
            reached = self._sink.go_back()
            if chunk is not None:
                reached[chunk.split] = max(reached[chunk.split], chunk.end)
            if reached == self._positions:
                raise
            self._progress.refused_before = reached

    def _is_apart(self) -> bool:
        """Return whether chunks are to be committed one by one: until all splits have passed what was refused."""
        return any(self._positions[split] < until for split, until in self._task.apart.items())

    def _write_apart(self, chunk: ChunkManifest, retained: RetainedRows, results: Results) -> None:
        """Write and commit a chunk, with rejects instead of what the sink refuses. Raises IngestError."""
        refused = RefusedRecords(waits=self._task.waits)
        self._committer.come_apart(apart=True)
        while True:
            try:
                self._write(chunk, retained, results, refused)
                self._sink.commit()
            except RowsRefused as exc:
                self._sink.go_back()
                refused.add(exc)
            else:
                self._progress.waited = refused.waiting
                break
        self._committer.come_apart(apart=False)

    def _is_new(self, chunk: ChunkManifest) -> bool:
        """Return whether anything of a chunk is to be written."""
        if self._progress.stopped_by_reject or self._progress.waited:
            return False
        at = self._positions[chunk.split]
        return chunk.end > at or (chunk.more and chunk.end == at) or bool(chunk.rejects)

    def _write(self, chunk: ChunkManifest, retained: RetainedRows, results: Results, refused: RefusedRecords) -> None:
        """Write a chunk from where its split is written, and account for the rest of it."""
        first = self._positions[chunk.split]
        self._sink.rejects.place = chunk.place
        merged = self._merger.merge(retained, results, chunk, first, refused)
        for part in merged.parts:
            self._result.telemetry.sent(part)
        for part in merged.parts or [()]:  # a writer is asked at least once for each chunk whether it can write
            end = chunk.end if merged.stop == NEVER else merged.stop
            try:
                self._sink.writer.write(part)
            except PartitionerError as exc:
                raise exc.read_from(*chunk.split, first, end) from exc
        for reject in merged.rejects:
            self._sink.rejects.add(chunk.split, reject)
        for at, reason in chunk.skipped:
            if first <= at < merged.stop:
                self._result.counters.skip(reason, 1)
        read = (range(max(first, offsets.start), min(merged.stop, offsets.stop)) for offsets in chunk.offsets)
        self._result.counters.read += sum(map(len, read))
        self._positions[chunk.split] = max(first, chunk.end) if merged.stop == NEVER else merged.stop
        if chunk.within:
            self._sink.within.add(chunk.split)
        elif chunk.offsets:
            self._sink.within.discard(chunk.split)

    def _take_over(self, read: TaskResult) -> None:
        """Add the counters of the first half. Raise its failure, if it has one."""
        result = self._result
        result.telemetry.add(read.telemetry)
        result.counters.add(read.counters, len(read.counters.tables))
        if read.progress.failure is not None:
            raise read.progress.failure

    def _learn(self, read: TaskProgress) -> None:
        """Pass on the reader's notes, if all records that they are of are written, and none by an earlier attempt."""
        if not self._resumed and read.positions == self._positions:
            self._progress.notes = read.notes

    def _reach(self, read: TaskProgress) -> None:
        """Take over the positions of the first half, unless this half stopped earlier, at a reject."""
        result = self._progress
        if result.stopped_by_reject or result.waited:
            return
        result.observed, result.drifted = read.observed, read.drifted
        for split, position in read.positions.items():
            self._positions[split] = max(self._positions[split], position)


def run_read_stage(task: Task, transforms: CompiledTransforms, store: SpillStore) -> Generator[pa.RecordBatch]:
    """Do the first half of a task; yields the rows for expressions. A failure is passed to the second half."""
    result, watch = TaskResult.begun(task), Stopwatch()
    try:
        with attempt(result):
            yield from TransformReadStage(task, transforms, store, result, watch.started + task.seconds).batches()
        watch.stop(result)
        result.counters.tables, result.counters.rejected = {}, 0  # the write stage counts them
        rows = rows_of(layout(transforms))
        rows.mark(MARK)
        retained, batch = rows.take()
        store.put(Spilled(result, retained, sent=0, padding=1))
    finally:
        store.let_go()
    yield batch


def run_write_stage(
    task: Task, transforms: CompiledTransforms, store: SpillStore, batches: Iterable[pa.RecordBatch]
) -> TaskResult:
    """Do the second half of a task with the batches that Spark returns. Return the task's result.

    Raises CommitOutcomeUnknown only.
    """
    result, watch, returned = TaskResult.begun(task), Stopwatch(), ReturnedRows(batches)
    try:
        with attempt(result):
            TransformWriteStage(task, transforms, store, result).run(returned)
        for _ in returned.rest():  # or Spark would end this worker
            store.clear()
    finally:
        store.close()
    watch.stop(result)
    return result
