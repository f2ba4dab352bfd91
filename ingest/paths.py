"""Places on this machine: the directory that this tool keeps its files in, and the Java launcher."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        msg = f"Java 17 or newer is needed, and there is no 'java' {where}"
        raise ConfigError(msg, "install it, or set JAVA_HOME")
    return found
