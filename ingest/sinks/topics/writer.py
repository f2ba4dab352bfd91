"""Writers that stand before a writer to Kafka: they choose partitions, or hold changes back.

Rules: docs/spec/sinks.md.
"""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import PartitionerError
from ingest.expressions.user_code import message_of
from ingest.model.commit import ByOne, CommitScope, Reporting, ResumePoint, RowsRefused, release
from ingest.sinks.topics.options import BY_KEY, TopicDestination

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.kafka.refusals import Letter
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.record import Split
    from ingest.sinks.topics.partitioner import UserPartitioner
    from ingest.sinks.topics.transactions import TransactionalWriter

_SHOWN: Final = 60
"""Bytes of a record's key that an error shows at most."""
MAX_HELD: Final = 64 << 20
"""The size of incoming changes, in bytes, at which the buffer is flushed, however few changes it holds."""


class WriterBefore:
    """A writer that passes all calls on to a KafkaWriter or a TransactionalWriter."""

    leaving_out: None = None

    def __init__(self, writer: KafkaWriter | TransactionalWriter) -> None:
        self._writer = writer

    @property
    def failures(self) -> int:
        """Records that were lost, which only the guarantee `none` goes on after."""
        return self._writer.failures

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Begin with the writer. Return where the shard resumes, or None. Raises as the writer does."""
        return self._writer.begin(scope)

    def send(self, letter: Letter) -> None:
        """Write a dead letter at once. The client chooses its partition."""
        self._writer.send(letter)

    @property
    def by_one(self) -> ByOne:
        """The writer below, as the role `ByOne`."""
        return self._writer

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Commit with the writer."""
        self._writer.commit(positions, metadata, final=final)

    def delivered(self) -> list[Any]:
        """Return what the writer returns to the driver."""
        return self._writer.delivered()

    @property
    def reporting(self) -> Reporting:
        """The writer, whose client has logs and statistics."""
        return self._writer

    def abort(self) -> None:
        """Drop what was not committed."""
        self._writer.abort()

    def close(self) -> None:
        """Close the writer."""
        release(self._writer)


class _RoundRobin:
    """Chooses the partitions of a topic one after the other."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, _key: bytes | None, _value: bytes | None, partitions: int) -> int:
        """Return the partition after the topic's last one."""
        chosen = self._next.get(topic, 0) % partitions
        self._next[topic] = chosen + 1
        return chosen


class PartitioningWriter(WriterBefore):
    """A writer that chooses the partition of each record, by the option `sink.partitioner`.

    How many partitions a topic has is asked once for each writer.
    """

    def __init__(self, writer: KafkaWriter | TransactionalWriter, name: str, code: bytes | None) -> None:
        """`name`: the option; `code`: the user's class, as `packed` returns it. Raises ConfigError."""
        super().__init__(writer)
        self._name = name
        self._counts: dict[str, int] = {}
        self._shard = 0
        self._chooses: Callable[[str, bytes | None, bytes | None, int], Any] | None = None
        """None: each topic has one partition for the shard."""
        if name == "round-robin":
            self._chooses = _RoundRobin().partition
        elif name != "fixed":
            assert code is not None
            self._chooses = self._made(code)

    def _made(self, code: bytes) -> Callable[..., Any]:
        """Return the method of a new partitioner of the user's."""
        try:
            partitioner: UserPartitioner = pickle.loads(code)()  # noqa: S301  (the driver of this run made it)
        except Exception as exc:
            msg = f"sink.partitioner {self._name}: the class cannot be made: {message_of(exc)}"
            raise PartitionerError(msg, "the class is called without arguments where the workers run") from exc
        return partitioner.partition

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Begin with the writer. Return where the shard resumes, or None. Raises as the writer does."""
        self._shard = scope.shard
        return super().begin(scope)

    def write(self, records: Sequence[Record]) -> None:
        """Write records to the partitions that the partitioner chooses. Raises PartitionerError and IngestError."""
        targets = getattr(records, "targets", None)
        if self._chooses is None and targets is not None:  # native code's: its records have few destinations
            targets[:] = [self._placed(to, None, None) for to in targets]
            self._writer.write(records)
        else:
            of_topics: Sequence[Any] = records
            placed = [r._replace(destination=self._placed(r.destination, r.key, r.value)) for r in of_topics]
            self._writer.write(placed)

    def _placed(self, to: TopicDestination, key: bytes | None, value: Any) -> TopicDestination:
        """Return the destination of a record with its partition."""
        count = self._counts.get(to.topic)
        if count is None:
            count = self._counts[to.topic] = self._writer.partitions(to.topic)
        if self._chooses is None:
            return to._replace(partition=self._shard % count)
        try:
            chosen = self._chooses(to.topic, key, None if value is None else bytes(value), count)
        except Exception as exc:
            raise self._wrong(to, key, f"failed: {message_of(exc)}") from exc
        if type(chosen) is not int or not 0 <= chosen < count:
            raise self._wrong(to, key, f"gave {chosen!r:.60}, and the topic has the partitions 0 to {count - 1}")
        return to._replace(partition=chosen)

    def _wrong(self, to: TopicDestination, key: bytes | None, why: str) -> PartitionerError:
        shown = "without a key" if key is None else f"with the key {key[:_SHOWN].decode('utf-8', 'backslashreplace')}"
        return PartitionerError(f"sink.partitioner {self._name} {why}, for a record to {to.topic} {shown}")

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Commit with the writer. Refused records are raised without the partitions that were chosen here."""
        try:
            super().commit(positions, metadata, final=final)
        except RowsRefused as exc:
            rows = [row._replace(destination=row.destination._replace(partition=BY_KEY)) for row in exc.rows]
            raise RowsRefused(exc.message, exc.hint, rows) from exc


class Buffer(WriterBefore):
    """A writer that buffers records, and writes the last one of each key (`sink.buffer-flush`)."""

    def __init__(self, writer: KafkaWriter | TransactionalWriter, most: int, seconds: float) -> None:
        super().__init__(writer)
        self._most, self._seconds = most, seconds
        self._held: dict[tuple[str, bytes], Record] = {}
        self._bytes = 0
        self._since = 0.0

    def write(self, records: Sequence[Any]) -> None:
        """Add records to the buffer. Flush it where it is full or old. Raises IngestError for earlier records."""
        held = self._held
        if not held:
            self._since = time.monotonic()
        for record in records:
            place = (record.destination.topic, record.key)
            held.pop(place, None)  # the last change comes in its own turn
            held[place] = record
            self._bytes += len(record.key or b"") + (0 if record.value is None else len(memoryview(record.value)))
            if len(held) >= self._most or self._bytes >= MAX_HELD:
                self._flush()
        if held and time.monotonic() - self._since >= self._seconds:
            self._flush()

    def _flush(self) -> None:
        records = [*self._held.values()]
        self._held.clear()
        self._bytes = 0
        self._since = time.monotonic()
        self._writer.write(records)

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Flush the buffer, and commit."""
        self._flush()
        super().commit(positions, metadata, final=final)

    def abort(self) -> None:
        """Drop the buffer, and what was not committed."""
        self._held.clear()
        self._bytes = 0
        super().abort()
