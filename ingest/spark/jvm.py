"""Objects of Spark in the JVM that its Python classes keep to themselves, and what errors of Java mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


def jvm_of(context: SparkContext) -> JVMView:
    """Return the JVM: all classes there, by their names."""
    return context._jvm  # noqa: SLF001


def hadoop_of(context: SparkContext) -> JavaObject:
    """Return the configuration of Hadoop's file systems."""
    return context._jsc.hadoopConfiguration()  # noqa: SLF001


def members_of(context: SparkContext) -> int:
    """Return how many processes work for Spark now: the driver, and the executors that have come up."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size())  # noqa: SLF001


def is_stopped(context: SparkContext) -> bool:
    """Return whether Spark has ended in its Java. It raises errors of py4j where Java has."""
    return bool(context._jsc.sc().isStopped())  # noqa: SLF001


def parser_of(session: SparkSession) -> JavaObject:
    """Return the parser of Spark SQL. It raises errors of py4j, and of Spark."""
    return session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001


def analysed(frame: DataFrame) -> JavaObject:
    """Return the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def java_failure(exc: Exception) -> str:
    """Return what Java said, in one line; raises the error itself where it is no failure of Java's."""
    if not type(exc).__module__.startswith("py4j"):
        raise exc
    cause = getattr(exc, "java_exception", None)
    text = str(exc) if cause is None else f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    return text.splitlines()[0][:300] if text else type(exc).__name__


def has_no_file_system(said: str) -> bool:
    """Return whether what Java said means that no file system of this scheme is on its class path."""
    return "No FileSystem for scheme" in said or "ClassNotFoundException" in said
