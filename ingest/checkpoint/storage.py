"""Storage of a checkpoint's files: a local directory, or any file system that Hadoop knows, through the JVM.

A file appears whole or not at all. A local directory is locked by the operating system; elsewhere nobody can lock, and
runs fence each other by their numbers (see `checkpoint.py`).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from ingest.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DYING_S: Final = 15.0
"""The time that a start waits for the remains of a killed run to go away, in seconds."""
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://.*")


class Storage(Protocol):
    """A folder of small files. Every method raises CheckpointError when the file system fails."""

    where: str
    """The place, for people."""
    lock: int | None
    """A file descriptor that a child process may hold, too; None where there is no lock."""

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file; in the place of one that is there already."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file where there is none: whether it was this call that did."""

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    def close(self) -> None:
        """Give back what was taken."""


def is_remote(where: str) -> bool:
    """Return whether a checkpoint's place is a URI, and not a local directory's path."""
    return _URI.fullmatch(where) is not None


# -- local ---------------------------------------------------------------------------------------------------------


class LocalStorage:
    """A local directory; with `lock`, this process is its only user until `close`."""

    def __init__(self, root: Path, *, lock: bool = True) -> None:
        """Open; with `lock`, create it where it is missing. Raises CheckpointError."""
        self.where = str(root)
        self.lock: int | None = None
        self._root = root
        if not lock:
            return
        try:
            for folder in ("batches", "schemas", "runs"):
                (root / folder).mkdir(parents=True, exist_ok=True)
            self.lock = _lock(root / "lock")
        except OSError as exc:
            msg = f"cannot use checkpoint {root}: {exc.strerror}"
            raise CheckpointError(msg, "choose another place with --checkpoint") from exc

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            msg = f"cannot read checkpoint {self._root / name}: {exc.strerror}"
            raise CheckpointError(msg, "see to its rights") from exc

    def write(self, name: str, data: bytes) -> None:
        """Write a file so that it is there whole or not at all, even when the machine goes down."""
        path = self._root / name
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(exist_ok=True)
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            msg = f"cannot write checkpoint {path}: {exc.strerror}"
            raise CheckpointError(msg, "see to its disk and rights; nothing is lost, run again then") from exc

    def create(self, name: str, data: bytes) -> bool:
        """Write a file where there is none; the lock keeps others from doing the same."""
        if (self._root / name).exists():
            return False
        self.write(name, data)
        return True

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        try:
            return [path.name for path in (self._root / folder).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as exc:
            msg = f"cannot read checkpoint {self._root / folder}: {exc.strerror}"
            raise CheckpointError(msg, "see to its rights") from exc

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self._root / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the lock back."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def _lock(path: Path) -> int:
    """Return the lock's file descriptor. A killed run's Java process may hold it for a moment more: wait for that."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + DYING_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
            if _alive(owner) or time.monotonic() > deadline:
                os.close(fd)
                msg = f"checkpoint {path.parent} is in use by another run (process {owner or 'unknown'})"
                raise CheckpointError(msg, "stop that one first, or give this pipeline its own --checkpoint") from None
            time.sleep(0.1)
        else:
            break
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    os.set_inheritable(fd, False)
    return fd


def _alive(owner: str) -> bool:
    if not owner.isdigit():
        return True
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# -- in memory -----------------------------------------------------------------------------------------------------


class MemoryStorage:
    """Files in memory, which are gone with their process."""

    where = "memory"
    lock: int | None = None

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        return self._kept.get(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Keep a file where there is none: whether it was this call that did."""
        return self._kept.setdefault(name, data) is data

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        return [name.rpartition("/")[2] for name in self._kept if name.rpartition("/")[0] == folder]

    def remove(self, name: str) -> None:
        """Forget a file if it is there."""
        self._kept.pop(name, None)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class Overlay:
    """Another storage as it is, over which whatever is written is kept in memory: for runs that leave no trace."""

    lock: int | None = None

    def __init__(self, below: Storage) -> None:
        """Keep nothing yet; `below` is only read."""
        self.where = below.where
        self._below = below
        self._kept: dict[str, bytes | None] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        return self._kept[name] if name in self._kept else self._below.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Keep a file where there is none: whether it was this call that did."""
        if self.read(name) is not None:
            return False
        self._kept[name] = data
        return True

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        ours = {name.rpartition("/")[2]: data for name, data in self._kept.items() if name.rpartition("/")[0] == folder}
        below = [name for name in self._below.names(folder) if name not in ours]
        return below + [name for name, data in ours.items() if data is not None]

    def remove(self, name: str) -> None:
        """Hide a file."""
        self._kept[name] = None

    def close(self) -> None:
        """Close what is below."""
        self._below.close()


# -- Hadoop --------------------------------------------------------------------------------------------------------


class HadoopStorage:
    """A directory on a file system of Hadoop's. Nobody is kept out: runs fence each other by their numbers."""

    lock: int | None = None

    def __init__(self, uri: str, jvm: Any, conf: Any, *, make: bool = True) -> None:  # noqa: ANN401  (objects in the JVM)
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
            _only_java(exc)

    def _path(self, name: str) -> Any:  # noqa: ANN401
        return self._api.Path(f"{self.where}/{name}")

    @contextmanager
    def _failures(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            why = _only_java(exc)
            if "No FileSystem for scheme" in why or "ClassNotFoundException" in why:
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

    def _put(self, path: Any, data: bytes, *, overwrite: bool) -> None:  # noqa: ANN401
        stream = self._files.create(path, overwrite)
        try:
            stream.write(bytearray(data))
            stream.hflush()
        finally:
            stream.close()

    def write(self, name: str, data: bytes) -> None:
        """Write a file beside, then put it in its place: at once where the file system can, else after a removal."""
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
        """Write a file where there is none; the file system lets only one writer do so."""
        path = self._path(name)
        with self._failures("write"):
            if self._files.exists(path):
                return False
            try:
                self._put(path, data, overwrite=False)
            except Exception as exc:
                if "xists" not in _only_java(exc):
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
        """Do nothing: the connection is Spark's."""


def _java_array(jvm: Any, enum: Any, *names: str) -> Any:  # noqa: ANN401
    """Return a Java array of an enum's values, as a method of variable arity wants it."""
    values = [getattr(enum, name) for name in names]
    made = jvm.java.lang.reflect.Array.newInstance(values[0].getClass(), len(values))
    for i, value in enumerate(values):
        made[i] = value
    return made


def _only_java(exc: Exception) -> str:
    """Return what Java said, in one line; raises what is no failure of Java's."""
    if not type(exc).__module__.startswith("py4j"):
        raise exc
    cause = getattr(exc, "java_exception", None)
    text = str(exc) if cause is None else f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    return text.splitlines()[0][:300] if text else type(exc).__name__
