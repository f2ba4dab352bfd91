"""The one place where native encoders are called, for records as they come.

In: messages of one topic. Out: an `EncodedPart`, as far as there is no doubt about a message; the rest is for the
reference. Native code still puts records into the writer by itself, where that has a native side: then the part has no
records, as they are written already, and the writer is only asked whether it could write them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ingest.model.change import TOMBSTONE
from ingest.task.encoded import EncodedPart

if TYPE_CHECKING:
    from ingest.encode.plan import Record as Written
    from ingest.sinks import Writer
    from ingest.task.reading import ReadChunk
    from ingest.task.worker import RecordEncoders
    from ingest.transform.rows import NativeRows


class NativeStage(Protocol):
    """Native encoders of one task."""

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on, up to the first one that is left to the reference."""


class NativeToWriter:
    """Native encoders whose records are for the sink."""

    def __init__(self, encoders: RecordEncoders, writer: Writer) -> None:
        """`writer`: the sink's, which native code may write to by itself."""
        self._encoders = encoders
        self._writer = writer

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on. Raises IngestError for what a writer raises."""
        assert self._encoders.native is not None
        lane = self._encoders.native.of(chunk.topic)
        records: list[Written] = []
        direct = self._writer.direct
        stop = lane.take(chunk.messages, start, records if direct is None else direct)
        return _part(chunk, start, stop, records, lane.tombstones())


class NativeToRows:
    """Native encoders whose records are rows for expressions."""

    def __init__(self, encoders: RecordEncoders, rows: NativeRows) -> None:
        """`rows`: where the rows are collected until their chunk is complete."""
        self._encoders = encoders
        self._rows = rows

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on; their rows are in `rows`, not in the part."""
        assert self._encoders.native is not None
        lane = self._encoders.native.of(chunk.topic)
        stop = lane.feed(chunk.messages, start, self._rows.native)
        return _part(chunk, start, stop, [], lane.tombstones())


def _part(chunk: ReadChunk, start: int, stop: int, records: list[Written], tombstones: int) -> EncodedPart:
    return EncodedPart(
        chunk.messages, start, stop, chunk.position(stop), records,
        skipped={TOMBSTONE.reason: tombstones} if tombstones else {},
    )  # fmt: skip
