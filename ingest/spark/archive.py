"""A class-data-sharing archive of Spark's driver: Java starts in about half the time with it.

`ingest warmup` writes it into the user's cache; every run uses it where it is there. It belongs to one Java and one
installation of Spark: Java itself refuses one that does not fit, and starts without.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.errors import ConfigError
from ingest.paths import cache, java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ingest.spark.session import Session


def path() -> Path:
    """Where the archive of this Java and this Spark is, or would be."""
    home = Path(java()).resolve().parent.parent
    release = home / "release"
    spark = find_spec("pyspark")
    jars = Path((spark.origin if spark is not None else None) or "pyspark").parent / "jars"
    # Java compares the class path, and the time of each jar in it: another installation's archive would be refused
    place = hashlib.sha256(f"{home} {jars}".encode()).hexdigest()[:8]
    stamp = jars.stat().st_mtime_ns if jars.is_dir() else 0
    java_is = release.read_text(encoding="utf-8") if release.is_file() else ""
    identity = hashlib.sha256(f"{java_is} {version('pyspark')} {stamp}".encode()).hexdigest()[:8]
    return cache() / f"spark-{version('pyspark')}-{place}-{identity}.jsa"


def options() -> str:
    """Java's options that use the archive; empty where there is none."""
    archive = path()
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive.is_file() else ""


def write(work: Callable[[Session], None]) -> Path:
    """Start Spark once, do some work of a run on it, and keep the classes that it loaded; raises ConfigError."""
    import os  # noqa: PLC0415  (only here)
    import tempfile  # noqa: PLC0415

    from ingest.spark.session import Session  # noqa: PLC0415  (it asks for `options`)

    archive = path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    for old in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
        old.unlink(missing_ok=True)  # of this place, before Java or Spark was installed anew
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "spark.jsa"
        conf = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}"}
        lock = os.open(Path(folder) / "lock", os.O_RDWR | os.O_CREAT)
        log = Path(folder) / "spark.log"
        try:
            session = Session("ingest warmup", "local[2]", conf, lock=lock, log=log, sql=True)
            session.broadcast({})
            session.run(_touch, [1, 2])  # any task will do
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
    """A task that does nothing."""
    yield from items
