"""The stages of a task in a row: read, decode, encode, write, commit.

    a task without transforms    ShardTask              read → decode → encode → write → commit
    the first half of one with   TransformReadStage     read → decode → encode → spill ─┐ (rows' inputs to Spark SQL)
    the second half of it        TransformWriteStage    merge ← results and spill ◀─────┘ → write → commit

The halves are in `transform/stages.py`. Each stage is an object in a file of its own; values go from one to the next
here. Decoding and encoding (`encoding.py`) are two stages, each native or by the reference; so is merging
(`transform/merging.py`). Each goes the native way as far as that goes and the reference's for the rest: nothing else
differs between the two. A split stops at the first record that does not fit its table's schema; the task then looks
ahead, to learn what else is new, and ends. Where the sink refuses records, the task goes back to its last commit and
over them again (`rejects.py`). What fails is a value in the result, so that only what Spark should try again is
raised.
"""

from __future__ import annotations

import gc
import pickle
import time
import traceback
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager

from pyspark import TaskContext

from ingest.component.plugins import failure_of
from ingest.errors import CommitOutcomeUnknown, IngestError
from ingest.model.commit import RowsRefused
from ingest.task import worker
from ingest.task.encoding import NativeToRecords
from ingest.task.read_half import ReadHalf
from ingest.task.rejects import RefusalMode, RejectLimit, Stopped
from ingest.task.task import Task, TaskResult
from ingest.task.write_half import COMMIT_S, EncoderCounters, Interval, WriteHalf


@contextmanager
def attempt(result: TaskResult) -> Generator[None]:
    """Run a block; an error of it becomes the failure of the result.

    Raises CommitOutcomeUnknown only, which Spark tries again.

    The garbage collector waits meanwhile: objects that are made here live as long as their batch, and no longer.
    """
    gc.collect(0)
    gc.freeze()
    gc.disable()
    try:
        yield
    except CommitOutcomeUnknown:
        worker.discard()
        raise
    except IngestError as exc:
        result.progress.failure = _portable(exc)
        worker.discard()
    except Exception as exc:  # noqa: BLE001  (a bug is no better the second time: Spark shall not try again)
        traceback.print_exc()
        trace = "the stack trace is above" if TaskContext.get() is None else "Spark's log has the stack trace"
        result.progress.failure = failure_of(exc, "a task", trace)
        worker.discard()
    finally:
        gc.enable()
        gc.unfreeze()


def _portable(exc: IngestError) -> IngestError:
    """Return an error that reaches the driver: one of another package may not be made of its two texts there."""
    try:
        pickle.loads(pickle.dumps(exc))  # noqa: S301  (our own)
    except Exception:  # noqa: BLE001  (whatever its class does)
        kind: type[IngestError] = next(k for k in type(exc).__mro__ if k.__module__ == IngestError.__module__)
        return kind(exc.message, exc.hint)
    return exc


class Stopwatch:
    """The time that a task takes."""

    def __init__(self) -> None:
        """Begin now."""
        self.started = time.monotonic()
        """The time of the start, in seconds of the monotonic clock."""
        self._cpu = time.process_time()

    def stop(self, result: TaskResult) -> None:
        """Put the time, the processor time and the memory of this worker into a result."""
        measured = result.telemetry
        measured.seconds, measured.ended = time.monotonic() - self.started, time.time()
        measured.cpu_s += time.process_time() - self._cpu
        measured.rss_kib = worker.rss_kib()


class ShardTask:
    """A task that reads, decodes, encodes, writes and commits the ranges of one shard."""

    def __init__(self, task: Task, result: TaskResult, deadline: float) -> None:
        """`deadline`: when to end, in seconds of the monotonic clock. Raises IngestError."""
        self._task, self._result, self._deadline = task, result, deadline
        self._state = state = worker.state_for(task)
        self._reader = state.clients.stateful(task)
        self._limit = RejectLimit(task.tolerated, result.counters, state.setup.source.ignored_errors)
        self._native = None if state.records.native is None else NativeToRecords(state.records)
        counters = EncoderCounters(state.records.cache, state.records.native, result)
        self._sink = WriteHalf(task, state, counters, self._limit, result, self._reader)
        self._committer = self._sink.committer
        self._interval = Interval(COMMIT_S)
        self._mode = RefusalMode(task.ends, waits=task.waits)
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
        mode, committer = self._mode, self._committer
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
                    mode.end()
                    committer.come_apart(apart=mode.apart)
                except RowsRefused as exc:
                    self._sink.within.clear()
                    mode.refuse(exc, self._sink.go_back())

    def _source(self) -> ReadHalf:
        """Return the stages up to the sink, for the mode."""
        watched = self._mode.watched
        source = ReadHalf(
            self._task,
            self._state,
            None if watched else self._native,
            self._limit,
            self._result,
            self._deadline,
            marked=False,
            refused=self._mode.refused.reason if watched else None,
        )
        self._committer.changelog = source.changelog
        return source

    def _go(self, source: ReadHalf) -> bool:
        """Go from the positions to the end of the mode; returns whether the task is over. Raises IngestError."""
        sink, positions, mode = self._sink, self._sink.positions, self._mode
        source.prepare(positions)
        over = False
        with closing(source.read(positions, mode.ends)) as chunks:
            for chunk in chunks:
                if chunk is not None:
                    sink.rejects.place = chunk.place
                    for part in source.encode(chunk):
                        sink.write(chunk.split, part)
                    sink.leave_out(chunk)
                over = source.ended() or (sink.rejects.full and not sink.within) or mode.refused.waiting
                if over:
                    break
                if not sink.within and ((mode.apart and chunk is not None) or self._interval.passed()):
                    self._commit()
        over = over or source.stopped or not mode.apart
        self._result.progress.waited = mode.refused.waiting
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
        self._mode.cut(self._sink.go_back())
        self._committer.come_apart(apart=self._mode.apart)
        self._sink.within.clear()

    def _commit(self, *, final: bool = False) -> None:
        """Commit what was written. Raises IngestError."""
        self._sink.commit(final=final)
        self._mode.committed()


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
