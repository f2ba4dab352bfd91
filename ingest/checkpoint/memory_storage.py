"""Storage of a checkpoint in memory, for runs that leave no trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.checkpoint.storage import Storage


class MemoryStorage:
    """Files in memory, which are gone with their process."""

    lock: int | None = None

    def __init__(self, where: str = "memory") -> None:
        """Keep nothing yet; `where` is the place, for people."""
        self.where = where
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        return self._kept.get(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Keep a file where there is none: whether it was this call that did."""
        return self._kept.setdefault(name, data) is data

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        return [name.rpartition("/")[2] for name in self._kept if name.rpartition("/")[0] == folder]

    def remove(self, name: str) -> None:
        """Forget a file if it is there."""
        self._kept.pop(name, None)

    def close(self) -> None:
        """Do nothing: nothing is held."""


class Overlay:
    """Another storage as it is, over which whatever is written is kept in memory: for runs that leave no trace."""

    lock: int | None = None

    def __init__(self, below: Storage) -> None:
        """Keep nothing yet; `below` is only read."""
        self.where = below.where
        self._below = below
        self._kept: dict[str, bytes | None] = {}

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""
        return self._kept[name] if name in self._kept else self._below.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a file."""
        self._kept[name] = data

    def create(self, name: str, data: bytes) -> bool:
        """Keep a file where there is none: whether it was this call that did."""
        if self.read(name) is not None:
            return False
        self._kept[name] = data
        return True

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""
        ours = {name.rpartition("/")[2]: data for name, data in self._kept.items() if name.rpartition("/")[0] == folder}
        below = [name for name in self._below.names(folder) if name not in ours]
        return below + [name for name, data in ours.items() if data is not None]

    def remove(self, name: str) -> None:
        """Hide a file."""
        self._kept[name] = None

    def close(self) -> None:
        """Close what is below."""
        self._below.close()
