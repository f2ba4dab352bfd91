"""The one place where native encoders are called, for records as they come.

In: messages of one topic. Out: an `EncodedPart`, as far as there is no doubt about a message; the rest is for the
reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ingest.model.change import TOMBSTONE
from ingest.task.encoded import EncodedPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.task.reading import ReadChunk
    from ingest.task.worker import RecordEncoders
    from ingest.transform.rows import NativeRows


class NativeStage(Protocol):
    """Native encoders of one task."""

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on, up to the first one that is left to the reference."""


class NativeToRecords:
    """Native encoders whose records are for the sink."""

    def __init__(self, encoders: RecordEncoders) -> None:
        """`encoders`: those of this run, with native ones among them."""
        self._encoders = encoders

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on: at most as many as a batch has room for."""
        assert self._encoders.native is not None
        encoder = self._encoders.native.of(chunk.topic)
        batch, stop = encoder.encode(chunk.messages, start)
        return _part(chunk, start, stop, batch, encoder.tombstones(), full=batch.full)


class NativeToRows:
    """Native encoders whose records are rows for expressions."""

    def __init__(self, encoders: RecordEncoders, rows: NativeRows) -> None:
        """`rows`: where the rows are collected until their chunk is complete."""
        self._encoders = encoders
        self._rows = rows

    def encode(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on; their rows are in `rows`, not in the part."""
        assert self._encoders.native is not None
        encoder = self._encoders.native.of(chunk.topic)
        stop = encoder.feed(chunk.messages, start, self._rows.native)
        return _part(chunk, start, stop, (), encoder.tombstones(), full=False)


def _part(
    chunk: ReadChunk, start: int, stop: int, records: Sequence[Written], tombstones: int, *, full: bool
) -> EncodedPart:
    skipped = {TOMBSTONE.reason: tombstones} if tombstones else {}
    return EncodedPart(chunk.messages, start, stop, chunk.position(stop), records, skipped=skipped, full=full)
