"""What a source delivers: records with key, value, headers, time and position, and chunks of them.

The Kafka client's messages are such records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

Headers: TypeAlias = "list[tuple[str, bytes | None]]"
Split: TypeAlias = tuple[str, int]
"""A part of a source that has positions of its own: a topic's name and a partition, or what stands for them."""

METADATA: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp-type",
    "headers",
    "leader-epoch",
    "__raw_key__",
    "__raw_value__",
)
"""What of a record may become a column (`metadata.list`)."""


NO_ID: Final = "A" * 22
"""The id of topics where the cluster gives them none, as Kafka before 2.8 does: Kafka's id of zeros."""


def is_another(id_before: str, id_now: str) -> bool:
    """Tell whether two ids are of two topics. Without an id nobody knows: a cluster may give ids from an upgrade on."""
    return id_before != id_now and NO_ID not in {id_before, id_now}


class Record(Protocol):
    """One record. Every source's records have these methods."""

    def key(self) -> bytes | None:
        """The key's bytes."""

    def value(self) -> bytes | None:
        """The value's bytes."""

    def topic(self) -> str | None:
        """The topic, or what stands for it."""

    def partition(self) -> int | None:
        """The partition in the topic."""

    def offset(self) -> int | None:
        """The position in its split."""

    def timestamp(self) -> tuple[int, int]:
        """0 (none), 1 (when it was made) or 2 (when it was appended), and milliseconds since 1970."""

    def headers(self) -> Headers | None:
        """Names and values, in order."""

    def leader_epoch(self) -> int | None:
        """The epoch of the partition's leader, where that is known."""


class WrappedRecord:
    """A record that is another one but for what a class says itself."""

    __slots__ = ()
    record: Record

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.record.key()

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.record.value()

    def topic(self) -> str | None:
        """Return the topic, or what stands for it."""
        return self.record.topic()

    def partition(self) -> int | None:
        """Return the partition."""
        return self.record.partition()

    def offset(self) -> int | None:
        """Return the position."""
        return self.record.offset()

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of time, and the time."""
        return self.record.timestamp()

    def headers(self) -> Headers | None:
        """Return names and values."""
        return self.record.headers()

    def leader_epoch(self) -> int | None:
        """Return the epoch of the partition's leader."""
        return self.record.leader_epoch()


def size_of(records: Sequence[Record]) -> int:
    """Return the bytes of the keys and values of records."""
    size: int | None = getattr(records, "size", None)  # records of the native client know it
    if size is None:
        size = sum(map(bytes_in, records))
    return size


def bytes_in(record: Record) -> int:
    """Return the bytes of the key and the value of a record."""
    return len(record.key() or b"") + len(record.value() or b"")


def origin(record: Record) -> Record:
    """The record at its original position: a dead letter's is not its own."""
    found: Record = getattr(record, "origin", record)
    return found


def kept_of(record: Record) -> Record:
    """The record that a dead letter is of: a row that was one before is that letter again."""
    found: Record = getattr(record, "kept", record)
    return found


def offset_of(record: Record) -> int:
    """Return a record's offset; only error events of a client have none."""
    offset = record.offset()
    assert offset is not None
    return offset


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of one split and of one topic, or what stands for it."""

    split: Split
    topic: str
    messages: Sequence[Record]
    """The records: a list, or native code's `Messages` (ingest/native/records.pxd)."""
    more: bool = False
    """True if they are a part of something that has one position: the split stays at it."""
    place: Any = None
    """Where a source without messages has them, as its dead letters say it."""
    gone: str = ""
    """Why these records stand for nothing any more; empty where they do."""
