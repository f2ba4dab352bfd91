"""States of keys that are written to a table of a lake: the last ones, or all, and what becomes of deletes.

Rules: docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.lake.sequence import codes_of, later_mark, newest

if TYPE_CHECKING:
    from collections.abc import Sequence


class Marking(Protocol):
    """A table, as far as it says what is in rows beside their values."""

    @property
    def deleted(self) -> str | None:
        """The column that says of a row that it is deleted; None where no row does."""

    @property
    def sequence(self) -> str | None:
        """The column that says which of two states is the newer one; None where their order does."""


class Chosen(NamedTuple):
    """States that are written."""

    rows: pa.RecordBatch
    gone: pa.BooleanArray
    """True for each that is a delete: it has only the columns of its key."""
    older: int = 0
    """Rows that came after a newer one of their key, and are left out."""


class StatesToWrite(NamedTuple):
    """Which states of keys are written, and what becomes of deletes."""

    append: bool = False
    """All states are written, not only the last one of each key."""
    soft: bool = False
    """A delete is a row, or marks one."""
    ignore: bool = False
    """A delete is no state."""

    @property
    def all(self) -> bool:
        """True if it takes more than the last states to tell what is written."""
        return self.append or self.soft or self.ignore

    def chosen(self, rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str], table: Marking) -> Chosen:
        """Return the states that are written, of all states in their order. `key`: names of the columns of the key."""
        deleted = table.deleted
        if self.ignore:
            there = pc.invert(gone)
            rows, gone = rows.filter(there), gone.filter(there)
        if self.append:
            if deleted is None:
                return Chosen(rows, gone)
            marks = pc.or_(gone, pc.fill_null(rows[deleted], False))
            return Chosen(_marked(rows, deleted, marks), pa.repeat(False, len(gone)))
        if table.sequence is not None:
            return _newest(rows, gone, key, table.sequence, deleted)
        last, kept = _last(rows, gone, key)
        # A row that came and went is there as it was, and is marked; one that only went is looked for in the table
        places = pa.array(np.where(kept >= 0, kept, last))
        is_gone = gone.take(pa.array(last))
        left = pc.and_(is_gone, pa.array(kept < 0))
        rows = rows.take(places)
        return Chosen(rows if deleted is None else _marked(rows, deleted, is_gone), left)


def _newest(
    rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str], sequence: str, deleted: str | None
) -> Chosen:
    """Return the keys of all deletes, and then the newest row of each key.

    A row of the table may be newer than that: then it is the one which the delete is about.
    """
    codes, is_gone = codes_of([rows[name] for name in key]), gone.to_numpy(zero_copy_only=False)
    deletes, alive = np.flatnonzero(is_gone), np.flatnonzero(~is_gone)
    found = newest(codes[alive], rows[sequence].take(pa.array(alive)))
    best = np.sort(alive[found.places])
    marks = np.zeros(len(codes), bool)
    if len(deletes):
        marks[best] = later_mark(codes, best, deletes, np.arange(len(codes)))
        deletes = deletes[np.unique(codes[deletes], return_index=True)[1]]
    order = pa.array(np.concatenate([deletes, best]))
    chosen = rows.take(order)
    marked = chosen if deleted is None else _marked(chosen, deleted, pa.array(marks).take(order))
    return Chosen(marked, gone.take(order), int(found.older.sum()))


def _last(
    rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the place of the last state of each key, and of its last one that is a row: -1 where there is none."""
    names = [f"k{at}" for at in range(len(key))]
    at = np.arange(rows.num_rows)
    alive = np.where(gone.to_numpy(zero_copy_only=False), -1, at)
    table = pa.table([*(rows[name] for name in key), at, alive], [*names, "at", "alive"])
    found = table.group_by(names, use_threads=False).aggregate([("at", "max"), ("alive", "max")]).sort_by("at_max")
    return found["at_max"].to_numpy(), found["alive_max"].to_numpy()


def _marked(rows: pa.RecordBatch, deleted: str, which: pa.BooleanArray) -> pa.RecordBatch:
    """Return rows with the column that says whether they are deleted."""
    return rows.set_column(rows.schema.names.index(deleted), deleted, which)
