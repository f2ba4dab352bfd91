"""Start, search and stop of a PostgreSQL server beside the sandbox's broker, from programs that are installed here.

In: a directory. Out: the address of the server in it, and a database that the sink `postgres` can write to. It listens
on the loopback device only, and asks for a password, which a file in the directory has.

The server's programs refuse to be root. Root runs them as the user `postgres`, whose data are then in a directory of
their own below /var/tmp, as that user may not enter root's directories.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ingest.errors import ConfigError, ProgramMissing
from ingest.sandbox.process import HOST, chosen_port, launch, noted, running, starting, stop, wait_for

PORT: Final = 25432
USER: Final = "ingest"
DATABASE: Final = "postgres"
PROGRAMS: Final = ("postgres", "initdb", "pg_isready")
_DEBIAN: Final = Path("/usr/lib/postgresql")
"""The directory where packages of Debian and Ubuntu have the programs of each version."""
_OWNER: Final = "postgres"
_PLACE: Final = Path("/var/tmp")  # noqa: S108  (the directory in it is made by mkdtemp)
_PREFIX: Final = "ingest-postgres-"
_NOTE: Final = "postgres.json"
"""The file of what there is to know about the server."""


@dataclass(frozen=True, slots=True)
class RunningDatabase:
    """A running PostgreSQL server."""

    endpoint: str
    pid: int
    log: str
    version: str
    home: str
    """The directory with its data."""
    password_file: str


@dataclass(frozen=True, slots=True)
class _Account:
    """The user that the programs run as; None: this process's own."""

    user: int | None
    group: int | None


def status(folder: Path) -> RunningDatabase | None:
    """Return the server that runs beside the sandbox in this directory, or None."""
    return running(folder / "postgres", _NOTE, RunningDatabase)


def up(folder: Path, port: int | None = None) -> RunningDatabase:
    """Start the server unless it runs, and return it when it answers. Raise IngestError."""
    running_server = status(folder)
    if running_server is not None:
        return running_server
    bin_folder, account = programs(), _account()
    server_folder = (folder / "postgres").resolve()
    with starting(server_folder, "PostgreSQL server") as lock:
        return _start(server_folder, bin_folder, account, lock, port)


def programs() -> Path:
    """Return the directory of the server's programs: of those on PATH, or of Debian's newest. Raise ConfigError."""
    on_path = shutil.which(PROGRAMS[0])
    versions = [path for path in _DEBIAN.glob("*/bin") if path.parent.name.isdecimal()]
    newest = sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    folders = [Path(on_path).resolve().parent] if on_path is not None else []
    for place in [*folders, *newest]:
        if all(os.access(place / name, os.X_OK) for name in PROGRAMS):
            return place
    msg = f"the programs of a PostgreSQL server are missing: {', '.join(PROGRAMS)}"
    raise ProgramMissing(msg, "install them (on Debian and Ubuntu: apt-get install postgresql), or put them on PATH")


def _account() -> _Account:
    """Return the user that the programs run as. Raise ConfigError where root has nobody else."""
    if os.getuid() != 0:
        return _Account(None, None)
    try:
        owner = pwd.getpwnam(_OWNER)
    except KeyError:
        msg = f"PostgreSQL refuses to run as root, and there is no user {_OWNER!r}"
        raise ConfigError(msg, f"be another user, or make that one: useradd --system {_OWNER}") from None
    return _Account(owner.pw_uid, owner.pw_gid)


def _start(folder: Path, bin_folder: Path, account: _Account, lock: int, port: int | None) -> RunningDatabase:
    before = noted(folder / _NOTE)
    chosen = chosen_port(port, str(before.get("endpoint", "")).rpartition(":")[2], PORT)
    home = _home(folder, account, str(before.get("home", "")))
    password, log = folder / "password", folder / "postgres.log"
    if not password.exists():
        password.touch(0o600)
        password.write_text(secrets.token_urlsafe(18), encoding="ascii")
    if log.exists():
        log.replace(log.with_name("postgres.previous.log"))
    options = {"listen_addresses": HOST, "port": chosen, "unix_socket_directories": "", "logging_collector": "off"}
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with log.open("ab") as out:
        if not (home / "data").exists():
            _initialise(bin_folder, account, home, password.read_text(encoding="ascii"), out.fileno(), str(log))
        command = [str(bin_folder / "postgres"), "-D", str(home / "data"), *settings]
        process = launch(command, home, lock, out, account.user, account.group)
    server = RunningDatabase(f"{HOST}:{chosen}", process.pid, str(log), _version(bin_folder), str(home), str(password))
    (folder / _NOTE).write_text(json.dumps(asdict(server)), encoding="utf-8")
    ready = [str(bin_folder / "pg_isready"), "--quiet", "-h", HOST, "-p", str(chosen), "-d", DATABASE, "-U", USER]
    asked = partial(subprocess.run, ready, check=False, capture_output=True)
    wait_for(process, lambda: asked().returncode == 0, f"PostgreSQL server at {server.endpoint}", server.log)
    return server


def _home(folder: Path, account: _Account, last: str) -> Path:
    """Return the directory for the data, which is made where it is missing. `last`: that of the last start."""
    if account.user is None or account.group is None:
        return folder
    known = Path(last)
    if last and _is_made_for_data(known) and known.is_dir() and known.stat().st_uid == account.user:
        return known
    home = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PLACE))
    os.chown(home, account.user, account.group)
    return home


def _is_made_for_data(home: Path) -> bool:
    """Return whether a directory has the place and name of those that are made for data."""
    return home.parent == _PLACE and home.name.startswith(_PREFIX)


def _initialise(bin_folder: Path, account: _Account, home: Path, password: str, out: int, log: str) -> None:
    """Make an empty database, whole or not at all. Raise ConfigError."""
    data, password_file = home / "data.new", home / "password.new"
    shutil.rmtree(data, ignore_errors=True)
    password_file.unlink(missing_ok=True)
    password_file.touch(0o600)
    password_file.write_text(password, encoding="ascii")
    if account.user is not None and account.group is not None:
        os.chown(password_file, account.user, account.group)
    command = [
        str(bin_folder / "initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password_file}",
        "-E", "UTF8", "--locale=C",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            check=False,
            cwd=home,
            user=account.user,
            group=account.group,
            extra_groups=None if account.user is None else [],
        )
    finally:
        password_file.unlink()
    if done.returncode:
        raise ConfigError(f"PostgreSQL cannot make a database in {home}", f"see {log}")
    data.rename(home / "data")


def _version(bin_folder: Path) -> str:
    """Return the version of the programs."""
    done = subprocess.run([str(bin_folder / "postgres"), "--version"], capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return next((word for word in words if word[0].isdigit()), "")


def down(folder: Path, *, wipe: bool = False) -> bool:
    """Stop the server, and tell whether one ran. With `wipe`, delete its data and password, too. Raise Unavailable.

    Sessions are ended, and what they have not committed is rolled back.
    """
    server_folder, server = folder / "postgres", status(folder)
    if server is not None:
        stop(server_folder, server.pid, "PostgreSQL server", server.log, signal.SIGINT)
    if wipe:
        home = Path(str(noted(server_folder / _NOTE).get("home", "")))
        if _is_made_for_data(home):
            shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(server_folder / "data", ignore_errors=True)
        for name in ("password", _NOTE):
            (server_folder / name).unlink(missing_ok=True)
    return server is not None
