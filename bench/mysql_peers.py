"""What reads MySQL beside us: Debezium's engine, Flink CDC, mysql-replication, and the servers' own clients.

Each returns when its first and its last record came. The jars come from Maven Central, mysql-replication into a virtual
environment of its own; both are kept in the cache directory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pyspark
from peers import environment

from ingest.paths import cache, java

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
from mysql_servers import PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mysql_servers import MySql

REPLICATION: Final = "1.0.17"
JARS: Final = {
    "debezium": ("io.debezium:debezium-embedded:3.5.0.Final", "io.debezium:debezium-connector-mariadb:3.5.0.Final"),
    "flink": (
        "org.apache.flink:flink-sql-connector-mysql-cdc:3.5.0", "com.mysql:mysql-connector-j:8.0.33",
        "org.apache.flink:flink-clients:1.20.1", "org.apache.flink:flink-connector-base:1.20.1",
        "org.apache.flink:flink-table-api-java-bridge:1.20.1", "org.apache.flink:flink-table-runtime:1.20.1",
    ),
}  # fmt: skip
"""The peers in Java: what each is made of, all that it depends on aside."""
_OPENED: Final = ("java.lang", "java.util", "java.time", "java.nio", "sun.nio.ch")
DEADLINE_S: Final = 1800
Place: TypeAlias = tuple[str, int, str]
"""A file of the log, a position in it, and the GTIDs of the transactions before."""
_READ: Final = """\
import json, sys, time
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

port, user, password, database, wanted, file, position, _ = sys.argv[1:]
stream = BinLogStreamReader(
    connection_settings={"host": "127.0.0.1", "port": int(port), "user": user, "passwd": password},
    server_id=4713, blocking=True, resume_stream=True, log_file=file, log_pos=int(position), is_mariadb=False,
    only_events=[DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent], only_schemas=[database],
)
records, first = 0, 0.0
for event in stream:
    first = first or time.time()
    records += len(event.rows)
    if records >= int(wanted):
        break
print(json.dumps({"records": records, "first": first, "last": time.time()}))
"""


@dataclass(frozen=True)
class Rate:
    """How fast something was read."""

    steady: float
    """Records a second from the first to the last."""
    whole: float
    """Seconds from the command to the last."""


@dataclass(frozen=True)
class Wanted:
    """What is to be read of a server: a table's rows, or from a place on the changes of a table, or of a database."""

    server: MySql
    table: str
    records: int
    place: Place | None = None

    @property
    def words(self) -> list[str]:
        """The arguments of a peer's program."""
        place = () if self.place is None else self.place
        login = (self.server.port, USER, PASSWORD)
        return [str(word) for word in (*login, self.table, self.records, *place)]


class JavaPeer:
    """A program in Java, compiled on first use."""

    def __init__(self, name: str, folder: Path) -> None:
        """Fetch its jars, and compile it into a folder."""
        self._main = f"{name.capitalize()}Peer"
        self._path = f"{folder}:{_jars(name)}/*"
        compiler = shutil.which("javac")
        if compiler is None:
            sys.exit("javac is missing, which a JDK has (Debian: default-jdk-headless)")
        source = Path(__file__).parent / "java" / f"{self._main}.java"
        subprocess.run([compiler, "-nowarn", "-cp", self._path, "-d", str(folder), str(source)], check=True)

    def __call__(self, wanted: Wanted, *more: str) -> Rate:
        """Run it."""
        opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
        return run([java(), "-Xmx2g", *opened, "-cp", self._path, self._main, *wanted.words, *more])


def run(command: Sequence[str]) -> Rate:
    """Run a peer that prints at its end what it has seen."""
    started = time.time()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
    if done.returncode:
        sys.exit(f"{command[0]}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    seen = json.loads(done.stdout.splitlines()[-1])
    return Rate(seen["records"] / max(seen["last"] - seen["first"], 0.001), seen["last"] - started)


def replication(wanted: Wanted) -> Rate:
    """mysql-replication."""
    packages = [f"mysql-replication=={REPLICATION}"]
    python = environment(f"mysql-replication-{REPLICATION}", packages)
    words = wanted.words
    words[3] = wanted.table.split(".")[0]
    return run([str(python), "-c", _READ, *words])


def quick(wanted: Wanted, bounds: Sequence[tuple[int, int]]) -> Rate:
    """The rows between bounds of `id`, by a client for each that keeps none of them."""
    rows = f"SELECT * FROM {wanted.table}"  # noqa: S608  (our own name)
    where = [f"{rows} WHERE id >= {low} AND id < {high}" for low, high in bounds]
    login = ["-h127.0.0.1", f"-P{wanted.server.port}", f"-u{USER}", f"-p{PASSWORD}"]
    command = [_client("mariadb", "mysql"), "--no-defaults", "--quick", "-N", "-B", *login, "-e"]
    return _clients([[*command, query] for query in where], wanted.records)


def mysqlbinlog(wanted: Wanted) -> Rate:
    """The rows of a file of the log, as comments of statements."""
    assert wanted.place is not None
    file, position, _ = wanted.place
    command = [_client("mariadb-binlog", "mysqlbinlog"), "--no-defaults", "-v", f"--start-position={position}"]
    return _clients([[*command, str(wanted.server.log_file(file))]], wanted.records)


def _client(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    return found or sys.exit(f"{names[0]} is missing (Debian: mariadb-client)")


def _clients(commands: Sequence[Sequence[str]], records: int) -> Rate:
    """Run commands at the same time. Nobody reads what they print."""
    started = time.time()
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    codes = [process.wait() for process in running]
    if any(codes):
        sys.exit(f"{commands[0][0]} failed")
    whole = time.time() - started
    return Rate(records / whole, whole)


def _jars(name: str) -> Path:
    """The folder of a peer's jars and of all that they depend on, by the Ivy that ships inside pyspark's jars."""
    folder = cache() / f"mysql-peer-{name}"
    if not (folder / "ready").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        rows = [artifact.split(":") for artifact in JARS[name]]
        needed = "".join(f'<dependency org="{org}" name="{jar}" rev="{rev}" conf="default"/>' for org, jar, rev in rows)
        module = '<ivy-module version="2.0"><info organisation="ingest" module="bench"/>'
        (folder / "ivy.xml").write_text(f"{module}<dependencies>{needed}</dependencies></ivy-module>")
        ivy = Path(next(iter(pyspark.__path__))) / "jars" / "*"
        settings = os.environ.get("INGEST_IVY_SETTINGS")
        command = [
            java(), "-cp", str(ivy), "org.apache.ivy.Main", *(["-settings", settings] if settings else []),
            "-ivy", str(folder / "ivy.xml"), "-confs", "default", "-types", "jar", "bundle",
            "-retrieve", str(folder / "[artifact]-[revision].[ext]"),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (folder / "ready").touch()
    return folder
