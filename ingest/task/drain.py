"""The second stage of a task whose rows go through Spark SQL: puts results into the rows, and writes.

It owns the transaction: positions, rejects and what was observed come from the first stage with each chunk. No row
changes its order.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ingest.encode.conform import Drift, KeyChanged
from ingest.encode.encode import stage_of
from ingest.encode.transform import (
    BEFORE,
    BOTH,
    DELETE,
    INSERT,
    PARTIAL,
    UPDATE,
    UPDATE_ALONE,
    Composer,
    ExpressionFailed,
)
from ingest.errors import InternalError
from ingest.model.change import Bad, Kind
from ingest.model.reject import RowError
from ingest.native import native
from ingest.task import worker
from ingest.task.assignment import Outcome, add_counts
from ingest.task.output import FILTERED, Output, offset_of
from ingest.task.tally import Counts
from ingest.task.task import COMMIT_S, attempt, outcome_of
from ingest.transform.handover import Ended
from ingest.transform.rows import READY, Kept, Results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import msgspec

    from ingest.encode.plan import Plan
    from ingest.encode.transform import Programs
    from ingest.kafka.admin import Split
    from ingest.model.record import Record
    from ingest.model.reject import Failure
    from ingest.model.table import TableId
    from ingest.native.native import Target
    from ingest.native.row_encoder import RowEncoder
    from ingest.task.assignment import Task
    from ingest.transform.handover import Handover

    Pending = tuple[bool | None, msgspec.Raw | None]
    """Whether the row before an update passes the filter (None: that is not known), and what it is."""

_NEVER: Final = 1 << 62


class Drain(Output):
    """Writes what comes out of the expressions."""

    def __init__(self, task: Task, programs: Programs, handover: Handover, outcome: Outcome) -> None:
        """Make the rows of programs, which are known by their numbers here."""
        super().__init__(task, outcome)
        self._handover = handover
        self.plans = self.state.results
        standard = self.setup.inference.reading.standard
        self._composers = {p.number: Composer(programs, p, standard) for p in programs.of.values()}
        self._pending: Pending | None = None
        self._failure: Failure | None = None
        """Of the message that is made."""
        self._heads: list[Target] = []
        self._programs = programs
        self._tables: list[RowEncoder | None] = []
        """By program: how C writes its rows."""
        self._asked: set[int] = set()
        self._by_the_book: set[int] = set()
        """Programs whose rows are not for C."""
        self._committed = time.monotonic()
        self._done = False

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take all rows; raises IngestError."""
        failed = True
        back = _Back(batches)
        ended = False
        try:
            self._done = self.resume()
            while back.wait():
                left = self._handover.find()
                rows = Results(back.take(left.sent), self._programs.results, told=self._programs.told)
                back.take(left.marks)
                if isinstance(left.said, Ended):
                    self._chunk(Kept(left.rows), rows, left.said)
                else:
                    assert isinstance(left.said, Outcome)
                    self._end(left.said)
                    ended = True
            if not ended:
                raise _lost("the end")
            failed = False
        finally:
            self.outcome.lost_deliveries = self.writer.failures - self.lost_before
            if failed:
                self.writer.abort()
            self.count_all()

    def _chunk(self, kept: Kept, results: Results, ended: Ended) -> None:
        """Write a chunk, as far as it is to be written."""
        self._heads[ended.known :] = ended.heads
        split = ended.split
        if self.ended or self._done or (ended.end <= self.written[split] and not ended.rejects):
            return
        first = self.written[split]
        records: list[Any] = []
        stop = self._rows_of(kept, results, ended, first, records)
        self.writer.write(records)
        if stop is None:
            self.outcome.read += ended.read
            self.written[split] = max(first, ended.end)
        else:
            self.outcome.read += sum(len(range(max(first, r.start), min(stop, r.stop))) for r in ended.offsets)
            self.written[split] = stop
        for at, reason in ended.skipped:
            if first <= at < (_NEVER if stop is None else stop):
                self.skip(reason, 1)
        now = time.monotonic()
        if now - self._committed > COMMIT_S:
            self.commit()
            self._committed = now

    def _rows_of(self, kept: Kept, results: Results, ended: Ended, first: int, records: list[Any]) -> int | None:
        """Make the records of a chunk; where to stop, if one of them is a reject too many."""
        rejects = deque(sorted(ended.rejects, key=lambda reject: reject.at))
        programs, offsets, size = kept.programs, kept.offsets, kept.size
        index = row = 0
        fallen = not (native.BUILT and results.simple)
        """Whether the next message is not for C."""
        while index < size or rejects:
            at = offsets[index] if index < size else _NEVER
            if rejects and rejects[0].at <= at:
                reject = rejects.popleft()
                if reject.at >= first and self._one_too_many(ended.split, reject, reject.stage, reject.bad):
                    return reject.at
                continue
            done, came = index, row
            while done < size and offsets[done] == at:
                came += programs[done] >= 0
                done += 1
            if at < first:
                index, row = done, came
                continue
            if not fallen and programs[index] not in self._by_the_book:
                limit = rejects[0].at if rejects else _NEVER
                index, row = self._in_c(kept, results, index, row, limit, records)
                fallen = index < size and offsets[index] < limit
                continue
            fallen = not (native.BUILT and results.simple)
            self._failure = None
            try:
                self._one_message(range(index, done), row, kept, results, records)
            except RowError as exc:
                table = next((self._composers[p].program.table for p in programs[index:done] if p >= 0), None)
                stage = "transform" if exc.code == "expression-failed" else stage_of(Bad(exc.code, ""))
                told = results.said(row, came) if stage == "transform" else ""
                bad = Bad(exc.code, f"{exc}: {told}" if told else str(exc), table, None if told else self._failure)
                if self._one_too_many(ended.split, self._original(ended.split, at), stage, bad):
                    return at
            index, row = done, came
        return None

    def _in_c(
        self, kept: Kept, results: Results, start: int, row: int, limit: int, records: list[Any]
    ) -> tuple[int, int]:
        """The common case, from a row on: rows of which none failed, and records that are ready. Where that ends."""
        columns = results.columns()
        while True:
            batch, stop, row, filtered, done = native.merge_results(
                self._tables, self._heads, kept.size, kept.columns, results.kinds, results.size, columns, start, row,
                limit,
            )  # fmt: skip
            records += batch
            if filtered:
                self.skip(FILTERED, filtered)
            for head, count in done.items():
                for table, kind in self._heads[head][1]:
                    self._counted(table, kind, count)
            if stop == kept.size or not self._prepared(kept.programs[stop]):
                return stop, row
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
            made = native.compile_results(plan, composer)
            known = self.state.answers[table] = (plan, self._programs, made)
        self._tables += [None] * (program + 1 - len(self._tables))
        self._tables[program] = known[2]
        if known[2] is None:
            self._by_the_book.add(program)
        return known[2] is not None

    def _one_message(self, rows: range, row: int, kept: Kept, results: Results, records: list[Any]) -> None:
        """The rows of one message, the results of which begin at `row`: all of them, or none. Raises RowError."""
        length = len(records)
        counted = {id(p): (p, p.inserted, p.updated, p.deleted) for p in self.plans.compiled.values()} if (
            len(rows) > 1
        ) else {}  # fmt: skip
        done: list[tuple[TableId, Kind]] = []
        try:
            for i in rows:
                program = kept.programs[i]
                if program == READY:
                    to, counts = self._heads[kept.heads[i]]
                    records.append((to, kept.keys[i], kept.texts[i]))
                    done += counts
                    continue
                number, failed, values = results.row(row)
                if number != program:
                    raise _lost(f"a row of program {program}")
                row += 1
                text = kept.texts[i]
                assert text is not None
                try:
                    self._apply(program, kept.whats[i], text, values, failed, records)
                except ExpressionFailed as exc:
                    what = kept.whats[i] & ~(PARTIAL | BOTH)
                    self._failure = self._composers[program].failure(exc.slot, text, what)
                    raise
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
        what, partial = said & ~(PARTIAL | BOTH), bool(said & PARTIAL)
        if what == BEFORE:
            self._pending = self._before(composer, text, values, failed, partial=partial)
            return
        pending, self._pending = self._pending, None
        if said & BOTH:
            pending = composer.was(text, values, failed)
        plan = self.plans.compiled.get(table) or self.plans.find(table)
        # What a delete does not carry is unknown: the row may have been there
        passes = (what == DELETE and partial and not composer.decides(text)) or composer.passes(values, failed)
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
        add_counts(outcome.withheld, said.withheld)
        add_counts(outcome.cut, said.cut)
        for reason, count in said.skipped.items():
            self.skip(reason, count)
        if said.failure is not None:
            raise said.failure
        if self._done:
            return
        if not self.ended:  # else the first stage has read on where this one stopped at a reject
            outcome.observed, outcome.drifted = said.observed, said.drifted
            for split, at in said.positions.items():
                self.written[split] = max(self.written[split], at)
        self.commit(final=True)


class _Back:
    """Rows that come back, in pieces of whatever size."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._piece: pa.RecordBatch | None = None

    def wait(self) -> bool:
        """Wait for the next row; whether there is one."""
        while self._piece is None or not self._piece.num_rows:
            piece = next(self._batches, None)
            if piece is None:
                return False
            self._piece = piece
        return True

    def take(self, count: int) -> pa.RecordBatch:
        """The next rows; raises InternalError where there are fewer."""
        pieces: list[pa.RecordBatch] = []
        while count or not pieces:
            if not self.wait():
                raise _lost(f"{count} rows")
            assert self._piece is not None
            pieces.append(self._piece.slice(0, count))
            self._piece = self._piece.slice(pieces[-1].num_rows)
            count -= pieces[-1].num_rows
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def _lost(what: str) -> InternalError:
    return InternalError(f"{what} did not come back from Spark", "please report this with the pipeline's transforms")


def drain(task: Task, programs: Programs, handover: Handover, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """The second stage of a task."""
    outcome = outcome_of(task)
    cpu, started = time.process_time(), time.monotonic()
    remaining = iter(batches)
    try:
        with attempt(outcome):
            Drain(task, programs, handover, outcome).run(remaining)
        for _ in remaining:  # or Spark would end this worker
            handover.pass_over()
    finally:
        handover.close()
    outcome.seconds, outcome.ended = time.monotonic() - started, time.time()
    outcome.cpu_s += time.process_time() - cpu
    outcome.rss_kib = worker.rss_kib()
    return outcome
