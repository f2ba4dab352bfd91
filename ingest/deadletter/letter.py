"""Dead letters: rejected records as they were, in a topic of their own, with headers that say where from and why.

What a task adds counts as written when `commit` has returned, which is before the progress of its record is stored. A
letter that is read again is the record that it was; only its position is the letter's. Rules:
docs/spec/dirty-data.md#dead-letters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ingest.kafka.refusals import Letter, Shorter
from ingest.kafka.writer import KafkaWriter
from ingest.model.change import Reject
from ingest.model.record import Headers, Record, Split, WrappedRecord, origin
from ingest.model.table import selector, show, table_id

PREFIX: Final = "__ingest.errors."
LEFT_OUT: Final = "left-out"
"""The header, behind the prefix, that says what of a record its letter does not have."""
TIME: Final = "timestamp"
"""The header, behind the prefix, that has the time of a record whose letter may have another one."""
MAX_HELD: Final = 16 << 20
"""Bytes of letters that wait for a commit, at most, where they are not the sink's to commit."""
_MAX_TEXT: Final = 1000


def headers_of(record: Record, stage: str, reject: Reject, pipeline: str) -> Headers:
    """Return the record's headers and the `__ingest.errors.` headers, which replace those of an earlier rejection."""
    original = origin(record)
    values: dict[str, str] = {
        "topic": original.topic() or "",
        "partition": str(original.partition() or 0),
        "offset": str(original.offset() or 0),
        "stage": stage,
        "code": reject.code,
        "message": reject.message[:_MAX_TEXT],
        "table": "" if reject.table is None else show(reject.table)[:_MAX_TEXT],
        "time": str(int(time.time() * 1000)),
        "pipeline": pipeline,
    }
    if left_out := getattr(record, "missing", ""):
        values[LEFT_OUT] = left_out
    kept = [(name, value) for name, value in record.headers() or [] if not name.startswith(PREFIX)]
    added: Headers = [(PREFIX + name, text.encode("utf-8", "backslashreplace")) for name, text in values.items()]
    return kept + added


def time_of(record: Record) -> Headers:
    """Return the header that has the time of a record; none for a record without a time."""
    kind, millis = record.timestamp()
    return [(PREFIX + TIME, b"%d" % millis)] if kind else []


def without_value(record: Record, headers: Headers) -> list[Shorter]:
    """Return shorter letters for one that its topic does not take: without the value, then with our headers only.

    `headers`: those of the letter. The time says later whether the record is still where it came from: a topic may give
    letters other times.
    """
    more = time_of(record)
    added = [(name, value) for name, value in headers if name.startswith(PREFIX)]
    return [
        (record.key(), [*headers, *more, (PREFIX + LEFT_OUT, b"value")]),
        (None, [*added, *more, (PREFIX + LEFT_OUT, b"value,key,headers")]),
    ]


class DeadLetters(Protocol):
    """Writes the dead letters of a task."""

    @property
    def shared(self) -> bool:
        """True if letters are written by the sink's writer: its `abort` drops them with its records."""

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Write the dead letter of a rejected record. Raises IngestError."""

    def commit(self) -> None:
        """Make the letters durable that were added. Raises IngestError."""

    def close(self) -> None:
        """Release connections, and drop letters that were not committed."""


class DeadLetterTopic:
    """Writes the dead letters of a task to a topic."""

    def __init__(self, topic: str, pipeline: str, writer: KafkaWriter, *, shared: bool) -> None:
        """`shared`: the writer is the sink's, whose commit is the letters' as well."""
        self._pipeline = pipeline
        self._topic = topic
        self._writer = writer
        self.shared = shared
        """True if letters are written by the sink's writer: its `abort` drops them with its records."""
        self._bytes = 0
        if not shared:
            writer.apart(on=True)

    @classmethod
    def elsewhere(cls, topic: str, pipeline: str, conf: Mapping[str, str]) -> DeadLetterTopic:
        """Return the way to a topic of a cluster of its own, whose client has this configuration."""
        return cls(topic, pipeline, KafkaWriter(conf, checked=True), shared=False)

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Queue a letter; raises IngestError."""
        kind, millis = record.timestamp()
        headers = headers_of(record, stage, reject, self._pipeline)
        key, value = record.key(), record.value()
        instead = without_value(record, headers)
        at = millis if kind else None
        self._writer.send(Letter(self._topic, key, value, headers, at, instead, time_of(record)))
        self._bytes += len(key or b"") + len(value or b"")
        if self._bytes > MAX_HELD:
            self.commit()

    def commit(self) -> None:
        """Wait until all letters are acknowledged; raises IngestError."""
        self._bytes = 0
        if not self.shared:
            self._writer.flush()

    def close(self) -> None:
        """Close the writer, if it is not the sink's."""
        if not self.shared:
            self._writer.close()


@dataclass(slots=True)
class DeadLetter:
    """A letter, as the record that it was."""

    letter: Record
    reject: Mapping[str, str]
    """The reject that it is of, by the names of our headers without their prefix."""
    find: Callable[[DeadLetter], Record | None] | None = None
    """Reads the record of a letter where it came from, None where it is gone; None if the letter has all of it."""
    _found: Record | None = None

    @property
    def _record(self) -> Record:
        """The letter's record; where the letter lacks a part, the original one from the source. Raise IngestError."""
        if self.find is not None:
            self._found, self.find = self.find(self), None
        return self._found or self.letter

    @property
    def missing(self) -> str:
        """The parts that the letter lacks, if the original record no longer exists; else empty. Raise IngestError."""
        return self.reject.get(LEFT_OUT, "") if self._record is self.letter else ""

    def key(self) -> bytes | None:
        """Return the original key."""
        return self._record.key()

    def value(self) -> bytes | None:
        """Return the original value."""
        return self._record.value()

    def topic(self) -> str:
        """Return the original topic."""
        return self.reject.get("topic", "")

    def partition(self) -> int | None:
        """Return the letter's partition."""
        return self.letter.partition()

    def offset(self) -> int | None:
        """Return the letter's position."""
        return self.letter.offset()

    def timestamp(self) -> tuple[int, int]:
        """Return the original time."""
        kind, millis = self.letter.timestamp()
        stored_time = self.reject.get(TIME, "")
        return kind, int(stored_time) if stored_time.isdigit() else millis

    def headers(self) -> Headers:
        """Return the original headers."""
        return [(name, value) for name, value in self._record.headers() or [] if not name.startswith(PREFIX)]

    def leader_epoch(self) -> None:
        """Return None: it is not kept."""
        return

    @property
    def origin(self) -> Origin:
        """The record as it stood when it was rejected."""
        return Origin(self)


@dataclass(frozen=True, slots=True)
class Origin(WrappedRecord):
    """A letter's record, where it stood when it was rejected."""

    record: DeadLetter

    def topic(self) -> str:
        """Return the original topic."""
        return self.record.topic()

    def partition(self) -> int:
        """Return the original partition."""
        return _number(self.record.reject.get("partition"))

    def offset(self) -> int:
        """Return the original offset."""
        return _number(self.record.reject.get("offset"))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of letters: those that match all of its fields that are set."""

    table: str | None = None
    """A selector of table ids; a letter whose table is not known does not match."""
    codes: tuple[str, ...] = ()
    since: int | None = None
    """Rejected at this time or later, in milliseconds since 1970."""
    until: int | None = None
    """Rejected before this time."""

    def matches(self, reject: Mapping[str, str]) -> bool:
        """Return whether a letter of such a reject is selected."""
        if self.codes and reject.get("code") not in self.codes:
            return False
        if self.table is not None:
            table = reject.get("table")
            if not table or selector(self.table).match(table_id(table)) is None:
                return False
        time = reject.get("time", "")
        at = int(time) if time.isdigit() else 0
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"table": self.table, "codes": [*self.codes], "since": self.since, "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Selection:
        """Undo `to_json`."""
        return cls(value["table"], tuple(value["codes"]), value["since"], value["until"])


@dataclass(frozen=True, slots=True)
class Replayed:
    """An earlier replay: its selection, and the range that it read of each split."""

    selection: Selection
    ranges: Mapping[Split, tuple[int, int]]

    def has(self, split: Split, offset: int, reject: Mapping[str, str]) -> bool:
        """Return whether a letter was replayed by it."""
        start, end = self.ranges.get(split, (0, 0))
        return start <= offset < end and self.selection.matches(reject)
