"""Dead letters: rejected records as they were, in a topic of their own, with headers that say where from and why.

What is added counts as written when `commit` has returned, which is before the progress of its record is stored.
Rules: docs/spec/dirty-data.md#dead-letters.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from ingest.model.record import origin
from ingest.model.table import show

if TYPE_CHECKING:
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.change import Reject
    from ingest.model.record import Headers, Record

PREFIX: Final = "__ingest.errors."
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
    own = [(name, value) for name, value in record.headers() or [] if not name.startswith(PREFIX)]
    ours: Headers = [(PREFIX + name, text.encode("utf-8", "backslashreplace")) for name, text in found.items()]
    return own + ours


class DeadLetters(Protocol):
    """A task's side of a collector of rejects."""

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
        self._shared = shared

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Queue a letter; raises IngestError."""
        kind, millis = record.timestamp()
        headers = headers_of(record, stage, reject, self._pipeline)
        self._writer.send(self._topic, record.key(), record.value(), headers, millis if kind else None)

    def commit(self) -> None:
        """Wait until all letters are acknowledged; raises IngestError."""
        if not self._shared:
            self._writer.flush()
