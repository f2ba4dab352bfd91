"""The driver's side of dead letters as a source: the topic that they are in, its splits and their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from ingest.errors import ConfigError
from ingest.kafka.admin import Cluster, ClusterProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.deadletter.source import LetterSource
    from ingest.model.record import Split

CONNECT_S = 20.0


class LetterCoordinator:
    """The driver's side of dead letters."""

    def __init__(self, options: LetterSource, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self.options = options
        self._warn = warn
        self.ids: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._splits: list[Split] = []

    @property
    def cluster(self) -> Cluster:
        """The connection."""
        assert self._cluster is not None
        return self._cluster

    def connect(self) -> str:
        """Return the cluster's id; raises ConfigError where there is no such topic."""
        self._cluster = Cluster(self.options.conf)
        identity = self._cluster.connect(CONNECT_S, self._warn)
        name = self.options.letters_topic
        found = self._cluster.topics([name])
        if name not in found:
            msg = f"there are no dead letters: topic {name} does not exist at {self._cluster.servers}"
            raise ConfigError(msg, "nothing was rejected yet, or pipeline.dirty-data.collector.topic is another")
        self.ids = {name: found[name].id}
        self._splits = [(name, p) for p in range(found[name].partitions)]
        return identity

    def probe(self) -> ClusterProbe:
        """Return a question to the cluster."""
        return ClusterProbe(self.options.conf)

    def start(self, *_: object) -> dict[Split, int]:
        """Return the positions of the first letters that there are."""
        return self.cluster.earliest(self._splits)

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends of the splits as they are now."""
        return self.cluster.latest(positions, committed=True)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return, by split where letters expired meanwhile, the first that there is: they are not ours to keep."""
        first = self.cluster.earliest(positions)
        return {split: max(at, first[split]) for split, at in positions.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return empty ranges: dead letters are not sampled."""
        return {split: (end, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether a topic is that of the letters."""
        return topic in self.ids

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return False: a replay has no bounds of its own. It drains what is there."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return nothing: it is not stored."""
        return {}

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the positions of the first letters, or the ends."""
        return self.cluster.earliest(splits) if to == "earliest" else self.cluster.latest(splits, committed=True)

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return these topics as the cluster has them."""
        return self.cluster.topics(names)

    def commit(self, _positions: Mapping[Split, int]) -> None:
        """Do nothing: nobody watches."""

    keep = commit

    def close(self) -> None:
        """Let go of the connection."""
        if self._cluster is not None:
            self._cluster.close()
