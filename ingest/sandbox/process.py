"""Processes of the sandbox that outlive the terminal: whether one runs in a directory, its end, and ports for it.

A process holds a lock on a file in its directory as long as it lives. The lock tells whether it runs: a process id
could belong to another program by now.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from ingest.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST: Final = "127.0.0.1"
STOP_S: Final = 30.0


@contextmanager
def starting(folder: Path, what: str) -> Iterator[int]:
    """Hold the lock of a directory, which is made where it is missing; the lock is for the new process to inherit.

    Yield the lock's file descriptor. Raise Unavailable where another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"another {what} is being started or stopped in {folder}"
            raise Unavailable(msg, "wait a moment and try again") from None
        yield lock
    finally:
        os.close(lock)


def runs(folder: Path) -> bool:
    """Tell whether a process holds the lock of a directory."""
    try:
        fd = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def stop(folder: Path, pid: int, what: str, log: str) -> None:
    """End the process of a directory, and wait for it. Raise Unavailable if it does not end within STOP_S seconds."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while runs(folder):
        if time.monotonic() > deadline:
            msg = f"the {what} (process {pid}) does not stop"
            raise Unavailable(msg, f"see {log}")
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


def any_port() -> int:
    """Return a port that nobody listens on."""
    return any_ports(1, set())[0]


def any_ports(count: int, taken: set[int]) -> list[int]:
    """Return different ports that nobody listens on, none of which is in `taken`.

    Each port is held until all are found, so that none is found twice.
    """
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
            if port not in taken:
                found.append(port)
    return found
