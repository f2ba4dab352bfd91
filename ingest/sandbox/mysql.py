"""A MariaDB server beside the sandbox's broker, from programs that are installed here, and a shop's tables in it.

In: a directory. Out: the address of the server in it, with a user that the source `mysql` can log in as, and one that
may change the database `shop`. It listens on the loopback device only, and asks for a password, which a file in the
directory has. Its log has rows (`binlog_format = ROW`). Rows of the shop go on changing until the sandbox is stopped:
that is this module as a program, `python -m ingest.sandbox.mysql FOLDER RATE READY`.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import ConfigError, ProgramMissing, Unavailable
from ingest.packages import require
from ingest.sandbox import sample
from ingest.sandbox.process import HOST, chosen_port, launch, noted, running, starting, stop, wait_for
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from ingest.sandbox.sample import Row, RunningSample
    from ingest.sources.mysql.connection import Connection

PORT: Final = 23306
USER: Final = "ingest"
"""The user with the least rights that the source needs."""
OWNER: Final = "shop"
"""The user that may change the database `shop`."""
DATABASE: Final = "shop"
_PROGRAM: Final = "mariadbd"
_PLACES: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")
"""Directories of the server's program that are not on everybody's PATH."""
_SYSTEM: Final = ("system_tables.sql", "performance_tables.sql", "system_tables_data.sql")
"""Endings of the files with the statements that make a server's own tables."""
_NOTE: Final = "mysql.json"


@dataclass(frozen=True, slots=True)
class RunningMariaDb:
    """A running MariaDB server."""

    host: str
    port: int
    pid: int
    log: str
    version: str
    password_file: str


def status(folder: Path) -> RunningMariaDb | None:
    """Return the server that runs beside the sandbox in this directory, or None."""
    return running(folder / "mysql", _NOTE, RunningMariaDb)


def up(folder: Path, port: int | None = None) -> RunningMariaDb:
    """Start the server unless it runs, and return it when it answers. Raise IngestError."""
    server = status(folder)
    if server is not None:
        return server
    program = programs()
    server_folder = (folder / "mysql").resolve()
    with starting(server_folder, "MariaDB server") as lock:
        return _start(server_folder, program, lock, port)


def programs() -> Path:
    """Return the server's program. Raise ConfigError."""
    require("mysql")
    program = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=os.pathsep.join(_PLACES))
    if program is None or not _statements(Path(program)):
        msg = f"the programs of a MariaDB server are missing: {_PROGRAM} and the statements that make its tables"
        hint = "install them (on Debian and Ubuntu: apt-get install mariadb-server-core), or put them on PATH"
        raise ProgramMissing(msg, hint)
    return Path(program)


def login(server: RunningMariaDb, user: str = USER) -> MySqlServer:
    """Return how to log in to a server."""
    password = Path(server.password_file).read_text(encoding="ascii")
    return MySqlServer(server.host, server.port, user, password, Tls("disabled"))


def _connect(server: RunningMariaDb, user: str, database: str | None = None) -> Connection:
    """Log in to a server. Raise IngestError."""
    from ingest.sources.mysql.connection import connect  # noqa: PLC0415  (an extra that not everybody has)

    return connect(login(server, user), database=database)


def _answers(server: RunningMariaDb) -> bool:
    """Return whether a user can log in."""
    try:
        with closing(_connect(server, USER)):
            return True
    except Unavailable:
        return False


def _statements(program: Path) -> list[Path]:
    """Return the files with the statements that make a server's own tables; none where one is missing."""
    shares = [program.resolve().parent.parent / "share" / name for name in ("mariadb", "mysql", "")]
    for share in (*shares, Path("/usr/share/mariadb"), Path("/usr/share/mysql")):
        for prefix in ("mariadb_", "mysql_"):
            files = [share / f"{prefix}{name}" for name in _SYSTEM]
            if all(file.is_file() for file in files):
                return files
    return []


def _start(folder: Path, program: Path, lock: int, port: int | None) -> RunningMariaDb:
    before = noted(folder / _NOTE)
    chosen = chosen_port(port, str(before.get("port", "")), PORT)
    password, log = folder / "password", folder / "mysql.log"
    if not password.exists():
        password.touch(0o600)
        password.write_text(secrets.token_urlsafe(18), encoding="ascii")
    if log.exists():
        log.replace(log.with_name("mysql.previous.log"))
    with log.open("ab") as out:
        if not (folder / "data").exists():
            _initialise(folder, program, password.read_text(encoding="ascii"), out.fileno(), str(log))
        command = [
            *_command(program, folder / "data", folder),
            f"--port={chosen}",
            f"--bind-address={HOST}",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--server-id=1",
            "--sync-binlog=0",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-ssl",
        ]
        process = launch(command, folder, lock, out)
    server = RunningMariaDb(HOST, chosen, process.pid, str(log), _version(program), str(password))
    (folder / _NOTE).write_text(json.dumps(asdict(server)), encoding="utf-8")
    wait_for(process, lambda: _answers(server), f"MariaDB server at {HOST}:{chosen}", server.log)
    return server


def _command(program: Path, data: Path, folder: Path) -> list[str]:
    """Return the server's program with what it needs to know of a directory. No option file of the machine is read."""
    command = [
        str(program), "--no-defaults", f"--datadir={data}", f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'mysql.pid'}", f"--tmpdir={folder}", "--skip-name-resolve", "--skip-external-locking",
        "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M", "--max-connections=100",
    ]  # fmt: skip
    return [*command, "--user=root"] if os.getuid() == 0 else command  # the server runs as root only with this


def _initialise(folder: Path, program: Path, password: str, out: int, log: str) -> None:
    """Make the server's own tables, users and the database, whole or not at all. Raise ConfigError."""
    new = folder / "data.new"
    shutil.rmtree(new, ignore_errors=True)
    (new / "mysql").mkdir(parents=True)
    grants = (
        f"GRANT SELECT ON {DATABASE}.* TO '{USER}'@'{HOST}' IDENTIFIED BY '{password}'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO '{USER}'@'{HOST}'",
        f"GRANT ALL ON {DATABASE}.* TO '{OWNER}'@'{HOST}' IDENTIFIED BY '{password}'",
    )
    texts = [
        "USE mysql;",
        *(file.read_text(encoding="utf-8", errors="replace") for file in _statements(program)),
        "",
        f"FLUSH PRIVILEGES;\nCREATE DATABASE {DATABASE};",
        *(f"{each};" for each in grants),
        "",
    ]
    command = [*_command(program, new, folder), "--bootstrap", "--skip-networking", "--skip-log-bin"]
    done = subprocess.run(command, input="\n".join(texts).encode(), stdout=out, stderr=out, check=False, cwd=folder)
    if done.returncode:
        raise ConfigError(f"MariaDB cannot make a database in {folder}", f"see {log}")
    new.rename(folder / "data")


def _version(program: Path) -> str:
    """Return the version of the program."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    _, _, rest = done.stdout.partition("Ver ")
    return rest.partition("-")[0].strip()


def down(folder: Path, *, wipe: bool = False) -> bool:
    """Stop the server, and tell whether one ran. With `wipe`, delete its data and password, too. Raise Unavailable."""
    server_folder, server = folder / "mysql", status(folder)
    if server is not None:
        stop(server_folder, server.pid, "MariaDB server", server.log, signal.SIGTERM)
    if wipe:
        shutil.rmtree(server_folder / "data", ignore_errors=True)
        for name in ("password", _NOTE):
            (server_folder / name).unlink(missing_ok=True)
    return server is not None


_SHOP: Final = "mysql-shop"
"""The note of the process that changes the shop's rows."""
_TABLES: Final = {
    "customers": "id BIGINT PRIMARY KEY, name VARCHAR(64) NOT NULL, email VARCHAR(128)",
    "products": "id BIGINT PRIMARY KEY, name VARCHAR(64) NOT NULL, price DECIMAL(10,2) NOT NULL",
    "orders": (
        "id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, product BIGINT NOT NULL, quantity INT NOT NULL, "
        "status VARCHAR(16) NOT NULL, created_at DATETIME NOT NULL"
    ),
}


class TableShop(sample.Shop):
    """The shop, whose changes are statements."""

    def __init__(self, connection: Connection, now_ms: int) -> None:
        """Make the tables where they are not there, and take over the rows that they have."""
        super().__init__(None, now_ms)
        self._connection = connection
        with connection.cursor() as cursor:
            for table, columns in _TABLES.items():
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                cursor.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in cursor.description]
                for values in cursor.fetchall():
                    row = {
                        name: str(value) if name in {"price", "created_at"} else value
                        for name, value in zip(names, values, strict=True)
                    }
                    self.tables[table][int(values[0])] = row

    def fill(self) -> None:
        """Insert the rows that are there when somebody begins to look, unless there are any."""
        if not any(self.tables.values()):
            super().fill()

    def sent(self) -> None:
        """Have nothing to wait for: each statement is committed when it returns."""

    def _changed(self, table: str, _operation: str, before: Row | None, after: Row | None) -> None:
        """Change the row in the database as it was changed here."""
        row = after or before or {}
        names = ", ".join(row)
        marks = ", ".join(["%s"] * len(row))
        statements: dict[tuple[bool, bool], tuple[str, list[Any]]] = {
            (False, True): (f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()]),
            (True, True): (
                f"UPDATE {table} SET {', '.join(f'{name} = %s' for name in row)} WHERE id = %s",
                [*row.values(), row.get("id")],
            ),
            (True, False): (f"DELETE FROM {table} WHERE id = %s", [row.get("id")]),
        }
        statement, values = statements[before is not None, after is not None]
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)

    def _send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Send nothing: what topics have beside the tables is not in the database."""


def shop_of(server: RunningMariaDb) -> TableShop:
    """Return the shop in a server, with its tables and rows. Raise IngestError."""
    connection = _connect(server, OWNER, DATABASE)
    shop = TableShop(connection, int(time.time() * 1000))
    shop.fill()
    return shop


def shop_status(folder: Path) -> RunningSample | None:
    """Return the process that changes rows in the sandbox of this directory, or None."""
    return sample.status(folder, _SHOP)


def shop_up(folder: Path, server: RunningMariaDb, rate: float) -> RunningSample | None:
    """Fill the shop's tables, and start to change their rows unless a process does; None for a rate of 0.

    Raise IngestError.
    """
    process = shop_status(folder)
    if process is None and not rate:
        shop_of(server)
        return None
    return process or sample.start(folder, _SHOP, __name__, str(folder.resolve()), rate)


def shop_down(folder: Path) -> None:
    """Stop to change rows. Raise Unavailable where that does not end."""
    sample.down(folder, _SHOP)


def main(folder: str, rate: float, ready: str) -> None:
    """Fill the tables of the server in a directory, and change rows so often in a second, until a signal ends this."""
    server = status(Path(folder))
    if server is None:
        raise ConfigError(f"no MariaDB server runs in {folder}", "ingest sandbox up --mysql")
    try:
        sample.keep_changing(shop_of(server), rate, ready)
    except OSError as exc:
        raise Unavailable("the MariaDB server is away", f"see {server.log}") from exc


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3])
