"""The stages of a task in a row: read, decode, encode, write, commit.

    a task without transforms    ShardTask              read → decode → encode → write → commit
    the first half of one with   TransformReadStage     read → decode → encode → spill ─┐ (rows' inputs to Spark SQL)
    the second half of it        TransformWriteStage    merge ← results and spill ◀─────┘ → write → commit

The halves are in `transform_pipeline.py`. Each stage is an object in a file of its own; values go from one to the next
here. Decoding and encoding (`encoding.py`) are two stages, each native or by the reference; so is merging
(`merging.py`). Each goes the native way as far as that goes and the reference's for the rest: nothing else differs
between the two. A split stops at the first record that does not fit its table's schema; the task then looks ahead, to
learn what else is new, and ends. Where the sink refuses records, the task goes back to its last commit and over them
again (`refusals.py`). What fails is a value in the result, so that only what Spark should try again is raised.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ingest.model.commit import RowsRefused
from ingest.task import worker
from ingest.task.attempt import Stopwatch, attempt
from ingest.task.commit import COMMIT_S, Committer, Interval
from ingest.task.counters import EncoderCounters
from ingest.task.native_stage import NativeToRecords
from ingest.task.refusals import Stopped, Ways
from ingest.task.rejects import RejectLimit, Rejects
from ingest.task.result import TaskResult
from ingest.task.source_side import SourceSide
from ingest.task.writing import WriteStage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.task.assignment import Task


class ShardTask:
    """A task that reads, decodes, encodes, writes and commits the ranges of one shard."""

    def __init__(self, task: Task, result: TaskResult, deadline: float) -> None:
        """`deadline`: when to end, in seconds of the monotonic clock. Raises IngestError."""
        self._task, self._result, self._deadline = task, result, deadline
        self._state = state = worker.state_for(task)
        setup, writer, letters = state.setup, state.clients.writer(), state.clients.letters()
        self._reader = state.clients.stateful(task)
        self._positions = dict(result.progress.positions)
        self._limit = RejectLimit(task.tolerated, result.counters, setup.source.ignored_errors)
        self._native = None if state.records.native is None else NativeToRecords(state.records)
        self._rejects = Rejects(setup, self._limit, letters, len(state.schemas.sources), result, task.assigned)
        self._sink = WriteStage(writer, self._rejects, setup.source.left_out, self._positions, result)
        counters = EncoderCounters(state.records.cache, state.records.native, result)
        self._committer = Committer(writer, letters, None, counters, self._positions, result, self._reader)
        self._interval = Interval(COMMIT_S)
        self._ways = Ways(task.ends, waits=task.waits)
        self._stopped: Stopped | None = None
        """Why the task ends before records of which a part was written: that part was given up."""

    def run(self) -> None:
        """Do all stages, chunk by chunk. Raises IngestError."""
        try:
            self._run()
        finally:
            if self._reader is not None:  # what was committed counts, also where it ends with an error
                self._result.progress.notes = self._reader.notes(self._result.progress.positions)

    def _run(self) -> None:
        ways, committer = self._ways, self._committer
        with committer.writing():
            if committer.resume(self._task, self._state.token):
                return
            while True:
                try:
                    with closing(self._source()) as source:
                        if self._go(source):
                            return
                    if self._sink.within:
                        self._give_up_part()
                        continue
                    ways.end()
                    committer.come_apart(apart=ways.apart)
                except RowsRefused as exc:
                    self._sink.within.clear()
                    self._rejects.went_back()
                    ways.refuse(exc, committer.go_back())

    def _source(self) -> SourceSide:
        """Return the stages up to the sink, for the way to go."""
        watched = self._ways.watched
        source = SourceSide(
            self._task, self._state, None if watched else self._native, self._limit, self._result, self._deadline,
            marked=False, refused=self._ways.refused.reason if watched else None,
        )  # fmt: skip
        self._committer.changelog = source.changelog
        return source

    def _go(self, source: SourceSide) -> bool:
        """Go from the positions to the end of the way; returns whether the task is over. Raises IngestError."""
        sink, positions, ways = self._sink, self._positions, self._ways
        source.prepare(positions)
        over = False
        with closing(source.read(positions, ways.ends)) as chunks:
            for chunk in chunks:
                if chunk is not None:
                    self._rejects.place = chunk.place
                    for part in source.encode(chunk):
                        sink.write(chunk.split, part)
                    sink.leave_out(chunk)
                over = source.ended() or (self._rejects.full and not sink.within) or ways.refused.waiting
                if over:
                    break
                if not sink.within and ((ways.apart and chunk is not None) or self._interval.passed()):
                    self._commit()
        over = over or source.stopped or not ways.apart
        self._result.progress.waited = ways.refused.waiting
        if sink.within:
            return False
        if not self._result.progress.waited:
            source.pass_gaps(positions)
        if over and self._stopped is not None:
            self._stopped.put_back(self._result)
        self._commit(final=over)
        return over

    def _give_up_part(self) -> None:
        """Go back to the last commit, and write again only what is before records of which a part was written."""
        self._stopped = Stopped.of(self._result)
        self._rejects.went_back()
        self._ways.cut(self._committer.go_back())
        self._committer.come_apart(apart=self._ways.apart)
        self._sink.within.clear()

    def _commit(self, *, final: bool = False) -> None:
        """Commit what was written. Raises IngestError."""
        self._committer.commit(final=final)
        self._rejects.committed()
        self._ways.committed()


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
