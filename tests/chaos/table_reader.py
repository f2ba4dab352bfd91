"""A reader of a table whose rows are the last states of keys, for faults of sinks that are tables."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from rig import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TableReader(threading.Thread):
    """Reads the table again and again. Of a key, all numbers up to that of its row have come through."""

    def __init__(self, ask: Callable[[], Sequence[tuple[int, int]]]) -> None:
        """`ask`: the keys and numbers of the table's rows; it raises as long as there is no table."""
        super().__init__(daemon=True)
        self.topic = ""
        self.seen: Counter[int] = Counter()
        self.disorder = 0
        self.columns: Counter[str] = Counter()
        self.ended = False
        self._ask = ask
        self._last: dict[int, int] = {}

    def run(self) -> None:
        while not self.ended:
            with suppress(Exception):  # there is no table yet, or what holds it is away
                self.look()
            time.sleep(0.2)
        self.look()

    def look(self) -> None:
        """Read the table once."""
        rows = self._ask()
        keys = Counter(key for key, _ in rows)
        for key, number in rows:
            before = self._last.get(key, key - KEYS)
            self.disorder += number < before
            self.seen.update(range(before + KEYS, number + 1, KEYS))
            self._last[key] = max(number, before)
            self.seen[number] = keys[key]
