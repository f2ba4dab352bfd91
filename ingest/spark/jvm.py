"""Objects of Spark in the JVM that its Python classes keep to themselves, errors of Java, and Hadoop's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, ProgramMissing

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

MAX_BYTES: Final = 16 << 20
"""The largest file that is read, in bytes."""

_PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "oss": "org.apache.hadoop:hadoop-aliyun",
    "obs": "org.apache.hadoop:hadoop-huaweicloud",
    "cosn": "org.apache.hadoop:hadoop-cos",
    "gs": "org.apache.hadoop:hadoop-gcp",
    "tos": "org.apache.hadoop:hadoop-tos",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "wasb": "org.apache.hadoop:hadoop-azure",
    "wasbs": "org.apache.hadoop:hadoop-azure",
}
"""The packages of Maven Central that bring file systems of Hadoop's own project, by their schemes."""


def jvm_of(context: SparkContext) -> JVMView:
    """Return the JVM: all classes there, by their names."""
    return context._jvm


def hadoop_of(context: SparkContext) -> JavaObject:
    """Return the configuration of Hadoop's file systems."""
    return context._jsc.hadoopConfiguration()


def members_of(context: SparkContext) -> int:
    """Return how many processes work for Spark now: the driver, and the executors that have come up."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size())


def is_stopped(context: SparkContext) -> bool:
    """Return whether Spark has ended in its Java. It raises errors of py4j where Java has."""
    return bool(context._jsc.sc().isStopped())


def parser_of(session: SparkSession) -> JavaObject:
    """Return the parser of Spark SQL. It raises errors of py4j, and of Spark."""
    return session._jsparkSession.sessionState().sqlParser()


def analysed(frame: DataFrame) -> JavaObject:
    """Return the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


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


def read_hadoop_file(uri: str, jvm: JVMView, conf: JavaObject) -> bytes:
    """Return what is in a file of one of Hadoop's file systems. Raise ConfigError where it cannot be read."""
    try:
        path = jvm.org.apache.hadoop.fs.Path(uri)
        files = path.getFileSystem(conf)
        if not files.exists(path):
            why = "there is no such file"
        elif files.getFileStatus(path).getLen() > MAX_BYTES:
            why = f"it is larger than {MAX_BYTES >> 20} MiB"
        else:
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
    except Exception as exc:
        said = java_failure(exc)
        if has_no_file_system(said):
            raise _without_file_system(uri, jvm) from exc
        why = said
    msg = f"cannot read {uri}: {why}"
    raise ConfigError(msg, "see to its address and its rights; settings of its file system are --conf spark.hadoop.…")


def _without_file_system(uri: str, jvm: JVMView) -> ConfigError:
    scheme = uri.partition(":")[0].lower()
    msg = f"cannot read {uri}: Spark has no file system {scheme!r} here"
    package = _PACKAGES.get(scheme)
    if package is None:
        known = {"s3": "; Hadoop's own scheme for S3 is s3a", "s3n": "; Hadoop's own scheme for S3 is s3a"}
        return ProgramMissing(
            msg, f"add the package that brings it: --conf spark.jars.packages=…{known.get(scheme, '')}"
        )
    version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    return ProgramMissing(msg, f"add the package that brings it: --conf spark.jars.packages={package}:{version}")
