"""Merging: the rows of a chunk and their results of Spark SQL become records of the sink.

Native code takes rows without a failed result and records that are ready. The reference takes all others, message by
message: all rows of a message are written, or none. The order of rows is kept.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ingest.encode.coercer import OTHERS as OTHER_COLUMNS
from ingest.encode.coercer import Drift, KeyChanged
from ingest.encode.compiled_transform import (
    BEFORE,
    BOTH,
    DELETE,
    IN_KEY,
    INSERT,
    KINDS,
    MOST_ROUNDED,
    PARTIAL,
    ROUNDED_AT,
    UPDATE,
    UPDATE_ALONE,
    ExpressionFailed,
    ResultMerger,
)
from ingest.encode.encode import counts_by_column, stage_of, take_back
from ingest.encode.upsert_encoder import Record as Written
from ingest.encode.upsert_encoder import bytes_of
from ingest.errors import InternalError
from ingest.model.cache import count_up
from ingest.model.change import Change, Kind, Reject
from ingest.model.reject import Failure, LeftForLater, RowError
from ingest.native import native
from ingest.task.read_half import read_again
from ingest.task.rejects import RecordReject, RefusedRecords, RejectLimit
from ingest.task.task import FILTERED, Counters, TaskResult
from ingest.transform.rows import READY, Results, RetainedRows, lost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from ingest.task.worker import ResultEncoders

    RowBefore = tuple[bool | None, msgspec.Raw | None]
    """True if the row before an update passes the filter (None: that is not known), and that row."""
    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.model.record import Record
    from ingest.model.table import TableId
    from ingest.native.native import MergeResults, Target
    from ingest.native.row_encoder import RowEncoder
    from ingest.sources import Reader
    from ingest.task.worker import WorkerState
    from ingest.transform.spill import ChunkManifest


class RowResults:
    """Encodes rows with their results into records of the sink, one row at a time.

    Where an update comes as two rows, the row before it is kept until the row after it comes.
    """

    def __init__(self, mergers: Mapping[int, ResultMerger], encoders: ResultEncoders, counters: Counters) -> None:
        """`mergers`: by the number of a transform."""
        self._mergers = mergers
        self._encoders = encoders
        self._counters = counters
        self._before: RowBefore | None = None

    def forget(self) -> None:
        """Forget the row before an update, as its message is a reject."""
        self._before = None

    def apply(
        self, number: int, event: int, text: bytes, values: Sequence[Any], failed: int, records: list[Any]
    ) -> bool:
        """Append to `records` the records of one row with its results. Return whether a row after a change is written.

        `event`: the kind of the row and its flags; `failed`: a mask of the results that could not be computed. Raises
        RowError.
        """
        merger = self._mergers[number]
        what, is_partial = event & ~(PARTIAL | BOTH | IN_KEY), bool(event & PARTIAL)
        text, said = merger.of_key(text) if event & IN_KEY else (text, None)
        if what == BEFORE:
            self._before = _row_before(merger, text, values, failed, partial=is_partial)
            return False
        before, self._before = self._before, None
        if event & BOTH:
            before = merger.was(text, values, failed)
        table = merger.transform.table
        encoder = self._encoders.of(table)
        # What a delete does not carry, or the filter said then, is unknown: the row may have been there
        unknown = merger.changeable or (is_partial and not merger.decides(text))
        passes = (what == DELETE and unknown) or merger.passes(values, failed)
        emit = records.append
        try:
            if not passes:
                if what == DELETE:
                    self._counters.skip(FILTERED, 1)
                else:
                    gone = self._row_gone(merger, what, before, text, values, failed)
                    if gone is not None:
                        encoder.delete(Change(table, Kind.DELETE, gone, None, None, said), emit)
                return False
            row = merger.row(text, values, failed, partial=is_partial)
            if what == DELETE and not merger.transform.soft_delete:
                encoder.delete(Change(table, Kind.DELETE, row, None, None, said), emit)
                return False
            passed, old = before if what == UPDATE and before is not None else (True, None)
            inserted = what in {DELETE, INSERT} or passed is False
            kind, old = (Kind.INSERT, None) if inserted else (Kind.UPDATE, old)
            encoder.upsert(Change(table, kind, old, row, None, said), emit)
        except (Drift, KeyChanged) as exc:
            msg = f"a result of {table} does not fit the schema that was made for it"
            raise InternalError(msg, "please report this with the transform and the table's columns") from exc
        return what != DELETE

    def failure(self, number: int, event: int, slot: str, text: bytes) -> Failure:
        """Return the failure of an expression for a row; `slot`: the slot of the expression's result."""
        return self._mergers[number].failure(slot, text, event & ~(PARTIAL | BOTH | IN_KEY))

    def _row_gone(
        self, merger: ResultMerger, what: int, before: RowBefore | None, text: bytes, values: Sequence[Any], failed: int
    ) -> msgspec.Raw | None:
        """Return the row to delete from the sink, as the row after the change does not pass the filter.

        None where the sink has no such row: it is counted as filtered.
        """
        unknown = what == UPDATE_ALONE or (what != INSERT and merger.changeable)
        passed, old = before or (None if unknown else False, None)
        if passed is False:
            self._counters.skip(FILTERED, 1)
            return None
        if old is None or (passed is None and not merger.keyed(old)):
            # Whether it was there is not known: gone is what it has to be
            old = merger.row(text, values, failed, partial=False)
        return old


def _row_before(merger: ResultMerger, text: bytes, values: Sequence[Any], failed: int, *, partial: bool) -> RowBefore:
    """Return whether the row before an update had passed the filter (None: unknown), and that row."""
    try:
        known = not merger.changeable and (not partial or merger.decides(text))
        passed = merger.passes(values, failed) if known else None
        return passed, merger.row(text, values, failed, partial=partial)
    except RowError:
        return None if merger.changeable else False, None  # it was a reject, so that it was never written


NEVER: Final = 1 << 62
"""An offset that no record has."""


@dataclass(slots=True)
class MergedChunk:
    """The result of merging a chunk."""

    parts: list[Sequence[Written]] = field(default_factory=list)
    """Encoded records in their order: batches of native code, and lists of the reference."""
    rejects: list[RecordReject] = field(default_factory=list)
    """The rejects in their order. If the last one does not pass, the task stops at it."""
    counted: int = 0
    """The number of rejects that count."""
    stop: int = NEVER
    """The offset where the task stops; `NEVER` if it does not."""

    def reference_part(self) -> list[Written]:
        """Return the list to which the reference appends its next records."""
        if self.parts and isinstance(self.parts[-1], list):
            return self.parts[-1]
        part: list[Written] = []
        self.parts.append(part)
        return part


class ChunkMerger:
    """Merges the chunks of a task, by native code and by the reference."""

    def __init__(
        self, transforms: CompiledTransforms, state: WorkerState, limit: RejectLimit, result: TaskResult
    ) -> None:
        """`transforms`: those that the rows went to."""
        standard = state.setup.inference.reading.standard
        self._mergers = {p.number: ResultMerger(transforms, p, standard) for p in transforms.of.values()}
        self._targets: list[Target] = []
        """Destinations of ready-made records, each with the changes that are done then, by their numbers."""
        merge = native.results_merger()
        self._native = None if merge is None else NativeMerge(merge, transforms, self._mergers, state, result)
        self._rows = RowResults(self._mergers, state.results, result.counters)
        self._state = state
        self._limit = limit
        self._counters, self._telemetry = result.counters, result.telemetry

    def learn(self, manifest: ChunkManifest) -> None:
        """Add the targets that a chunk is the first to use. Call it for every chunk, also for one that is skipped."""
        self._targets[manifest.known :] = manifest.targets

    def merge(
        self, retained: RetainedRows, results: Results, manifest: ChunkManifest, first: int, refused: RefusedRecords
    ) -> MergedChunk:
        """Return the records and rejects of a chunk from the offset `first` on. Raises IngestError.

        `refused`: records that the sink does not take; their messages become rejects.
        """
        out = MergedChunk()
        rejects = deque(sorted(manifest.rejects, key=lambda reject: reject.at))
        offsets, transforms, size = retained.offsets, retained.transforms, retained.size
        for_native = self._native if results.simple and not refused else None
        index = row = 0
        left = False
        """True if native code has left the next message."""
        while index < size or rejects:
            at = offsets[index] if index < size else NEVER
            if rejects and rejects[0].at <= at:
                rejected = rejects.popleft()
                if rejected.at >= first and self._stops(out, rejected.at, rejected, rejected.stage, rejected.reason):
                    return out
                continue
            stop, stop_row = index, row
            while stop < size and offsets[stop] == at:
                stop_row += transforms[stop] >= 0
                stop += 1
            if at < first:
                index, row = stop, stop_row
                continue
            if for_native is not None and not left and for_native.supports(transforms[index]):
                limit = rejects[0].at if rejects else NEVER
                index, row = for_native.merge(retained, results, self._targets, index, row, limit, out.parts)
                left = index < size and offsets[index] < limit
                continue
            left = False
            try:
                reject = self._merge_message(range(index, stop), row, retained, results, out.reference_part(), refused)
            except LeftForLater:
                out.stop = at
                return out
            if reject is not None:
                stage = "transform" if reject.code == "expression-failed" else stage_of(reject)
                why = results.errors(row, stop_row) if stage == "transform" else ""
                if why:
                    reject = Reject(reject.code, f"{reject.message}: {why}", reject.table)
                if self._stops(out, at, read_again(self._reader, manifest.split, at), stage, reject):
                    return out
            index, row = stop, stop_row
        return out

    @property
    def _reader(self) -> Reader:
        """The worker's reader. It reads the records of rejects again, as rows do not carry them: rejects are rare."""
        return self._state.clients.reader()

    def _stops(self, out: MergedChunk, at: int, record: Record, stage: str, reject: Reject) -> bool:
        """Add a reject; return whether the task stops at it."""
        passed = self._limit.allows(stage, reject, out.counted)
        out.counted += self._limit.counts(stage, reject)
        out.rejects.append(RecordReject(record, stage, reject, passed))
        if not passed:
            out.stop = at
        return not passed

    def _merge_message(
        self,
        rows: range,
        row: int,
        retained: RetainedRows,
        results: Results,
        records: list[Any],
        refused: RefusedRecords,
    ) -> Reject | None:
        """Append the records of one message, whose results begin at `row`. Return a Reject if it has to be one.

        Raise LeftForLater for a message that has to wait for other tasks of the batch.
        """
        length = len(records)
        tables = {self._mergers[p].transform.table for p in retained.transforms[rows.start : rows.stop] if p >= 0}
        compiled = self._state.results.cache.compiled
        counted = {t: (e.inserted, e.updated, e.deleted) for t in tables if (e := compiled.get(t)) is not None}
        counts = [count for t in counted for count in counts_by_column(compiled[t])]
        rounded: list[tuple[TableId, str]] = []
        done: list[tuple[TableId, Kind]] = []
        failure: Failure | None = None
        try:
            for i in rows:
                transform = retained.transforms[i]
                if transform == READY:
                    to, changes = self._targets[retained.targets[i]]
                    records.append(Written(to, retained.keys[i], retained.texts[i]))
                    done += changes
                    continue
                number, failed, values = results.row(row)
                if number != transform:
                    raise lost(f"a row of transform {transform}")
                row += 1
                text, event = retained.texts[i], retained.events[i] & KINDS
                assert text is not None
                try:
                    if self._rows.apply(transform, event, text, values, failed, records):
                        rounded += self._rounded(transform, retained.events[i] >> ROUNDED_AT)
                except ExpressionFailed as exc:
                    failure = self._rows.failure(transform, event, exc.slot, text)
                    raise
            refused.check(records[length:])
        except (RowError, LeftForLater) as exc:
            del records[length:]
            self._rows.forget()
            take_back(counts)
            for table in tables & compiled.keys():
                encoder = compiled[table]
                encoder.inserted, encoder.updated, encoder.deleted = counted.get(table, (0, 0, 0))
                if table not in counted:  # it was made for this message
                    take_back([(of, {}) for of, _ in counts_by_column(encoder)])
            if isinstance(exc, LeftForLater):
                raise
            return Reject(exc.code, str(exc), self._table_of(rows, retained, done), failure)
        for table, kind in done:
            self._counters.change(table, kind, 1)
        for table, column in rounded:
            count_up(self._counters.rounded, (table, column), 1, (table, OTHER_COLUMNS))
        of = self._table_of(rows, retained, done)
        if of is not None:
            self._telemetry.of_table(of, 0, bytes_of(records[length:]))
        return None

    def _rounded(self, transform: int, bits: int) -> list[tuple[TableId, str]]:
        """Return the columns of a row whose numbers are rounded, as `TransformInputEncoder` says."""
        table = self._mergers[transform].transform.table
        columns = self._state.schemas.sources[table].schema.columns if bits else ()
        return [(table, column.name) for at, column in enumerate(columns[:MOST_ROUNDED]) if bits >> at & 1]

    def _table_of(self, rows: range, retained: RetainedRows, done: list[tuple[TableId, Kind]]) -> TableId | None:
        """Return the table of the first row of a message; None where it is not known."""
        transforms = retained.transforms[rows.start : rows.stop]
        ready = done[0][0] if done else None
        return next((self._mergers[p].transform.table for p in transforms if p >= 0), ready)


class NativeMerge:
    """Merges rows and their results by native code."""

    def __init__(
        self,
        merge_results: MergeResults,
        transforms: CompiledTransforms,
        mergers: dict[int, ResultMerger],
        state: WorkerState,
        result: TaskResult,
    ) -> None:
        """`mergers`: by the number of a transform."""
        self._merge_results = merge_results
        self._transforms = transforms
        self._mergers = mergers
        self._encoders = state.results
        self._counters, self._telemetry = result.counters, result.telemetry
        self._tables: list[RowEncoder | None] = []
        """By transform: the encoder of its rows."""
        self._asked: set[int] = set()
        """Transforms whose encoders were asked for."""

    def supports(self, transform: int) -> bool:
        """Return whether native code may take rows of a transform, as far as that is known."""
        return transform not in self._asked or self._tables[transform] is not None

    def merge(
        self,
        retained: RetainedRows,
        results: Results,
        targets: list[Target],
        start: int,
        row: int,
        limit: int,
        parts: list[Sequence[Written]],
    ) -> tuple[int, int]:
        """Encode the retained rows from index `start` on, and append their records to `parts`, as batches.

        `row`: the index of the first result of these rows; `targets`: destinations of ready-made records. Returns the
        index of the first row that was not encoded, and that of its first result. It is one that the reference has to
        encode, or one at the offset `limit` or later, or the end.
        """
        columns = results.columns()
        while True:
            batch, stop, row, filtered, done = self._merge_results(
                self._tables, targets, retained.size, retained.columns, results.kinds, results.size, columns, start,
                row, limit,
            )  # fmt: skip
            if batch:
                parts.append(batch)
            if filtered:
                self._counters.skip(FILTERED, filtered)
            for target, (count, size) in done.items():
                changes = targets[target][1]
                for table, kind in changes:
                    self._counters.change(table, kind, count)
                if changes:
                    self._telemetry.of_table(changes[0][0], 0, size)
            if stop == retained.size or not self._prepare(retained.transforms[stop]):
                return stop, row
            start = stop

    def _prepare(self, transform: int) -> bool:
        """Make the native encoder of a transform's rows. Return whether there is one now, and was none before."""
        if transform < 0 or transform in self._asked:
            return False
        self._asked.add(transform)
        merger = self._mergers[transform]
        self._tables += [None] * (transform + 1 - len(self._tables))
        self._tables[transform] = self._encoders.native_of(merger.transform.table, self._transforms, merger)
        return self._tables[transform] is not None
