"""Upserts into Kafka topics: a keyed JSON row per insert or update, a tombstone per delete.

On the driver: creates the topics of new tables, compacted. In a task: one idempotent producer per worker.
Reference: alibaba-upsert-kafka.txt, "Data ingestion"; flip-149; decisions, "Sinks".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import Field

from ingest.errors import TopicMissing
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import translate
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.sinks.sink import SinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ingest.flow.evolve import SourceTable
    from ingest.flow.infer import Inference
    from ingest.flow.plan import TablePlan
    from ingest.kafka.admin import Cluster
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.schema import SchemaChange, TableSchema

CONNECT_S: Final = 20.0
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HEADER_NAMES: Final = ("tableName", "schemaName", "namespace")


class Destination(NamedTuple):
    """Where the rows of one sink table go."""

    topic: str
    headers: tuple[tuple[str, bytes], ...] | None


class UpsertKafka(KafkaConnection, SinkOptions):
    """Options of `sink:` with `type: upsert-kafka`."""

    needs_key: ClassVar[bool] = True

    type: Literal["upsert-kafka"]
    """`upsert-kafka`."""

    guarantee: Literal["none", "at-least-once"] = Field("at-least-once", alias="sink.delivery-guarantee")
    """`none`: records may be lost when a broker fails. `at-least-once`: every delivery is checked before progress is
    stored; after a crash some records are written again, which changes no table."""

    table_id_header: bool = Field(False, alias="sink.add-tableId-to-header-enabled")
    """Add the headers `namespace`, `schemaName` and `tableName` to each record."""

    create: bool = Field(True, alias="sink.topic.create")
    """Create missing topics. If not, a table whose topic is missing stops the run."""

    partitions: int | None = Field(None, alias="sink.topic.partitions", ge=1)
    """Partitions of created topics; the broker's default where absent."""

    replication: int | None = Field(None, alias="sink.topic.replication-factor", ge=1, le=100)
    """Replicas of created topics; the broker's default where absent."""

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

    def destination(self, table: TableId) -> Destination:
        """The topic and headers of a sink table; raises RowError for an id that cannot be a topic's name."""
        topic = show(table)
        if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
            msg = f"{topic[:100]!r} cannot be a topic's name; route the table to one that can"
            raise RowError("bad-topic-name", msg)
        if not self.table_id_header:
            return Destination(topic, None)
        parts = [part.encode() for part in reversed(table)] + [b"", b""]
        headers = [(name, parts[i]) for i, name in enumerate(_HEADER_NAMES)]
        return Destination(topic, tuple(reversed(headers)))

    def plan(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TablePlan:
        """How rows of a table become keyed rows; raises RowError for an id that cannot be a topic's name."""
        from ingest.flow.plan import TablePlan  # noqa: PLC0415  (pyspark's types are slow to import; `check` needs none)

        destination = self.destination(target)
        return TablePlan(table, source.schema, sink, destination, inference, key_from_message=source.key_from_message)

    def control(self, pipeline: str, warn: Callable[[str], None]) -> UpsertKafkaControl:
        """The driver's side."""
        return UpsertKafkaControl(self, pipeline, warn)

    def writer(self, pipeline: str, _run: int) -> KafkaWriter:
        """A task's side."""
        from ingest.kafka.writer import KafkaWriter  # noqa: PLC0415  (the client is slow to import; `check` needs none)

        return KafkaWriter(self.client(pipeline), checked=self.guarantee != "none")


class UpsertKafkaControl:
    """What the driver does to the sink. Raises IngestError only."""

    stream: Literal["out", "err"] = "out"

    def __init__(self, options: UpsertKafka, pipeline: str, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._pipeline = pipeline
        self._conf = options.client(pipeline)
        self._warn = warn
        self._cluster: Cluster | None = None
        self._ready: set[str] = set()
        self._metric_names: dict[str, str] = {}

    def connect(self) -> str:
        """The cluster's id; raises Unavailable when it does not answer."""
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)

        self._cluster = Cluster(self._conf)
        cluster_id = self._cluster.connect(CONNECT_S)
        self._options.writer(self._pipeline, 0)  # a property that a producer does not take shows here, not in a task
        return cluster_id

    def topics(self, tables: Iterable[TableId]) -> set[str]:
        """The topics that rows of these tables go to."""
        wanted = set()
        for table in tables:
            try:
                wanted.add(self._options.destination(table).topic)
            except RowError:
                continue  # its rows are rejects, in the task
        return wanted

    def prepare(self, tables: Iterable[TableId]) -> None:
        """See to it that the topics of these tables are there. Idempotent: a crash may repeat it."""
        assert self._cluster is not None
        wanted = self.topics(tables) - self._ready
        if not wanted:
            return
        cluster = self._cluster
        there = set(cluster.topics(wanted))
        missing = sorted(wanted - there)
        if missing and not self._options.create:
            msg = f"topic {missing[0]!r} does not exist at {cluster.servers}, and sink.topic.create is false"
            raise TopicMissing(msg, "create it (compacted), or let the tool do it")
        cluster.create(
            missing, self._options.partitions or -1, self._options.replication or -1, {"cleanup.policy": "compact"}
        )
        if missing:
            cluster.wait_until(lambda: len(cluster.topics(missing)) == len(missing), 10)
        for topic in sorted(there):
            policy = cluster.topic_config(topic, "cleanup.policy")
            if policy is not None and "compact" not in policy:
                self._warn(f"topic {topic} is not compacted (cleanup.policy={policy}): rows that do not change expire")
        for topic in sorted(wanted):
            other = self._metric_names.setdefault(topic.replace(".", "_"), topic)
            if other != topic:
                self._warn(
                    f"topics {other} and {topic} have one name in Kafka's metrics, where '.' and '_' are the same"
                )
        self._ready |= wanted

    def changed(self, _events: Iterable[SchemaChange]) -> list[str]:
        """Schema changes are never written to Kafka."""
        return []

    def lines(self, _delivered: Iterable[Any]) -> list[str]:
        """Nothing to show."""
        return []

    def fingerprint(self, cluster_id: str) -> dict[str, Any]:
        """What a checkpoint of this sink depends on."""
        return {"type": "upsert-kafka", "cluster": cluster_id}

    def close(self) -> None:
        """Let go of the connections."""
        if self._cluster is not None:
            self._cluster.close()
