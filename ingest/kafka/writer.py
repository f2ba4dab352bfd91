"""Produces the records of one shard, through one producer that a worker keeps.

`commit` flushes and looks at every delivery report: librdkafka calls back for failures only, so a report costs
nothing where all is well. A full local queue is back-pressure, not an error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from ingest.errors import InternalError, Unavailable
from ingest.kafka import direct
from ingest.kafka.failures import error_of, explain, is_access, is_away, refuse
from ingest.kafka.properties import BOOTSTRAP, LARGEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Message

    from ingest.errors import IngestError
    from ingest.kafka._client import Client
    from ingest.kafka.admin import Split
    from ingest.model.commit import CommitScope, ResumePoint
    from ingest.model.record import Headers

DEFAULTS: Final = {
    "partitioner": "murmur2_random",
    "linger.ms": "500",
    "batch.size": "262144",
    "compression.type": "lz4",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "131072",
    "message.max.bytes": LARGEST,
    "socket.nagle.disable": "true",
}
"""What a producer is set to where the pipeline does not say otherwise. The partitioner is the Java client's.

Batches of this size are still in the processor's cache when they are compressed and acknowledged; a million bytes for
each of forty partitions were not, and took a quarter more memory. A long linger makes large batches of many topics'
partitions; it delays nothing, as a commit flushes at once.
"""

FLUSH_S: Final = 1.0
_SILENT: Final = logging.getLogger("ingest.kafka.silent")
_SILENT.disabled = True
COUNT_S: Final = 10.0


class Deliveries:
    """Where records go, what librdkafka said of them, and what that means."""

    def __init__(self, servers: str, *, checked: bool) -> None:
        """See KafkaWriter."""
        self._servers = servers
        self._checked = checked
        self._failed: KafkaError | None = None
        self._refused: KafkaError | None = None
        self._where = ""
        self.failures = 0
        self._counts: dict[str, int] = {}
        self.producer: Producer

    def report(self, error: KafkaError | None, message: Message) -> None:
        """Keep that a delivery failed."""
        if error is not None:
            self.failures += 1
            self._fail(error, message.topic(), message.partition())

    def _fail(self, error: KafkaError, topic: str | None, partition: int | None) -> None:
        if self._failed is None:
            self._failed = error
            self._where = f"{topic}[{partition}]"

    def note(self, error: KafkaError) -> None:
        """A login or certificate that is refused fails at once, not when the deliveries time out."""
        if is_access(error):
            self._refused = error

    def look(self, client: Client | None) -> None:
        """Take over what was noted in C."""
        if client is None:
            return
        for error in direct.errors(client):
            self.note(error)
        self.failures, failed = client.failures()
        if failed is not None:
            code, topic, partition = failed
            self._fail(KafkaError(code), topic, partition)

    def check(self, client: Client | None) -> None:
        """Raise IngestError where a delivery is known to have failed, or none will be possible."""
        self.look(client)
        if self._refused is not None:
            raise explain(self._refused, "write", self._servers)
        if self._failed is None or not self._checked:
            return
        failed, self._failed = self._failed, None
        what = f"write to {self._where}"
        if is_away(failed):
            raise Unavailable(f"cannot {what}: the broker at {self._servers} did not take it in time: {failed.str()}")
        raise explain(failed, what, self._servers)

    def accepted(self) -> None:
        """All is delivered, so whatever was refused has been accepted since."""
        self._refused = None

    def forget(self, client: Client | None) -> None:
        """What failed so far is of no interest."""
        self.look(client)
        self._failed = None

    def explained(self, error: KafkaException, topic: str, size: int) -> IngestError:
        """What it means that a record is not taken."""
        return explain(error, f"write a record of {size} bytes to {topic}", self._servers)

    def refused(self, code: int, topic: str, size: int) -> None:
        """Raise that, by librdkafka's code."""
        raise self.explained(KafkaException(KafkaError(code)), topic, size)

    def resolve(self, destination: Any) -> tuple[str, int, Any]:  # noqa: ANN401  (the sink's own)
        """Topic, partition or -1, and headers; raises IngestError."""
        topic, headers, partition = destination
        return topic, self.partition(topic, partition), headers

    def partition(self, topic: str, wanted: int | bytes) -> int:
        """The partition of a destination, -1 for the key's; `wanted` may be a hash in four bytes. Raises IngestError.

        How many a topic has is asked once, so that a key stays in its partition while this writer lives.
        """
        if not isinstance(wanted, bytes):
            return wanted
        known = self._counts.get(topic)
        if known is None:
            try:
                found = self.producer.list_topics(topic, timeout=COUNT_S).topics[topic]
            except KafkaException as exc:
                raise explain(exc, f"ask for the partitions of {topic}", self._servers) from exc
            if found.error is not None:
                raise explain(found.error, f"ask for the partitions of {topic}", self._servers)
            known = self._counts[topic] = max(1, len(found.partitions))
        return int.from_bytes(wanted, "big") % known


class KafkaWriter:
    """One producer; a commit checks what was delivered since the one before."""

    def __init__(self, conf: Mapping[str, str], *, checked: bool) -> None:
        """`checked`: whether a failed delivery fails the commit (every guarantee but `none`)."""
        self._deliveries = Deliveries(conf[BOOTSTRAP], checked=checked)
        by_python = {
            "on_delivery": self._deliveries.report,
            "error_cb": self._deliveries.note,
            "logger": _SILENT,  # what is fatal would be printed even so
        }
        try:
            self._producer = self._deliveries.producer = Producer(
                {
                    **DEFAULTS,
                    **conf,
                    "delivery.report.only.error": True,
                    "log_level": 0,
                    **(direct.plugin() or by_python),
                }
            )
            self._direct = direct.attach(self._producer, self._deliveries)
        except (KafkaException, ValueError, TypeError) as exc:
            raise refuse(exc, "sink", conf[BOOTSTRAP]) from exc

    @property
    def producer(self) -> Producer:
        """The client, for what else it can do."""
        return self._producer

    @property
    def failures(self) -> int:
        """How many deliveries have failed."""
        self._deliveries.look(self._direct)
        return self._deliveries.failures

    @property
    def direct(self) -> Client | None:
        """What takes records out of C code; None where records are to be given to `write`."""
        return self._direct

    def begin(self, _scope: CommitScope) -> ResumePoint | None:
        """At-least-once starts where the plan says."""
        return None

    def write(self, records: Sequence[tuple[Any, bytes | None, Any]]) -> None:
        """Queue records; raises IngestError when one before failed.

        A destination is a topic, headers or None, and a partition: -1 for the key's, bytes for that of a hash.
        """
        if self._direct is not None:
            self._direct.write(records)
        else:
            self._write(records)
        self.check()

    def _write(self, records: Sequence[tuple[Any, bytes | None, Any]]) -> None:
        for destination, key, value in records:
            topic, partition, headers = self._deliveries.resolve(destination)
            self._produce(topic, value, key, partition=partition, headers=None if headers is None else [*headers])

    def _produce(self, topic: str, value: Any, key: bytes | None, **more: Any) -> None:  # noqa: ANN401  (the client's own)
        """Queue a record; holds on while the local queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, **more)
            except BufferError:
                self._producer.poll(0.05)
                self._deliveries.check(None)
                continue
            except KafkaException as exc:
                raise self._deliveries.explained(exc, topic, len(value or b"")) from exc
            return

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int | None) -> None:
        """Queue one record with headers and a time (milliseconds since 1970); raises IngestError as `write` does."""
        if self._direct is not None:
            self._direct.send(topic, key, value, headers, timestamp)
        else:
            more = {} if timestamp is None else {"timestamp": timestamp}
            self._produce(topic, value, key, headers=headers, **more)
        self.check()

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:  # noqa: ARG002
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        self.flush()

    def flush(self) -> None:
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        while self._producer.flush(FLUSH_S) > 0:
            self._deliveries.check(self._direct)
        self._deliveries.look(self._direct)
        self._deliveries.accepted()
        self._deliveries.check(self._direct)

    def check(self) -> None:
        """Raise IngestError where a delivery is known to have failed."""
        self._producer.poll(0)
        self._deliveries.check(self._direct)

    def delivered(self) -> list[Any]:
        """Nothing for the driver: it is in Kafka."""
        return []

    def abort(self) -> None:
        """Drop what is still queued, so that nothing of it is written later."""
        try:
            self._producer.purge()
            self._producer.flush(5)
        except KafkaException as exc:
            msg = f"cannot drop the queue of the producer: {error_of(exc).str()}"
            raise InternalError(msg) from exc
        self._deliveries.forget(self._direct)

    def close(self) -> None:
        """Let go of what C code has of the producer, which may be closed then."""
        client, self._direct = self._direct, None
        if client is not None:
            client.close()
