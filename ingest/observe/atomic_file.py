"""A file that others read while a run writes it anew, now and then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ingest.model.text import reason_of
from ingest.observe.events import Warned
from ingest.paths import open_own

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.observe.events import Observer


class AtomicFile:
    """A file that is replaced as a whole: whoever reads it never sees a half of it."""

    def __init__(self, path: Path, what: str, tell: Observer, *, private: bool = False) -> None:
        """`tell` hears once where that fails: `what` cannot be written.

        `private`: only this user may read it.
        """
        self._private = private
        self._path = path
        self._what = what
        self._tell: Observer | None = tell

    def write(self, data: bytes) -> None:
        """Write the file anew."""
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            with open_own(beside, "wb") if self._private else beside.open("wb") as file:
                file.write(data)
            beside.replace(self._path)
        except OSError as exc:
            if self._tell is not None:
                self._tell(Warned(f"{self._what} cannot be written to {self._path}: {reason_of(exc)}"))
            self._tell = None
