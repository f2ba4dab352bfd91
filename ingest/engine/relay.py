"""A task in two stages, with Spark SQL between them.

The first stage reads, decodes and checks, as any task does; what it would write travels on as rows: ready-made records
of tables whose rows no transform changes, and for the others the columns that their expressions need, beside the row's
own bytes. The second stage puts the results into the rows and writes. It owns the transaction: positions, rejects and
what was observed come to it as rows of their own, which no expression sees. No row changes its order.
"""

from __future__ import annotations

import pickle
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ingest.engine import worker
from ingest.engine.output import FILTERED, Output, offset_of
from ingest.engine.rows import RowsInC, layout, rows_of
from ingest.engine.tally import Counts
from ingest.engine.task import COMMIT_S, Shard, attempt, outcome_of
from ingest.errors import InternalError
from ingest.flow import native
from ingest.flow.conform import Drift, KeyChanged
from ingest.flow.encode import stage_of
from ingest.flow.transform import BEFORE, DELETE, INSERT, MARKS, PARTIAL, UPDATE, UPDATE_ALONE, Composer
from ingest.model.event import TOMBSTONE, Bad, Kind, Skip
from ingest.model.record import origin
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import msgspec
    import pyarrow as pa

    from ingest.engine.assignment import Outcome, Task
    from ingest.flow._native import Lane, Table
    from ingest.flow.encode import Encoded
    from ingest.flow.native import Head
    from ingest.flow.plan import Plan
    from ingest.flow.transform import Programs
    from ingest.kafka.admin import Split
    from ingest.kafka.letters import DeadLetters
    from ingest.model.event import Change, Decoded
    from ingest.model.record import Headers, Record
    from ingest.model.table import TableId
    from ingest.sinks import Writer
    from ingest.sources import Chunk

    Pending = tuple[bool | None, msgspec.Raw | None]
    """Whether the row before an update passes the filter (None: that is not known), and what it is."""

MARK: Final = -2
"""In the place of a program's number: a chunk ends here."""
END: Final = -3
"""Everything ends here."""
READY: Final = -1
"""A record that is ready to be written."""
_FED: Final = 4
"""Parts of a row that goes to an expression; a record that is ready has three."""
_NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Reject:
    """A record that was rejected before its row came to an expression, as it was."""

    stage: str
    bad: Bad
    at: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    sent: Headers | None
    time: tuple[int, int]
    place: tuple[str | None, int | None]
    origin: _Reject
    """Where it was first, as the record itself says; only its place is of interest."""

    def key(self) -> bytes | None:
        return self.key_bytes

    def value(self) -> bytes | None:
        return self.value_bytes

    def topic(self) -> str | None:
        return self.place[0]

    def partition(self) -> int | None:
        return self.place[1]

    def offset(self) -> int | None:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return self.time

    def headers(self) -> Headers | None:
        return self.sent

    def leader_epoch(self) -> int | None:
        return None


def _kept(message: Record, stage: str, bad: Bad) -> _Reject:
    """A rejected record on its way to the second stage."""
    kept = _Reject(
        stage, bad, offset_of(message), message.key(), message.value(), message.headers(), message.timestamp(),
        (message.topic(), message.partition()), None,  # type: ignore[arg-type]  # it is set below
    )  # fmt: skip
    first = origin(message)
    kept.origin = kept if first is message else _kept(first, stage, bad)
    return kept


@dataclass(slots=True)
class _Mark:
    """What a chunk was, beside its rows."""

    split: Split
    end: int
    """Where the split stands after it."""
    offsets: bytes
    """Of all its records that were read."""
    heads: list[Head]
    """Where ready-made records go, each with the changes that are done then: those that are new since the last mark."""
    rejects: list[_Reject]
    skipped: list[tuple[int, str]]
    """Offsets of records that are no rows, each with the reason."""


# -- the first stage -------------------------------------------------------------------------------------------------


class _Nowhere:
    """In the place of a writer: the first stage has none."""

    failures = 0

    def abort(self) -> None:
        return


class Feed(Shard):
    """Reads a shard, and yields rows."""

    marked = True

    def __init__(self, task: Task, programs: Programs, outcome: Outcome, deadline: float) -> None:
        """Make plans with the programs in them."""
        super().__init__(task, outcome, deadline)
        self.state.feed(programs, images=self.setup.sink.changelog)
        self._programs = programs
        self._rows = rows_of(layout(programs))
        self._told = 0
        """So many heads were told to the second stage."""
        self._rejects: list[_Reject] = []
        self._skipped: list[tuple[int, str]] = []
        self._offsets = array("q")
        self._split: Split | None = None

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

    def last(self) -> pa.RecordBatch:
        """What this stage says in the end."""
        self.outcome.positions = dict(self.written)
        self._rows.add((END, 0, 0, 0, pickle.dumps(self.outcome), None), ())
        return self._rows.batch()

    def take(self, chunk: Chunk) -> None:
        """The way of a chunk; even where nothing of it is a row, its end is told."""
        self._split = chunk.split
        super().take(chunk)

    def leave_out(self, messages: list[Record], at: int, count: int) -> None:  # noqa: ARG002
        """Tell it with the chunk, which may be written in part only."""
        assert self.wanted is not None
        offsets = [offset_of(m) for m in messages if offset_of(m) < at and not self.wanted(m.headers())]
        self._skipped += [(offset, self.setup.source.left_out) for offset in offsets]
        self._offsets.extend(offsets)

    def tombstones(self, messages: list[Record], start: int, stop: int, count: int) -> None:  # noqa: ARG002
        """As above."""
        self._skipped += [(offset_of(m), TOMBSTONE.reason) for m in messages[start:stop] if m.value() is None]

    def take_fast(self, split: Split, lane: Lane, messages: list[Record], start: int) -> int:  # noqa: ARG002
        """The common case, in C; where it ends."""
        assert isinstance(self._rows, RowsInC)
        stop = self._rows.feed(lane, messages, start)
        self._offsets.extend([offset_of(message) for message in messages[start:stop]])
        return stop

    def put(self, split: Split, messages: Sequence[Record], changes: Sequence[Decoded], encoded: Encoded) -> None:
        """Keep the rows of records until their chunk is complete."""
        assert encoded.marks is not None
        marks = [*encoded.marks[: encoded.stop], len(encoded.records)]
        for i in range(encoded.stop):
            start, end = marks[i], marks[i + 1]
            at = offset_of(messages[i])
            self._offsets.append(at)
            if end == start:
                continue
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
        self._rejects.append(_kept(message, stage, bad))

    def _chunk(self) -> Iterator[pa.RecordBatch]:
        """The rows of a chunk, and what else there is to say of it."""
        read = self.outcome.read
        self.outcome.read = 0
        split = self._split
        if split is None:
            return
        heads = self.state.heads.known[self._told :]
        self._told += len(heads)
        offsets = self._offsets if self.wanted is None else array("q", sorted(self._offsets))
        mark = _Mark(split, self.written[split], offsets.tobytes(), heads, self._rejects, self._skipped)
        self._rows.add((MARK, read, 0, 0, pickle.dumps(mark), None), ())
        yield self._rows.batch()
        self._rejects, self._skipped, self._offsets = [], [], array("q")
        self._split = None


def feed(task: Task, programs: Programs) -> Generator[pa.RecordBatch]:
    """The first stage of a task; what fails is told to the second one."""
    outcome = outcome_of(task)
    cpu = time.process_time()
    stage: list[Feed] = []
    with attempt(outcome):
        stage.append(Feed(task, programs, outcome, time.monotonic() + task.seconds))
        yield from stage[0].batches()
    outcome.cpu_s = time.process_time() - cpu
    if stage:
        yield stage[0].last()
    else:
        rows = rows_of(layout(programs))
        rows.add((END, 0, 0, 0, pickle.dumps(outcome), None), ())
        yield rows.batch()


# -- the second stage ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    """Rows of a chunk, column by column."""

    columns: list[list[Any]] = field(default_factory=list)

    def add(self, columns: list[list[Any]]) -> None:
        if not self.columns:
            self.columns = columns
        else:
            for mine, more in zip(self.columns, columns, strict=True):
                mine.extend(more)


class Drain(Output):
    """Writes what comes out of the expressions."""

    def __init__(self, task: Task, programs: Programs, outcome: Outcome) -> None:
        """Make the rows of programs, which are known by their numbers here."""
        super().__init__(task, outcome)
        self.plans = self.state.results
        self._results = len(programs.results)
        self._told = programs.told
        standard = self.setup.inference.reading.standard
        self._composers = {p.number: Composer(programs, p, standard) for p in programs.of.values()}
        self._pending: Pending | None = None
        self._heads: list[Head] = []
        self._programs = programs
        self._tables: list[Table | None] = []
        """By program: how C writes its rows."""
        self._asked: set[int] = set()
        self._by_the_book: set[int] = set()
        """Programs whose rows are not for C."""
        self._committed = time.monotonic()
        self._done = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take all rows; raises IngestError."""
        failed = True
        rows = _Rows()
        try:
            self._done = self.resume()
            for batch in batches:
                programs = batch.column(0).to_pylist()
                if min(programs, default=0) > END and MARK not in programs:
                    rows.add([programs, *(column.to_pylist() for column in batch.columns[1:])])
                    continue
                columns = [programs, *(column.to_pylist() for column in batch.columns[1:])]
                start = 0
                for i, program in enumerate(programs):
                    if program > MARK:
                        continue
                    rows.add([column[start:i] for column in columns])
                    start = i + 1
                    said = pickle.loads(columns[4][i])  # noqa: S301  (made by the first stage)
                    if program == MARK:
                        self._chunk(rows.columns, said, columns[1][i])
                    else:
                        self._end(said)
                    rows = _Rows()
                rows.add([column[start:] for column in columns])
            failed = False
        finally:
            self.outcome.lost_deliveries = self.writer.failures - self.lost_before
            if failed:
                self.writer.abort()
            for plan in self.plans.compiled.values():
                self.count(plan)

    def _chunk(self, columns: list[list[Any]], mark: _Mark, read: int) -> None:
        """Write a chunk, as far as it is to be written."""
        self._heads += mark.heads
        split = mark.split
        if self.ended or self._done or (mark.end <= self.written[split] and not mark.rejects):
            return
        first = self.written[split]
        records: list[Any] = []
        stop = self._rows_of(columns, mark, first, records)
        self.writer.write(records)
        if stop is None:
            self.outcome.read += read
            self.written[split] = max(first, mark.end)
        else:
            offsets = array("q", mark.offsets)
            self.outcome.read += bisect_left(offsets, stop) - bisect_left(offsets, first)
            self.written[split] = stop
        for at, reason in mark.skipped:
            if first <= at < (_NEVER if stop is None else stop):
                self.skip(reason, 1)
        now = time.monotonic()
        if now - self._committed > COMMIT_S:
            self.commit()
            self._committed = now

    def _rows_of(self, columns: list[list[Any]], mark: _Mark, first: int, records: list[Any]) -> int | None:
        """Make the records of a chunk; where to stop, if one of them is a reject too many."""
        rejects = deque(sorted(mark.rejects, key=lambda reject: reject.at))
        columns = columns or [[]] * 6
        programs, heads, offsets, whats, texts, keys, *results = columns
        said = results.pop() if self._told and results else None
        masks = results[: len(results) - self._results]
        values = results[len(masks) :]
        mask = masks[0] if len(masks) == 1 else None
        index, size = 0, len(programs)
        fallen = False
        """Whether the next message is not for C."""
        while index < size or rejects:
            at = offsets[index] if index < size else _NEVER
            if rejects and rejects[0].at <= at:
                reject = rejects.popleft()
                if reject.at >= first and self._one_too_many(mark.split, reject, reject.stage, reject.bad):
                    return reject.at
                continue
            done = index + 1
            while done < size and offsets[done] == at:
                done += 1
            if at < first:
                index = done
                continue
            if native.BUILT and mask is not None and not fallen and programs[index] not in self._by_the_book:
                limit = rejects[0].at if rejects else _NEVER
                stop = self._in_c(columns, mask, values, index, limit, records)
                fallen = stop < size and offsets[stop] < limit
                index = stop
                continue
            fallen = False
            try:
                self._one_message(range(index, done), (programs, heads, whats, texts, keys), masks, values, records)
            except RowError as exc:
                table = next((self._composers[p].program.table for p in programs[index:done] if p >= 0), None)
                stage = "transform" if exc.code == "expression-failed" else stage_of(Bad(exc.code, ""))
                told = "" if said is None else "; ".join(dict.fromkeys(filter(None, said[index:done])))
                bad = Bad(exc.code, f"{exc}: {told}" if told and stage == "transform" else str(exc), table)
                if self._one_too_many(mark.split, self._original(mark.split, at), stage, bad):
                    return at
            index = done
        return None

    def _in_c(
        self, columns: list[list[Any]], mask: list[int], values: list[list[Any]], start: int, limit: int,
        records: list[Any],
    ) -> int:  # fmt: skip
        """The common case, from a row on: rows of which none failed, and records that are ready. Where that ends."""
        while True:
            programs, heads, *_ = columns
            stop, filtered = native.drain(
                self._tables, self._heads, tuple(columns[:6]), mask, values, start, limit, records
            )
            if stop > start:
                self.skip(FILTERED, filtered)
                for head, count in Counter(heads[start:stop]).items():
                    for table, kind in self._heads[head][1] if head >= 0 else ():
                        self._counted(table, kind, count)
            if stop == len(programs) or not self._prepared(programs[stop]):
                return stop
            start = stop

    def _prepared(self, program: int) -> bool:
        """Whether C can now take a program's rows, and could not before."""
        if program < 0 or program in self._asked:
            return False
        self._asked.add(program)
        composer = self._composers[program]
        table = composer.program.table
        plan = self.plans.compiled.get(table) or self.plans.find(table)
        known = self.state.answers.get(table)
        if known is None or known[0] is not plan or known[1] is not self._programs:
            made = native.compile_answer(plan, composer)
            known = self.state.answers[table] = (plan, self._programs, made)
        self._tables += [None] * (program + 1 - len(self._tables))
        self._tables[program] = known[2]
        if known[2] is None:
            self._by_the_book.add(program)
        return known[2] is not None

    def _one_message(
        self, rows: range, columns: tuple[list[Any], ...], masks: list[list[int]],
        values: list[list[Any]], records: list[Any],
    ) -> None:  # fmt: skip
        """The rows of one message: all of them, or none. Raises RowError."""
        programs, heads, whats, texts, keys = columns
        length = len(records)
        counted = {id(p): (p, p.inserted, p.updated, p.deleted) for p in self.plans.compiled.values()} if (
            len(rows) > 1
        ) else {}  # fmt: skip
        done: list[tuple[TableId, Kind]] = []
        try:
            for i in rows:
                if programs[i] == READY:
                    to, counts = self._heads[heads[i]]
                    records.append((to, keys[i], texts[i]))
                    done += counts
                else:
                    failed = 0
                    for shift, column in enumerate(masks):
                        failed |= column[i] << (MARKS * shift)
                    self._apply(programs[i], whats[i], texts[i], [column[i] for column in values], failed, records)
        except RowError:
            del records[length:]
            self._pending = None
            for plan, inserted, updated, deleted in counted.values():
                plan.inserted, plan.updated, plan.deleted = inserted, updated, deleted
            raise
        for table, kind in done:
            self._counted(table, kind, 1)

    def _counted(self, table: TableId, kind: Kind, count: int) -> None:
        counts = self.outcome.counts.setdefault(table, Counts())
        if kind is Kind.INSERT:
            counts.inserted += count
        elif kind is Kind.UPDATE:
            counts.updated += count
        else:
            counts.deleted += count

    def _one_too_many(self, split: Split, record: Record, stage: str, bad: Bad) -> bool:
        """Account for a reject; whether the run is to stop before it."""
        counts = not (stage == "decode" and self.ignore_decode)
        stops = counts and self.outcome.rejected >= self.task.tolerated
        self.reject(split, record, stage, bad, passed=not stops)
        if stops:
            self.stop_at_reject()
        return stops

    def _original(self, split: Split, at: int) -> Record:
        """The record at an offset, read again: rejects are rare, and their rows do not carry it."""
        for chunk in self.state.reader().read({split: (at, at + 1)}):
            if chunk is not None:
                for message in chunk.messages:
                    if offset_of(message) == at:
                        return message
        msg = f"{split[0]}[{split[1]}]: the record at offset {at} could not be read again"
        raise InternalError(msg)

    def _apply(
        self, number: int, said: int, text: bytes, values: Sequence[Any], failed: int, records: list[Any]
    ) -> None:
        """What becomes of a row, with its results; raises RowError."""
        composer = self._composers[number]
        table = composer.program.table
        what, partial = said & ~PARTIAL, bool(said & PARTIAL)
        if what == BEFORE:
            self._pending = self._before(composer, text, values, failed, partial=partial)
            return
        pending, self._pending = self._pending, None
        plan = self.plans.compiled.get(table) or self.plans.find(table)
        passes = composer.passes(values, failed)
        emit = records.append
        try:
            if what == DELETE:
                if not passes:
                    self.skip(FILTERED, 1)
                    return
                row = composer.row(text, values, failed, partial=partial)
                if composer.program.soft_delete:
                    plan.upsert(Kind.INSERT, None, row, None, None, emit)
                else:
                    plan.delete(row, None, None, emit)
                return
            if not passes:
                self._leaves(composer, plan, what, pending, text, values, failed, emit)
                return
            row = composer.row(text, values, failed, partial=partial)
            if what == UPDATE and pending is not None:
                passed, before = pending
                if passed is False:
                    plan.upsert(Kind.INSERT, None, row, None, None, emit)
                else:
                    plan.upsert(Kind.UPDATE, before, row, None, None, emit)
            else:
                plan.upsert(Kind.INSERT if what == INSERT else Kind.UPDATE, None, row, None, None, emit)
        except (Drift, KeyChanged) as exc:
            msg = f"a result of {composer.program.table} does not fit the schema that was made for it"
            raise InternalError(msg, "please report this with the transform and the table's columns") from exc

    def _leaves(
        self,
        composer: Composer,
        plan: Plan,
        what: int,
        pending: Pending | None,
        text: bytes,
        values: Sequence[Any],
        failed: int,
        emit: Callable[[Any], None],
    ) -> None:
        """A row that does not pass: it goes, if it was there."""
        passed, before = pending or (None if what == UPDATE_ALONE else False, None)
        if passed is False:
            self.skip(FILTERED, 1)
            return
        if before is None or (passed is None and not composer.keyed(before)):
            # Whether it was there is not known: gone is what it has to be
            before = composer.row(text, values, failed, partial=False)
        plan.delete(before, None, None, emit)

    @staticmethod
    def _before(composer: Composer, text: bytes, values: Sequence[Any], failed: int, *, partial: bool) -> Pending:
        """Whether the row before an update had passed (None: that is not known), and what it was."""
        try:
            known = not partial or composer.decides(text)
            passed = composer.passes(values, failed) if known else None
            return passed, composer.row(text, values, failed, partial=partial)
        except RowError:
            return False, None  # it was a reject, so that it was never written

    def _end(self, said: Outcome) -> None:
        """What the first stage has to say in the end."""
        outcome = self.outcome
        outcome.cpu_s += said.cpu_s
        for column, count in said.withheld.items():
            outcome.withheld[column] = outcome.withheld.get(column, 0) + count
        for reason, count in said.skipped.items():
            self.skip(reason, count)
        if said.failure is not None:
            raise said.failure
        if self._done:
            return
        outcome.observed, outcome.drifted = said.observed, said.drifted
        if not self.ended:
            for split, at in said.positions.items():
                self.written[split] = max(self.written[split], at)
        self.commit(final=True)


def drain(task: Task, programs: Programs, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """The second stage of a task."""
    outcome = outcome_of(task)
    cpu, started = time.process_time(), time.monotonic()
    remaining = iter(batches)
    with attempt(outcome):
        Drain(task, programs, outcome).run(remaining)
    for _ in remaining:
        pass  # or Spark would end this worker
    outcome.seconds, outcome.ended = time.monotonic() - started, time.time()
    outcome.cpu_s += time.process_time() - cpu
    outcome.rss_kib = worker.rss_kib()
    return outcome
