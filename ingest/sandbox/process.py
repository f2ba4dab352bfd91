"""Processes of the sandbox that outlive the terminal: start, search and end of one in a directory, and ports for it.

A process holds a lock on a file in its directory as long as it lives. The lock tells whether it runs: a process id
could belong to another program by now. A note beside it, a JSON object, has what its starter knows about it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from ingest.errors import ConfigError, Unavailable
from ingest.model.text import reason_of

_Kind = TypeVar("_Kind")
HOST: Final = "127.0.0.1"
START_S: Final = 180.0
STOP_S: Final = 30.0


@contextmanager
def starting(folder: Path, what: str) -> Iterator[int]:
    """Hold the lock of a directory, which is made where it is missing; the lock is for the new process to inherit.

    Yield the lock's file descriptor. Raise Unavailable where another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise ConfigError(f"cannot write to {folder}: {reason_of(exc)}", "give another --dir") from exc
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"another {what} is being started or stopped in {folder}"
            raise Unavailable(msg, "wait a moment and try again") from None
        yield lock
    finally:
        os.close(lock)


def launch(
    command: Sequence[str], folder: Path, lock: int, out: IO[bytes], user: int | None = None, group: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a process in a directory. It inherits the lock, and writes what it says to `out`.

    `user`, `group`: whose process it is; None where it is to be this one's user.
    """
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, pass_fds=(lock,), cwd=folder,
        user=user, group=group, extra_groups=None if user is None else [],
    )  # fmt: skip


def wait_for(process: subprocess.Popen[bytes], answers: Callable[[], bool], what: str, log: str) -> None:
    """Wait until a new process answers. Raise Unavailable, and end it, if it does not within START_S seconds.

    The process goes on without this one.
    """
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if answers():
            process.returncode = 0  # Popen would warn about a process that goes on
            return
        time.sleep(0.1)
    if process.poll() is None:
        process.terminate()
    raise Unavailable(f"the {what} did not start", f"see {log}")


def noted(file: Path) -> dict[str, Any]:
    """Return the note of the last start; empty where there is none that can be read."""
    try:
        note = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def running(folder: Path, note: str, kind: type[_Kind]) -> _Kind | None:
    """Return the note of what runs in a directory, or None where nothing does, or its note cannot be read."""
    if not runs(folder):
        return None
    try:
        return kind(**noted(folder / note))
    except TypeError:
        return None


def runs(folder: Path) -> bool:
    """Tell whether a process holds the lock of a directory."""
    try:
        fd = os.open(folder / "lock", os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def stop(folder: Path, pid: int, what: str, log: str, by: signal.Signals = signal.SIGTERM) -> None:
    """End the process of a directory, and wait for it. Raise Unavailable if it does not end within STOP_S seconds.

    `by`: the signal that asks it to end.
    """
    os.kill(pid, by)
    deadline = time.monotonic() + STOP_S
    while runs(folder):
        if time.monotonic() > deadline:
            raise Unavailable(f"the {what} (process {pid}) does not stop", f"see {log}")
        time.sleep(0.1)


def is_free(port: int) -> bool:
    """Tell whether nobody listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def chosen_port(given: int | None, last: str, usual: int) -> int:
    """Return the port to listen on: the given one, else that of the last start, else the usual one, else any.

    `last`: the port of the last start as text, which files and shells remember. Only a free one is taken. Raise
    ConfigError where the given one is not free.
    """
    if given is not None and not is_free(given):
        msg = f"port {given} is taken by another program: give another --port, or leave it out to take a free one"
        raise ConfigError(msg)
    if given is not None:
        return given
    before = int(last) if last.isascii() and last.isdigit() else usual
    return next((port for port in (before, usual) if is_free(port)), None) or any_port()


def any_port() -> int:
    """Return a port that nobody listens on."""
    return any_ports(1, set())[0]


def any_ports(count: int, ports: set[int]) -> list[int]:
    """Return different ports that nobody listens on, none of which is in `ports`.

    Each port is held until all are found, so that none is found twice.
    """
    with ExitStack() as held:
        sockets: list[int] = []
        while len(sockets) < count:
            probe = held.enter_context(socket.socket())
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
            if port not in ports:
                sockets.append(port)
    return sockets
