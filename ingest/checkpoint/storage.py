"""Storage of a checkpoint's files, which appear whole or not at all.

There are a local directory, any file system that Hadoop knows, and memory: a file each beside this one.
"""

from __future__ import annotations

from typing import Protocol


class Storage(Protocol):
    """A folder of small files. Every method raises CheckpointError when the file system fails."""

    where: str
    """The place, for people."""
    lock: int | None
    """A file descriptor that a child process may hold, too; None where there is no lock."""

    def read(self, name: str) -> bytes | None:
        """Return a file, None where there is none."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file; in the place of one that is there already."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file where there is none: whether it was this call that did."""

    def names(self, folder: str) -> list[str]:
        """Return the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    def close(self) -> None:
        """Give back what was taken."""
