"""The ranges of splits that go into a batch. Pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.model.record import Split


def shard_count(shards: Mapping[Split, int], wanted: int | None, slots: int, most: int | None) -> int:
    """Return how many shards there are: as the pipeline says, as the checkpoint has them, or one for each task slot.

    `most`: how many tasks the sink takes at once.
    """
    count = wanted or (max(shards.values()) + 1 if shards else slots)
    return min(count, most or count)


def assign(splits: Iterable[Split], shards: Mapping[Split, int], count: int) -> dict[Split, int]:
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


def limit(ranges: Mapping[Split, tuple[int, int]], records: int | None) -> dict[Split, tuple[int, int]]:
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


def ranges(
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
    """Return ranges as `ranges` does, where a position of each split stands for so many records, on average.

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
