"""Places of files: of this tool, of Java, on other machines, and those that all executors of a run have to see.

Rules for the last ones: docs/spec/delivery.md#on-a-cluster.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache as once
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from ingest.errors import ConfigError, ProgramMissing

OWN_FILE: Final = 0o600
"""The mode of files that may hold parts of messages: of checkpoints, Spark's log, reports."""
OWN_FOLDER: Final = 0o700
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://.*", re.DOTALL)


def is_remote(where: str) -> bool:
    """Return whether a location is a URI of a Hadoop file system, not a path on this machine."""
    return _URI.fullmatch(where) is not None


def local_path(place: str) -> str | None:
    """Return the path that a place is, without `file:`; None for the URL of an object store."""
    rest = place.removeprefix("file://") if place.startswith("file://") else place.removeprefix("file:")
    return None if is_remote(rest) else rest


CHECKPOINTS: Final = Path(".ingest")
"""The folder of checkpoints where nobody gives another one, below the folder that a run is started in."""


def open_own(path: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open a file for writing. A new file is readable by this user only."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, OWN_FILE))


def usual_checkpoint(pipeline: str) -> Path:
    """Return the default location of a pipeline's checkpoint."""
    return CHECKPOINTS / pipeline


def private_file(name: str, data: bytes) -> str:
    """Write bytes to a file that only this user can read, and return its path.

    It is there as long as this process, or in a worker of Spark as long as the application.
    """
    file = private_folder() / f"{hashlib.sha256(data).hexdigest()[:16]}-{name}"
    if not file.exists():
        descriptor, temporary = tempfile.mkstemp(dir=file.parent)  # its mode is 0600
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
        Path(temporary).rename(file)
    return str(file)


@once
def private_folder() -> Path:
    """Return this process's directory for files that only this user can read."""
    if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
        # Spark kills its workers, and removes its own directory at the end of the application
        folder = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0]) / "ingest-private"
        folder.mkdir(0o700, exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="ingest-"))  # its mode is 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def cache() -> Path:
    """Return this tool's cache directory of the user.

    INGEST_CACHE_DIR comes first, then XDG_CACHE_HOME, then `~/.cache`.
    """
    root = os.environ.get("INGEST_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ingest"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of this name.

    Another process of this user waits, so that two processes never fill the same part of the cache.
    """
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def java() -> str:
    """Return the path of the Java launcher. Raise ConfigError where there is none."""
    home = os.environ.get("JAVA_HOME")
    launcher = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if launcher is None or not Path(launcher).exists():
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        msg = f"Java 17 or newer is needed, and there is no 'java' {where}"
        raise ProgramMissing(msg, "install it, or set JAVA_HOME")
    return launcher


WAIT_S: Final = 3.0
"""The time after which a mark that is not seen counts as not there, in seconds: network file systems are late."""
_AGAIN_S: Final = 0.2


class SharedPlace(NamedTuple):
    """A path of an option that driver and tasks both use, and that executors therefore have to share."""

    option: str
    path: str
    kind: Literal["folder", "file", "pattern"]
    """`folder`: files are written into it; `file`: it is written to itself; `pattern`: files that are read."""


class SharedMark(NamedTuple):
    """A file or directory that the driver sees, by which executors check that they share a path."""

    option: str
    path: str
    """What to look for."""
    folder: str
    """The directory that is to be written to; empty where nothing is written."""


def unseen(marks: Sequence[SharedMark]) -> list[str]:
    """Return a fault for each mark that this process does not see, or whose directory it may not write to."""
    until = time.monotonic() + WAIT_S
    out = []
    for mark in marks:
        while not (visible := os.path.exists(mark.path)) and time.monotonic() < until:  # noqa: PTH110  (never raises)
            time.sleep(_AGAIN_S)
        if not visible:
            out.append(f"does not see {mark.folder or mark.path} ({mark.option}) as the driver does")
        elif mark.folder and not os.access(mark.folder, os.W_OK | os.X_OK):
            out.append(f"may not write to {mark.folder} ({mark.option})")
    return out


def unshared(host: str, faults: Sequence[str]) -> ConfigError:
    """Return the error for an executor's host that does not share a path; `faults`: the result of `unseen`."""
    msg = f"the executor on host {host} {faults[0]}"
    return ConfigError(msg, "mount it there, at the same path, with the same rights; docs/deployment.md says more")
