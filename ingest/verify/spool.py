"""States of keys on the local disk, spread over so many files that those of one file fit into memory.

In: states, in any order of their keys. Out: the states of one file after the other, in the order in which they came. A
key is always in the same file, of whichever spool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.verify.rows import Cells

PARTS: Final = 256
"""Files of a spool."""
_HELD: Final = 200_000
"""States that wait in memory until they are written."""

Entry: TypeAlias = "tuple[int, int, str, Cells | None]"
"""Number of the table, number of the split of the source, key, and row."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[int, int, str, dict[str, str] | None]]).decode


def part_of(table: int, key: str) -> int:
    """Return the file that a key is in."""
    return crc32(key.encode("utf-8", "surrogatepass"), table) % PARTS


class Spool:
    """States in files below a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        """Write nothing yet. `name`: no other spool of the folder has it."""
        self._folder, self._name = folder, name
        self._waiting: list[list[Entry]] = [[] for _ in range(PARTS)]
        self._held = 0

    def add(self, table: int, split: int, key: str, cells: Cells | None) -> None:
        """Add a state."""
        self._waiting[part_of(table, key)].append((table, split, key, cells))
        self._held += 1
        if self._held >= _HELD:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        for number, entries in enumerate(self._waiting):
            if entries:
                data = _encode(entries)
                with self._path(number).open("ab") as file:
                    file.write(len(data).to_bytes(8, "big") + data)
                self._waiting[number] = []
        self._held = 0

    def states(self, part: int) -> Iterator[Entry]:
        """Yield the states of a file. All were written."""
        path = self._path(part)
        if not path.exists():
            return
        with path.open("rb") as file:
            while size := file.read(8):
                yield from _decode(file.read(int.from_bytes(size, "big")))

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}.{number}"
