"""The broker's jar files, fetched from Maven Central with the Ivy that pyspark contains.

Names, versions and checksums are pinned in `broker-jars.lock`. A jar with another checksum is never used. Other jars
that are pinned like this are fetched in the same way.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias
from xml.sax.saxutils import quoteattr

from ingest.errors import ConfigError, Unavailable
from ingest.paths import cache, java, locked

KAFKA_VERSION: Final = "4.1.0"
FETCH_S: Final = 600

_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


Pins: TypeAlias = "Sequence[tuple[str, str, str, str]]"
"""Organisation, name, version and SHA-256 of every jar."""


def jars() -> Path:
    """Return the directory of the broker's jars. They are fetched on first use, and verified each time.

    Raise IngestError.
    """
    text = resources.files("ingest.sandbox").joinpath("broker-jars.lock").read_text(encoding="utf-8")
    return pinned(pins(text), f"kafka-{KAFKA_VERSION}", "the broker's jars")


def pins(text: str) -> Pins:
    """Return what the text of a lock file pins: lines of `organisation:name:version` and SHA-256."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    named = [(row[0].split(":"), row[1]) for row in rows]
    return [(org, name, version, checksum) for (org, name, version), checksum in named]


def pinned(pins: Pins, name: str, what: str) -> Path:
    """Return the directory of this name in the cache with these jars: fetched on first use, and verified each time.

    `what` is for errors. Raise IngestError.
    """
    folder = cache() / name
    with locked("jars"):
        if folder.is_dir() and _wrong(folder, pins) is None:
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            fetch(Path(temporary), _dependencies(pins), "jar bundle", what)
            fetched = Path(temporary) / "jars"
            wrong = _wrong(fetched, pins)
            if wrong:
                msg = f"the jar {wrong} is not the one that is pinned: its SHA-256 differs, or it is missing"
                raise ConfigError(msg, "somebody may have tampered with it; see where your Maven repository is")
            shutil.rmtree(folder, ignore_errors=True)
            fetched.rename(folder)
    return folder


def _wrong(folder: Path, pins: Pins) -> str | None:
    for _, name, version, checksum in pins:
        path = folder / f"{name}-{version}.jar"
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
            return path.name
    return None


def _dependencies(pins: Pins) -> str:
    return "\n".join(
        f'    <dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(version)} transitive="false"/>'
        for org, name, version, _ in pins
    )


def fetch(folder: Path, dependencies: str, types: str, what: str) -> None:
    """Fetch files from Maven Central into the directory `jars` below a directory. Nothing is verified here.

    `dependencies` is the text of Ivy's `dependency` elements, `types` names Ivy's types of the files, and `what` is for
    errors. Raise Unavailable.
    """
    spec = find_spec("pyspark")  # only the place of its jars is needed
    assert spec is not None
    spark = Path(spec.origin or "").parent / "jars"
    module = (
        f'<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        f'  <info organisation="ingest" module="sandbox"/>\n  <dependencies>\n{dependencies}\n  </dependencies>\n'
        "</ivy-module>\n"
    )
    (folder / "ivy.xml").write_text(module, encoding="utf-8")
    settings = os.environ.get("INGEST_IVY_SETTINGS") or str(folder / "ivysettings.xml")
    (folder / "ivysettings.xml").write_text(_SETTINGS, encoding="utf-8")
    command = [
        java(), "-cp", str(spark / "*"), "org.apache.ivy.Main", "-settings", settings,
        "-cache", str(folder / "cache"), "-ivy", str(folder / "ivy.xml"), "-types", *types.split(),
        "-retrieve", str(folder / "jars" / "[artifact]-[revision].[ext]"),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired as exc:
        msg = f"fetching {what} took more than {FETCH_S} s"
        raise Unavailable(
            msg, "try again; INGEST_IVY_SETTINGS may name an Ivy settings file with a nearer mirror"
        ) from exc
    if done.returncode or not (folder / "jars").is_dir():
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        telling = [line for line in lines if "not found" in line or "rror" in line or "UNRESOLVED" in line]
        msg = f"cannot fetch {what}: {(telling or lines or ['no output'])[-1][:300]}"
        raise Unavailable(msg, "see whether Maven Central is reachable, or set INGEST_IVY_SETTINGS")
