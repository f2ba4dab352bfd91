"""Data files of a lake's tables: what a task hands to the driver of each, and which rows go into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.ordering import codes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LEVEL: Final = 1
"""Level of compression where the table names none: higher ones take more time than they save."""


class PartitionValue(NamedTuple):
    """The value that all rows of a file have in a column, which the file does not have."""

    column: str
    type: str
    """The type's name, as the lake writes it."""
    text: str | None
    """The value, as the lake writes it; None for a null."""


class AddedFile(NamedTuple):
    """A file that a task has written."""

    table: tuple[str, ...]
    """The table's name, with its namespace."""
    key: tuple[str, ...]
    """Names of the columns by which a row supersedes others."""
    path: str
    rows: int
    gone: bool
    """True if the file has the keys of rows that are no more, and no rows."""
    cut: tuple[tuple[str, int], ...] = ()
    """By column: times that lost what is finer than a microsecond."""
    deleted: str | None = None
    """With `gone`: the column that becomes true in the rows of these keys, which stay; None where they are removed."""
    sequence: str | None = None
    """The column that says which of two rows is the newer one; None where the order of files does."""
    partition: tuple[PartitionValue, ...] = ()
    """The columns of its rows that the file does not have."""
    emptied: tuple[tuple[str, int], ...] = ()
    """By column: empty texts that are null in the table."""

    def to_json(self) -> list[Any]:
        """Return plain values, as a checkpoint stores them."""
        return [*self[:-2], [list(one) for one in self.partition], self.emptied]

    @classmethod
    def from_json(cls, value: list[Any]) -> AddedFile:
        """Return a file of plain values."""
        table, key, path, rows, gone, _, deleted, sequence, partition, _ = value
        values = tuple(PartitionValue(*one) for one in partition)
        return cls(tuple(table), tuple(key), path, rows, gone, (), deleted, sequence, values)


def packed(rows: Iterable[pa.Table], most_bytes: int) -> Iterator[list[pa.Table]]:
    """Yield as many tables at once as have this many bytes of Arrow's columns."""
    held: list[pa.Table] = []
    size = 0
    for one in rows:
        held.append(one)
        size += one.nbytes
        if size >= most_bytes:
            yield held
            held, size = [], 0
    if held:
        yield held


def write_parquet(
    stream: pa.NativeFile,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch | pa.Table],
    codec: str = "zstd",
    level: int | None = LEVEL,
) -> None:
    """Write batches, whose columns come in the schema's order. Raise OSError."""
    with pq.ParquetWriter(
        stream, schema, compression=codec, compression_level=level, store_decimal_as_integer=True
    ) as writer:
        for batch in batches:
            columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def column_of(rows: pa.Table | pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of rows in one piece, null where they lack it."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    column = rows.column(name).cast(kind)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
