"""The end of a task's first half: rows' inputs go to Spark SQL, and all else to the second half by files on the disk.

Spark gets of a row what expressions need. All else (its text, records that are ready, what a chunk was) would only
travel to Java and back, and both stages of a task run on one machine: so it waits there, in files of some chunks each,
in a folder of the attempt's own in Spark's scratch directory. A chunk is complete in its file before its rows go. It is
read when the first of them comes back, and its file is removed with the last chunk in it. As many rows come back as
went, in their order.
"""

from __future__ import annotations

import os
import pickle
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext

from ingest.encode.upsert_encoder import Record as Written
from ingest.errors import AccessError, Unavailable, is_denied
from ingest.model.change import Change, Decoded, Kind, Reject, Skip
from ingest.model.record import Headers, Record, Split, kept_of, offset_of, origin
from ingest.model.text import reason_of
from ingest.task.encoding import EncodedPart, native_encoders, native_part
from ingest.transform.rows import BATCH_ROWS, MARK, READY, NativeRows, RetainedColumns, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import FileIO

    import pyarrow as pa

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.table import TableId
    from ingest.native.native import Target
    from ingest.task.read_half import ReadChunk
    from ingest.task.rejects import RejectLimit
    from ingest.task.task import TaskResult
    from ingest.task.worker import RecordEncoders


@dataclass(slots=True)
class SpilledReject:
    """A copy of a record that was rejected before its row came to an expression, and why."""

    stage: str
    reason: Reject
    at: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    sent: Headers | None
    time: tuple[int, int]
    place: tuple[str | None, int | None]
    origin: SpilledReject
    """The record at its original position, as the record itself says it; only its place is of interest."""
    missing: str = ""
    """What of the record a dead letter does not have."""

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.value_bytes

    def topic(self) -> str | None:
        """Return the topic."""
        return self.place[0]

    def partition(self) -> int | None:
        """Return the partition."""
        return self.place[1]

    def offset(self) -> int | None:
        """Return the offset."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp's kind, and milliseconds."""
        return self.time

    def headers(self) -> Headers | None:
        """Return the headers."""
        return self.sent

    def leader_epoch(self) -> int | None:
        """Return None: it is not kept."""
        return None


def rejected(message: Record, stage: str, reason: Reject) -> SpilledReject:
    """Return a copy of a rejected record, for the second stage."""
    message = kept_of(message)
    kept = SpilledReject(
        stage,
        reason,
        offset_of(message),
        message.key(),
        message.value(),
        message.headers(),
        message.timestamp(),
        (message.topic(), message.partition()),
        None,  # type: ignore[arg-type]  # it is set below
        getattr(message, "missing", ""),
    )
    first = origin(message)
    kept.origin = kept if first is message else rejected(first, stage, reason)
    return kept


@dataclass(slots=True)
class ChunkManifest:
    """What the second stage needs to know of a chunk beside its rows: offsets, targets, rejects, skipped records."""

    split: Split
    end: int
    """The position of the split after it."""
    offsets: list[range]
    """The offsets of its records that were read."""
    known: int
    """The number of targets of earlier chunks that still count: all of them, or none, as their numbers start over."""
    targets: list[Target]
    """Destinations of ready-made records, each with the changes that are done then: those that are new here."""
    rejects: list[SpilledReject]
    skipped: list[tuple[int, str]]
    """Offsets of records that stand for no row, each with the reason."""
    more: bool = False
    """True if more records of the position `end` follow: the split stays at it until all are there."""
    place: Any = None
    """What the source says of the place of its records, beside their offsets."""

    @property
    def within(self) -> bool:
        """True if its last record has one position with others, and not all of them were read."""
        return bool(self.offsets) and self.offsets[-1].stop > self.end


@dataclass(slots=True)
class Spilled:
    """The content of one file: a chunk; or the end, with the result of the first stage."""

    content: ChunkManifest | TaskResult
    """The result comes last."""
    rows: RetainedColumns
    """The columns of the chunk's rows that Spark does not get."""
    sent: int
    """The number of its rows that went to expressions."""
    padding: int
    """The number of rows after them that only say that it ends."""


FILE_BYTES: Final = 4 << 20
"""The size at which a file has its last chunk. To make a file and to remove it costs more than to write a chunk."""


class SpillStore:
    """The files of one attempt at a task. Each stage counts them by itself: one writes them, the other one reads."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, if the other stage has not."""
        self._folder = folder
        self._number = 1
        self._file: FileIO | None = None
        """The file with this number, once there is something to do with it."""
        folder.mkdir(mode=0o700, exist_ok=True)

    def put(self, spilled: Spilled) -> None:
        """Write the next chunk, as a whole; raises Unavailable if the disk does not take it."""
        left = memoryview(pickle.dumps(spilled, protocol=5))
        try:
            file = self._file = self._file or self._path.open("wb", buffering=0)
            begin = file.tell()
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:  # the result that says so comes where the chunk began
                with suppress(OSError):
                    file.truncate(begin)
                    file.seek(begin)
                raise
            if file.tell() >= FILE_BYTES:
                self._end_file()
        except OSError as exc:
            msg = f"rows on their way to transforms cannot wait in {self._folder}: {reason_of(exc)}"
            if is_denied(exc):
                raise AccessError(msg, "let spark.local.dir of --conf be a folder that can be written to") from exc
            raise Unavailable(msg, "make room there, or let spark.local.dir of --conf be elsewhere") from exc

    def take(self) -> Spilled:
        """Return the next chunk. Remove its file after the last chunk in it."""
        # Without a buffer, which could hold the begin of a chunk that the disk does not take
        file = self._file = self._file or self._path.open("rb", buffering=0)
        spilled: Spilled = pickle.load(file)  # noqa: S301  (made by the first stage)
        if file.tell() >= FILE_BYTES:
            self._path.unlink()
            self._end_file()
        return spilled

    def clear(self) -> None:
        """Remove all files, as the second stage has ended and reads nothing more that the first one writes."""
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)

    def let_go(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Remove the folder with all files."""
        self.let_go()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _path(self) -> Path:
        return self._folder / str(self._number)

    def _end_file(self) -> None:
        """Continue with the next file. Both stages do so after the same chunk."""
        self.let_go()
        self._number += 1


def store_of_attempt() -> SpillStore:
    """Return the store of the task attempt that this worker runs a stage of."""
    context = TaskContext.get()
    assert context is not None
    # It is the executor's own, and gone with it
    scratch = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    return SpillStore(Path(scratch) / f"ingest-{context.taskAttemptId()}")


WAITING: Final = 16 << 20
"""So many bytes may wait for rows that Spark has not handed on."""


class FlushPadding:
    """Rows that say nothing, for chunks of which few rows go to expressions: Spark only hands on whole batches."""

    def __init__(self) -> None:
        self._sent = 0
        """Rows since Spark last handed some on."""
        self._waiting = 0
        """Bytes that wait for them on this side."""

    def after(self, sent: int, waiting: int) -> int:
        """Return how many padding rows end a chunk: one, or as many as complete Spark's batch if too many bytes wait.

        `sent`: rows of the chunk that go to expressions; `waiting`: bytes of all its rows.
        """
        self._sent += sent
        self._waiting = waiting if self._sent >= BATCH_ROWS else self._waiting + waiting
        self._sent %= BATCH_ROWS
        padding = 1
        if self._waiting > WAITING:
            padding, self._waiting = BATCH_ROWS - self._sent, 0
        self._sent = (self._sent + padding) % BATCH_ROWS
        return padding


class NativeToRows:
    """Native encoders whose records are rows for expressions."""

    def __init__(self, encoders: RecordEncoders, rows: NativeRows) -> None:
        """`rows`: where the rows are collected until their chunk is complete."""
        self._encoders = encoders
        self._rows = rows

    @property
    def decodes(self) -> bool:
        """True if messages of this run are decoded natively, too."""
        return native_encoders(self._encoders).decodes

    def encode_messages(self, chunk: ReadChunk, start: int) -> EncodedPart:
        """Encode the messages from `start` on. Their rows are added to `rows`; the part has the rest of the outcome."""
        encoder = native_encoders(self._encoders).of(chunk.topic)
        stop = encoder.feed(chunk.messages, start, self._rows.native)
        return native_part(chunk, start, stop, (), encoder.skipped(), full=False)

    def encode_changes(self, chunk: ReadChunk, first: int, changes: list[Decoded], at: int) -> EncodedPart:
        """Encode the changes from `at` on. Their rows are added to `rows`; the part has the rest of the outcome."""
        encoder = native_encoders(self._encoders).of_changes()
        stop = encoder.feed(changes, at, chunk.messages, first, self._rows.native)
        part = native_part(chunk, first + at, first + stop, (), [], full=False)
        part.skipped, part.changes = encoder.skipped(), changes[at:stop]
        return part


class SpillStage:
    """Collects encoded parts chunk by chunk: columns that expressions need go to Spark, all else is spilled."""

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
        """`rows`: where rows are collected, also by native encoders; `left_out`, `positions`: see `WriteHalf`."""
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

    def begin(self, split: Split, *, more: bool = False, place: Any = None) -> ChunkManifest:
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
        """Note as skipped the records that the header filter leaves out, as far as the split was read."""
        for message in chunk.left_out_before(self._positions[chunk.split]):
            offset = offset_of(message)
            manifest.skipped.append((offset, self._left_out))
            manifest.offsets.append(range(offset, offset + 1))

    def flush(self, manifest: ChunkManifest) -> pa.RecordBatch:
        """Spill a complete chunk for the second stage. Return its rows for expressions. Raises Unavailable."""
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
        """Add the rows and ready-made records that the reference has encoded."""
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

    def _done(self, change: Any) -> tuple[tuple[TableId, Kind], ...]:
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
