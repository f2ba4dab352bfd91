"""Other products beside ours: Debezium's engine and Canal's parser on a server, and Flink's formats that read messages.

Each is a program in Java in the folder `peers`. Its jars come from Maven Central on first use and stay in the cache
directory: Flink's, which tests use, are pinned in `peers/flink-jars.lock`; those of the other two, which are for
recording only, come with all that they depend on.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mysql_servers import PASSWORD, USER

from ingest.paths import cache, java, locked
from ingest.sandbox.jars import fetch, pinned, pins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mysql_servers import MySql

_CODE: Final = Path(__file__).with_name("peers")
DEBEZIUM: Final = ("io.debezium:debezium-embedded:3.5.0.Final", "io.debezium:debezium-connector-mariadb:3.5.0.Final")
CANAL: Final = ("com.alibaba.otter:canal.parse:1.1.7", "com.alibaba.otter:connector.core:1.1.7")
_LEFT_OUT: Final = "slf4j-log4j12-"
"""A second way to write logs among Canal's jars, which does not fit the first one."""
FLINK: Final = "1.20.1"
_FETCHES_ALL: Final = '<dependency org="{0}" name="{1}" rev="{2}" conf="default"/>'


def _fetched(name: str, artifacts: Sequence[str]) -> Path:
    """The folder of artifacts and of all that they depend on."""
    folder = cache() / name
    with locked(name):
        if not (folder / "jars").is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            needed = "".join(_FETCHES_ALL.format(*artifact.split(":")) for artifact in artifacts)
            fetch(folder, needed, "jar bundle", f"the jars of {name}")
    return folder / "jars"


def _command(program: str, folder: Path, *arguments: str) -> list[str]:
    """The command of a program, which Java compiles where it stands."""
    opened = [word for name in ("lang", "util") for word in ("--add-opens", f"java.base/java.{name}=ALL-UNNAMED")]
    fast = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    own = sorted(str(jar) for jar in folder.glob("*.jar") if not jar.name.startswith(_LEFT_OUT))
    return [java(), *fast, *opened, "-cp", ":".join(own), str(_CODE / f"{program}.java"), *arguments]


@dataclass
class Messages:
    """The messages of a product that runs."""

    process: subprocess.Popen[str]
    log: Path

    def until(self, last: Callable[[Any], bool]) -> list[Any]:
        """The next messages before the first for which that holds."""
        found: list[Any] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue  # of its own log
            message = json.loads(line)
            if last(message):
                return found
            found.append(message)
        raise AssertionError(self.log.read_text(errors="replace")[-5000:])


@contextmanager
def _running(command: Sequence[str], folder: Path, name: str) -> Iterator[Messages]:
    log = folder / f"{name}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder)
    try:
        yield Messages(process, log)
    finally:
        process.kill()
        process.communicate(timeout=60)


@contextmanager
def debezium(server: MySql, database: str, folder: Path) -> Iterator[Messages]:
    """The connector for MariaDB, which reads a database's tables: lines with topic, key and value."""
    properties = {
        "name": "peer", "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "topic.prefix": "peer",
        "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": USER,
        "database.password": PASSWORD, "database.ssl.mode": "disable", "database.server.id": "4712",
        "database.include.list": database, "include.schema.changes": "false", "snapshot.locking.mode": "none",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    }  # fmt: skip
    words = [f"{name}={value}" for name, value in properties.items()]
    command = _command("DebeziumMessages", _fetched("mysql-peer-debezium-3.5.0", DEBEZIUM), *words)
    with _running(command, folder, "debezium") as messages:
        yield messages


@contextmanager
def canal(server: MySql, database: str, folder: Path) -> Iterator[Messages]:
    """The parser of the log from where it ends: messages of a database's tables."""
    file, offset = server.position()
    login = (str(server.port), USER, PASSWORD, database, rf"{database}\..*", file, str(offset))
    command = _command("CanalMessages", _fetched("mysql-peer-canal-1.1.7", CANAL), *login)
    with _running(command, folder, "canal") as messages:
        yield messages


def flink_rows(questions: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """What Flink's formats read: for each question (`peers/FlinkRows.java`), the rows of each message."""
    locked_jars = (_CODE / "flink-jars.lock").read_text(encoding="utf-8")
    folder = pinned(pins(locked_jars), f"flink-json-{FLINK}", "the jars of Flink's formats")
    asked = "".join(json.dumps(one) + "\n" for one in questions)
    command = _command("FlinkRows", folder)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
