"""The driver's side of the Kafka source: which splits there are, where each starts and ends, what became of them.

In: the options and the checkpoint's positions. Out: positions and ends by split. Raises IngestError only.

The consumer group of a pipeline shows the positions of a run to monitoring tools, and to other pipelines; nothing
depends on its offsets. Rules: docs/spec/sources.md.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from ingest.errors import ConfigError, DataLoss, IngestError, TopicMissing, Unavailable
from ingest.kafka.admin import SETTLE_S, Cluster, ClusterProbe, Topic
from ingest.model.record import Split, is_another
from ingest.sources import SourceCoordinator
from ingest.sources.kafka.positions import ChosenPositions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.sources.kafka.options import KafkaSource, UpsertKafkaSource

KEEP_S: Final = 30.0
"""The time after which the group's offsets are committed again while nothing happens, in seconds."""
GONE_S: Final = 3 * KEEP_S
"""After this many seconds without a sign of it, another pipeline with the same group counts as gone."""
_NOTE: Final = "ingest"


class GroupOffsets:
    """The offsets that a pipeline commits to its consumer group, for monitoring."""

    def __init__(self, group: str, cluster: Cluster, warn: Callable[[str], None]) -> None:
        self.group, self.owner = group, ""
        """The group's id; the identity of the checkpoint that shows its positions here."""
        self._cluster, self._warn = cluster, warn
        self._shown: dict[Split, int] = {}
        self._shown_at = 0.0
        self._commit_failed = False

    def refuse_others(self, splits: Iterable[Split]) -> None:
        """Raise ConfigError if another reader or pipeline uses the group (`scan.check.duplicated.group.id`).

        Ordinary readers are its members. A pipeline is none, as it reads what it planned itself: it leaves its
        checkpoint's identity and the time beside the offsets that it shows.
        """
        hint = "stop it, choose another properties.group.id, or unset scan.check.duplicated.group.id"
        members = self._cluster.members(self.group)
        if members:
            msg = f"consumer group {self.group!r} is in use by {len(members)} reader(s): {', '.join(sorted(members))}"
            raise ConfigError(msg, hint)
        for (topic, partition), (_, note) in self._cluster.group_commits(self.group, splits).items():
            word, _, rest = note.partition(" ")
            owner, _, millis = rest.partition(" ")
            if word != _NOTE or owner == self.owner or not millis.isdigit():
                continue
            age = abs(time.time() - int(millis) / 1000)
            if age < GONE_S:
                msg = (
                    f"consumer group {self.group!r} is in use by another pipeline (checkpoint {owner}), which showed "
                    f"its offset in {topic}[{partition}] {age:.0f} s ago"
                )
                raise ConfigError(msg, f"{hint}; one that was killed is forgotten after {GONE_S:.0f} s")

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Commit the positions as the consumer group's offsets. Only for monitoring: a failure is a warning, once."""
        self._show(positions, f"{_NOTE} {self.owner} {time.time() * 1000:.0f}", wait=False)

    def keep(self, positions: Mapping[Split, int]) -> None:
        """Commit the positions again from time to time: brokers expire offsets, and other pipelines check the time."""
        if time.monotonic() - self._shown_at > KEEP_S:
            self.commit(positions)

    def _show(self, positions: Mapping[Split, int], note: str, *, wait: bool) -> None:
        """Commit the positions as the group's offsets, with a note beside each. A failure is a warning."""
        self._shown, self._shown_at = dict(positions), time.monotonic()
        if not positions:
            return
        try:
            self._cluster.commit(self.group, positions, note, wait=wait)
            self._commit_failed = False
        except Unavailable:
            return
        except IngestError as exc:
            self._complain(str(exc))

    def _complain(self, text: str) -> None:
        if not self._commit_failed:
            self._commit_failed = True
            self._warn(f"{text}; the group's offsets do not show this run's progress, nothing else is affected")

    def close(self) -> None:
        """Clear the note beside the offsets, so that another pipeline may use the group at once."""
        if self._shown and not self._commit_failed:
            self._show(self._shown, "", wait=True)


CONNECT_S: Final = 15.0
"""The time that a start waits for the broker, in seconds."""
COMPARE_S: Final = 1.0
"""The time between looks at the topics' ids, in seconds: offsets do not tell a topic from a later one of its name."""
BACK_S: Final = 5.0
"""The time between two looks for topics that were deleted and may come back, in seconds."""
LOSS_HINT: Final = "set scan.on-data-loss to earliest or latest to go on without, or use another pipeline.name"


class KafkaSourceCoordinator(SourceCoordinator):
    """The coordinator of the Kafka source, in the driver."""

    def __init__(self, options: KafkaSource | UpsertKafkaSource, pipeline: str, warn: Callable[[str], None]) -> None:
        self.publisher = self
        self.options = options
        self.ids: dict[str, str] = {}
        """The topics that are read, with their ids."""
        self._pipeline = pipeline
        self._conf = options.client(pipeline)
        self.probe = ClusterProbe(self._conf, self._bounded_ends)
        self._warn = warn
        self._cluster: Cluster | None = None
        self._bounds: dict[Split, int] | None = None
        self._discovered = 0.0
        self._compared = 0.0
        """The time when the topics' ids were looked at, as `time.monotonic` has it."""
        self._gone: set[str] = set()
        """Topics that were read and are not there any more, while `scan.on-data-loss` lets the run go on."""

    def connect(self) -> str:
        """Return the cluster's id; raises Unavailable when it does not answer."""
        self._cluster = Cluster(self._conf)
        cluster_id = self._cluster.connect(CONNECT_S, self._warn)
        # A property that a consumer does not take shows here, not in a task
        self.options.reader(self._pipeline).close()
        return cluster_id

    @property
    def cluster(self) -> Cluster:
        """The connection that `connect` made."""
        assert self._cluster is not None
        return self._cluster

    @cached_property
    def _chosen(self) -> ChosenPositions:
        return ChosenPositions(self.options, self._conf, self.cluster)

    @cached_property
    def _group(self) -> GroupOffsets:
        return GroupOffsets(self._conf["group.id"], self.cluster, self._warn)

    # -- where to start ----------------------------------------------------------------------------------------------

    def start(
        self, stored: Mapping[Split, int], ids: Mapping[str, str], owner: str, from_time: int | None = None
    ) -> dict[Split, int]:
        """Return the position at which each split starts. `owner`: the checkpoint's identity.

        It is the checkpoint's position, else that of `from_time` (milliseconds since 1970), else that of the options.
        A new partition of a topic that was read before, and a new topic that a pattern matches, start at their
        beginning.
        """
        self._group.owner = owner
        topics = self._find(ids)
        if self.options.check_group:
            self._group.refuse_others([(n, p) for n, t in topics.items() for p in range(t.partitions)])
        named = {name: i for name, i in ids.items() if name in self.options.topics or self.options.chooses(name)}
        positions = self._compare(stored, named, topics, "since the last run")
        new = [(n, p) for n, t in topics.items() for p in range(t.partitions) if (n, p) not in positions]
        late = [s for s in new if s[0] in ids or (ids and self.options.topic_pattern is not None)]
        positions.update(self._chosen.starts(late, "earliest-offset"))
        mode = self.options.startup_mode if from_time is None else "timestamp"
        positions.update(self._chosen.starts([s for s in new if s not in set(late)], mode, from_time))
        self._discovered = time.monotonic()
        positions = self._within(positions)
        self._bounds = self._chosen.bounds(positions)
        return positions

    def _compare(
        self, positions: Mapping[Split, int], ids: Mapping[str, str], topics: Mapping[str, Topic], when: str
    ) -> dict[Split, int]:
        """Return the positions in the topics as they are now. Topics that were deleted or created again are data loss.

        A deleted topic keeps its id in `ids`, so that a later topic of its name is known to be another.
        """
        out = {split: at for split, at in positions.items() if split[0] in topics}
        for name, known in ids.items():
            topic = topics.get(name)
            if topic is None:
                if name not in self._gone:
                    self._loss(f"topic {name} was deleted", "it is read no more")
            elif is_another(known, topic.id):
                self._loss(f"topic {name} was deleted and created again {when}", "it is read afresh")
                out = {split: at for split, at in out.items() if split[0] != name}
                reset = "earliest-offset" if self.options.on_data_loss != "latest" else "latest-offset"
                out.update(self._chosen.starts([(name, p) for p in range(topic.partitions)], reset))
            else:
                for split in [s for s in out if s[0] == name and s[1] >= topic.partitions]:
                    self._loss(f"partition {split[1]} of topic {name} is gone", "it is read no more")
                    del out[split]
        self._gone = {name for name in ids if name not in topics}
        self.ids = {**ids, **{name: topic.id for name, topic in topics.items()}}
        return out

    def _find(self, ids: Mapping[str, str]) -> dict[str, Topic]:
        """Return the topics to read. Raises TopicMissing for a topic of the options that never existed."""
        if self.options.topic_pattern is None:
            topics = self.cluster.topics(self.options.topics)
            missing = next((name for name in self.options.topics if name not in topics and name not in ids), None)
            if missing is not None:
                msg = f"topic {missing!r} of source.topic does not exist at {self.cluster.servers}"
                raise TopicMissing(msg, "create it, or correct the name")
            return topics
        matching = sorted(name for name in self.cluster.names() if self.options.chooses(name))
        topics = {name: topic for name, topic in self.cluster.topics(matching).items() if not topic.internal}
        if not topics and not ids:
            self._warn(f"no topic matches source.topic-pattern {self.options.topic_pattern!r} yet")
        return topics

    def _loss(self, what: str, then: str) -> None:
        if self.options.on_data_loss == "fail":
            raise DataLoss(f"data loss: {what}", LOSS_HINT)
        self._warn(f"data loss: {what}; {then}, as scan.on-data-loss is {self.options.on_data_loss!r}")

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions whose records still exist; `scan.on-data-loss` decides about all others.

        Splits of deleted topics are left out. A topic that was created again has another id in `ids` than before.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            before = dict(self.ids)
            topics = self.cluster.topics(before)
            try:
                now = self._within(self._compare(positions, before, topics, "during the run"))
            except TopicMissing as exc:  # it goes, or comes, at this very moment
                if time.monotonic() > deadline:
                    raise DataLoss(exc.message, f"it was there a moment ago; {exc.hint}") from exc
                time.sleep(0.2)
                continue
            other = {split: at for split, at in now.items() if is_another(before.get(split[0], ""), self.ids[split[0]])}
            if self._bounds is not None:
                kept = {split: self._bounds[split] for split in now if split not in other}
                self._bounds = {**kept, **self._chosen.bounds_of_others(other)}
            self._compared = time.monotonic()
            return now

    def _within(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions that are within their topic's offsets; `scan.on-data-loss` decides about all others."""
        earliest = self.cluster.earliest(positions)
        latest = self.cluster.latest(positions, committed=False)
        out = dict(positions)
        for split, at in positions.items():
            first, end = earliest[split], latest[split]
            if first <= at <= end:
                continue
            to = end if self.options.on_data_loss == "latest" else first
            self._loss(
                f"{split[0]}[{split[1]}] should be read from offset {at}, but the topic holds {first} to {end}",
                f"reading goes on at {to}",
            )
            out[split] = to
        return out

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the positions that an operator means by `earliest`, `latest`, or a time in milliseconds since 1970."""
        if to == "earliest":
            return self.cluster.earliest(splits)
        if to == "latest":
            return self.cluster.latest(splits, committed=self._chosen.committed)
        return self._chosen.at_time(splits, to)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return the existing topics among these names."""
        return self.cluster.topics(names)

    # -- where to end ------------------------------------------------------------------------------------------------

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the end of each split now. With isolation.level=read_committed it is the last stable offset.

        Raises DataLoss where a topic was deleted or created again.
        """
        if time.monotonic() - self._compared > COMPARE_S:
            self._compared = time.monotonic()
            names = {topic for topic, _ in positions}
            self._refuse_changed(self.cluster.topics(names), names)
        try:
            now = self.cluster.latest(positions, committed=self._chosen.committed)
        except TopicMissing as exc:
            raise DataLoss(f"data loss: {exc.message}", LOSS_HINT) from exc
        if self._bounds is None:
            return now
        return {split: min(end, self._bounds[split]) for split, end in now.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the first offset that each split has now, with where it ends."""
        return {split: (first, ends[split]) for split, first in self.cluster.earliest(ends).items()}

    def reads(self, topic: str) -> bool:
        """Tell whether the source reads a topic, or would read it if it existed."""
        return topic in self.ids or self.options.chooses(topic)

    def finished(self, positions: Mapping[Split, int]) -> bool:
        """Return whether a bounded source was read to its end."""
        return self._bounds is not None and all(at >= self._bounds[split] for split, at in positions.items())

    # -- while it runs -----------------------------------------------------------------------------------------------

    def discover(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the starts of new partitions and topics. Looks for them once per discovery interval."""
        interval = self.options.discovery_interval
        if self._gone:
            interval = min(interval, BACK_S) if interval > 0 else BACK_S
        if interval <= 0 or self._bounds is not None or time.monotonic() - self._discovered < interval:
            return {}
        self._discovered = time.monotonic()
        topics = self._find(self.ids)
        self._refuse_changed(topics, self.ids)
        new = [(n, p) for n, t in topics.items() for p in range(t.partitions) if (n, p) not in positions]
        try:
            starts = self._chosen.starts(new, "earliest-offset")
        except TopicMissing:  # it is gone already
            return {}
        self.ids.update({name: topic.id for name, topic in topics.items()})
        return starts

    def _refuse_changed(self, topics: Mapping[str, Topic], names: Iterable[str]) -> None:
        """Raise DataLoss where one of these topics was deleted, or created again with another id."""
        for name in names:
            if name in topics and is_another(self.ids.get(name, topics[name].id), topics[name].id):
                raise DataLoss(f"data loss: topic {name} was deleted and created again during the run", LOSS_HINT)
            if name not in topics and name not in self._gone:
                raise DataLoss(f"data loss: topic {name} was deleted during the run", LOSS_HINT)

    # -- the consumer group ------------------------------------------------------------------------------------------

    def commit(self, positions: Mapping[Split, int]) -> None:
        """Commit the positions as the consumer group's offsets. Only for monitoring: a failure is a warning, once."""
        self._group.commit(positions)

    def keep(self, positions: Mapping[Split, int]) -> None:
        """Commit the positions again from time to time: brokers expire offsets, and other pipelines check the time."""
        self._group.keep(positions)

    def fingerprint(self, cluster_id: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this source is bound to."""
        return {"type": "kafka", "cluster": cluster_id, "value.format": self.options.value_format}

    def _bounded_ends(self, cluster: Cluster, splits: Iterable[Split]) -> dict[Split, int]:
        now, bounds = self._latest(cluster, splits), self._bounds
        return now if bounds is None else {split: min(end, bounds.get(split, end)) for split, end in now.items()}

    def _latest(self, cluster: Cluster, splits: Iterable[Split]) -> dict[Split, int]:
        return cluster.latest(splits, committed=self._chosen.committed)

    def close(self) -> None:
        """Release the connections."""
        if self._cluster is not None:
            self._group.close()
            self._cluster.close()
