"""Engines that run the tasks of a batch, as main street sees them: Spark, or this very process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import SparkSession

    from ingest.schema.evolve import Schemas
    from ingest.task.assignment import Setup, Task, TaskResult
    from ingest.transform.compiler import TransformCompiler

_T = TypeVar("_T")
_V = TypeVar("_V")


class TaskRunner(Protocol):
    """Runs tasks until it is stopped; `spark.session.Session` is one."""

    @property
    def slots(self) -> int:
        """The number of tasks that run at once."""

    @property
    def speculates(self) -> bool:
        """True if a task may run twice at a time."""

    @property
    def hadoop(self) -> tuple[Any, Any]:
        """The JVM, and the configuration of Hadoop's file systems in it."""

    def broadcast(self, value: Any) -> Any:  # noqa: ANN401  (anything)
        """Send a value to the workers once."""

    def run(self, function: Callable[[Iterable[_V]], Iterator[_T]], tasks: Sequence[_V]) -> list[_T]:
        """Run a function over tasks; raises Unavailable where one of them was given up."""

    def stop(self) -> None:
        """End it."""


class TransformRunner(Protocol):
    """Runs tasks whose rows go through expressions."""

    def run(self, tasks: Sequence[Task], schemas: Schemas) -> list[TaskResult]:
        """Run tasks; raises Unavailable where one of them was given up."""


class Engine(Protocol):
    """Starts what runs the tasks."""

    def start(self, lock: int | None) -> TaskRunner:
        """Start, and return what runs tasks; raises IngestError. `lock`: a descriptor for child processes to hold."""

    def sql(self) -> SparkSession:
        """Return Spark SQL, as soon as there is one; raises IngestError where there will be none."""

    def transforms(self, compiler: TransformCompiler, shards: int) -> TransformRunner:
        """Return what runs tasks through expressions."""

    def ask(self, setup: Broadcast[Setup]) -> list[list[str]]:
        """Return what some workers say of why records pass through Python in them."""


def refuse_speculation(runner: TaskRunner, prefix: str | None) -> None:
    """Stop where a task could run twice at a time, and the guarantee is exactly-once; raises ConfigError.

    `prefix`: the beginning of the names of the sink's transactions, where it has any.
    """
    if runner.speculates and prefix is not None:
        runner.stop()
        msg = "spark.speculation starts a task twice at a time, and exactly-once lets only one of them write"
        raise ConfigError(msg, "leave spark.speculation out, or choose another sink.delivery-guarantee")
