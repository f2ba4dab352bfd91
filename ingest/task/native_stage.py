"""The one place where native encoders are called, for records as they come and for changes that the reference decoded.

In: messages of one topic, or their changes. Out: an `EncodedPart`, as far as there is no doubt about a message; the
rest is for the reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ingest.task.encoded import EncodedPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.change import Decoded
    from ingest.native.native import NativeEncoders
    from ingest.task.reading import ReadChunk
    from ingest.task.worker import RecordEncoders
    from ingest.transform.rows import NativeRows


class NativeStage(Protocol):
    """Native encoders of one task."""

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too; False if the reference decodes all of them."""

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Decode and encode the messages from `start` on, up to the first one that is left to the reference."""

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Encode the changes from `at` on, up to the first one that is left to the reference.

        `changes[i]` is of `chunk.messages[first + i]`.
        """


class NativeToRecords:
    """Native encoders whose records are for the sink."""

    def __init__(self, encoders: RecordEncoders) -> None:
        """`encoders`: those of this run, with native ones among them."""
        self._encoders = encoders

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too."""
        return _native(self._encoders).decodes

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on: at most as many as a batch has room for."""
        encoder = _native(self._encoders).of(chunk.topic)
        batch, stop = encoder.encode(chunk.messages, start)
        return _part(chunk, start, stop, batch, encoder.skipped(), full=batch.full)

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Return what became of the changes from `at` on: at most as many as a batch has room for."""
        encoder = _native(self._encoders).of_changes()
        batch, stop = encoder.encode(changes, at)
        made = _part(chunk, first + at, first + stop, batch, [], full=batch.full)
        made.skipped, made.changes = encoder.skipped(), changes[at:stop]
        return made


class NativeToRows:
    """Native encoders whose records are rows for expressions."""

    def __init__(self, encoders: RecordEncoders, rows: NativeRows) -> None:
        """`rows`: where the rows are collected until their chunk is complete."""
        self._encoders = encoders
        self._rows = rows

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too."""
        return _native(self._encoders).decodes

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Return what became of the messages from `start` on; their rows are in `rows`, not in the part."""
        encoder = _native(self._encoders).of(chunk.topic)
        stop = encoder.feed(chunk.messages, start, self._rows.native)
        return _part(chunk, start, stop, (), encoder.skipped(), full=False)

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Return what became of the changes from `at` on; their rows are in `rows`, not in the part."""
        encoder = _native(self._encoders).of_changes()
        stop = encoder.feed(changes, at, chunk.messages, first, self._rows.native)
        made = _part(chunk, first + at, first + stop, (), [], full=False)
        made.skipped, made.changes = encoder.skipped(), changes[at:stop]
        return made


def _native(encoders: RecordEncoders) -> NativeEncoders:
    assert encoders.native is not None
    return encoders.native


def _part(
    chunk: ReadChunk, start: int, stop: int, records: Sequence[Written], skips: list[tuple[int, str]], *, full: bool
) -> EncodedPart:
    skipped: dict[str, int] = {}
    for _, reason in skips:
        skipped[reason] = skipped.get(reason, 0) + 1
    return EncodedPart(
        chunk.messages, start, stop, chunk.position(stop), records, skipped=skipped, skips=skips, full=full
    )
