"""Spilling: the last stage of a task's first half, if its rows go through Spark SQL.

Encoded parts go two ways: the columns that expressions need to Spark, row by row, and all else to the second half
directly (`spill.py`): rows' own bytes, ready-made records of tables whose rows no transform changes, rejects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingest.encode.upsert_encoder import Record as Written
from ingest.model.change import Skip
from ingest.model.record import offset_of
from ingest.task.spill import ChunkManifest, Spilled, rejected
from ingest.transform.rows import BATCH_ROWS, MARK, READY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.change import Change, Kind
    from ingest.model.record import Record, Split
    from ingest.model.table import TableId
    from ingest.task.encoded import EncodedPart
    from ingest.task.reading import ReadChunk
    from ingest.task.rejects import RejectLimit
    from ingest.task.result import TaskResult
    from ingest.task.spill import SpillStore
    from ingest.task.worker import RecordEncoders
    from ingest.transform.rows import Rows

WAITING: Final = 16 << 20
"""So many bytes may wait for rows that Spark has not handed on."""


class FlushPadding:
    """Rows that say nothing, for chunks of which few rows go to expressions: Spark only hands on whole batches."""

    def __init__(self) -> None:
        """Begin with nothing that waits."""
        self._sent = 0
        """Rows since Spark last handed some on."""
        self._waiting = 0
        """Bytes that wait for them on this side."""

    def after(self, sent: int, waiting: int) -> int:
        """Return how many rows end a chunk: one, or as many as a batch of Spark's lacks if too much waits.

        `sent`: rows of the chunk that go; `waiting`: bytes of all its rows.
        """
        self._sent += sent
        self._waiting = waiting if self._sent >= BATCH_ROWS else self._waiting + waiting
        self._sent %= BATCH_ROWS
        padding = 1
        if self._waiting > WAITING:
            padding, self._waiting = BATCH_ROWS - self._sent, 0
        self._sent = (self._sent + padding) % BATCH_ROWS
        return padding


class SpillStage:
    """The way of encoded parts to expressions and to the second stage, chunk by chunk."""

    def __init__(
        self,
        transforms: CompiledTransforms,
        rows: Rows,
        store: SpillStore,
        encoders: RecordEncoders,
        limit: RejectLimit,
        left_out: str,
        positions: dict[Split, int],
        result: TaskResult,
    ) -> None:
        """`rows`: where rows are collected, also by native encoders; `left_out`, `positions`: see `WriteStage`."""
        self._transforms = transforms
        self._rows = rows
        self._store = store
        self._encoders = encoders
        self._limit = limit
        self._left_out = left_out
        self._positions = positions
        self._result = result
        self._padding = FlushPadding()
        self._told = 0
        """The number of targets that the second stage knows."""

    def begin(self, split: Split, *, more: bool = False, place: Any = None) -> ChunkManifest:  # noqa: ANN401
        """Return the manifest of the next chunk, for the other methods to fill in; `more`, `place`: see there."""
        return ChunkManifest(split, self._positions[split], [], self._told, [], [], [], more, place)

    def add(self, manifest: ChunkManifest, part: EncodedPart) -> None:
        """Add a part of the chunk."""
        messages, start, stop = part.messages, part.start, part.stop
        _add_offsets(manifest.offsets, messages, start, stop)
        if part.records:
            self._add_rows(part)
        for reject in part.rejects:
            manifest.rejects.append(rejected(reject.record, reject.stage, reject.reason))
            if reject.passed:
                self._result.counters.rejected += self._limit.counts(reject.stage, reject.reason)
            else:
                self._result.progress.stopped_by_reject = True
        if part.skipped and part.changes:
            manifest.skipped += [
                (offset_of(messages[start + i]), change.reason)
                for i, change in enumerate(part.changes[: stop - start])
                if type(change) is Skip
            ]
        manifest.skipped += [(offset_of(messages[at]), reason) for at, reason in part.skips]
        self._positions[manifest.split] = part.position

    def leave_out(self, manifest: ChunkManifest, chunk: ReadChunk) -> None:
        """Add the records of the chunk that are not wanted, as far as its split was read."""
        for message in chunk.left_out_before(self._positions[chunk.split]):
            offset = offset_of(message)
            manifest.skipped.append((offset, self._left_out))
            manifest.offsets.append(range(offset, offset + 1))

    def flush(self, manifest: ChunkManifest) -> pa.RecordBatch:
        """Leave a chunk that is complete to the second stage; returns its rows for expressions. Raises Unavailable."""
        targets = self._encoders.targets
        manifest.end = self._positions[manifest.split]
        manifest.targets = targets.known[self._told :]
        self._told += len(manifest.targets)
        if targets.full:
            self._encoders.renew_targets()
            self._told = 0
        sent, waiting = self._rows.size()
        padding = self._padding.after(sent, waiting)
        self._rows.mark(MARK, padding)
        retained, batch = self._rows.take()
        self._store.put(Spilled(manifest, retained, sent, padding))
        return batch

    def _add_rows(self, part: EncodedPart) -> None:
        """Add the rows and ready-made records that the reference has made."""
        count = part.stop - part.start
        marks = [*part.marks[:count], len(part.records)]
        for i in range(count):
            first, end = marks[i], marks[i + 1]
            if end == first:
                continue
            at = offset_of(part.messages[part.start + i])
            for j in range(first, end):
                record: Any = part.records[j]
                if not isinstance(record, Written):
                    transform, event, text, values = record
                    self._rows.add((transform, -1, at, event, text, None), values)
                else:
                    to, key, value = record
                    done = self._done(part.changes[i]) if j == end - 1 else ()
                    target = self._encoders.targets.place(to, done)
                    self._rows.add((READY, target, at, 0, None if value is None else bytes(value), key), ())

    def _done(self, change: Any) -> tuple[tuple[TableId, Kind], ...]:  # noqa: ANN401  (a change, or a list of them)
        changes: list[Change] = change if type(change) is list else [change]
        return tuple((c.table, c.kind) for c in changes if c.table not in self._transforms.of)


def _add_offsets(offsets: list[range], messages: Sequence[Record], start: int, stop: int) -> None:
    """Add the offsets of `messages[start:stop]`."""
    if start == stop:
        return
    first, last = offset_of(messages[start]), offset_of(messages[stop - 1])
    if last - first == stop - 1 - start:
        offsets.append(range(first, last + 1))
    else:
        offsets += [range(at, at + 1) for at in map(offset_of, messages[start:stop])]
