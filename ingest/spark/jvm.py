"""Objects of Spark in the JVM that its Python classes keep to themselves: all that `ingest` takes of them."""

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


def parser_of(session: SparkSession) -> JavaObject:
    """Return the parser of Spark SQL. It raises errors of py4j, and of Spark."""
    return session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001


def analysed(frame: DataFrame) -> JavaObject:
    """Return the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001
