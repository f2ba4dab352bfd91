"""Produces the records of one shard, through one producer that a worker keeps.

`commit` flushes and looks at every delivery report: librdkafka calls back for failures only, so a report costs
nothing where all is well. A full local queue is back-pressure, not an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from ingest.errors import InternalError, Unavailable
from ingest.kafka.failures import ClientError, error_of, explain, is_access, is_away, refuse
from ingest.kafka.handle import make_producer, report
from ingest.kafka.properties import BOOTSTRAP, LARGEST, LOG_LEVEL
from ingest.kafka.waiting import METADATA_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from ingest.kafka.admin import Split
    from ingest.kafka.handle import EncodedRecords, Producer
    from ingest.model.client_report import ClientReport
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
"""Properties of a producer where the pipeline does not say otherwise. The partitioner is the Java client's.

Batches of this size are still in the processor's cache when they are compressed and acknowledged; a million bytes for
each of forty partitions were not, and took a quarter more memory. A long linger makes large batches of many topics'
partitions; it delays nothing, as a commit flushes at once.
"""

FLUSH_S: Final = 1.0
ABORT_S: Final = 5.0
CLOSE_S: Final = 1.0


class KafkaWriter:
    """One producer; a commit checks what was delivered since the one before."""

    def __init__(self, conf: Mapping[str, str], *, checked: bool) -> None:
        """`checked`: whether a failed delivery fails the commit (every guarantee but `none`)."""
        self._servers = conf[BOOTSTRAP]
        self._checked = checked
        self._failed: tuple[KafkaError, str, int] | None = None
        """The first delivery that failed and did not fail a commit yet: error, topic, partition."""
        self._refused: KafkaError | None = None
        """A login or certificate that was refused: it fails at once, not when the deliveries time out."""
        self._failures = 0
        try:
            self._producer = make_producer({**DEFAULTS, **conf, "delivery.report.only.error": True, **LOG_LEVEL})
        except (KafkaException, ValueError, TypeError) as exc:
            raise refuse(exc, "sink", self._servers) from exc

    @property
    def producer(self) -> Producer:
        """The client, for what else it can do."""
        return self._producer

    @property
    def failures(self) -> int:
        """The number of records that are lost; zero where deliveries are checked, as what failed is written again."""
        self._look()
        return 0 if self._checked else self._failures

    def _look(self) -> None:
        """Take over what librdkafka's threads have met."""
        for error in self._producer.errors():
            if is_access(error):
                self._refused = error
        self._failures, failed = self._producer.failures()
        self._failed = self._failed or failed

    def _raise(self) -> None:
        """Raise IngestError where a delivery is known to have failed, or none will be possible."""
        self._look()
        if self._refused is not None:
            raise explain(self._refused, "write", self._servers)
        if self._failed is None or not self._checked:
            return
        (error, topic, partition), self._failed = self._failed, None
        what = f"write to {topic}[{partition}]"
        if is_away(error):
            raise Unavailable(f"cannot {what}: the broker at {self._servers} did not take it in time: {error.str()}")
        raise explain(error, what, self._servers)

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """At-least-once starts where the plan says."""
        self._producer.keep_partitions(scope.partitions)
        return None

    def write(self, records: EncodedRecords) -> None:
        """Queue records; raises IngestError when one before failed.

        A destination is a topic, headers or None, and a partition: -1 for the key's, bytes for that of a hash.
        """
        done = 0
        while True:
            try:
                done = self._producer.write(records, done)
            except ClientError as exc:
                raise explain(exc, exc.what, self._servers) from exc
            self.check()
            if done == len(records):
                return

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; raises IngestError."""
        try:
            return max(1, self._producer.partitions(topic, METADATA_S))
        except KafkaException as exc:
            raise explain(exc, f"ask for the partitions of {topic}", self._servers) from exc

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int | None) -> None:
        """Queue one record with headers and a time (milliseconds since 1970); raises IngestError as `write` does."""
        queued = False
        while not queued:
            try:
                queued = self._producer.send(topic, key, value, headers, timestamp)
            except ClientError as exc:
                raise explain(exc, exc.what, self._servers) from exc
            self.check()

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:  # noqa: ARG002
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        self.flush()

    def flush(self) -> None:
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        while self._producer.flush(FLUSH_S) > 0:
            self._raise()
        self._look()
        self._refused = None  # all is delivered, so whatever was refused has been accepted since
        self._raise()

    def check(self) -> None:
        """Raise IngestError where a delivery is known to have failed."""
        self._producer.poll()
        self._raise()

    def delivered(self) -> list[Any]:
        """Return nothing for the driver: it is in Kafka."""
        return []

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return report(self._producer, "producer")

    def abort(self) -> None:
        """Drop what is still queued, so that nothing of it is written later."""
        try:
            self._producer.purge()
            self._producer.flush(ABORT_S)
        except KafkaException as exc:
            msg = f"cannot drop the queue of the producer: {error_of(exc).str()}"
            raise InternalError(msg) from exc
        self._look()
        self._failed = None

    def close(self) -> None:
        """Drop what is still queued, and let go of the connections."""
        self._producer.purge()
        self._producer.close(CLOSE_S)
