from collections.abc import Iterable
from enum import IntFlag
from typing import TypeAlias

from ingest.native.records import EncodedBatch
from ingest.sinks.lake.rows import LakeColumnSpec

class LakeKind(IntFlag):
    LAKE_BOOL = ...
    LAKE_INT = ...
    LAKE_LONG = ...
    LAKE_FLOAT = ...
    LAKE_DOUBLE = ...
    LAKE_DECIMAL = ...
    LAKE_TEXT = ...
    LAKE_BYTES = ...
    LAKE_DATE = ...
    LAKE_TIME = ...
    LAKE_TIMESTAMP = ...
    LAKE_TIMESTAMP_LTZ = ...
    LAKE_KINDS = ...

class ColumnBuffer:
    """Memory of a column that was taken, as a buffer."""

Parts: TypeAlias = tuple[bytes | None, ColumnBuffer | None, ColumnBuffer | bytes]
"""A column as Arrow has it: validity, offsets, data."""

class LakeRows:
    """Rows of one table as columns of Arrow. Raises RuntimeError where a call of it is not done yet."""

    def __init__(self, spec: tuple[LakeColumnSpec, ...], /) -> None:
        """Begin without rows. Raise ValueError or TypeError for columns that there cannot be."""

    def read(self, records: Iterable[tuple[bytes, bytes | None]], /) -> list[int]:
        """Add a row for each record; return the places of those that are left to the reference, which are not added."""

    def size(self) -> tuple[int, int]:
        """Return how many rows there are, and how many bytes their columns have at least."""

    def take(self) -> tuple[int, list[Parts], list[int], bytes]:
        """Return what there is, and begin without rows.

        That is the number of rows, their columns (none without rows), how many times were cut in each column, and bits
        of the rows that are deletes.
        """

LeftRecord: TypeAlias = tuple[int, bytes, bytes | None, int | None, int]
"""A record that the reference has to look at: its place among those that were given, key, row, the number that the
key's last state had before, and how many rows there were."""

class LakeKeys:
    """The last states of the keys of one table. Raises RuntimeError where a call of it is not done yet.

    A state has a number: that of its row, or below 0, from -1 on, that of a record that was left.
    """

    def __init__(self, spec: tuple[LakeColumnSpec, ...], /) -> None:
        """Begin without rows. Raise ValueError or TypeError for columns that there cannot be."""

    def keep_record(self, place: int, key: bytes, row: bytes | None, /) -> None:
        """Keep a record as the last state of its key. `place` is its place among those that are given."""

    def take_left(self) -> list[LeftRecord]:
        """Return the records that the reference has to look at, since the last time that this was asked for."""

    def forget(self, key: bytes, number: int, before: int | None, /) -> None:
        """Let a key have the state that it had before, if it has the one of this number."""

    def size(self) -> tuple[int, int]:
        """Return how many rows there are, and how many bytes their columns have at least."""

    def take(self) -> tuple[int, list[Parts], list[int], bytes, bytes | None, list[int]]:
        """Return what `LakeRows.take` returns, with which rows are last states, and begin without rows.

        That is bits of the rows that are a key's last state, or None: all are; and the numbers of those last states
        that were left.
        """

def keep_batch(batch: EncodedBatch, tables: list[LakeKeys], /) -> None:
    """Keep the records of a batch as the last states of their keys. `tables`: for each target of the batch.

    Raise ValueError for a record without a key.
    """
