"""The common part of the sinks that write to Kafka: topics, headers, the guarantee, and the driver's side of it.

On the driver: creates the topics of new tables, and with exactly-once sees to it that one run at a time writes. In a
task: one producer per worker. Rules: docs/spec/sinks.md and docs/spec/delivery.md.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ingest.component.options import OptionErrors
from ingest.errors import CheckpointError, DataLoss, TopicMissing
from ingest.kafka import progress
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import CREATE, FALSE, translate
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.sinks.sink import PlainSinkCoordinator, SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.kafka.admin import Cluster, Split
    from ingest.kafka.ownership import Ownership
    from ingest.kafka.transactions import TransactionalWriter
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.commit import ResumePoint

CONNECT_S: Final = 15.0
BY_KEY: Final = -1
"""The partition of a record that the client chooses by its key."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HEADER_NAMES: Final = ("tableName", "schemaName", "namespace")
_RETENTION_MIN: Final = 10_080
"""The time that brokers keep committed offsets where they do not say so, in minutes."""
_ID: Final = re.compile(r"[^\s/][^\s]{0,199}")


class Destination(NamedTuple):
    """The destination of a record: a partition, that of its key (`BY_KEY`), or that of a hash, of four bytes.

    Many records have the same one, and it is small: whoever writes keeps those that were used last.
    """

    topic: str
    headers: tuple[tuple[str, bytes], ...] | None
    partition: int | bytes = BY_KEY


def topic_name(text: str) -> str:
    """Return a text that can be a topic's name; raises ValueError."""
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        msg = f"{text[:100]!r} cannot be a topic's name"
        raise ValueError(msg)
    return text


def _headers(value: Any) -> Any:  # noqa: ANN401  (whatever the file has)
    if not isinstance(value, str):
        return value
    out = []
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon or not name.strip():
            msg = f"{part.strip()[:60]!r} is not name:value; write name:value,name:value"
            raise ValueError(msg)
        out.append((name.strip(), text.strip().encode()))
    return tuple(out)


Headers = Annotated[
    tuple[tuple[str, bytes], ...],
    BeforeValidator(_headers),
    WithJsonSchema({"type": "string", "examples": ["origin:shop,team:orders"]}),
]


class TopicsOptions(KafkaConnection, SinkOptions):
    """Options that sinks in Kafka share."""

    scope: ClassVar[Literal["C", "P"]] = "P"
    cleanup: ClassVar[str]
    """`cleanup.policy` of the topics that it makes."""

    guarantee: Literal["none", "at-least-once", "exactly-once"] = Field(
        "at-least-once", alias="sink.delivery-guarantee"
    )
    """`none`: records may be lost when a broker fails. `at-least-once`: every delivery is checked before progress is
    stored; after a crash some records are written again. `exactly-once`: records and progress are committed in one
    transaction every few seconds; readers must set `isolation.level` to `read_committed`."""

    id_prefix: str | None = Field(None, alias="sink.transactional-id-prefix", pattern=f"^{_ID.pattern}$")
    """With `exactly-once`: what the transactional ids and consumer groups begin with, which this user must be allowed
    to use. Default: `ingest-` and the pipeline's name. Of two runs with one prefix, the newer one stops the older."""

    table_id_header: bool = Field(False, alias="sink.add-tableId-to-header-enabled")
    """Add the headers `namespace`, `schemaName` and `tableName` to each record."""

    custom_headers: Headers = Field((), alias="sink.custom-header")
    """More headers of each record: `name:value,name:value`."""

    create: bool = Field(True, alias="sink.topic.create")
    """Create missing topics. If not, a table whose topic is missing stops the run. `false` where
    `properties.allow.auto.create.topics` is."""

    partitions: int | None = Field(None, alias="sink.topic.partitions", ge=1)
    """Partitions of created topics; the broker's default where absent."""

    replication: int | None = Field(None, alias="sink.topic.replication-factor", ge=1, le=100)
    """Replicas of created topics; the broker's default where absent."""

    @model_validator(mode="after")
    def _check_create(self) -> TopicsOptions:
        if self.create and "create" in self.model_fields_set and self.uncreated:
            raise OptionErrors(
                (f"properties.{CREATE}", f"properties.{CREATE}: false contradicts sink.topic.create: true")
            )
        return self

    @model_validator(mode="after")
    def _check_guarantee(self) -> TopicsOptions:
        if self.guarantee != "exactly-once":
            return self
        needed = {"enable.idempotence": ("true",), "acks": ("all", "-1")}
        problems = [
            (f"properties.{name}", f"sink.delivery-guarantee: exactly-once needs {name}={values[0]}")
            for name, values in needed.items()
            if self.properties.get(name, values[0]).lower() not in values
        ]
        if problems:
            raise OptionErrors(*problems)
        return self

    @property
    def uncreated(self) -> str:
        """The option that keeps the sink from creating topics; empty where none does."""
        if self.properties.get(CREATE, "").lower() in FALSE:
            return f"properties.{CREATE}"
        return "" if self.create else "sink.topic.create"

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        found = super().warnings()
        once, made = self.guarantee == "exactly-once", not self.uncreated
        needs_once = "without sink.delivery-guarantee: exactly-once"
        needs_create = "where the sink creates no topics"
        given = (
            ("sink.transactional-id-prefix", not once and self.id_prefix is not None, needs_once),
            ("properties.transaction.timeout.ms", not once and "transaction.timeout.ms" in self.properties, needs_once),
            ("sink.topic.partitions", not made and self.partitions is not None, needs_create),
            ("sink.topic.replication-factor", not (made or once) and self.replication is not None, needs_create),
        )
        return found + [(key, f"{key} has no effect {why}") for key, idle, why in given if idle]

    def prefix(self, pipeline: str) -> str | None:
        """Return what the names of its transactions begin with; None where it has none."""
        return (self.id_prefix or f"ingest-{pipeline}") if self.guarantee == "exactly-once" else None

    def client(self, pipeline: str) -> dict[str, str]:
        """Librdkafka's configuration for the producer."""
        conf = translate(self.properties)
        for foreign in ("group.id", "auto.offset.reset", "isolation.level"):
            conf.pop(foreign, None)
        ordered = conf.get("enable.idempotence", "true").lower() == "true"
        if self.guarantee == "none":
            defaults = {"acks": "1"}
        elif ordered:
            defaults = {"enable.idempotence": "true", "acks": "all"}
        else:
            # Without idempotence a retry could overtake a later record of the same key
            defaults = {"acks": "all", "max.in.flight.requests.per.connection": "1"}
        return {"client.id": f"ingest.{pipeline}", **defaults, **conf}

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a sink table; raises RowError for an id that cannot be a topic's name."""
        try:
            return topic_name(show(table))
        except ValueError as exc:
            raise RowError("bad-topic-name", f"{exc}; route the table to one that can") from None

    def destination(self, table: TableId) -> Destination:
        """Return the topic and headers of a sink table; raises RowError as `topic_of` does."""
        headers = self.custom_headers
        if self.table_id_header:
            parts = [part.encode() for part in reversed(table)] + [b"", b""]
            own = [(name, parts[i]) for i, name in enumerate(_HEADER_NAMES)]
            headers = (*reversed(own), *headers)
        return Destination(self.topic_of(table), headers or None)

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> TopicsCoordinator:
        """Return the driver's side."""
        return TopicsCoordinator(self, pipeline, warn)

    def writer(self, pipeline: str, _run: int) -> KafkaWriter | TransactionalWriter:
        """Return a task's side."""
        # The client is slow to import, and `check` needs none
        from ingest.kafka.transactions import TransactionalWriter  # noqa: PLC0415
        from ingest.kafka.writer import KafkaWriter  # noqa: PLC0415

        prefix = self.prefix(pipeline)
        if prefix is not None:
            return TransactionalWriter(self.client(pipeline), prefix)
        return KafkaWriter(self.client(pipeline), checked=self.guarantee != "none")


class TopicsCoordinator(PlainSinkCoordinator):
    """The driver's side of the sink. Raises IngestError only."""

    def __init__(self, options: TopicsOptions, pipeline: str, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._pipeline = pipeline
        self._conf = options.client(pipeline)
        self._warn = warn
        self._cluster: Cluster | None = None
        self._ready: set[str] = set()
        self._metric_names: dict[str, str] = {}
        self._prefix = options.prefix(pipeline)
        self._ownership: Ownership | None = None
        self._places = 0
        """Partitions of the progress topic, as far as they are known."""

    def connect(self) -> str:
        """Return the cluster's id; raises Unavailable when it does not answer."""
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)
        from ingest.kafka.writer import KafkaWriter  # noqa: PLC0415

        self._cluster = Cluster(self._conf)
        cluster_id = self._cluster.connect(CONNECT_S, self._warn)
        KafkaWriter(self._conf, checked=True)  # a property that a producer does not take shows here, not in a task
        return cluster_id

    def topics(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics that rows of these tables go to."""
        wanted = set()
        for table in tables:
            try:
                wanted.add(self._options.topic_of(table))
            except RowError:
                continue  # its rows are rejects, in the task
        return wanted

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        """Return those of these topics that are not there; raises TopicMissing where the sink may create none."""
        assert self._cluster is not None
        wanted = self.topics(tables)
        missing = wanted - set(self._cluster.topics(wanted)) if wanted else set()
        self._refuse_missing(missing)
        return missing

    def _refuse_missing(self, missing: Iterable[str]) -> None:
        """Raise TopicMissing for a topic that the options do not let the sink create."""
        first = min(missing, default=None)
        if first is not None and self._options.uncreated:
            assert self._cluster is not None
            msg = f"topic {first!r} does not exist at {self._cluster.servers}, and {self._options.uncreated} is false"
            how = " (compacted)" if self._options.cleanup == "compact" else ""
            raise TopicMissing(msg, f"create it{how}, or let the tool do it")

    def check(self, tables: Iterable[TableId]) -> None:
        """Raise what `prepare` would raise for these tables, and warn as it would; changes nothing."""
        self._prepare(tables, dry_run=True)

    def prepare(self, tables: Iterable[TableId]) -> None:
        """Make sure that the topics of these tables are there. Idempotent: a crash may repeat it."""
        self._prepare(tables, dry_run=False)

    def _prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        assert self._cluster is not None
        wanted = self.topics(tables) - self._ready
        if not wanted:
            return
        cluster, cleanup = self._cluster, self._options.cleanup
        there = set(cluster.topics(wanted))
        missing = sorted(wanted - there)
        self._refuse_missing(missing)
        partitions, replication = self._options.partitions or -1, self._options.replication or -1
        cluster.create(missing, partitions, replication, {"cleanup.policy": cleanup}, dry_run=dry_run)
        if missing and not dry_run:
            cluster.wait_until(lambda: len(cluster.topics(missing)) == len(missing), 10)
        for topic in sorted(there):
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

    # -- exactly-once ------------------------------------------------------------------------------------------------

    def acquire(self, checkpoint: str, run: int) -> None:
        """Become the only run that writes under the prefix; raises IngestError."""
        if self._prefix is None:
            return
        from ingest.kafka.ownership import Ownership  # noqa: PLC0415

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
        """Return how far each shard has written a batch whose end no driver saw. Raises DataLoss where that expired."""
        if self._ownership is None:
            return {}
        parts = max(map(progress.parts, starts.values()), default=1)
        notes = self._ownership.fence(scope, max(starts, default=-1) + 1, parts)
        newest = max((head.batch for head, *_ in notes if head is not None), default=0)
        if newest > number:
            msg = f"the sink holds batch {newest} of this checkpoint, which itself knows of no batch after {number}"
            hint = "it is an old copy: restore the newest one, or begin anew with another --checkpoint"
            raise CheckpointError(msg, hint)
        out = {}
        for shard, of_shard in starts.items():
            of_it = notes[shard][: progress.parts(of_shard)]
            found = progress.unpack(of_it, of_shard, number, planned)
            head = of_it[0]
            if found is not None:
                out[shard] = found
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
        """Make sure that the progress topic is there, with a partition for each shard."""
        if shards <= self._places:
            return
        assert self._cluster is not None
        cluster = self._cluster
        if not cluster.topics([progress.TOPIC]):
            cluster.create([progress.TOPIC], progress.PARTITIONS, self._options.replication or -1, {})
            cluster.wait_until(lambda: bool(cluster.topics([progress.TOPIC])), 10)
        cluster.widen(progress.TOPIC, shards)
        self._places = max(shards, cluster.topics([progress.TOPIC])[progress.TOPIC].partitions)

    def _retention_s(self) -> float:
        assert self._cluster is not None
        text = self._cluster.broker_config("offsets.retention.minutes") or ""
        return 60.0 * (int(text) if text.isdigit() else _RETENTION_MIN)

    def begin_batch(self, batch: int, shards: int) -> None:
        """Say that a batch is about to be written; raises Fenced where a newer run has begun."""
        if self._ownership is not None:
            self._enough(shards)
            self._ownership.begin_batch(batch, shards)

    def fingerprint(self, cluster_id: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return {"type": self._options.type, "cluster": cluster_id}  # type: ignore[attr-defined]  # its subclasses have one

    def close(self) -> None:
        """Let go of the connections."""
        if self._ownership is not None:
            self._ownership.close()
        if self._cluster is not None:
            self._cluster.close()
