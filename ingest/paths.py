"""Where this tool keeps things on this machine, and where Java is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ingest.errors import ConfigError


def cache() -> Path:
    """The user's cache directory of this tool."""
    root = os.environ.get("INGEST_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ingest"


def java() -> str:
    """The Java launcher; raises ConfigError where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        msg = f"Java 17 or newer is needed, and there is no 'java' {where}"
        raise ConfigError(msg, "install it, or set JAVA_HOME")
    return found
