"""Collectors of rejects (`pipeline.dirty-data.collector`): a log or a topic of dead letters.

Rules: docs/spec/dirty-data.md#dead-letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import Field, model_validator

from ingest.component.options import Labelled, OptionErrors, Options
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.deadletter.letter import DeadLetters

CONNECT_S = 20.0


class Collector(Protocol):
    """A receiver of rejects."""

    @property
    def type(self) -> str:
        """The kind of collector: `kafka` where it has a topic that has to be made."""

    @property
    def topic(self) -> str | None:
        """The topic of dead letters; None where rejects go elsewhere."""

    @property
    def properties(self) -> Mapping[str, str]:
        """Client properties of its own cluster; empty where that is the sink's."""

    def letters(self, pipeline: str, writer: Any) -> DeadLetters | None:
        """Return what a task writes dead letters with; None where rejects go to the driver's log."""

    def prepare(self, sink: dict[str, str], pipeline: str, warn: Callable[[str], None]) -> str:
        """Create the topic if it is missing, and return an identity of its cluster. Raises IngestError."""


class DirtyDataCollector(KafkaConnection, Labelled, Options):
    """Options of `dirty-data.collector` in `pipeline:`."""

    formats: ClassVar[str | None] = None
    scope: ClassVar[Literal["C", "P"]] = "P"

    type: Literal["logger", "kafka"]
    """`logger`: one structured log line for each reject. `kafka`: a topic of dead letters, each the record as it was,
    with headers that say where it came from and why it was rejected."""

    topic: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """With `kafka`: the topic. It is made where it is not there."""

    properties: dict[str, str] = Field(default_factory=dict, alias="properties.*")
    """With `kafka`: client properties of the cluster; default: the sink's, where that is Kafka."""

    @model_validator(mode="after")
    def _check_whole(self) -> DirtyDataCollector:
        problems = []
        if self.type == "kafka" and self.topic is None:
            problems.append(("type", "dirty-data.collector.type: kafka needs dirty-data.collector.topic"))
        if self.type == "logger" and (self.topic is not None or self.properties):
            problems.append(("type", "dirty-data.collector.type: logger has neither a topic nor properties"))
        if problems:
            raise OptionErrors(*problems)
        return self

    def client(self, pipeline: str) -> dict[str, str]:
        """Librdkafka's configuration for the producer of dead letters."""
        conf = self.connection()
        for foreign in ("group.id", "auto.offset.reset", "isolation.level"):
            conf.pop(foreign, None)
        return {"client.id": f"ingest.{pipeline}.dead-letters", "enable.idempotence": "true", "acks": "all", **conf}

    def letters(self, pipeline: str, writer: Any) -> DeadLetters | None:
        """Return what a task writes dead letters with; None where rejects go to the driver's log.

        `writer`: the sink's. It writes the letters, too, unless the collector has properties of its own.
        """
        if self.topic is None:
            return None
        from ingest.deadletter.letter import DeadLetterTopic  # noqa: PLC0415  (the client is slow to import; `check` needs none)

        if self.properties:
            return DeadLetterTopic.elsewhere(self.topic, pipeline, self.client(pipeline))
        return DeadLetterTopic(self.topic, pipeline, writer, shared=True)

    def prepare(
        self, sink: dict[str, str], pipeline: str, warn: Callable[[str], None], *, dry_run: bool = False
    ) -> str:
        """Make the topic where it is not there; `sink` is the sink's client configuration. Returns the cluster's id.

        `dry_run`: only ask whether it could be made.
        """
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)

        assert self.topic is not None
        cluster = Cluster(self.client(pipeline) if self.properties else sink)
        try:
            identity = cluster.connect(CONNECT_S, warn)
            if not cluster.topics([self.topic]):
                # Letters keep the times of their records, by which Kafka would forget those of old ones at once; and
                # they are larger than their records, which may be as large as the brokers take
                settings = {"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": LARGEST}
                cluster.create([self.topic], -1, -1, settings, dry_run=dry_run)
                if not dry_run:
                    cluster.wait_until(lambda: bool(cluster.topics([self.topic or ""])), 10)
            elif (kept := cluster.topic_config(self.topic, "retention.ms")) not in {None, "-1"}:
                warn(
                    f"topic {self.topic} forgets dead letters by the times of their records (retention.ms={kept}): "
                    "those of old records are gone at once; set retention.ms=-1"
                )
            return identity
        finally:
            cluster.close()
