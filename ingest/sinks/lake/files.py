"""Data files of a lake's tables, and the batches that they come with.

A task hands a file to the driver, which commits those of a batch to their tables. A table notes the last batch that it
has, so that one that is committed already is seen. A mark of the checkpoint says which batch a table has got last, and
which state of the table that was. Somebody may roll a table back, or restore an older state of it: the notes of batches
stay in the table then, and their rows do not. A table whose state is not one that came after the mark's has lost rows.

Rules: docs/spec/iceberg.md#delivery and docs/spec/delta.md#what-others-do.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.model.commit import old_copy
from ingest.model.table import show
from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.ordering import codes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.sinks.lake.table import TableName

LEVEL: Final = 1
"""Level of compression where the table names none: higher ones take more time than they save."""
Result = TypeVar("Result")
_TRIES: Final = 8
_PAUSE_S: Final = 0.1


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


def digest_of(files: Sequence[AddedFile]) -> str:
    """Return what tells the files of a batch from those of another one: 64 hexadecimal digits."""
    return hashlib.sha256("\n".join(one.path for one in files).encode()).hexdigest()


def has_batch(last: int, batch: int, *, same_files: bool) -> bool:
    """Return whether a table whose last batch of a checkpoint this is has a batch.

    `same_files`: whether that one had the same files. Raise CheckpointError where the table has a later batch, or
    another one of this number: the checkpoint is an old copy.
    """
    if last > batch or (last == batch and not same_files):
        raise old_copy(last, batch)
    return last == batch


def retried(commit: Callable[[], Result], faster: type[Exception] | tuple[type[Exception], ...]) -> Result:
    """Commit, again where another writer was faster. `faster`: the exceptions that say so, or that nobody knows it."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return commit()
        except faster:
            if not tries_left:
                raise
            time.sleep(_PAUSE_S * (_TRIES - tries_left))
    raise AssertionError


class Committed(NamedTuple):
    """A table with the files of a batch."""

    state: Any
    """The table, or what the lake knows its state by."""
    older: int = 0
    """Rows of the batch that were left out, as they are older than their row in the table."""
    due: bool = False
    """True if upkeep is to follow."""


class Mark(NamedTuple):
    """The last batch of a checkpoint in a table, and a state of the table that has it."""

    batch: int
    state: tuple[Any, ...]
    """What the lake knows a state by, as JSON has values."""


class TakenAway(NamedTuple):
    """Rows of a checkpoint that somebody has taken out of a table."""

    how: str
    """What was done to the table."""
    kept: int | None
    """The last batch whose rows it still has, 0 for none; None where that is not known."""
    newest: int
    """The last batch that it had."""
    others: bool = False
    """True if rows of a run of its own are gone, too: of a replay, or of a backfill."""

    @property
    def rows(self) -> str:
        """Which rows are gone; empty where none are."""
        kept, newest = self.kept, self.newest
        lost = [] if kept is not None and kept >= newest else [_batches(kept, newest)]
        return " and ".join([*lost, *(["a replay or a backfill"] if self.others else [])])


def _batches(kept: int | None, newest: int) -> str:
    if kept is None:
        return f"batches up to {newest}"
    return f"batch {newest}" if kept + 1 == newest else f"batches {kept + 1} to {newest}"


def marks_of(stored: Iterable[list[Any]]) -> dict[TableName, Mark]:
    """Return marks as a checkpoint has them."""
    return {tuple(name): Mark(batch, tuple(state)) for name, batch, state in stored}


def marks_to_json(marks: Mapping[TableName, Mark]) -> list[list[Any]]:
    """Return plain values, as a checkpoint stores them."""
    return [[[*name], mark.batch, [*mark.state]] for name, mark in sorted(marks.items())]


def warn_of_lost_rows(warn: Callable[[str], None], name: TableName, found: TakenAway, remedy: str) -> None:
    """Say which rows are not in a table any more, and what reads them again."""
    warn(
        f"table {show(name)}: {found.how}: rows of {found.rows}, which this pipeline has written, are not in it any "
        f"more (said once); {remedy}"
    )
