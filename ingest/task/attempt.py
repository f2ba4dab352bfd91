"""An attempt at a task, or at a stage of one: errors become values, but for those that Spark is to try again."""

from __future__ import annotations

import gc
import pickle
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import TaskContext

from ingest.component.plugins import failure_of
from ingest.errors import CommitOutcomeUnknown, IngestError
from ingest.task import worker

if TYPE_CHECKING:
    from collections.abc import Generator

    from ingest.task.result import TaskResult


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
