"""Dead letters: rejected records as they were, in a topic of their own, with headers that say where from and why.

What is added counts as written when `commit` has returned, which is before the progress of its record is stored.
Rules: docs/spec/dirty-data.md#dead-letters.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from ingest.kafka.refusals import Letter
from ingest.model.record import origin
from ingest.model.table import show

if TYPE_CHECKING:
    from ingest.kafka.refusals import Shorter
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.change import Reject
    from ingest.model.record import Headers, Record

PREFIX: Final = "__ingest.errors."
LEFT_OUT: Final = "left-out"
"""The header, behind the prefix, that says what of a record its letter does not have."""
TIME: Final = "timestamp"
"""The header, behind the prefix, that has the time of a record whose letter may have another one."""
MAX_HELD: Final = 16 << 20
"""Bytes of letters that wait for a commit, at most, where they are not the sink's to commit."""
_MAX_TEXT: Final = 1000


def headers_of(record: Record, stage: str, reject: Reject, pipeline: str) -> Headers:
    """Return the record's headers, and ours; those that it has from an earlier rejection are replaced."""
    original = origin(record)
    found: dict[str, str] = {
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
        found[LEFT_OUT] = left_out
    own = [(name, value) for name, value in record.headers() or [] if not name.startswith(PREFIX)]
    ours: Headers = [(PREFIX + name, text.encode("utf-8", "backslashreplace")) for name, text in found.items()]
    return own + ours


def time_of(record: Record) -> Headers:
    """Return the header that has the time of a record; none for a record without a time."""
    kind, millis = record.timestamp()
    return [(PREFIX + TIME, b"%d" % millis)] if kind else []


def without_value(record: Record, headers: Headers) -> list[Shorter]:
    """Return what stands for a letter that its topic does not take: without its value, then with our headers only.

    `headers`: those of the letter. The time says later whether the record is still where it came from: a topic may give
    letters other times.
    """
    more = time_of(record)
    ours = [(name, value) for name, value in headers if name.startswith(PREFIX)]
    return [
        (record.key(), [*headers, *more, (PREFIX + LEFT_OUT, b"value")]),
        (None, [*ours, *more, (PREFIX + LEFT_OUT, b"value,key,headers")]),
    ]


class DeadLetters(Protocol):
    """A task's side of a collector of rejects."""

    @property
    def shared(self) -> bool:
        """True if letters are given up with what the sink's writer has got since the last commit."""

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Take a reject; raises IngestError."""

    def commit(self) -> None:
        """Make durable what was taken; raises IngestError."""


class DeadLetterTopic:
    """A task's way to the topic of dead letters."""

    def __init__(self, topic: str, pipeline: str, writer: KafkaWriter, *, shared: bool) -> None:
        """`shared`: the writer is the sink's, whose commit is the letters' as well."""
        self._pipeline = pipeline
        self._topic = topic
        self._writer = writer
        self.shared = shared
        """True if letters are given up with what the sink's writer has got since the last commit."""
        self._bytes = 0
        if not shared:
            writer.apart(on=True)

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
