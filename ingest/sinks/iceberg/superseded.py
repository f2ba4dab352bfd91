"""Rows that files of a batch supersede: in the table, and among themselves.

In: files in the order in which they were written. Out: positions of rows that are no more, and rows that stay and are
marked as deleted. Rules: docs/spec/iceberg.md#delivery, docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from ingest.sinks.iceberg.files import dead_positions, names_in, rows_at, written_files
from ingest.sinks.lake.superseded import FoundRows, is_bounded, key_groups, rows_among, superseded_rows
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import FileScanTask, Table

    from ingest.sinks.lake.files import AddedFile


_FEW: Final = 200
"""Keys that are looked for one by one in what the table says of its files."""


class SupersededFiles(NamedTuple):
    """Rows that files of a batch supersede."""

    gone: list[tuple[DataFile, pa.Array]]
    """Files, and positions of rows in them that are no more."""
    marked: list[DataFile]
    """New files with those of these rows that stay, and are marked as deleted."""
    older: int = 0
    """Rows of the batch that are older than their row in the table."""


def superseded_by(table: Table, files: Sequence[AddedFile], rows: Sequence[DataFile]) -> SupersededFiles:
    """Return what files of a batch supersede. `rows`: those of them with rows, as a snapshot has them.

    Raise what the library raises.
    """
    _check_columns(files, {field.name for field in table.schema().fields})
    search = _Search(table, files)
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(search.keys_of, files))
    superseded = superseded_rows(search, files, keys)
    added = {file.file_path: file for file in rows}
    own = [(added[file.path], dead) for file, dead in zip(files, superseded.own, strict=True) if not file.gone]
    dead_rows = [*reversed(own), *((task.file, dead) for task, dead in superseded.others)]
    deleted = next((file.deleted for file in files if file.deleted is not None), None)
    marked = list[DataFile]()
    if deleted is not None:
        some = (rows_at(table, file, dead.marked, deleted) for file, dead in dead_rows if len(dead.marked))
        marked += written_files(table.metadata, table.io, chain.from_iterable(some))
    gone = [(file, dead.positions) for file, dead in dead_rows if len(dead.positions)]
    return SupersededFiles(gone, marked, superseded.older)


def _check_columns(files: Sequence[AddedFile], there: set[str]) -> None:
    """Raise ValueError where a column by which rows are found or marked is gone since files were written."""
    wanted = {*files[-1].key, *(name for one in files for name in (one.deleted, one.sequence) if name is not None)}
    if gone := sorted(wanted - there):
        msg = f"the column {gone[0]!r} is gone since rows were written: undo that, or give the batch up with"
        raise ValueError(f"{msg} ingest checkpoint reset --drop-batch, and its rows are read again")


class _Search:
    """A search for the rows of a table whose keys a batch brings."""

    def __init__(self, table: Table, files: Sequence[AddedFile]) -> None:
        self._table, self._key, self._sequence = table, files[-1].key, files[-1].sequence or ""

    def keys_of(self, file: AddedFile) -> pa.Table:
        """Return the columns of the key of a file of the batch. Raise OSError."""
        return pa.concat_tables([rows for _, rows in self._groups(file.path, None)])

    def rows_with(self, keys: pa.Table, *, alive: bool) -> Iterator[FoundRows[FileScanTask]]:
        """Yield the rows of the table that have one of the keys. Raise what the library raises."""
        for task in self._table.scan(row_filter=_filter(keys, self._key), limit=None).plan_files():
            found = rows_among(self._groups(task.file.file_path, keys), keys)
            if found is not None:
                yield self._alive(FoundRows(task, *found)) if alive else FoundRows(task, *found)

    def _alive(self, found: FoundRows[FileScanTask]) -> FoundRows[FileScanTask]:
        dead = dead_positions(self._table.io, found.file.delete_files).get(found.file.file.file_path)
        if dead is None:
            return found
        stays = pc.invert(pc.is_in(found.positions, value_set=dead.cast(found.positions.type)))
        return FoundRows(found.file, found.positions.filter(stays), found.keys.filter(stays))

    def order(self, found: FoundRows[FileScanTask]) -> pa.Array:
        """Return the values of the column that orders changes, in rows of the table. Raise OSError."""
        file = found.file.file
        return self._values(file.file_path, file.record_count).take(found.positions)

    def order_in(self, file: AddedFile, count: int) -> pa.Array:
        """Return these values in a file of the batch; nulls for one of deletes. Raise OSError."""
        return self._values(None if file.gone else file.path, count)

    def _values(self, path: str | None, count: int) -> pa.Array:
        """Return the values of the column in a file; nulls where it is lacking."""
        field = self._table.schema().find_field(self._sequence)
        (kind,) = schema_to_pyarrow(Schema(field), include_field_ids=False).types
        if path is None:
            return pa.nulls(count, kind)
        with self._table.io.new_input(path).open() as stream:
            file = pq.ParquetFile(stream)
            (own,) = names_in(file.schema_arrow, [field])
            if own not in file.schema_arrow.names:
                return pa.nulls(count, kind)
            return converted(file.read(columns=[own]).column(0), kind).combine_chunks().cast(kind)

    def _groups(self, path: str, keys: pa.Table | None) -> Iterator[tuple[int, pa.Table]]:
        """Yield the columns of the key of groups of a file's rows, and where each group begins.

        `keys`: the keys to search for; row groups whose statistics exclude them are skipped. None: all groups.
        """
        fields = [self._table.schema().find_field(name) for name in self._key]
        types = schema_to_pyarrow(Schema(*fields), include_field_ids=False).types
        with self._table.io.new_input(path).open() as stream:
            file = pq.ParquetFile(stream)
            names = names_in(file.schema_arrow, fields)
            if "" in names and keys is not None:
                return  # its rows have no value in a column of the key, so none of them is among the keys
            yield from key_groups(file, names, types, keys)


def _filter(keys: pa.Table, key: Sequence[str]) -> BooleanExpression:
    """Return a condition that holds for files that may have one of the keys."""
    out: BooleanExpression = AlwaysTrue()
    for name, column in zip(key, keys.columns, strict=True):
        if not is_bounded(column.type):
            continue
        if keys.num_rows <= _FEW:
            out = And(out, In(term=name, literals=set(column.unique().to_pylist())))
        else:
            ends = pc.min_max(column).as_py()
            out = And(
                out,
                And(GreaterThanOrEqual(term=name, value=ends["min"]), LessThanOrEqual(term=name, value=ends["max"])),
            )
    return out
