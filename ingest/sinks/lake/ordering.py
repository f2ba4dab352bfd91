"""The newest of the states of keys, by a column instead of the order in which they come.

In: states as columns of Arrow. Out: places of states. Rules: docs/spec/sinks.md#changes-that-come-out-of-order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    Numbers = np.ndarray[Any, Any]


class Contender(NamedTuple):
    """The keys of one file's rows or deletes, with the values that order them."""

    keys: pa.Table
    values: pa.Array
    """Values that say how new a row is; nulls for deletes."""
    came: int
    """The place of the file in the batch; -1 for one of the table."""
    has_rows: bool = True
    """False for deletes."""


class Contest(NamedTuple):
    """The result of comparing rows with equal keys, of a table and of a batch."""

    lost: list[Numbers]
    """For each file: indexes of rows to be deleted, as a newer row of their key exists."""
    marked: list[Numbers]
    """For each file: indexes of rows to be kept and marked as deleted."""
    older: int
    """The number of the batch's rows that are left out, as a newer row came before."""


class Newest(NamedTuple):
    """The newest state of each key."""

    places: Numbers
    """Their places, one for each key."""
    older: Numbers
    """True for each state that came after a newer one, and so counts for nothing."""


def codes_of(keys: Sequence[pa.Array | pa.ChunkedArray]) -> Numbers:
    """Return a number for each state, the same for those of one key."""
    codes = np.zeros(len(keys[0]), np.int64)
    for column in keys:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        found = whole.dictionary_encode(null_encoding="encode")
        both = codes * max(1, len(found.dictionary)) + found.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(both, return_inverse=True)[1]
    return codes


def newest(codes: Numbers, values: pa.Array | pa.ChunkedArray) -> Newest:
    """Return the newest of the states, which are in the order in which they came, by their values.

    A null is smaller than any value. Of two equal values the later one counts.
    """
    if not len(codes):
        return Newest(np.zeros(0, np.int64), np.zeros(0, bool))
    ranks = pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    ranks[pc.is_null(values).to_numpy(zero_copy_only=False)] = 0
    order = np.lexsort((np.arange(len(codes)), codes))
    # Each key has a band of numbers of its own, so that one running maximum serves all of them
    banded = codes[order] * (int(ranks.max()) + 1) + ranks[order]
    reached = np.maximum.accumulate(banded)
    older = np.zeros(len(codes), bool)
    older[order] = banded < reached
    alive = np.flatnonzero(~older)
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    last[codes[alive]] = alive  # the last one of a key that no earlier one beats is its newest
    return Newest(last[last >= 0], older)


def later_mark(codes: Numbers, places: Numbers, marks: Numbers, at: Numbers) -> Numbers:
    """Return for each of the places whether a mark of its key came after it.

    `codes`: of all states, marks among them; `marks`: places of marks. `at`: when each state came.
    """
    last = np.full(int(codes.max(initial=-1)) + 1, -2, np.int64)
    np.maximum.at(last, codes[marks], at[marks])
    return last[codes[places]] > at[places]


def contest(files: Sequence[Contender], *, marks: bool) -> Contest:
    """Return which rows stay of those that have the same keys. Files of the table come first, then those of a batch.

    `marks`: whether a row that stays is marked where a delete came after it.
    """
    codes = codes_of(pa.concat_tables([one.keys for one in files]).columns)
    source = np.repeat(np.arange(len(files)), [one.keys.num_rows for one in files])
    came = np.array([one.came for one in files])[source]
    is_row = np.array([one.has_rows for one in files])[source]
    alive, deletes = np.flatnonzero(is_row), np.flatnonzero(~is_row)
    newest_rows = newest(codes[alive], pa.chunked_array([one.values for one in files]).take(pa.array(alive)))
    best = alive[newest_rows.places]
    lost = is_row.copy()
    lost[best] = False
    marked = np.zeros(len(codes), bool)
    if marks and len(deletes):
        marked[best[later_mark(codes, best, deletes, came)]] = True
    starts = np.searchsorted(source, np.arange(len(files) + 1))
    spans = [slice(start, end) for start, end in pairwise(starts)]
    older = int((newest_rows.older & (came[alive] >= 0)).sum())
    return Contest([np.flatnonzero(lost[one]) for one in spans], [np.flatnonzero(marked[one]) for one in spans], older)
