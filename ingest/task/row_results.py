"""Results of expressions, put into the row that they were computed from: the reference, one row at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest.encode.coercer import Drift, KeyChanged
from ingest.encode.compiled_transform import BEFORE, BOTH, DELETE, IN_KEY, INSERT, PARTIAL, UPDATE, UPDATE_ALONE
from ingest.errors import InternalError
from ingest.model.change import Change, Kind
from ingest.model.reject import RowError
from ingest.task.counters import FILTERED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec

    from ingest.encode.result_merger import ResultMerger
    from ingest.model.reject import Failure
    from ingest.task.counters import Counters
    from ingest.task.worker import ResultEncoders

    RowBefore = tuple[bool | None, msgspec.Raw | None]
    """True if the row before an update passes the filter (None: that is not known), and that row."""


class RowResults:
    """The encoding of rows with their results. A row before an update waits for the row after it."""

    def __init__(self, mergers: Mapping[int, ResultMerger], encoders: ResultEncoders, counters: Counters) -> None:
        """`mergers`: by the number of a transform."""
        self._mergers = mergers
        self._encoders = encoders
        self._counters = counters
        self._before: RowBefore | None = None

    def forget(self) -> None:
        """Forget a row before an update: its message is a reject."""
        self._before = None

    def apply(
        self, number: int, event: int, text: bytes, values: Sequence[Any], failed: int, records: list[Any]
    ) -> bool:
        """Add to `records` what becomes of a row, with its results; return whether the row after a change is written.

        `event`: which row it is; `failed`: a mask of the results that could not be computed. Raises RowError.
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
        """Return what is known of an expression that failed for a row; `slot`: that of its result."""
        return self._mergers[number].failure(slot, text, event & ~(PARTIAL | BOTH | IN_KEY))

    def _row_gone(
        self,
        merger: ResultMerger,
        what: int,
        before: RowBefore | None,
        text: bytes,
        values: Sequence[Any],
        failed: int,
    ) -> msgspec.Raw | None:
        """Return the row that leaves the sink as it does not pass; None, and count it, where it was not there."""
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
    """Return whether the row before an update had passed (None: that is not known), and what it was."""
    try:
        known = not merger.changeable and (not partial or merger.decides(text))
        passed = merger.passes(values, failed) if known else None
        return passed, merger.row(text, values, failed, partial=partial)
    except RowError:
        return None if merger.changeable else False, None  # it was a reject, so that it was never written
