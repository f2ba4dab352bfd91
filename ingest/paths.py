"""Where this tool keeps things on this machine, and where Java is."""

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
    """The user's cache directory of this tool."""
    root = os.environ.get("INGEST_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ingest"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Keep other processes of this user from filling the same part of the cache at the same time."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def java() -> str:
    """The Java launcher; raises ConfigError where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        msg = f"Java 17 or newer is needed, and there is no 'java' {where}"
        raise ConfigError(msg, "install it, or set JAVA_HOME")
    return found
