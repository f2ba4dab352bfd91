"""`ingest warmup`: prepares the cache, so that later starts are faster."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

from ingest.errors import ConfigError
from ingest.spark.archive import path
from ingest.spark.session import Session
from ingest.transform.warm import warm

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def warmup() -> None:
    """Write a class-data archive of Spark into the cache: every later run starts seconds earlier.

    Optional; about a minute, and some 150 MB. Repeat it after an update of Java or pyspark.
    """
    written = _write()
    typer.echo(f"{written}: {written.stat().st_size >> 20} MiB")


def _write() -> Path:
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
            warm(session)
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
