"""The command in this process: it does what it does in a process of its own, without a start of Python or Java."""

from __future__ import annotations

import io
import json
import pickle
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
from harness import Result
from pyspark import cloudpickle
from wording import words_of_python

from ingest.cli.app import main
from ingest.task import worker
from ingest.testing.in_memory_run import shared_spark
from ingest.testing.in_process import InProcessEngine, InProcessRunner, LocalValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ingest.driver.context import RunContext

_T = TypeVar("_T")
_V = TypeVar("_V")


def called(*arguments: str) -> Result:
    """Return what the command with these arguments leaves: its exit code, and what it has written."""
    written = [io.BytesIO() for _ in range(2)]
    out, err = (io.TextIOWrapper(stream, "utf-8", write_through=True) for stream in written)
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(arguments)
    said = [stream.getvalue().decode() for stream in written]
    assert words_of_python("\n".join(said)) == [], said
    events = [json.loads(line) for line in said[1].splitlines() if line.startswith("{")]
    return Result(int(ended.value.code or 0), said[0], said[1], events)


def ran_here(*arguments: str) -> Result:
    """Run a pipeline as `ingest run --once` does, with this process as the engine: a tenth of a run on Spark.

    What drivers and tasks give each other passes through pickle, as it does on Spark.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ingest.driver.run.SparkEngine", _Engine)
        return called("run", "--once", *arguments)


class Piped(Protocol):
    """A pipeline file of a test and its checkpoint."""

    file: Path
    checkpoint: Path


def run_here(pipeline: Piped, *arguments: str) -> Result:
    """Run a test's pipeline to the end in this process (`ran_here`)."""
    return ran_here(str(pipeline.file), "--checkpoint", str(pipeline.checkpoint), *arguments)


class _Runner(InProcessRunner):
    """Runs tasks on copies, of two shards as `local[2]` does."""

    slots = 2

    def broadcast(self, value: object) -> LocalValue:
        return LocalValue(_copy(value))

    def run(self, function: Callable[[Iterable[_V]], Iterator[_T]], tasks: Sequence[_V]) -> list[_T]:
        return [_copy(result) for task in tasks for result in _copy(function)([_copy(task)])]


class _Engine(InProcessEngine):
    """This process, which ends after the run as workers do."""

    lives = True

    def __init__(self, context: RunContext, *, sql: bool) -> None:
        super().__init__(_Runner(_no_java), shared_spark, context.prefix)

    def stop(self) -> None:
        worker.forget()


def _copy(value: _T) -> _T:
    copied: _T = pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]  # noqa: S301  (our own bytes)
    return copied


def _no_java() -> tuple[Any, Any]:
    raise AssertionError("a run in this process has no file system of Hadoop")
