"""How much of which split goes into the next batch. Pure.

A batch is sized by time: about `TARGET_S` seconds of work at the rate just seen, the first one small.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.kafka.admin import Split

TARGET_S: Final = 5.0
"""How long a batch should take, in seconds."""
FIRST: Final = 20_000
"""Records of a shard in the first batch."""
GROWTH: Final = 8
"""A batch is at most this many times the one before."""
DEADLINE_S: Final = 2 * TARGET_S
"""A task ends after this, in seconds, wherever it is."""


def assign(splits: Iterable[Split], shards: Mapping[Split, int], count: int) -> dict[Split, int]:
    """The shard of each split: what it was, or for a new split the shard with the fewest."""
    out = {split: shard for split, shard in shards.items() if shard < count}
    load = [0] * count
    for shard in out.values():
        load[shard] += 1
    for split in sorted(splits):
        if split not in out:
            out[split] = min(range(count), key=lambda s: (load[s], s))
            load[out[split]] += 1
    return out


@dataclass(slots=True)
class Budget:
    """How many records a shard may get, learnt from what the last batch took."""

    records: int = FIRST
    most: int | None = None
    """More than these are never."""

    def learn(self, records: int, seconds: float) -> None:
        """`records` is the most that one shard did, in `seconds`."""
        if records * 2 < self.records or seconds <= 0:
            return  # the batch was small because there was no more, or it stopped for a new schema
        rate = records / max(seconds, 0.001)
        self.records = int(min(max(rate * TARGET_S, FIRST), self.records * GROWTH, self.most or 1 << 62))


@dataclass(slots=True)
class Rate:
    """`scan.rate-limit.records-per-second`: how many records may be read by now. Saves up one second's worth."""

    per_second: float | None
    _saved: float = 0.0
    _since: float = field(default_factory=time.monotonic)

    def available(self) -> int | None:
        """How many records the next batch may have; None where there is no limit."""
        if self.per_second is None:
            return None
        now = time.monotonic()
        self._saved = min(self._saved + (now - self._since) * self.per_second, max(self.per_second, 1.0))
        self._since = now
        return max(0, int(self._saved))

    def ready(self) -> bool:
        """Whether a batch is worth its while: a fifth of a second's records, or one."""
        available = self.available()
        return available is None or available >= max(1.0, (self.per_second or 0.0) / 5)

    def take(self, records: int) -> None:
        """Account for records that were read."""
        self._saved -= records


def limit(ranges: Mapping[Split, tuple[int, int]], records: int | None) -> dict[Split, tuple[int, int]]:
    """The ranges, together not wider than so many records, shared evenly."""
    if records is None:
        return dict(ranges)
    out: dict[Split, tuple[int, int]] = {}
    by_width = sorted(ranges.items(), key=lambda item: item[1][1] - item[1][0])
    for i, (split, (start, end)) in enumerate(by_width):
        width = min(end - start, -(-records // (len(by_width) - i)))
        if width > 0:
            out[split] = (start, start + width)
            records -= width
    return out


def ranges(
    positions: Mapping[Split, int], ends: Mapping[Split, int], shards: Mapping[Split, int], budget: int
) -> dict[Split, tuple[int, int]]:
    """The ranges of the next batch: each shard's budget, shared evenly among its splits that have records."""
    waiting: dict[int, list[Split]] = {}
    for split, end in ends.items():
        if end > positions[split]:
            waiting.setdefault(shards[split], []).append(split)
    out: dict[Split, tuple[int, int]] = {}
    for splits in waiting.values():
        left = budget
        by_lag = sorted(splits, key=lambda s: ends[s] - positions[s])
        for i, split in enumerate(by_lag):
            share = max(1, left // (len(by_lag) - i))
            start = positions[split]
            end = min(ends[split], start + share)
            out[split] = (start, end)
            left -= end - start
    return out
