"""Storage of a checkpoint on a file system that Hadoop knows, through the JVM.

Nobody can lock there: runs fence each other by their numbers (see `checkpoint.py`).
"""

from __future__ import annotations

import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import CheckpointError, ConfigError
from ingest.spark.jvm import has_no_file_system, java_failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JavaObject, JVMView


class HadoopStorage:
    """A directory on a file system of Hadoop's. Nobody is kept out: runs fence each other by their numbers."""

    lock: int | None = None

    def __init__(self, uri: str, jvm: JVMView, conf: JavaObject, *, make: bool = True) -> None:
        """`jvm` is py4j's view, `conf` a Hadoop configuration; `make`: its folders. Raises CheckpointError."""
        self.where = uri.rstrip("/")
        self._jvm = jvm
        self._api = jvm.org.apache.hadoop.fs
        with self._failures("use"):
            root = self._api.Path(self.where)
            self._files = root.getFileSystem(conf)
            self._context = None
            for folder in ("batches", "schemas", "runs") if make else ():
                self._files.mkdirs(self._path(folder))
        try:
            self._context = self._api.FileContext.getFileContext(root.toUri(), conf)
            self._overwrite = _java_array(jvm, getattr(self._api, "Options$Rename"), "OVERWRITE")
        except Exception as exc:  # noqa: BLE001  (py4j's: this file system has no atomic replacement)
            java_failure(exc)

    def _path(self, name: str) -> JavaObject:
        return self._api.Path(f"{self.where}/{name}")

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            why = java_failure(exc)
            if has_no_file_system(why):
                scheme = self.where.partition(":")[0]
                msg = f"cannot {what} checkpoint {self.where}: Spark has no file system {scheme!r} here"
                hint = "add the package that brings it, e.g. --conf spark.jars.packages=… (see the documentation)"
                raise ConfigError(msg, hint) from exc
            msg = f"cannot {what} checkpoint {self.where}: {why}"
            raise CheckpointError(msg, "see to its address, its rights and its disk; nothing is lost") from exc

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        with self._failures("read"):
            path = self._path(name)
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def _put(self, path: JavaObject, data: bytes, *, overwrite: bool) -> None:
        stream = self._files.create(path, overwrite)
        try:
            stream.write(bytearray(data))
            stream.hflush()
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a temporary file, then rename it over the old one: atomically where the file system can do so."""
        folder, _, file = name.rpartition("/")
        temporary = self._path(f"{folder}/.{file}.{uuid.uuid4().hex[:8]}.tmp".lstrip("/"))
        target = self._path(name)
        with self._failures("write"):
            self._put(temporary, data, overwrite=True)
            if self._context is not None:
                self._context.rename(temporary, target, self._overwrite)
                return
            self._files.delete(target, False)
            if not self._files.rename(temporary, target):
                msg = f"cannot write checkpoint {self.where}/{name}: the file could not be renamed"
                raise CheckpointError(msg, "see to its rights; nothing is lost, run again then")

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists. Return whether this call did: only one of several writers succeeds."""
        path = self._path(name)
        with self._failures("write"):
            if self._files.exists(path):
                return False
            try:
                self._put(path, data, overwrite=False)
            except Exception as exc:
                if "xists" not in java_failure(exc):
                    raise
                return False
            return True

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        with self._failures("read"):
            path = self._path(folder)
            if not self._files.exists(path):
                return []
            return [str(status.getPath().getName()) for status in self._files.listStatus(path)]

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with self._failures("write"):
            self._files.delete(self._path(name), False)

    def close(self) -> None:
        """Do nothing: files are written through Spark's own JVM, which the session closes."""


def _java_array(jvm: JVMView, enum: JavaObject, *names: str) -> JavaObject:
    """Return a Java array of an enum's values, as a method of variable arity wants it."""
    values = [getattr(enum, name) for name in names]
    array = jvm.java.lang.reflect.Array.newInstance(values[0].getClass(), len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


@contextmanager
def started_hadoop(name: str, conf: Mapping[str, str]) -> Iterator[tuple[JVMView, JavaObject]]:
    """Yield the JVM and a Hadoop configuration of a Java that runs as long; raises IngestError.

    `conf`: settings of Spark, for file systems that need some.
    """
    from ingest.spark.session import Session  # noqa: PLC0415  (pyspark is slow to import, and local files need none)

    with tempfile.TemporaryDirectory() as folder:
        session = Session(name, "local[1]", conf, lock=None, log=Path(folder) / "spark.log")
        try:
            yield session.hadoop
        finally:
            session.stop()
