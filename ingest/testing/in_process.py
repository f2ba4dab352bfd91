"""This process as the engine of a run: tasks run here, one after the other, and Spark has expressions only."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ingest.driver.engine import refuse_speculation

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import SparkSession

    from ingest.task.task import Setup
    from ingest.transform.compiler import TransformCompiler
    from ingest.transform.runner import LocalTransformRunner

_T = TypeVar("_T")
_V = TypeVar("_V")


class LocalValue(NamedTuple):
    """A broadcast that goes nowhere."""

    value: Any


class InProcessRunner:
    """Runs tasks in this process."""

    slots = 1

    def __init__(self, java: Callable[[], tuple[Any, Any]], *, speculates: bool = False) -> None:
        """`java` starts Java and returns the JVM and a Hadoop configuration; `speculates`: what Spark is told to do."""
        self.speculates = speculates
        self._java = java

    @property
    def hadoop(self) -> tuple[Any, Any]:
        """The JVM, and the configuration of Hadoop's file systems in it."""
        return self._java()

    def broadcast(self, value: object) -> LocalValue:
        """Keep a value."""
        return LocalValue(value)

    def run(self, function: Callable[[Iterable[_V]], Iterator[_T]], tasks: Sequence[_V]) -> list[_T]:
        """Run one task after the other."""
        return [result for task in tasks for result in function([task])]

    def stop(self) -> None:
        """Do nothing: nothing runs."""


class InProcessEngine:
    """Starts nothing, but for Spark SQL where expressions need it."""

    def __init__(self, runner: InProcessRunner, sql: Callable[[], SparkSession], prefix: str | None = None) -> None:
        """`sql` starts Spark SQL; `prefix`: the beginning of the names of the sink's transactions, as of any run."""
        self._runner = runner
        self._sql = sql
        self._prefix = prefix

    def start(self, _lock: int | None) -> InProcessRunner:
        """Return what runs tasks; raises ConfigError where Spark would run one twice at a time, and must not."""
        refuse_speculation(self._runner, self._prefix)
        return self._runner

    def sql(self) -> SparkSession:
        """Return Spark SQL."""
        return self._sql()

    def transforms(self, compiler: TransformCompiler, _shards: int) -> LocalTransformRunner:
        """Return what runs both stages of a transform in this process."""
        return compiler.local_runner()

    def ask(self, _setup: Broadcast[Setup]) -> list[list[str]]:
        """Return no answers: there are no workers."""
        return []


class NoStop:
    """The stop signal of a run that is never stopped."""

    asked = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Install nothing."""
        yield

    def listen(self) -> None:
        """Install nothing."""
