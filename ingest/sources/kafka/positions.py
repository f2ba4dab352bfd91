"""Positions in topics by what the options say: where a split starts, and where it ends for good.

Rules: docs/spec/sources.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.kafka.admin import Cluster
    from ingest.model.record import Split
    from ingest.sources.kafka.options import TopicSourceOptions

_EARLIEST: Final = frozenset({"earliest", "smallest", "beginning"})
_LATEST: Final = frozenset({"latest", "largest", "end"})


class ChosenPositions:
    """The positions that the options of a source choose."""

    def __init__(self, options: TopicSourceOptions, conf: Mapping[str, str], cluster: Cluster) -> None:
        """Keep the parts; `conf` is the client's configuration."""
        self._options, self._cluster, self._group = options, cluster, conf["group.id"]
        self.committed = conf.get("isolation.level", "read_committed") == "read_committed"
        """True if the end of a split is that of its committed records."""

    def starts(self, splits: list[Split], mode: str, from_time: int | None = None) -> dict[Split, int]:
        """Return the offset at which each split starts, by the mode of `scan.startup.mode`."""
        if not splits:
            return {}
        if mode == "earliest-offset":
            return self._cluster.earliest(splits)
        if mode == "latest-offset":
            return self._cluster.latest(splits, committed=self.committed)
        if mode == "timestamp":
            return self.at_time(splits, self._options.startup_timestamp if from_time is None else from_time)
        if mode == "specific-offsets":
            named = self._options.start_at
            self._exist(named, splits, "scan.startup.specific-offsets")
            rest = self._cluster.earliest([split for split in splits if split not in named])
            chosen = {split: at for split, at in named.items() if split in set(splits)}
            return {**rest, **self._in_range(chosen, "scan.startup.specific-offsets names offset")}
        group = self._group
        committed = self._cluster.group_offsets(group, splits)
        wanted = {split: committed.get(split) for split in splits}
        return self._in_range(wanted, f"consumer group {group!r} stands at offset")

    def at_time(self, splits: Iterable[Split], millis: int | None) -> dict[Split, int]:
        """Return, for each split, the first offset whose time is not before `millis`, or the end if there is none."""
        wanted = list(splits)
        offsets = self._cluster.at_time(wanted, millis or 0)
        late = [split for split, at in offsets.items() if at < 0]
        return {**offsets, **self._cluster.latest(late, committed=self.committed)}

    @staticmethod
    def _exist(named: Mapping[Split, int], splits: Iterable[Split], option: str) -> None:
        existing = set(splits)
        for topic, partition in named:
            if (topic, partition) not in existing and any(name == topic for name, _ in existing):
                msg = f"{option} names partition {partition} of topic {topic}, which does not exist"
                raise ConfigError(msg, "correct the option, or create the partition")

    def _in_range(self, wanted: Mapping[Split, int | None], what: str) -> dict[Split, int]:
        """Return the wanted offsets that exist, for others the offset that `properties.auto.offset.reset` chooses."""
        earliest, latest = self._cluster.earliest(wanted), self._cluster.latest(wanted, committed=False)
        reset = self._options.properties.get("auto.offset.reset")
        positions = {}
        for split, at in wanted.items():
            if at is not None and earliest[split] <= at <= latest[split]:
                positions[split] = at
            elif reset in _EARLIEST:
                positions[split] = earliest[split]
            elif reset in _LATEST:
                positions[split] = latest[split]
            else:
                where = f"{split[0]}[{split[1]}]"
                why = (
                    f"consumer group {self._group!r} has no offset in {where}"
                    if at is None
                    else f"{what} {at} in {where}, which holds {earliest[split]} to {latest[split]}"
                )
                hint = "set scan.startup.mode to earliest-offset or latest-offset, or properties.auto.offset.reset"
                raise ConfigError(f"{why}, and nothing says where to start instead", hint)
        return positions

    def bounds(self, positions: Mapping[Split, int]) -> dict[Split, int] | None:
        """Return the final end of each split, by `scan.bounded.mode`; None where the source is unbounded."""
        mode, options = self._options.bounded_mode, self._options
        if mode == "unbounded":
            return None
        if mode == "latest-offset":
            return self._cluster.latest(positions, committed=self.committed)
        if mode == "timestamp":
            return self.at_time(positions, options.bounded_timestamp)
        if mode == "specific-offsets":
            named = options.end_at
            self._exist(named, positions, "scan.bounded.specific-offsets")
            return {split: named.get(split, at) for split, at in positions.items()}
        group = self._group
        offsets = self._cluster.group_offsets(group, positions)
        for topic, partition in positions:
            if (topic, partition) not in offsets:
                msg = f"consumer group {group!r} has no offset in {topic}[{partition}] to end at"
                raise ConfigError(msg, "commit one, or set scan.bounded.mode to something else")
        return offsets

    def bounds_of_others(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends of splits whose topics were created again during the run: the group knows nothing of them."""
        if self._options.bounded_mode == "timestamp":
            return self.at_time(positions, self._options.bounded_timestamp)
        if self._options.bounded_mode == "specific-offsets":
            return {split: self._options.end_at.get(split, at) for split, at in positions.items()}
        return self._cluster.latest(positions, committed=self.committed)
