"""Where rejects go: `pipeline.dirty-data.collector`, a log or a topic of dead letters.

Reference: alibaba-kafka.txt, "Dirty data tolerance and collection"; decisions, "Dirty data".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ingest.formats.options import OptionErrors
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import translate

if TYPE_CHECKING:
    from ingest.kafka.letters import DeadLetters

CONNECT_S = 20.0


class DirtyDataCollector(KafkaConnection):
    """Options of `dirty-data.collector` in `pipeline:`."""

    formats: ClassVar[str | None] = None

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
        conf = translate(self.properties)
        for foreign in ("group.id", "auto.offset.reset", "isolation.level"):
            conf.pop(foreign, None)
        return {"client.id": f"ingest.{pipeline}.dead-letters", "enable.idempotence": "true", "acks": "all", **conf}

    def letters(self, pipeline: str, writer: Any) -> DeadLetters | None:  # noqa: ANN401  (the sink's own)
        """A task's side; None where rejects go to the driver's log. `writer` is the sink's, which may be Kafka's."""
        if self.topic is None:
            return None
        from ingest.kafka.letters import DeadLetters  # noqa: PLC0415  (the client is slow to import; `check` needs none)
        from ingest.kafka.writer import KafkaWriter  # noqa: PLC0415

        if self.properties:
            return DeadLetters(self.topic, KafkaWriter(self.client(pipeline), checked=True), shared=False)
        return DeadLetters(self.topic, writer, shared=True)

    def prepare(self, sink: dict[str, str], pipeline: str) -> str:
        """Make the topic where it is not there; `sink` is the sink's client configuration. Returns the cluster's id."""
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)

        assert self.topic is not None
        cluster = Cluster(self.client(pipeline) if self.properties else sink)
        try:
            identity = cluster.connect(CONNECT_S)
            if not cluster.topics([self.topic]):
                cluster.create([self.topic], -1, -1, {})
                cluster.wait_until(lambda: bool(cluster.topics([self.topic or ""])), 10)
            return identity
        finally:
            cluster.close()
