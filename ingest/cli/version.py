"""Lines that `ingest --version` prints."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from ingest import __version__, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED: Final = ("pyspark", "confluent-kafka", "pyarrow", "pyiceberg", "deltalake", "psycopg")
"""Packages of which an error's report should say the version."""


def lines() -> Iterator[str]:
    """Yield the version, the commit that it was built of, and what it works with."""
    yield f"ingest {__version__}"
    built = files("ingest").joinpath("build.txt")
    commit = built.read_text(encoding="utf-8").strip() if built.is_file() else "a checkout"
    yield f"built of {commit or 'a commit that nobody noted'}, {'with' if compiled.USED else 'without'} native code"
    found = (f"{name} {installed}" for name in _NAMED if (installed := _version(name)))
    yield ", ".join((f"Python {platform.python_version()}", *found))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
