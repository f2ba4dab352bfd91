"""Bounded memory for values that depend on the content of messages.

A hostile topic cannot fill the memory: there is a limit of entries and of bytes. A missing value is computed again, so
a limit costs time but never changes a result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_COUNTED: Final = 1000
"""Number of names from messages that are counted one by one.

They are names that no table and no column of the pipeline has.
"""


class Cache(Generic[K, V]):
    """Map with a limit of entries and of bytes. When a new value does not fit, all other values are dropped."""

    __slots__ = ("_bytes", "_kept", "_most", "_most_bytes", "get")

    def __init__(self, most: int, most_bytes: int) -> None:
        """Begin empty. `most` is the limit of entries, `most_bytes` the limit of bytes."""
        self._kept: dict[K, V] = {}
        self._most, self._most_bytes = most, most_bytes
        self._bytes = 0
        self.get: Callable[[K], V | None] = self._kept.get
        """Function that returns the value of a key, or None.

        It is a dictionary's own method, so it costs no more than that.
        """

    def put(self, key: K, value: V, size: int) -> V:
        """Keep a value, and return it.

        `size` is the approximate number of bytes of key and value. A value that needs more than a quarter of all bytes
        is returned, but not kept.
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


def count_up(counts: dict[K, int], key: K, number: int, rest: K, most: int = MAX_COUNTED) -> None:
    """Add a number to the count of a key that comes from messages.

    After the first `most` keys, the number goes to the key `rest`.
    """
    if key not in counts and len(counts) >= most:
        key = rest
    counts[key] = counts.get(key, 0) + number
