"""Single files on Hadoop's file systems, which a pipeline file names: small ones, read once when a run starts.

In: a URI, the JVM and a Hadoop configuration. Out: bytes. Writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, ProgramMissing
from ingest.spark.jvm import has_no_file_system, java_failure

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView

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


def read(uri: str, jvm: JVMView, conf: JavaObject) -> bytes:
    """Return what is in a file. Raise ConfigError where it cannot be read, with what to do."""
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
