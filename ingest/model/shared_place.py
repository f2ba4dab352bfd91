"""Directories that a run's driver and every executor use: on a cluster each has to see the same ones.

Rules: docs/spec/delivery.md#on-a-cluster.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

WAIT_S: Final = 3.0
"""The time after which a mark that is not seen counts as not there, in seconds: network file systems are late."""
_AGAIN_S: Final = 0.2


class SharedPlace(NamedTuple):
    """A path on this machine that an option names, and that tasks use, too."""

    option: str
    path: str
    kind: Literal["folder", "file", "pattern"]
    """`folder`: files are written into it; `file`: it is written to itself; `pattern`: files that are read."""


class SharedMark(NamedTuple):
    """Something that the driver sees, or has put there, for executors to look for."""

    option: str
    path: str
    """What to look for."""
    folder: str
    """The directory that is to be written to; empty where nothing is written."""


def unseen(marks: Sequence[SharedMark]) -> list[str]:
    """Return, for each mark that this process does not see or whose directory it may not write to, what is wrong."""
    until = time.monotonic() + WAIT_S
    out = []
    for mark in marks:
        while not (there := os.path.exists(mark.path)) and time.monotonic() < until:  # noqa: PTH110  (never raises)
            time.sleep(_AGAIN_S)
        if not there:
            out.append(f"does not see {mark.folder or mark.path} ({mark.option}) as the driver does")
        elif mark.folder and not os.access(mark.folder, os.W_OK | os.X_OK):
            out.append(f"may not write to {mark.folder} ({mark.option})")
    return out


def unshared(host: str, faults: Sequence[str]) -> ConfigError:
    """Return the error about the host of an executor that does not see a mark; `faults` as `unseen` has them."""
    msg = f"the executor on host {host} {faults[0]}"
    return ConfigError(msg, "mount it there, at the same path, with the same rights; docs/deployment.md says more")
