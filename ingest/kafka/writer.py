"""Produces the records of one shard, through one producer that a worker keeps.

`commit` flushes and looks at every delivery report: librdkafka calls back for failures only, so a report costs
nothing where all is well. A full local queue is back-pressure, not an error.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, Producer

from ingest.errors import InternalError, Unavailable
from ingest.kafka.failures import error_of, explain, is_access, is_away, refuse
from ingest.kafka.properties import BOOTSTRAP, LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message

    from ingest.kafka.admin import Split
    from ingest.model.portion import Portion, Resumed
    from ingest.model.record import Headers

DEFAULTS: Final = {
    "partitioner": "murmur2_random",
    "linger.ms": "500",
    "batch.size": "1000000",
    "compression.type": "lz4",
    "queue.buffering.max.messages": "500000",
    "queue.buffering.max.kbytes": "131072",
    "message.max.bytes": LARGEST,
    "socket.nagle.disable": "true",
}
"""What a producer is set to where the pipeline does not say otherwise. The partitioner is the Java client's.

A long linger makes large batches of many topics' partitions; it delays nothing, as a commit flushes at once.
"""

FLUSH_S: Final = 1.0
_SILENT: Final = logging.getLogger("ingest.kafka.silent")
_SILENT.disabled = True
COUNT_S: Final = 10.0


class KafkaWriter:
    """One producer; a commit checks what was delivered since the one before."""

    def __init__(self, conf: Mapping[str, str], *, checked: bool) -> None:
        """`checked`: whether a failed delivery fails the commit (every guarantee but `none`)."""
        self._servers = conf[BOOTSTRAP]
        self._checked = checked
        self._failed: KafkaError | None = None
        self._refused: KafkaError | None = None
        self._where = ""
        self.failures = 0
        self._counts: dict[str, int] = {}
        try:
            self._producer = Producer(
                {
                    **DEFAULTS,
                    **conf,
                    "delivery.report.only.error": True,
                    "on_delivery": self._report,
                    "error_cb": self._note,
                    "log_level": 0,
                    "logger": _SILENT,  # what is fatal would be printed even so
                }
            )
        except (KafkaException, ValueError, TypeError) as exc:
            raise refuse(exc, "sink", self._servers) from exc

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures += 1
            if self._failed is None:
                self._failed = error
                self._where = f"{message.topic()}[{message.partition()}]"

    def _note(self, error: KafkaError) -> None:
        """A login or certificate that is refused fails at once, not when the deliveries time out."""
        if is_access(error):
            self._refused = error

    @property
    def producer(self) -> Producer:
        """The client, for what else it can do."""
        return self._producer

    def begin(self, _portion: Portion) -> Resumed | None:
        """At-least-once starts where the plan says."""
        return None

    def write(self, records: Sequence[tuple[Any, bytes | None, Any]]) -> None:
        """Queue records; raises IngestError when one before failed.

        A destination is a topic, headers or None, and a partition: -1 for the key's, bytes for the one of their hash.
        """
        produce = self._producer.produce
        for (topic, headers, partition), key, value in records:
            if type(partition) is bytes:
                partition = crc32(partition) % self._count(topic)  # noqa: PLW2901
            try:
                if headers is None:
                    produce(topic, value, key, partition)
                else:
                    produce(topic, value, key, partition, headers=[*headers])
            except BufferError:
                self._wait(topic, value, key, partition, headers)
            except KafkaException as exc:
                raise explain(exc, f"write a record of {len(value or b'')} bytes to {topic}", self._servers) from exc
        self._producer.poll(0)
        self._check()

    def _count(self, topic: str) -> int:
        """How many partitions a topic has; asked once, so that a key stays in its partition while this writer lives."""
        known = self._counts.get(topic)
        if known is None:
            try:
                found = self._producer.list_topics(topic, timeout=COUNT_S).topics[topic]
            except KafkaException as exc:
                raise explain(exc, f"ask for the partitions of {topic}", self._servers) from exc
            if found.error is not None:
                raise explain(found.error, f"ask for the partitions of {topic}", self._servers)
            known = self._counts[topic] = max(1, len(found.partitions))
        return known

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, timestamp: int | None) -> None:
        """Queue one record with headers and a time (milliseconds since 1970); raises IngestError as `write` does."""
        more = {} if timestamp is None else {"timestamp": timestamp}
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers, **more)  # type: ignore[arg-type]
            except BufferError:
                self._producer.poll(0.05)
                self._check()
                continue
            except KafkaException as exc:
                raise explain(exc, f"write a record of {len(value or b'')} bytes to {topic}", self._servers) from exc
            break
        self._producer.poll(0)
        self._check()

    def _wait(self, topic: str, value: Any, key: bytes | None, partition: int, headers: Any) -> None:  # noqa: ANN401
        """Hold on until the local queue has room again."""
        while True:
            self._producer.poll(0.05)
            self._check()
            try:
                self._producer.produce(topic, value, key, partition, headers=None if headers is None else [*headers])
            except BufferError:
                continue
            except KafkaException as exc:
                raise explain(exc, f"write a record of {len(value or b'')} bytes to {topic}", self._servers) from exc
            return

    def _check(self) -> None:
        if self._refused is not None:
            raise explain(self._refused, "write", self._servers)
        if self._failed is None or not self._checked:
            return
        failed, self._failed = self._failed, None
        what = f"write to {self._where}"
        if is_away(failed):
            raise Unavailable(f"cannot {what}: the broker at {self._servers} did not take it in time: {failed.str()}")
        raise explain(failed, what, self._servers)

    def commit(self, _positions: Mapping[Split, int], _tally: Callable[[], bytes], *, final: bool) -> None:  # noqa: ARG002
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        self.flush()

    def flush(self) -> None:
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        while self._producer.flush(FLUSH_S) > 0:
            self._check()
        self._refused = None  # all is delivered, so whatever was refused has been accepted since
        self._check()

    def check(self) -> None:
        """Raise IngestError where a delivery is known to have failed."""
        self._producer.poll(0)
        self._check()

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
        self._failed = None
