from collections.abc import Iterable
from typing import TypeAlias

from ingest.native.contract import LakeColumnSpec

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
