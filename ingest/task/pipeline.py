"""The stages of a task in a row: read, decode, encode, write, commit.

    a task without transforms    ShardTask              read → decode → encode → write → commit
    the first half of one with   TransformReadStage     read → decode → encode → spill ─┐ (rows' inputs to Spark SQL)
    the second half of it        TransformWriteStage    merge ← results and spill ◀─────┘ → write → commit

The halves are in `transform_pipeline.py`. Each stage is an object in a file of its own; values go from one to the next
here. Decoding and encoding (`encoding.py`) are two stages, each native or by the reference; so is merging
(`merging.py`). Each goes the native way as far as that goes and the reference's for the rest: nothing else differs
between the two. A split stops at the first record that does not fit its table's schema; the task then looks ahead, to
learn what else is new, and ends. What fails is a value in the result, so that only what Spark should try again is
raised.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ingest.task import worker
from ingest.task.assignment import TaskResult
from ingest.task.attempt import Stopwatch, attempt
from ingest.task.commit import COMMIT_S, Committer, Interval
from ingest.task.counters import EncoderCounters
from ingest.task.native_stage import NativeToRecords
from ingest.task.rejects import RejectLimit, Rejects
from ingest.task.source_side import SourceSide
from ingest.task.writing import WriteStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.task.assignment import Task


class ShardTask:
    """A task that reads, decodes, encodes, writes and commits the ranges of one shard."""

    def __init__(self, task: Task, result: TaskResult, deadline: float) -> None:
        """`deadline`: when to end, in seconds of the monotonic clock. Raises IngestError."""
        self._task = task
        self._state = state = worker.state_for(task)
        setup, writer, letters = state.setup, state.clients.writer(), state.clients.letters()
        self._positions = dict(result.positions)
        limit = RejectLimit(task.tolerated, result, setup.source.ignored_errors)
        native = None if state.records.native is None else NativeToRecords(state.records)
        self._source = SourceSide(task, state, native, limit, result, deadline, marked=False)
        self._rejects = Rejects(setup, limit, letters, len(state.schemas.sources), result)
        self._sink = WriteStage(writer, self._rejects, setup.source.left_out, self._positions, result)
        counters = EncoderCounters(state.records.cache, state.records.native, result)
        self._committer = Committer(writer, letters, self._source.changelog, counters, self._positions, result)

    def run(self) -> None:
        """Do all stages, chunk by chunk. Raises IngestError."""
        source, sink, committer, positions = self._source, self._sink, self._committer, self._positions
        with committer.writing(), closing(source):
            if committer.resume(self._task, self._state.token):
                return
            source.prepare(positions)
            interval = Interval(COMMIT_S)
            with closing(source.read(positions)) as chunks:
                for chunk in chunks:
                    if chunk is not None:
                        for part in source.encode(chunk):
                            sink.write(chunk.split, part)
                        sink.leave_out(chunk)
                    if source.ended() or self._rejects.full:
                        break
                    if interval.passed():
                        committer.commit()
                source.pass_gaps(positions)
                committer.commit(final=True)


def run_tasks(tasks: Iterable[Task]) -> Iterator[TaskResult]:
    """Do tasks, as Spark maps over a partition: all of them, or the worker would be lost."""
    for task in tasks:
        yield run_task(task)


def run_task(task: Task) -> TaskResult:
    """Do a task without transforms; returns its result. Raises CommitOutcomeUnknown only."""
    result, watch = TaskResult.begun(task), Stopwatch()
    with attempt(result):
        ShardTask(task, result, watch.started + task.seconds).run()
    watch.stop(result)
    return result
