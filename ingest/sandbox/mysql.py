"""Start, search and stop of a MariaDB server beside the sandbox's broker, from programs that are installed here.

In: a directory. Out: the address of the server in it, with a user that the source `mysql` can log in as, and one that
may change the database `shop`. It listens on the loopback device only, and asks for a password, which a file in the
directory has. Its log has rows (`binlog_format = ROW`).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError, ProgramMissing, Unavailable
from ingest.packages import require
from ingest.sandbox.process import HOST, chosen_port, launch, noted, running, starting, stop, wait_for

if TYPE_CHECKING:
    from ingest.sources.mysql.connection import MySqlServer

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
    there = status(folder)
    if there is not None:
        return there
    program = programs()
    own = (folder / "mysql").resolve()
    with starting(own, "MariaDB server") as lock:
        return _start(own, program, lock, port)


def programs() -> Path:
    """Return the server's program. Raise ConfigError."""
    require("mysql")
    found = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=os.pathsep.join(_PLACES))
    if found is None or not _statements(Path(found)):
        msg = f"the programs of a MariaDB server are missing: {_PROGRAM} and the statements that make its tables"
        hint = "install them (on Debian and Ubuntu: apt-get install mariadb-server-core), or put them on PATH"
        raise ProgramMissing(msg, hint)
    return Path(found)


def login(found: RunningMariaDb, user: str = USER) -> MySqlServer:
    """Return how to log in to the server."""
    from ingest.sources.mysql.connection import MySqlServer, Tls  # noqa: PLC0415  (an extra that not everybody has)

    password = Path(found.password_file).read_text(encoding="ascii")
    return MySqlServer(found.host, found.port, user, password, Tls("disabled"))


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
    there = RunningMariaDb(HOST, chosen, process.pid, str(log), _version(program), str(password))
    (folder / _NOTE).write_text(json.dumps(asdict(there)), encoding="utf-8")
    wait_for(process, lambda: _answers(there), f"MariaDB server at {HOST}:{chosen}", there.log)
    return there


def _command(program: Path, data: Path, folder: Path) -> list[str]:
    """Return the server's program with what it needs to know of a directory. No option file of the machine is read."""
    own = [
        str(program), "--no-defaults", f"--datadir={data}", f"--socket={folder / 'socket'}",
        f"--pid-file={folder / 'mysql.pid'}", f"--tmpdir={folder}", "--skip-name-resolve", "--skip-external-locking",
        "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M", "--max-connections=100",
    ]  # fmt: skip
    return [*own, "--user=root"] if os.getuid() == 0 else own  # it refuses to be root unless it is told to


def _initialise(folder: Path, program: Path, password: str, out: int, log: str) -> None:
    """Make the server's own tables, users and the database, whole or not at all. Raise ConfigError."""
    made = folder / "data.new"
    shutil.rmtree(made, ignore_errors=True)
    (made / "mysql").mkdir(parents=True)
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
    command = [*_command(program, made, folder), "--bootstrap", "--skip-networking", "--skip-log-bin"]
    done = subprocess.run(command, input="\n".join(texts).encode(), stdout=out, stderr=out, check=False, cwd=folder)
    if done.returncode:
        msg = f"MariaDB cannot make a database in {folder}"
        raise ConfigError(msg, f"see {log}")
    made.rename(folder / "data")


def _answers(found: RunningMariaDb) -> bool:
    """Return whether a user can log in."""
    from ingest.sources.mysql.connection import connect  # noqa: PLC0415  (as above)

    try:
        with closing(connect(login(found))):
            return True
    except Unavailable:
        return False


def _version(program: Path) -> str:
    """Return the version of the program."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    _, _, rest = done.stdout.partition("Ver ")
    return rest.partition("-")[0].strip()


def down(folder: Path, *, wipe: bool = False) -> bool:
    """Stop the server, and tell whether one ran. With `wipe`, delete its data and password, too. Raise Unavailable."""
    own, there = folder / "mysql", status(folder)
    if there is not None:
        stop(own, there.pid, "MariaDB server", there.log, signal.SIGTERM)
    if wipe:
        shutil.rmtree(own / "data", ignore_errors=True)
        for name in ("password", _NOTE):
            (own / name).unlink(missing_ok=True)
    return there is not None
