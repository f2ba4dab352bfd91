"""Start, search and stop of a schema registry beside the sandbox's broker: Apicurio Registry, by its Confluent API.

In: a directory. Out: the address of the registry in it. Its files are fetched from Maven Central as the broker's are,
with a checksum that is pinned. The schemas are in a database in the directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from ingest.errors import ConfigError
from ingest.paths import cache, java, locked
from ingest.sandbox.jars import fetch
from ingest.sandbox.process import (
    HOST,
    any_ports,
    chosen_port,
    is_free,
    launch,
    noted,
    running,
    starting,
    stop,
    wait_for,
)
from ingest.sandbox.secure import USER, credentials

VERSION: Final = "3.0.9"
"""The newest version whose archive runs with Java 17: those from 3.1 on need Java 21."""
SHA256: Final = "1b7e0f78667250d5f987f0fdac4993719f780fd80a68a40852e57bd75317b6fa"
"""Checksum of all files of the archive, as `_checksum` computes it."""
PORT: Final = 28081
_NOTE: Final = "registry.json"
"""The file of what there is to know about the registry."""
_RUNNER: Final = f"apicurio-registry-app-{VERSION}-runner.jar"
_API: Final = "/apis/ccompat/v7"

_DEPENDENCY: Final = f"""\
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" transitive="false">
      <artifact name="apicurio-registry-app" type="archive" ext="tar.gz" m:classifier="all"/>
    </dependency>"""

_PROPERTIES: Final = """\
quarkus.http.host={host}
quarkus.http.port={port}
quarkus.oidc.tenant-enabled=false
apicurio.datasource.url=jdbc:h2:file:{data}
apicurio.datasource.jdbc.initial-size=2
apicurio.datasource.jdbc.min-size=2
apicurio.datasource.jdbc.max-size=10
"""

_SECURE: Final = """\
quarkus.http.ssl-port={tls}
quarkus.http.ssl.certificate.files={folder}/broker.pem
quarkus.http.ssl.certificate.key-files={folder}/broker.pem
quarkus.http.insecure-requests=enabled
quarkus.http.auth.basic=true
quarkus.http.auth.permission.all.paths=/*
quarkus.http.auth.permission.all.policy=authenticated
quarkus.security.users.embedded.plain-text=true
quarkus.security.users.embedded.users.{user}={password}
quarkus.security.users.embedded.roles.{user}=sr-admin
"""


@dataclass(frozen=True, slots=True)
class RunningRegistry:
    """A running schema registry."""

    url: str
    pid: int
    log: str
    version: str
    tls: str | None = None
    """The address with TLS, or None. Where there is one, both addresses ask for the password of the sandbox."""


def status(folder: Path) -> RunningRegistry | None:
    """Return the registry that runs beside the sandbox in this directory, or None."""
    return running(folder / "registry", _NOTE, RunningRegistry)


def up(folder: Path, port: int | None = None, heap: str = "256m", *, secure: bool = False) -> RunningRegistry:
    """Start the registry unless it runs, and return it when it answers. Raise IngestError.

    `heap` is the size of Java's heap. `secure` adds TLS, and asks for a password.
    """
    registry = status(folder)
    if registry is not None:
        if secure and registry.tls is None:
            msg = f"a schema registry without a password runs at {registry.url}"
            raise ConfigError(msg, "stop it first: ingest sandbox down")
        return registry
    program = files()
    registry_folder = (folder / "registry").resolve()
    with starting(registry_folder, "schema registry") as lock:
        return _start(registry_folder, program, lock, port, heap, secure=secure)


def _start(folder: Path, program: Path, lock: int, port: int | None, heap: str, *, secure: bool) -> RunningRegistry:
    last = str(noted(folder / _NOTE).get("url", "")).removesuffix(_API).rpartition(":")[2]
    chosen = chosen_port(port, last, PORT)
    (tls,) = any_ports(1, {chosen})
    text = _PROPERTIES.format(host=HOST, port=chosen, data=folder / "schemas")
    if secure:
        password = credentials(folder.parent / "secure", HOST)
        text += _SECURE.format(tls=tls, folder=folder.parent / "secure", user=USER, password=password)
    properties = folder / "config" / "application.properties"  # where Quarkus looks for it, seen from its directory
    properties.parent.mkdir(exist_ok=True)
    properties.touch(0o600)
    properties.write_text(text, encoding="utf-8")
    log = folder / "registry.log"
    command = [java(), f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(program / _RUNNER)]
    with log.open("wb") as out:
        process = launch(command, folder, lock, out)
    registry = RunningRegistry(
        f"http://{HOST}:{chosen}{_API}",
        process.pid,
        str(log),
        VERSION,
        f"https://{HOST}:{tls}{_API}" if secure else None,
    )
    (folder / _NOTE).write_text(json.dumps(asdict(registry)), encoding="utf-8")
    wait_for(
        process, lambda: _answers(chosen, tls if secure else None), f"schema registry at {registry.url}", registry.log
    )
    return registry


def _answers(port: int, tls: int | None) -> bool:
    connection = HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", f"{_API}/subjects")
        # 401: it asks for the password
        return connection.getresponse().status in {200, 401} and (tls is None or not is_free(tls))
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def down(folder: Path, *, wipe: bool = False) -> bool:
    """Stop the registry cleanly, and tell whether one ran. With `wipe`, delete its schemas, too. Raise Unavailable."""
    registry = status(folder)
    if registry is not None:
        stop(folder / "registry", registry.pid, "schema registry", registry.log)
    if wipe:
        for file in (folder / "registry").glob("schemas.*"):
            file.unlink(missing_ok=True)
    return registry is not None


def files() -> Path:
    """Return the directory of the registry's files. They are fetched on first use, and verified each time.

    Raise IngestError.
    """
    folder = cache() / f"apicurio-registry-{VERSION}"
    with locked("registry"):
        if folder.is_dir() and _checksum(folder) == SHA256:
            return folder
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            fetch(Path(temporary), _DEPENDENCY, "archive", "the schema registry")
            unpacked = Path(temporary) / "unpacked"
            for archive in (Path(temporary) / "jars").iterdir():
                with tarfile.open(archive) as tar:
                    tar.extractall(unpacked, filter="data")
            if not unpacked.is_dir() or _checksum(unpacked) != SHA256:
                msg = f"the schema registry's archive is not the one that is pinned ({VERSION}): its SHA-256 differs"
                raise ConfigError(msg, "somebody may have tampered with it; see where your Maven repository is")
            shutil.rmtree(folder, ignore_errors=True)
            unpacked.rename(folder)
    return folder


def _checksum(folder: Path) -> str:
    """Return the SHA-256 of all files below a directory, of their names and contents."""
    digest = hashlib.sha256()
    for name in sorted(_names(folder)):
        with (folder / name).open("rb") as file:
            digest.update(f"{hashlib.file_digest(file, 'sha256').hexdigest()} {name}\n".encode())
    return digest.hexdigest()


def _names(folder: Path) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield str((Path(parent) / name).relative_to(folder))
