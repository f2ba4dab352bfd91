"""The files of a checkpoint, which appear whole or not at all: in a local directory, which is locked, or in memory.

`hadoop_storage.py` has those on one of Hadoop's file systems, which are reached through Java.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final, Protocol

from ingest.errors import CheckpointError, CheckpointInUse
from ingest.model.text import reason_of
from ingest.paths import OWN_FILE, OWN_FOLDER, open_own


class Storage(Protocol):
    """A folder of small files. Every method raises CheckpointError when the file system fails."""

    where: str
    """The storage's location for messages."""
    lock: int | None
    """A file descriptor that a child process may hold, too; None where there is no lock."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if it does not exist."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""

    def create(self, name: str, data: bytes) -> bool:
        """Create a file unless it exists. Return whether this call created it."""

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def close(self) -> None:
        """Release the storage and its lock."""


DYING_S: Final = 15.0
"""The time that a start waits for the remains of a killed run to go away, in seconds."""


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
            root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (root, *(root / name for name in ("batches", "schemas", "runs"))):
                folder.mkdir(OWN_FOLDER, exist_ok=True)
            self.lock = _lock(root / "lock")
        except OSError as exc:
            msg = f"cannot use checkpoint {root}: {reason_of(exc)}"
            raise CheckpointError(msg, "choose another place with --checkpoint") from exc

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if it does not exist."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            msg = f"cannot read checkpoint {self._root / name}: {reason_of(exc)}"
            raise CheckpointError(msg, "see to its rights") from exc

    def write(self, name: str, data: bytes) -> None:
        """Write a file so that it is there whole or not at all, even when the machine goes down."""
        path = self._root / name
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            path.parent.mkdir(OWN_FOLDER, exist_ok=True)
            with open_own(temporary, "wb") as file:
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
            msg = f"cannot write checkpoint {path}: {reason_of(exc)}"
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
            msg = f"cannot read checkpoint {self._root / folder}: {reason_of(exc)}"
            raise CheckpointError(msg, "see to its rights") from exc

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        (self._root / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Give the lock back."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


def _lock(path: Path) -> int:
    """Return the lock's file descriptor. A killed run's Java process may hold it for a moment more: wait for that."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, OWN_FILE)
    deadline = time.monotonic() + DYING_S
    asked_before = False  # `holder` in another process shares the lock for a moment: that is no run
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(fd)
            if (asked_before and _alive(owner)) or time.monotonic() > deadline:
                os.close(fd)
                msg = f"checkpoint {path.parent} is in use by another run (process {owner or 'unknown'})"
                raise CheckpointInUse(msg, "stop that one first, or give this pipeline its own --checkpoint") from None
            asked_before = True
            time.sleep(0.1)
        else:
            break
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    os.set_inheritable(fd, False)
    return fd


def holder(root: Path) -> str | None:
    """Return the id of the process that uses a checkpoint's directory; None where no process does.

    A run's Java process holds the lock, too: the id is then that of its run. Raises CheckpointError.
    """
    try:
        fd = os.open(root / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise CheckpointError(f"cannot read checkpoint {root / 'lock'}: {reason_of(exc)}", "see to its rights") from exc
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(fd) or "unknown"
    else:
        return None
    finally:
        os.close(fd)  # which gives the lock back


def _owner(fd: int) -> str:
    return os.pread(fd, 32, 0).decode(errors="replace").strip()


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


class MemoryStorage:
    """Files in memory, which are gone with their process."""

    lock: int | None = None

    def __init__(self, where: str = "memory") -> None:
        """`where` is the place, for people."""
        self.where = where
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if it does not exist."""
        return self._kept.get(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Create a file in memory unless it exists. Return whether this call created it."""
        return self._kept.setdefault(name, data) is data

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        return [name.rpartition("/")[2] for name in self._kept if name.rpartition("/")[0] == folder]

    def remove(self, name: str) -> None:
        """Remove a file from memory if it exists."""
        self._kept.pop(name, None)

    def close(self) -> None:
        """Release nothing: files in memory need no lock."""


class Overlay:
    """A storage for dry runs: reads another storage, and keeps all writes in memory."""

    lock: int | None = None

    def __init__(self, below: Storage) -> None:
        """`below` is only read."""
        self.where = below.where
        self._below = below
        self._kept: dict[str, bytes | None] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if it does not exist."""
        return self._kept[name] if name in self._kept else self._below.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Create a file in memory unless it exists. Return whether this call created it."""
        if self.read(name) is not None:
            return False
        self._kept[name] = data
        return True

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        written = {
            name.rpartition("/")[2]: data for name, data in self._kept.items() if name.rpartition("/")[0] == folder
        }
        below = [name for name in self._below.names(folder) if name not in written]
        return below + [name for name, data in written.items() if data is not None]

    def remove(self, name: str) -> None:
        """Hide a file."""
        self._kept[name] = None

    def close(self) -> None:
        """Close the storage below."""
        self._below.close()
