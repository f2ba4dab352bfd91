"""Rows apart by the partitions of a table, of which each has files of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.sequence import codes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
MOST_FILES: Final = 10_000
"""Files of one table that a task writes in one go, at most: each partition has its own."""


def rows_apart(rows: Rows, values: Sequence[pa.Array], fewer: str) -> Iterator[Rows]:
    """Yield the rows of each partition, in their order. Raise LakeChangeError for very many partitions.

    `values`: columns, which have the same values in all rows of a partition. `fewer`: how there would be fewer of them.
    """
    if not values or not rows.num_rows:
        yield rows
        return
    codes: np.ndarray[Any, Any] = codes_of(values)
    order: np.ndarray[Any, Any] = np.argsort(codes, kind="stable")
    ends = [*np.flatnonzero(np.diff(codes[order])) + 1, rows.num_rows]
    if len(ends) > MOST_FILES:
        msg = f"{rows.num_rows} rows are in {len(ends)} partitions, each of which gets a file: use fewer, {fewer}"
        raise LakeChangeError(msg)
    start = 0
    for end in ends:
        yield rows if len(ends) == 1 else rows.take(pa.array(order[start:end]))
        start = end
