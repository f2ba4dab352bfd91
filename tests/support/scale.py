"""How the processor time of some work grows with its size: a ratio of one run, no figure of a machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = 8
"""How much larger the large work is."""


def growth(work: Callable[[int], object], size: int) -> float:
    """Processor time of work of eight times the size, by eight times that of `size`: 1 is linear, 8 is square."""
    return least(lambda: work(TIMES * size)) / (TIMES * least(lambda: work(size)))


def least(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of three runs; none is 0, so that it may divide."""
    found = []
    for _ in range(3):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return max(min(found), 1e-4)
