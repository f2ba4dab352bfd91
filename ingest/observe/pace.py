"""Rates of a run's counters, and the time that its backlog takes, from samples of the last minute.

In: numbers at moments, as the run tells them or as its metrics are read. Out: rates, and the time left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import Final

KEPT_S: Final = 60.0
"""The time that a backlog is watched for, in seconds."""
RATE_S: Final = 10.0
"""The time that rates are of, in seconds; after it an idle run has the rate 0."""
BATCHES: Final = 3
"""The batches that rates are of, at least, while there is a backlog: all records of a batch are counted at its end."""


class Pace:
    """Samples of a run's numbers in the last minute. Any thread may add samples and ask for rates."""

    def __init__(self) -> None:
        self._moments: deque[tuple[float, Mapping[str, float]]] = deque()
        self._lock = Lock()

    def note(self, at: float, numbers: Mapping[str, float], batch_s: float = 0.0) -> None:
        """Add a sample at a moment, in seconds of a monotonic clock. `batch_s`: the duration of batches."""
        with self._lock:
            self._moments.append((at, numbers))
            oldest = at - max(KEPT_S, BATCHES * batch_s)
            while len(self._moments) > 1 and self._moments[1][0] <= oldest:
                self._moments.popleft()

    def per_second(self, name: str, window_s: float = RATE_S) -> float | None:
        """Return a number's growth per second; None while there is only one sample."""
        with self._lock:
            if len(self._moments) < 2:
                return None
            at, numbers = self._moments[-1]
            earlier = (moment for moment in reversed(self._moments) if moment[0] <= at - window_s)
            before, older = next(earlier, self._moments[0])
            return (numbers.get(name, 0) - older.get(name, 0)) / max(at - before, 0.001)

    def left_s(self, waiting: str) -> float | None:
        """Return the seconds until a backlog is drained at its current rate; None if it does not shrink."""
        change = self.per_second(waiting, KEPT_S)
        if change is None or change >= 0:
            return None
        return self._moments[-1][1].get(waiting, 0) / -change


def window_s(waiting: float, batch_s: float) -> float:
    """Return the time window of rates, in seconds. `batch_s`: the duration of batches."""
    return max(RATE_S, BATCHES * batch_s) if waiting else RATE_S


def is_backlog(waiting: float, per_second: float) -> bool:
    """Return whether more waits than comes between two batches: more than is read in some seconds."""
    return waiting > per_second * RATE_S / 2
