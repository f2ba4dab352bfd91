"""The command on a terminal of a given size: what it shows, and what keys do to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from ingest.cli.app import main

if TYPE_CHECKING:
    from collections.abc import Mapping

ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|[()][0-9A-B]|[=>])")
"""A sequence that a terminal does not show."""
_CHUNK = 1 << 16


def on_terminal(
    *arguments: str,
    columns: int = 80,
    rows: int = 40,
    press: tuple[str, bytes] | None = None,
    after: int = 1,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Return the exit code of the command, and all that it writes to its terminal.

    It runs in a fork of this process, which has imported what it needs. `press`: a text that is awaited, and the keys
    that are pressed when the terminal has shown it so many times (`after`).
    """
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # a fork of a process with threads
        process, terminal = pty.fork()
    if process == 0:
        _command(arguments, columns, rows, env or {})
    said = b""
    with suppress(OSError):  # EIO: the command has ended
        while chunk := os.read(terminal, _CHUNK):
            said += chunk
            if press is not None and plain(said.decode(errors="replace")).count(press[0]) >= after:
                os.write(terminal, press[1])
                press = None
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), said.decode().replace("\r\n", "\n")


def _command(arguments: tuple[str, ...], columns: int, rows: int, env: Mapping[str, str]) -> None:
    """Be the command, in a process of its own."""
    code = 99
    try:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm-256color", **env})
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        main(arguments)
    except SystemExit as exc:
        code = int(exc.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def plain(text: str) -> str:
    """Return what a terminal shows, without colours."""
    return ESCAPE.sub("", text)
