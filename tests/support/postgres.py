"""A PostgreSQL server of the tests' own, from the programs of Debian's package."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from harness import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "of-the-tests"  # noqa: S105  (it guards nothing)
USER = "ingest"


@dataclass
class Database:
    """The server, and one database of it."""

    folder: Path
    port: int

    def sink(self, **more: Any) -> str:
        """The `sink:` of a pipeline file, with further options."""
        options = {
            "type": "postgres", "endpoint": f"127.0.0.1:{self.port}", "dbname": "postgres", "username": USER,
            "password": PASSWORD, **more,
        }  # fmt: skip
        return "sink:\n" + "".join(f"  {key}: {value}\n" for key, value in options.items())

    def ask(self, query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, or none."""
        with self.connection() as connection:
            found = connection.execute(query, parameters or None)
            return found.fetchall() if found.description is not None else []

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows of a table by their first column. The names are the test's own, as SQL has them."""
        return self.ask(f"SELECT {columns} FROM {table} ORDER BY 1")

    def connection(self, name: str = "postgres") -> psycopg.Connection[Any]:
        """A connection of the superuser to a database."""
        return psycopg.connect(host="127.0.0.1", port=self.port, dbname=name, user=USER, password=PASSWORD)

    def control(self, *arguments: str) -> None:
        """Call pg_ctl."""
        _run(str(_programs() / "pg_ctl"), "-D", str(self.folder / "data"), "-w", *arguments)

    def start(self) -> None:
        """Start the server."""
        where = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        options = f"{where} -c fsync=off -c jit=off"
        self.control("-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, how: str = "fast") -> None:
        """Stop the server: `fast` ends its sessions, `immediate` is a crash."""
        self.control("-m", how, "stop")


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    assert found, "PostgreSQL is not installed: apt-get install postgresql (.ci/run does it)"
    return found[-1]


def _run(*command: str) -> None:
    """Run a program of the server, which refuses to be root."""
    user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
    as_user: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", **as_user)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running() -> Iterator[Database]:
    """A server with an empty database, in a folder of its own: pytest's are closed to the server's user."""
    with tempfile.TemporaryDirectory(prefix="ingest-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            for path in (folder, folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        _run(
            str(_programs() / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256",
            f"--pwfile={folder / 'password'}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        database = Database(folder, free_port())
        database.start()
        try:
            yield database
        finally:
            database.stop("immediate")
