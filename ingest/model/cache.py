"""What is kept of what messages say: no more of it than there is room for, however much they say.

Who looks something up that is not there makes it anew: a limit costs time, and never changes a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")

MAX_COUNTED: Final = 1000
"""Names that come from messages, are no table's or column's of ours, and are counted one by one."""


class Cache(Generic[K, V]):
    """Values by key, at most so many and of so many bytes. Where there is no room for one more, all others go."""

    __slots__ = ("_bytes", "_kept", "_most", "_most_bytes", "get")

    def __init__(self, most: int, most_bytes: int) -> None:
        """Keep nothing yet."""
        self._kept: dict[K, V] = {}
        self._most, self._most_bytes = most, most_bytes
        self._bytes = 0
        self.get: Callable[[K], V | None] = self._kept.get
        """The value of a key, or None: at the cost of a dictionary's."""

    def put(self, key: K, value: V, size: int) -> V:
        """Keep a value, and return it; `size`: bytes of it and its key, about.

        One that needs more than a quarter of all room is not kept.
        """
        if size * 4 > self._most_bytes:
            return value
        if len(self._kept) >= self._most or self._bytes + size > self._most_bytes:
            self._kept.clear()
            self._bytes = 0
        self._kept[key] = value
        self._bytes += size
        return value

    def __len__(self) -> int:
        return len(self._kept)


def count_up(counts: dict[K, int], key: K, number: int, rest: K) -> None:
    """Count by a key that messages tell; `rest` has those past the first `MAX_COUNTED`."""
    if key not in counts and len(counts) >= MAX_COUNTED:
        key = rest
    counts[key] = counts.get(key, 0) + number
