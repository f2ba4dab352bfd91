"""The coordinator of sinks that write to Kafka, in the driver.

It creates the topics of new tables. With exactly-once it fences other runs, so that only one writes at a time.
Rules: docs/spec/sinks.md and docs/spec/delivery.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import DataLoss, TopicMissing
from ingest.kafka.admin import Cluster, ClusterProbe, Topic
from ingest.kafka.properties import idle
from ingest.kafka.reader import RangeReader
from ingest.kafka.transactions import NOTES_TOPIC
from ingest.kafka.writer import KafkaWriter
from ingest.model.commit import ResumePoint, old_copy
from ingest.model.reject import RowError
from ingest.sinks.topics import progress
from ingest.sinks.topics.progress import Ownership
from ingest.sinks.typed import TypedSinkCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.topics.options import TopicsOptions

CONNECT_S: Final = 15.0
_TOMBSTONES: Final = 10_000
"""Tombstones that are written at a time."""
_RETENTION_MIN: Final = 10_080
"""The time that brokers keep committed offsets where they do not say so, in minutes."""


class TopicsCoordinator(TypedSinkCoordinator["TopicsOptions"]):
    """The coordinator of a Kafka sink: topics, subjects and fencing. Raises IngestError only."""

    def __init__(self, options: TopicsOptions, pipeline: str, warn: Callable[[str], None]) -> None:
        super().__init__(options, warn)
        self.topics = self.places = self
        self.rows = self if options.cleanup == "compact" else None
        self._prefix = options.prefix(pipeline)
        self.transactions = None if self._prefix is None else self
        self.probe = ClusterProbe(options.client(pipeline))
        self._pipeline = pipeline
        self._conf = options.client(pipeline)
        self._cluster: Cluster | None = None
        self._ready: set[str] = set()
        self._found: dict[str, Topic] = {}
        """The topics that were there when they were prepared."""
        self._metric_names: dict[str, str] = {}
        self._ownership: Ownership | None = None
        self._places = 0
        """Partitions of the progress topic, as far as they are known."""

    def connect(self) -> str:
        """Connect, and return the cluster's id. Raises Unavailable where it does not answer."""
        self._cluster = Cluster(self._conf)
        cluster_id = self._cluster.connect(CONNECT_S, self._warn)
        KafkaWriter(self._conf, checked=True)  # a property that a producer does not take shows here, not in a task
        return cluster_id

    def topics_of(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics that rows of these tables go to."""
        wanted = set()
        for table in tables:
            try:
                wanted.add(self._options.topic_of(table))
            except RowError:
                continue  # its rows are rejects, in the task
        return wanted

    def hashed(self, tables: Iterable[TableId], *, again: bool = False) -> dict[str, Topic]:
        """Return, of the tables' topics, those over whose partitions keys are hashed, as far as they exist."""
        if not self._options.hashes_keys:
            return {}
        wanted = self.topics_of(tables)
        if again:
            assert self._cluster is not None
            return self._cluster.topics(wanted)
        return {name: self._found[name] for name in wanted if name in self._found}

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics of these tables that do not exist. Raises TopicMissing where the sink may create none."""
        assert self._cluster is not None
        wanted = self.topics_of(tables)
        missing = wanted - set(self._cluster.topics(wanted)) if wanted else set()
        self._refuse_missing(missing)
        return missing

    def filled(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics of these tables that have records."""
        assert self._cluster is not None
        topics = self._cluster.topics(self.topics_of(tables))
        splits = [(name, p) for name, topic in topics.items() for p in range(topic.partitions)]
        first, end = self._cluster.earliest(splits), self._cluster.latest(splits, committed=False)
        return {f"topic {split[0]}" for split in splits if end[split] > first[split]}

    def _refuse_missing(self, missing: Iterable[str]) -> None:
        """Raise TopicMissing for a topic that the options do not let the sink create."""
        first = min(missing, default=None)
        if first is not None and self._options.uncreated:
            assert self._cluster is not None
            msg = f"topic {first!r} does not exist at {self._cluster.servers}, and {self._options.uncreated} is false"
            how = " (compacted)" if self._options.cleanup == "compact" else ""
            raise TopicMissing(msg, f"create it{how}, or let the tool do it")

    def prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        """Create the topics of these tables that do not exist, and warn of those whose settings do not fit."""
        assert self._cluster is not None
        wanted = self.topics_of(tables) - self._ready
        if not wanted:
            return
        cluster, cleanup = self._cluster, self._options.cleanup
        existing = cluster.topics(wanted)
        missing = sorted(wanted - existing.keys())
        self._refuse_missing(missing)
        partitions, replication = self._options.partitions or -1, self._options.replication or -1
        cluster.create(missing, partitions, replication, {"cleanup.policy": cleanup}, dry_run=dry_run)
        if missing and not dry_run:
            cluster.wait_until(lambda: len(cluster.topics(missing)) == len(missing), 10)
            self._found |= cluster.topics(missing)
        for topic in sorted(existing):
            policy = cluster.topic_config(topic, "cleanup.policy")
            if policy is None:
                continue
            if cleanup == "compact" and "compact" not in policy:
                self._warn(f"topic {topic} is not compacted (cleanup.policy={policy}): rows that do not change expire")
            elif cleanup == "delete" and "compact" in policy:
                self._warn(
                    f"topic {topic} is compacted (cleanup.policy={policy}): changes of a row but its last vanish"
                )
        for topic in sorted(wanted):
            other = self._metric_names.setdefault(topic.replace(".", "_"), topic)
            if other != topic:
                self._warn(
                    f"topics {other} and {topic} have one name in Kafka's metrics, where '.' and '_' are the same"
                )
        self._ready |= wanted
        self._found |= existing

    def empty(self, table: TableId) -> bool:
        """Write a tombstone for each key in the tables' compacted topics, into the partition that has the key."""
        assert self._cluster is not None
        for topic in self.topics_of([table]):
            _delete_keys(self._cluster, self._conf, topic)
        return True

    def keep_only(self, table: TableId, _schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int:
        """Write a tombstone for each key in the table's compacted topics but these. Return how many were written."""
        assert self._cluster is not None
        kept = {key for some in keys for key in some}
        return sum(_delete_keys(self._cluster, self._conf, topic, kept) for topic in self.topics_of([table]))

    # -- exactly-once ------------------------------------------------------------------------------------------------

    def acquire(self, checkpoint: str, run: int) -> None:
        """Take over the transactional-id prefix, and fence other runs with it. Raises IngestError."""
        if self._prefix is None:
            return
        assert self._cluster is not None
        self._enough(1)
        self._ownership = Ownership(self._conf, self._prefix, self._pipeline)
        before = self._ownership.acquire(checkpoint, run)
        if before is None or before.checkpoint == checkpoint:
            return
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(before.time / 1000))
        if before.pipeline == self._pipeline:
            self._warn(
                f"older progress of this pipeline was found at the sink (checkpoint {before.checkpoint}, last used "
                f"{when}), of which this checkpoint knows nothing: all that it begins with is written, whether it was "
                "before or not"
            )
        else:
            self._warn(
                f"pipeline {before.pipeline} last wrote under sink.transactional-id-prefix {self._prefix} ({when}); if "
                "it still runs, it stops now"
            )

    def recover_in_doubt(
        self, scope: str, number: int, planned: int, starts: Mapping[int, Mapping[Split, int]], age_s: float
    ) -> dict[int, ResumePoint]:
        """Return how far each shard has written a batch that no driver has finished.

        Raises DataLoss where the cluster may have forgotten it.
        """
        if self._ownership is None:
            return {}
        parts = max(map(progress.parts, starts.values()), default=1)
        notes = self._ownership.fence(scope, max(starts, default=-1) + 1, parts)
        newest = max((head.batch for head, *_ in notes if head is not None), default=0)
        if newest > number:
            raise old_copy(newest, number)
        out = {}
        for shard, of_shard in starts.items():
            of_it = notes[shard][: progress.parts(of_shard)]
            point = progress.unpack(of_it, of_shard, number, planned)
            head = of_it[0]
            if point is not None:
                out[shard] = point
            elif (head is None or not head.batch) and age_s > (kept := self._retention_s()):
                msg = (
                    f"batch {number} was begun {age_s / 86400:.1f} days ago and never finished, and what of it was "
                    f"written has been forgotten by the sink's cluster (offsets.retention.minutes={kept / 60:.0f})"
                )
                hint = (
                    "compare the sink with the source, then give the batch up, so that all of it is written (again): "
                )
                raise DataLoss(msg, f"{hint}ingest checkpoint reset --drop-batch")
        return out

    def _enough(self, shards: int) -> None:
        """Create the progress topic if it is missing, and extend it to at least one partition per shard."""
        if shards <= self._places:
            return
        assert self._cluster is not None
        cluster = self._cluster
        if not cluster.topics([NOTES_TOPIC]):
            cluster.create([NOTES_TOPIC], progress.PARTITIONS, self._options.replication or -1, {})
            cluster.wait_until(lambda: bool(cluster.topics([NOTES_TOPIC])), 10)
        cluster.widen(NOTES_TOPIC, shards)
        self._places = max(shards, cluster.topics([NOTES_TOPIC])[NOTES_TOPIC].partitions)

    def _retention_s(self) -> float:
        assert self._cluster is not None
        text = self._cluster.broker_config("offsets.retention.minutes") or ""
        return 60.0 * (int(text) if text.isdigit() else _RETENTION_MIN)

    def begin_batch(self, batch: int, shards: int) -> None:
        """Record that a batch is about to be written. Raises Fenced where a newer run has begun."""
        if self._ownership is not None:
            self._enough(shards)
            self._ownership.begin_batch(batch, shards)

    def fingerprint(self, cluster_id: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this sink is bound to."""
        return {**self._options.model_dump(include={"type"}), "cluster": cluster_id}

    def close(self) -> None:
        """Release the connections."""
        if self._ownership is not None:
            self._ownership.close()
        if self._cluster is not None:
            self._cluster.close()


def _live_keys(cluster: Cluster, conf: Mapping[str, str], topic: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield for each partition of a topic the keys whose last record has a value. Raise IngestError.

    Each partition is searched by itself: in a topic that got more partitions, a key may be in a partition other than
    the one that it hashes to now.

    `conf`: librdkafka's configuration for a producer.
    """
    topics = cluster.topics([topic])
    partitions = topics[topic].partitions if topic in topics else 0
    unknown = {*idle(conf, "C")}
    consumer = {**{name: value for name, value in conf.items() if name not in unknown}, "group.id": "ingest-keys"}
    splits = [(topic, partition) for partition in range(partitions)]
    starts, ends = cluster.earliest(splits), cluster.latest(splits)
    reader = RangeReader(consumer)
    try:
        for split in splits:
            keys: dict[bytes, None] = {}
            for chunk in reader.read({split: (starts[split], ends[split])}):
                for record in () if chunk is None else chunk.messages:
                    key = record.key()
                    if key is None:
                        continue
                    if record.value() is None:
                        keys.pop(key, None)
                    else:
                        keys[key] = None
            yield split[1], list(keys)
    finally:
        reader.close()


def _delete_keys(cluster: Cluster, conf: Mapping[str, str], topic: str, kept: AbstractSet[bytes] = frozenset()) -> int:
    """Write a tombstone for each key of a topic that has a row and is not kept. Return how many were written.

    Raise IngestError.
    """
    count = 0
    writer = KafkaWriter(conf, checked=True)
    try:
        for partition, live in _live_keys(cluster, conf, topic):
            keys = [key for key in live if key not in kept]
            for begin in range(0, len(keys), _TOMBSTONES):
                writer.write([((topic, None, partition), key, None) for key in keys[begin : begin + _TOMBSTONES]])
            count += len(keys)
        writer.flush()
    finally:
        writer.close()
    return count
