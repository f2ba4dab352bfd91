"""Rows that come back from Spark, in batches of whatever size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ReturnedRows:
    """Rows as they come back, taken in the numbers in which they went."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Wait for nothing yet."""
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None

    def wait(self) -> bool:
        """Wait for the next row; return whether there is one."""
        while self._batch is None or not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch = batch
        return True

    def take(self, count: int) -> pa.RecordBatch:
        """Return the next rows; raises InternalError if there are fewer."""
        pieces: list[pa.RecordBatch] = []
        while count or not pieces:
            if not self.wait():
                raise lost(f"{count} rows")
            assert self._batch is not None
            pieces.append(self._batch.slice(0, count))
            self._batch = self._batch.slice(pieces[-1].num_rows)
            count -= pieces[-1].num_rows
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the batches that nobody has waited for yet."""
        return self._batches


def lost(what: str) -> InternalError:
    """Return the error of rows that went to Spark and did not come back."""
    return InternalError(f"{what} did not come back from Spark", "please report this with the pipeline's transforms")
