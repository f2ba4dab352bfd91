"""Produces the records of one shard, through one producer that a worker keeps.

`commit` flushes and looks at every delivery report: librdkafka calls back for failures only, so a report costs
nothing where all is well. A full local queue is back-pressure, not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException

from ingest.errors import IngestError, InternalError, Unavailable
from ingest.kafka.failures import ClientError, LocalError, error_of, explain, is_access, is_away, is_refusal, refuse
from ingest.kafka.handle import EncodedRecords, Producer, make_producer
from ingest.kafka.properties import BOOTSTRAP, LARGEST, LOG_LEVEL
from ingest.kafka.refusals import Held, Letter, deliver, refused
from ingest.kafka.waiting import METADATA_S
from ingest.model.commit import ClientReport, CommitScope, ResumePoint, RowsRefused
from ingest.model.record import Split

_BATCH: Final = "batch.size"
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

_LEAST: Final = 1024
"""The least number of bytes for which records wait to be sent together."""
FLUSH_S: Final = 1.0
ABORT_S: Final = 5.0
CLOSE_S: Final = 1.0


def narrower(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return a producer's configuration by which it sends a quarter at a time: a topic takes less than it sends."""
    size = int(conf.get(_BATCH, DEFAULTS[_BATCH])) // 4
    return conf if size < _LEAST else {**conf, _BATCH: str(size)}


class KafkaWriter:
    """One producer; a commit checks what was delivered since the one before."""

    leaving_out: None = None

    def __init__(self, conf: Mapping[str, str], *, checked: bool) -> None:
        """`checked`: whether a failed delivery fails the commit (every guarantee but `none`)."""
        self._servers = conf[BOOTSTRAP]
        self._checked = checked
        self._failed: tuple[KafkaError, str, int] | None = None
        """The first delivery that failed and did not fail a commit yet: error, topic, partition."""
        self._refused: KafkaError | None = None
        """A login or certificate that was refused: it fails at once, not when the deliveries time out."""
        self._failures = self._failures_before = 0
        """Records that failed, of the client and of those before it."""
        self._refusal: tuple[KafkaError, str, int] | None = None
        """The first record that its topic does not take: error, topic, partition."""
        self._told = False
        """True if nothing but that was told since the last commit."""
        self._held: list[Held] | None = None
        """What was written since the last commit; None where that is sent at once."""
        self._conf = conf
        self._partitions: dict[str, int] = {}
        self._producer = self._make()

    def _make(self) -> Producer:
        try:
            return make_producer({**DEFAULTS, **self._conf, "delivery.report.only.error": True, **LOG_LEVEL})
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
        return 0 if self._checked else self._failures_before + self._failures

    def _look(self) -> None:
        """Take over what librdkafka's threads have met."""
        for error in self._producer.errors():
            if is_access(error):
                self._refused = error
        self._failures, failed = self._producer.failures()
        self._failed = self._failed or failed
        self._refusal = self._refusal or self._producer.refusal()

    def _raise(self) -> None:
        """Raise IngestError where a delivery is known to have failed, or none will be possible."""
        self._look()
        if self._refused is not None:
            raise explain(self._refused, "write", self._servers)
        if self._refusal is not None:
            (error, topic, _), self._refusal = self._refusal, None
            self._told = True
            raise refused(error, topic)
        if self._failed is None or not self._checked:
            return
        (error, topic, partition), self._failed = self._failed, None
        what = f"write to {topic}[{partition}]"
        if is_away(error):
            raise Unavailable(f"cannot {what}: the broker at {self._servers} did not take it in time: {error.str()}")
        raise explain(error, what, self._servers)

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """At-least-once starts where the plan says."""
        self._partitions = scope.partitions
        self._producer.keep_partitions(self._partitions)
        self._held, self._told = None, False
        return None

    @property
    def by_one(self) -> Self:
        """This writer: `apart` makes it commit each chunk alone."""
        return self

    def apart(self, *, on: bool) -> None:
        """See `ByOne`: hold what is written until the commit, or send it at once."""
        self._held = [] if on else None

    def write(self, records: EncodedRecords) -> None:
        """Queue records; raises IngestError when one before failed, RowsRefused when a topic does not take one.

        A destination is a topic, headers or None, and a partition: -1 for the key's, bytes for that of a hash.
        """
        if self._held is not None:
            self._held.append(records)
        else:
            self._write(records)

    def _write(self, records: EncodedRecords) -> None:
        done = 0
        while True:
            try:
                done = self._producer.write(records, done)
            except ClientError as exc:
                raise self._explain(exc) from exc
            self.check()
            if done == len(records):
                return

    def _explain(self, exc: ClientError) -> IngestError:
        """Return the error for a record that the client does not take; raises that of a record before."""
        error = error_of(exc)
        if error.code() == LocalError.STATE:  # of a transaction, for a record before
            self._producer.flush(FLUSH_S)
            self.check()
        if is_refusal(error):
            self._told = True
            return RowsRefused(f"cannot {exc.what}: {error.str()}", "raise properties.message.max.bytes of the sink")
        return explain(exc, exc.what, self._servers)

    def queue(self, held: Held) -> None:
        """Queue records, or a letter; raises as `write` does."""
        if isinstance(held, Letter):
            self._send(held)
        else:
            self._write(held)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; raises IngestError."""
        try:
            return max(1, self._producer.partitions(topic, METADATA_S))
        except KafkaException as exc:
            raise explain(exc, f"ask for the partitions of {topic}", self._servers) from exc

    def send(self, letter: Letter) -> None:
        """Queue one record with headers and a time (milliseconds since 1970); raises IngestError as `write` does."""
        if self._held is not None:
            self._held.append(letter)
        else:
            self._send(letter)

    def _send(self, letter: Letter) -> None:
        queued = False
        while not queued:
            try:
                queued = self._producer.send(letter.topic, letter.key, letter.value, letter.headers, letter.timestamp)
            except ClientError as exc:
                raise self._explain(exc) from exc
            self.check()

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        self.flush()

    def flush(self) -> None:
        """Wait until all is delivered, or has failed for good; raises IngestError for a failure."""
        narrow = self.deliver_held(self.settle, atomic=False)
        self.wait()
        self._told = False
        if narrow:
            self._narrow()

    def deliver_held(self, start_over: Callable[[], KafkaWriter], *, atomic: bool) -> bool:
        """Deliver what is held, if anything is: see `deliver`."""
        if not self._held:
            return False
        held, self._held = self._held, []
        return deliver(held, self, start_over, atomic=atomic)

    def _narrow(self) -> None:
        """Send less at a time from now on, when nothing is under way: by another client."""
        self._conf = narrower(self._conf)
        self._failures_before, self._failures = self._failures_before + self._failures, 0
        self._producer.close(CLOSE_S)
        self._producer = self._make()
        self._producer.keep_partitions(self._partitions)

    def settle(self) -> KafkaWriter:
        """Wait until all is delivered or refused, and return this writer; raises IngestError for another failure."""
        while True:
            try:
                self.wait()
            except RowsRefused:
                continue
            return self

    def wait(self) -> None:
        """Wait until all that was sent is delivered, or has failed for good; raises IngestError for a failure."""
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

    @property
    def reporting(self) -> Self:
        """Itself: its client has logs and statistics."""
        return self

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return ClientReport.of(self._producer, "producer")

    def abort(self) -> None:
        """Drop what is still queued, so that nothing of it is written later.

        After a refusal the records come again at once, in this order: those that are queued are waited for, as the
        client may drop new records with them.
        """
        if self._told:
            self._told = False
            self.settle()
            self.forget()
            return
        try:
            self._producer.purge()
            self._producer.flush(ABORT_S)
        except KafkaException as exc:
            raise InternalError(f"cannot drop the queue of the producer: {error_of(exc).str()}") from exc
        self.forget()

    def forget(self) -> None:
        """Forget what failed, and what is held."""
        self._look()
        self._failed = self._refusal = None
        self._told = False
        if self._held is not None:
            self._held = []

    def close(self) -> None:
        """Drop what is still queued, and close the connection."""
        self._producer.purge()
        self._producer.close(CLOSE_S)
