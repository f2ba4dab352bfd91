"""The size of batches, when they start, and the ranges of splits that go into one.

A batch is sized by time: about `TARGET_S` seconds of work at the rate just seen, the first one small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.driver.context import CLOCK, Clock, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.model.record import Split
    from ingest.task.task import TaskResult

TARGET_S: Final = 5.0
"""The time that a batch should take, in seconds."""
FIRST: Final = 20_000
"""Records of a shard in the first batch."""
GROWTH: Final = 8
"""A batch is at most this many times the one before."""
DEADLINE_S: Final = 2 * TARGET_S
"""A task ends after this, in seconds, wherever it is."""
POLL_S: Final = 0.05
"""The time between two looks of an idle driver for new records, in seconds."""


@dataclass(slots=True)
class Budget:
    """The number of records that a shard may get, learnt from what the last batch took."""

    records: int = FIRST
    most: int | None = None
    """The most records that it may ever be."""

    def learn(self, records: float, seconds: float) -> None:
        """Learn from a batch: `records` is the most that one shard did, in `seconds`."""
        if records * 2 < self.records or seconds <= 0:
            return  # the batch was small because there was no more, or it stopped for a new schema
        rate = records / max(seconds, 0.001)
        done = max(self.records, records)  # it may be more: a chunk of a table is one piece
        self.records = int(min(max(rate * TARGET_S, FIRST), done * GROWTH, self.most or 1 << 62))


@dataclass(slots=True)
class Rate:
    """`scan.rate-limit.records-per-second`: how many records may be read by now. Saves up one second's worth."""

    per_second: float | None
    clock: Clock = CLOCK
    _saved: float = 0.0
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to save up."""
        self._since = self.clock.now()

    def available(self) -> int | None:
        """Return how many records the next batch may have; None where there is no limit."""
        if self.per_second is None:
            return None
        now = self.clock.now()
        self._saved = min(self._saved + (now - self._since) * self.per_second, max(self.per_second, 1.0))
        self._since = now
        return max(0, int(self._saved))

    def ready(self) -> bool:
        """Return whether there is enough for a batch: a fifth of a second's records, or one."""
        available = self.available()
        return available is None or available >= max(1.0, (self.per_second or 0.0) / 5)

    def take(self, records: int) -> None:
        """Account for records that were read."""
        self._saved -= records


class Pacing:
    """The rhythm of a run: the size of its batches, the limit of its rate, and the interval between two batches."""

    def __init__(
        self, interval_s: float, rate_limit: float | None, most: int | None, rest_s: float = 0.0, clock: Clock = CLOCK
    ) -> None:
        """`rate_limit`: records in a second, `most`: records of a shard in one batch.

        `rest_s`: the interval that counts once a batch has read all that there was, in seconds.
        """
        self._interval_s = interval_s
        self._rest_s = rest_s
        self._seen: dict[Split, int] = {}
        """The ends of splits when the last batch was planned; nothing before this run has planned one."""
        self.clock = clock
        self._rate = Rate(rate_limit, clock)
        self._budget = Budget(most=most)
        self._began = 0.0
        self.weights: Mapping[Split, float] | None = None
        """How many records a position of each split stands for, on average; None where positions count records."""
        self._starts: dict[Split, int] = {}

    def ready(self) -> bool:
        """Return whether the rate limit lets a batch start that is large enough."""
        return self._rate.ready()

    def wait(self, stop: Stop, positions: Mapping[Split, int], *, rests: bool = True) -> None:
        """Wait until the interval since the start of the last batch is over, or the run is asked to stop.

        `rests`: whether a batch that read all that there was is followed by a rest.
        """
        # A batch that an earlier run has planned says nothing of what there is
        behind = not self._seen or any(positions.get(split, end) < end for split, end in self._seen.items())
        interval_s = self._interval_s if behind or not rests else max(self._interval_s, self._rest_s)
        end = self._began + interval_s
        while (left := end - self.clock.now()) > 0 and not stop.asked:
            self.clock.sleep(min(left, POLL_S))

    def ranges(
        self, positions: Mapping[Split, int], ends: Mapping[Split, int], shards: Mapping[Split, int]
    ) -> dict[Split, tuple[int, int]]:
        """Return the ranges of a batch that starts now."""
        self._seen = dict(ends)
        if self.weights is not None:
            self._starts = dict(positions)
            return weighted_ranges(positions, ends, shards, self._budget.records, self.weights)
        wanted = even_ranges(positions, ends, shards, self._budget.records)
        return limited_ranges(wanted, self._rate.available())

    def begin(self) -> None:
        """Note that a batch starts."""
        self._began = self.clock.now()

    def learn(self, results: Sequence[TaskResult]) -> float:
        """Size the next batch by what this one did; returns how long it took, in seconds."""
        seconds = self.clock.now() - self._began
        self._rate.take(sum(result.counters.read for result in results))
        self._budget.learn(max(map(self._amount, results)), max(result.telemetry.seconds for result in results))
        return seconds

    def _amount(self, result: TaskResult) -> float:
        """Return how much a task did, in the unit by which ranges were sized."""
        weights = self.weights
        if weights is None:
            return result.counters.read
        return sum((at - self._starts.get(s, at)) * weights.get(s, 1.0) for s, at in result.progress.positions.items())


def shard_count(shards: Mapping[Split, int], wanted: int | None, slots: int, most: int | None) -> int:
    """Return how many shards there are: as the pipeline says, as the checkpoint has them, or one for each task slot.

    `most`: how many tasks the sink takes at once.
    """
    count = wanted or (max(shards.values()) + 1 if shards else slots)
    return min(count, most or count)


def assign_shards(splits: Iterable[Split], shards: Mapping[Split, int], count: int) -> dict[Split, int]:
    """Return the shard of each split: what it was, or for a new split the shard with the fewest."""
    out = {split: shard for split, shard in shards.items() if shard < count}
    load = [0] * count
    for shard in out.values():
        load[shard] += 1
    for split in sorted(splits):
        if split not in out:
            out[split] = min(range(count), key=lambda s: (load[s], s))
            load[out[split]] += 1
    return out


def limited_ranges(ranges: Mapping[Split, tuple[int, int]], records: int | None) -> dict[Split, tuple[int, int]]:
    """Return the ranges, together not wider than so many records, shared evenly."""
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


def even_ranges(
    positions: Mapping[Split, int], ends: Mapping[Split, int], shards: Mapping[Split, int], budget: int
) -> dict[Split, tuple[int, int]]:
    """Return the ranges of the next batch: each shard's budget, shared evenly among its splits that have records."""
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


def weighted_ranges(
    positions: Mapping[Split, int],
    ends: Mapping[Split, int],
    shards: Mapping[Split, int],
    budget: int,
    weights: Mapping[Split, float],
) -> dict[Split, tuple[int, int]]:
    """Return ranges as `even_ranges` does, where a position of each split stands for so many records, on average.

    A position that is more than a split's share is read, and takes nothing from the other splits: a log would go on by
    one transaction in each batch beside chunks that fill the budget, and that wait for the log perhaps.
    """
    waiting: dict[int, list[Split]] = {}
    for split, end in ends.items():
        if end > positions[split]:
            waiting.setdefault(shards[split], []).append(split)
    out: dict[Split, tuple[int, int]] = {}
    for splits in waiting.values():
        left = float(budget)
        by_work = sorted(splits, key=lambda s: (ends[s] - positions[s]) * weights[s])
        for i, split in enumerate(by_work):
            records = max(left / (len(by_work) - i), budget / len(by_work))
            share = max(1, int(records / weights[split]))
            start = positions[split]
            end = min(ends[split], start + share)
            out[split] = (start, end)
            left = max(0.0, left - (end - start) * weights[split])
    return out
