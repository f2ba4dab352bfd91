"""The class-data-sharing archive of Spark's driver, with which Java starts in about half the time.

`ingest warmup` writes it into the user's cache, and every run uses it where it exists. It belongs to one Java and one
installation of Spark. Java itself refuses an archive that does not fit, and starts without it.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from ingest.paths import cache, java


def path() -> Path:
    """Return the path of the archive for this Java and this Spark. The file may not exist."""
    home = Path(java()).resolve().parent.parent
    release = home / "release"
    spark = find_spec("pyspark")
    jars = Path((spark.origin if spark is not None else None) or "pyspark").parent / "jars"
    # Java refuses an archive whose class path or whose jars' times differ, so each installation has its own file
    place = hashlib.sha256(f"{home} {jars}".encode()).hexdigest()[:8]
    stamp = jars.stat().st_mtime_ns if jars.is_dir() else 0
    java_is = release.read_text(encoding="utf-8") if release.is_file() else ""
    identity = hashlib.sha256(f"{java_is} {version('pyspark')} {stamp}".encode()).hexdigest()[:8]
    return cache() / f"spark-{version('pyspark')}-{place}-{identity}.jsa"


def options() -> str:
    """Return Java's options that use the archive; an empty text where there is none."""
    archive = path()
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive.is_file() else ""
