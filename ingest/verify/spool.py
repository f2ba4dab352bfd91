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

PARTS: Final = 512
"""Files of a spool."""
_HELD: Final = 32 << 20
"""Bytes of states that wait in memory until they are written."""
_OVERHEAD: Final = 50
"""Bytes that an object takes in memory beside its content, about."""
_ARRAY: Final = b"\xdd"
"""The beginning of an array of MessagePack, before the number of its elements in four bytes."""

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
        self._waiting: list[list[bytes]] = [[] for _ in range(PARTS)]
        self._held = 0

    def add(self, table: int, split: int, key: str, cells: Cells | None) -> None:
        """Add a state."""
        data = _encode((table, split, key, cells))
        self._waiting[part_of(table, key)].append(data)
        self._held += len(data) + _OVERHEAD
        if self._held >= _HELD:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        for number, entries in enumerate(self._waiting):
            if entries:
                size = 5 + sum(map(len, entries))
                with self._path(number).open("ab") as file:
                    file.write(size.to_bytes(8, "big") + _ARRAY + len(entries).to_bytes(4, "big") + b"".join(entries))
                entries.clear()
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
