"""Engines that run the tasks of a batch, as main street sees them: Spark, or this very process.

Spark is started beside the connection to the source, and asked what its workers can do. On a cluster, the driver and
every executor must see the same directories: the driver leaves marks there, for which executors look, also those that
come later. Rules: docs/spec/delivery.md#on-a-cluster.
"""

from __future__ import annotations

import glob
import os
import socket
import uuid
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from ingest.component.options import said
from ingest.errors import ConfigError, is_denied
from ingest.model.text import reason_of
from ingest.paths import SharedMark, SharedPlace, is_remote, unseen, unshared
from ingest.spark.session import SUBMITTED, Session, is_local
from ingest.task import native_support

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import SparkSession

    from ingest.driver.context import RunContext
    from ingest.schema.evolve import Schemas
    from ingest.task.task import Setup, Task, TaskResult
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

    def broadcast(self, value: Any) -> Any:
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


MAX_ASKED: Final = 8
"""Workers that are asked at the start what they do natively."""


class SparkEngine:
    """A Spark session, which other threads can wait for."""

    def __init__(self, context: RunContext, *, sql: bool) -> None:
        """`sql`: whether rows will go through Spark SQL."""
        self._context = context
        self._sql = sql
        self._session: Future[Session] = Future()

    def start(self, lock: int | None) -> Session:
        """Start Java and Spark, unless they run; raises IngestError, which those who wait for Spark get as well."""
        if self._session.done():
            return self._session.result()
        settings = self._context.settings
        name, log = f"ingest {self._context.name}", settings.logs / "spark.log"
        try:
            session = Session(name, settings.master, settings.conf, lock=lock, log=log, sql=self._sql)
            refuse_speculation(session, self._context.prefix)
        except BaseException as exc:
            self._session.set_exception(exc)
            raise
        self._session.set_result(session)
        return session

    @property
    def lives(self) -> bool:
        """True if Java answers, or was not started yet."""
        if not self._session.done():
            return True
        return self._session.exception() is None and self._session.result().lives

    def stop(self) -> None:
        """End Spark and Java where they were started."""
        if self._session.done() and self._session.exception() is None:
            self._session.result().stop()

    def sql(self) -> SparkSession:
        """Return Spark SQL, as soon as there is one; raises IngestError where there will be none."""
        return self._session.result().sql()

    def transforms(self, compiler: TransformCompiler, shards: int) -> TransformRunner:
        """Return what runs tasks through Spark SQL."""
        return compiler.runner(self._session.result(), shards)

    def ask(self, setup: Broadcast[Setup]) -> list[list[str]]:
        """Return what workers say: one of this machine, or some of others, which may not be as this one is."""
        session = self._session.result()
        many = 1 if is_local(session.master) else min(session.slots, MAX_ASKED)
        return session.run(native_support.ask, [setup] * many)


MARK: Final = ".ingest-mark-"
"""The beginning of the names of marks. No pattern of files that does not name the dot matches them."""
_LOOKS: Final = 3
"""Jobs that look for marks, until all executors have."""
_WHOLE: Final = "write the whole path of a directory that the driver and every executor have"


@contextmanager
def seen_by_all(context: RunContext, engine: SparkEngine, lock: int | None) -> Iterator[None]:
    """Let a run on a cluster begin only where the driver and all executors see its directories. Raise ConfigError.

    Java starts here where it is not known otherwise where tasks run, or something is to be looked for. `lock`: a
    descriptor for child processes to hold.
    """
    settings, submitted = context.settings, SUBMITTED in os.environ
    places = [*said(context.pipeline.source, "shared_places"), *said(context.pipeline.sink, "shared_places")]
    if not submitted:
        if is_local(settings.master):
            yield
            return
        refuse_relative(places, settings.master)
    session = engine.start(lock) if places or submitted else None
    if session is None or is_local(session.master):
        yield
        return
    refuse_relative(places, session.master)
    if session.driver_is_placed:
        refuse_relative_checkpoint(settings.checkpoint)
    with left(places) as marks:
        if marks:
            look(session, marks)
        context.marks = marks
        yield


def refuse_relative(places: Iterable[SharedPlace], master: str) -> None:
    """Raise ConfigError for a path that each process would look for in a directory of its own."""
    for place in places:
        if not os.path.isabs(place.path):
            msg = (
                f"{place.option}: {place.path} is a relative path, and tasks run on {master}: each executor has a"
                " directory of its own, where it would look for it"
            )
            raise ConfigError(msg, _WHOLE)


def refuse_relative_checkpoint(where: str) -> None:
    """Raise ConfigError for a checkpoint in the directory of a driver for which the cluster chooses one each time."""
    if not (is_remote(where) or Path(where).is_absolute()):
        msg = (
            f"the checkpoint {where} is a relative path, and the cluster chooses where the driver runs: its next start"
            " would have another directory, and find no checkpoint"
        )
        raise ConfigError(msg, "give --checkpoint as a URI (hdfs://…, s3a://…), or a whole path that every driver has")


@contextmanager
def left(places: Sequence[SharedPlace]) -> Iterator[tuple[SharedMark, ...]]:
    """Leave marks while the block runs. Raise ConfigError where a directory cannot be made or written to."""
    marked: list[Path] = []
    try:
        yield tuple(_mark(place, marked) for place in places)
    finally:
        for path in marked:
            with suppress(OSError):
                path.unlink()


def _mark(place: SharedPlace, marked: list[Path]) -> SharedMark:
    """Return what executors are to look for, and leave it there where files are written."""
    if place.kind == "pattern":
        parts = Path(place.path).parts
        fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
        first = next(glob.iglob(place.path, recursive=True), "")
        return SharedMark(place.option, first or str(Path(*parts[:fixed])), "")
    folder = Path(place.path) if place.kind == "folder" else Path(place.path).parent
    path = folder / f"{MARK}{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError as exc:
        hint = "let this user write there, or choose another directory"
        if not is_denied(exc):
            hint = "see whether there is room, and whether its disk answers, or choose another directory"
        msg = f"cannot leave a mark for the executors in {folder} ({place.option}): {reason_of(exc)}"
        raise ConfigError(msg, hint) from exc
    marked.append(path)
    return SharedMark(place.option, str(path), str(folder))


def look(session: Session, marks: tuple[SharedMark, ...]) -> None:
    """Let a task on each executor look for the marks. Raise ConfigError that names a host which does not see one."""
    seen: set[tuple[str, str]] = set()
    for _ in range(_LOOKS):
        for host, folder, faults in session.run(_look_there, [marks] * max(session.slots, session.executors)):
            if faults:
                raise unshared(host, faults)
            seen.add((host, folder))
        if len(seen) >= session.executors:
            return


def _look_there(tasks: Iterable[tuple[SharedMark, ...]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield, for each task, the host, the executor's directory, and what is wrong there."""
    for marks in tasks:
        yield socket.gethostname(), os.getcwd(), unseen(marks)
