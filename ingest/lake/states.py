"""States of keys that are written to a table of a lake: the last ones, or all, and what becomes of deletes.

Rules: docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence


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

    def chosen(
        self, rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str], deleted: str | None
    ) -> tuple[pa.RecordBatch, pa.BooleanArray]:
        """Return the states that are written, of all states in their order, and which of them are deletes still.

        `key`: names of the columns of the key. `deleted`: the column that says of a row that it is deleted.
        """
        if self.ignore:
            there = pc.invert(gone)
            rows, gone = rows.filter(there), gone.filter(there)
        if self.append:
            if deleted is None:
                return rows, gone
            marks = pc.or_(gone, pc.fill_null(rows[deleted], False))
            return _marked(rows, deleted, marks), pa.repeat(False, len(gone))
        last, kept = _last(rows, gone, key)
        # A row that came and went is there as it was, and is marked; one that only went is looked for in the table
        places = pa.array(np.where(kept >= 0, kept, last))
        is_gone = gone.take(pa.array(last))
        left = pc.and_(is_gone, pa.array(kept < 0))
        rows = rows.take(places)
        return (rows if deleted is None else _marked(rows, deleted, is_gone)), left


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
