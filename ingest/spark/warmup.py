"""Creation of the archive of Spark's classes, with which Java starts in half the time.

In: a function that does some work of a run. Out: the archive's file, at the place where `spark/archive.py` looks for
it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import ConfigError
from ingest.spark.archive import path
from ingest.spark.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def write(work: Callable[[Session], None]) -> Path:
    """Start Spark once, do some work of a run, and save the loaded classes. Return the path of the archive.

    Raise ConfigError where Java writes no archive. Archives of an earlier Java or Spark at the same place are removed.
    """
    archive = path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    for old in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
        old.unlink(missing_ok=True)  # an archive of this place, from before Java or Spark was installed again
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "spark.jsa"
        conf = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}"}
        lock = os.open(Path(folder) / "lock", os.O_RDWR | os.O_CREAT)
        log = Path(folder) / "spark.log"
        try:
            session = Session("ingest warmup", "local[2]", conf, lock=lock, log=log, sql=True)
            session.broadcast({})
            session.run(_touch, [1, 2])  # any task loads the classes
            work(session)
            session.exit()
        finally:
            os.close(lock)
        if not fresh.is_file():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise ConfigError(
                f"Java did not write its archive: {lines[-1] if lines else 'no output'}", "check the Java version"
            )
        with suppress(OSError):
            fresh.chmod(0o644)
        temporary = archive.with_suffix(".tmp")
        temporary.write_bytes(fresh.read_bytes())
        temporary.replace(archive)
    return archive


def _touch(items: Iterable[int]) -> Iterator[int]:
    """Yield the items unchanged: a task without work."""
    yield from items
