"""How the processor time of some work grows with its size: a ratio of one run, no figure of a machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 8
"""How much larger the large work is."""


def growth(work: Callable[[int], object], size: int, less_than: float) -> float:
    """Processor time of work of eight times the size, by eight times that of `size`: 1 is linear, 8 is square.

    Each time is the least of three; one that is less than is asked for is enough.
    """
    small = TIMES * least(lambda: work(size))
    return least(lambda: work(TIMES * size), less_than * small) / small


def least(work: Callable[[], object], less_than: float = 0.0) -> float:
    """Processor seconds of the fastest of three runs, or of the first that takes less; none is 0: it may divide."""
    found: list[float] = []
    while len(found) < 3 and min(found, default=less_than) >= less_than:
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return max(min(found), 1e-4)
