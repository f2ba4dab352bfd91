"""The first stage of a task whose rows go through Spark SQL: reads, decodes and checks, as any task does.

What it would write goes two ways: the columns that expressions need to Spark, row by row, and all else to the second
stage directly: rows' own bytes, ready-made records of tables whose rows no transform changes, positions, rejects.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ingest.model.change import TOMBSTONE, Skip
from ingest.task.output import offset_of
from ingest.task.task import Shard, attempt, outcome_of
from ingest.transform.handover import Ended, Left, Rejected, rejected
from ingest.transform.rows import BATCH_ROWS, MARK, READY, RowsInC, layout, rows_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.encode import Encoded
    from ingest.encode.plan import Plan
    from ingest.encode.transform import Programs
    from ingest.kafka.admin import Split
    from ingest.model.change import Bad, Change, Decoded, Kind
    from ingest.model.record import Record
    from ingest.model.table import TableId
    from ingest.native.native_encoder import NativeEncoder
    from ingest.sinks import Writer
    from ingest.sources import Chunk
    from ingest.task.assignment import Outcome, Task
    from ingest.transform.handover import Handover

_FED: Final = 4
"""Parts of a row that goes to an expression; a record that is ready has three."""
WAITING: Final = 16 << 20
"""So many bytes may wait for rows that Spark has not handed on."""


class _Nowhere:
    """In the place of a writer: the first stage has none."""

    failures = 0

    def abort(self) -> None:
        return


class Pace:
    """Sees to it that rows do not wait for long where few of them go to expressions: Spark hands on whole batches."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._sent = 0
        """Rows since Spark last handed some on."""
        self._waiting = 0
        """Bytes that wait for them on this side."""

    def marks(self, sent: int, waiting: int) -> int:
        """How many rows say that a chunk ends: one, or as many as a batch of Spark's lacks when too much waits.

        `sent`: rows of the chunk that go; `waiting`: bytes of all its rows.
        """
        self._sent += sent
        self._waiting = waiting if self._sent >= BATCH_ROWS else self._waiting + waiting
        self._sent %= BATCH_ROWS
        marks = 1
        if self._waiting > WAITING:
            marks, self._waiting = BATCH_ROWS - self._sent, 0
        self._sent = (self._sent + marks) % BATCH_ROWS
        return marks


class Feed(Shard):
    """Reads a shard, and yields what goes to expressions."""

    marked = True

    def __init__(self, task: Task, programs: Programs, handover: Handover, outcome: Outcome, deadline: float) -> None:
        """Make plans with the programs in them."""
        super().__init__(task, outcome, deadline)
        self.state.feed(programs, images=self.setup.sink.changelog)
        self._programs = programs
        self._handover = handover
        self._rows = rows_of(layout(programs))
        self._told = 0
        """So many heads were told to the second stage."""
        self._rejects: list[Rejected] = []
        self._skipped: list[tuple[int, str]] = []
        self._offsets: list[range] = []
        self._split: Split | None = None
        self._pace = Pace()

    def open(self) -> tuple[Writer, DeadLetters | None]:
        """Nothing is written here."""
        return _Nowhere(), None  # type: ignore[return-value]

    def resume(self) -> bool:
        """The second stage knows how far an earlier attempt came, and leaves out what that wrote."""
        return False

    def commit(self, *, final: bool = False) -> None:  # noqa: ARG002
        """Say how far this stage is."""
        if self.changelog is not None:
            self.changelog.commit(dict(self.written))

    def count(self, plan: Plan) -> None:
        """What is inserted, updated and deleted is counted where it is written."""
        plan.inserted = plan.updated = plan.deleted = 0
        super().count(plan)

    def batches(self) -> Generator[pa.RecordBatch]:
        """All rows."""
        for _ in self.steps():
            yield from self._chunk()
        yield from self._chunk()

    def take(self, chunk: Chunk) -> None:
        """The way of a chunk; even where nothing of it is a row, its end is told."""
        self._split = chunk.split
        super().take(chunk)

    def leave_out(self, messages: Sequence[Record], at: int, count: int) -> None:  # noqa: ARG002
        """Tell it with the chunk, which may be written in part only."""
        assert self.wanted is not None
        offsets = [offset_of(m) for m in messages if offset_of(m) < at and not self.wanted(m.headers())]
        self._skipped += [(offset, self.setup.source.left_out) for offset in offsets]
        self._offsets += [range(offset, offset + 1) for offset in offsets]

    def tombstones(self, messages: Sequence[Record], start: int, stop: int, count: int) -> None:  # noqa: ARG002
        """As above."""
        self._skipped += [(offset_of(m), TOMBSTONE.reason) for m in messages[start:stop] if m.value() is None]

    def take_fast(self, split: Split, lane: NativeEncoder, messages: Sequence[Record], start: int) -> int:  # noqa: ARG002
        """The common case, in C; where it ends."""
        assert isinstance(self._rows, RowsInC)
        stop = self._rows.feed(lane, messages, start)
        self._were_read(messages, start, stop)
        return stop

    def _were_read(self, messages: Sequence[Record], start: int, stop: int) -> None:
        """Keep the offsets of messages[start:stop]."""
        if start == stop:
            return
        first, last = offset_of(messages[start]), offset_of(messages[stop - 1])
        if last - first == stop - 1 - start:
            self._offsets.append(range(first, last + 1))
        else:
            offsets = [offset_of(message) for message in messages[start:stop]]
            self._offsets += [range(offset, offset + 1) for offset in offsets]

    def put(self, split: Split, messages: Sequence[Record], changes: Sequence[Decoded], encoded: Encoded) -> None:
        """Keep the rows of records until their chunk is complete."""
        assert encoded.marks is not None
        marks = [*encoded.marks[: encoded.stop], len(encoded.records)]
        self._were_read(messages, 0, encoded.stop)
        for i in range(encoded.stop):
            start, end = marks[i], marks[i + 1]
            if end == start:
                continue
            at = offset_of(messages[i])
            change = changes[i]
            last = end - 1
            for j in range(start, end):
                record: Any = encoded.records[j]
                if len(record) == _FED:
                    program, what, text, values = record
                    self._rows.add((program, -1, at, what, text, None), values)
                else:
                    to, key, value = record
                    done = self._done(change) if j == last else ()
                    head = self.state.heads.place(to, done)
                    self._rows.add((READY, head, at, 0, None if value is None else bytes(value), key), ())
        for index, stage, bad in encoded.rejects:
            self.reject(split, messages[index], stage, bad, passed=index < encoded.stop)
        if encoded.skipped:
            self._skipped += [
                (offset_of(messages[i]), change.reason)
                for i, change in enumerate(changes[: encoded.stop])
                if type(change) is Skip
            ]
        self.outcome.read += encoded.stop

    def _done(self, change: Any) -> tuple[tuple[TableId, Kind], ...]:  # noqa: ANN401  (a change, or a list of them)
        changes: list[Change] = change if type(change) is list else [change]
        return tuple((c[0], c[1]) for c in changes if c[0] not in self._programs.of)

    def reject(self, split: Split, message: Record, stage: str, bad: Bad, *, passed: bool = True) -> None:  # noqa: ARG002
        """Keep it for the second stage, which decides whether it is one too many."""
        self.outcome.rejected += not (stage == "decode" and self.ignore_decode)
        self._rejects.append(rejected(message, stage, bad))

    def _chunk(self) -> Iterator[pa.RecordBatch]:
        """What of a chunk goes to expressions; the rest is left to the second stage."""
        split = self._split
        if split is None:
            return
        known = self._told
        heads = self.state.heads.known[known:]
        self._told += len(heads)
        if self.state.heads.full:
            self.state.renew_heads()
            self._told = 0
        ended = Ended(
            split, self.written[split], self.outcome.read, self._offsets, known, heads, self._rejects, self._skipped
        )  # fmt: skip
        sent, waiting = self._rows.size()
        marks = self._pace.marks(sent, waiting)
        self._rows.mark(MARK, marks)
        rows, batch = self._rows.take()
        self._handover.leave(Left(ended, rows, sent, marks))
        yield batch
        self._rejects, self._skipped, self._offsets = [], [], []
        self._split = None
        self.outcome.read = 0


def feed(task: Task, programs: Programs, handover: Handover) -> Generator[pa.RecordBatch]:
    """The first stage of a task; what fails is told to the second one."""
    outcome = outcome_of(task)
    cpu = time.process_time()
    with attempt(outcome):
        stage = Feed(task, programs, handover, outcome, time.monotonic() + task.seconds)
        yield from stage.batches()
        outcome.positions = dict(stage.written)
    outcome.cpu_s = time.process_time() - cpu
    rows = rows_of(layout(programs))
    rows.mark(MARK)
    stayed, batch = rows.take()
    handover.leave(Left(outcome, stayed, 0, 1))
    yield batch
