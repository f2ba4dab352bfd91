"""A writer that chooses the partition of each record by the option `sink.partitioner`.

In: records on their way to a writer. Out: the same records, each with the number of its partition. How many partitions
a topic has is asked once for each writer. Rules: docs/spec/sinks.md#kafka.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from ingest.errors import PartitionerError
from ingest.expressions.user_code import message_of
from ingest.model.commit import RowsRefused, release
from ingest.sinks.topics.options import BY_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.kafka.refusals import Letter
    from ingest.kafka.transactions import TransactionalWriter
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.client_report import Reporting
    from ingest.model.commit import ByOne, CommitScope, ResumePoint
    from ingest.model.record import Split
    from ingest.sinks.topics.options import TopicDestination
    from ingest.sinks.topics.partitioner import UserPartitioner

_SHOWN: Final = 60
"""Bytes of a record's key that an error shows at most."""


class _RoundRobin:
    """Chooses the partitions of a topic one after the other."""

    def __init__(self) -> None:
        """Begin with the first partition of each topic."""
        self._next: dict[str, int] = {}

    def partition(self, topic: str, _key: bytes | None, _value: bytes | None, partitions: int) -> int:
        """Return the partition after the topic's last one."""
        chosen = self._next.get(topic, 0) % partitions
        self._next[topic] = chosen + 1
        return chosen


class PartitioningWriter:
    """A writer that chooses the partition of each record before it writes it."""

    leaving_out: None = None

    def __init__(self, writer: KafkaWriter | TransactionalWriter, name: str, code: bytes | None) -> None:
        """`name`: the option; `code`: the user's class, as `packed` returns it. Raises ConfigError."""
        self._writer = writer
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
            made: UserPartitioner = pickle.loads(code)()  # noqa: S301  (the driver of this run made it)
        except Exception as exc:
            msg = f"sink.partitioner {self._name}: the class cannot be made: {message_of(exc)}"
            raise PartitionerError(msg, "the class is called without arguments where the workers run") from exc
        return made.partition

    @property
    def failures(self) -> int:
        """Records that were lost, which only the guarantee `none` goes on after."""
        return self._writer.failures

    def begin(self, scope: CommitScope) -> ResumePoint | None:
        """Begin with the writer; returns where a shard goes on, or None. Raises as the writer does."""
        self._shard = scope.shard
        return self._writer.begin(scope)

    def write(self, records: Sequence[Record]) -> None:
        """Write records to the partitions that are theirs; raises PartitionerError, and what the writer raises."""
        targets = getattr(records, "targets", None)
        if self._chooses is None and targets is not None:  # native code's: its records have few destinations
            targets[:] = [self._placed(to, None, None) for to in targets]
            self._writer.write(records)
        else:
            placed = [one._replace(destination=self._placed(one.destination, one.key, one.value)) for one in records]
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

    def send(self, letter: Letter) -> None:
        """Write one record, which is no row, where the client puts it."""
        self._writer.send(letter)

    @property
    def by_one(self) -> ByOne:
        """The writer: see `ByOne`."""
        return self._writer

    def commit(self, positions: Mapping[Split, int], metadata: bytes, *, final: bool) -> None:
        """Commit with the writer; what is refused is told of as it came here, without partitions."""
        try:
            self._writer.commit(positions, metadata, final=final)
        except RowsRefused as exc:
            rows = [row._replace(destination=row.destination._replace(partition=BY_KEY)) for row in exc.rows]
            raise RowsRefused(exc.message, exc.hint, rows) from exc

    def delivered(self) -> list[Any]:
        """Return what the writer has for the driver."""
        return self._writer.delivered()

    @property
    def reporting(self) -> Reporting:
        """The writer, whose client has logs and statistics."""
        return self._writer

    def abort(self) -> None:
        """Give up what was not committed."""
        self._writer.abort()

    def close(self) -> None:
        """Close the writer."""
        release(self._writer)
