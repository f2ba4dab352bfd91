"""Spark as the engine of a run: started beside the connection to Kafka, and asked what its workers can do."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from ingest.driver.engine import refuse_speculation
from ingest.spark.session import Session, is_local
from ingest.task import native_support

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import SparkSession

    from ingest.driver.context import RunContext
    from ingest.driver.engine import TransformRunner
    from ingest.task.assignment import Setup
    from ingest.transform.compiler import TransformCompiler

MAX_ASKED: Final = 8
"""Workers that are asked at the start what they do natively."""


class SparkEngine:
    """A Spark session, which other threads can wait for."""

    def __init__(self, context: RunContext, *, sql: bool) -> None:
        """Start nothing yet; `sql`: whether rows will go through Spark SQL."""
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
        from ingest.driver.transforms import SparkTransformRunner  # noqa: PLC0415  (most pipelines need no Spark SQL)

        return SparkTransformRunner(self._session.result(), compiler, shards)

    def ask(self, setup: Broadcast[Setup]) -> list[list[str]]:
        """Return what workers say: one of this machine, or some of others, which may not be as this one is."""
        session = self._session.result()
        many = 1 if is_local(session.master) else min(session.slots, MAX_ASKED)
        return session.run(native_support.ask, [setup] * many)
