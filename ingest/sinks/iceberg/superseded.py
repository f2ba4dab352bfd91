"""Rows that files of a batch supersede: in the table, and among themselves.

In: files in the order in which they were written. Out: positions of rows that are no more, and rows that stay and are
marked as deleted. Rules: docs/spec/iceberg.md#delivery, docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask

from ingest.sinks.iceberg.files import _marked, dead_positions, names_in, rows_at, rows_of, written_files
from ingest.sinks.lake.ordering import Contender, contest
from ingest.sinks.lake.superseded import KeysToMark, is_bounded, key_groups, last_states, positions_of, without
from ingest.sinks.lake.types import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from ingest.sinks.lake.files import AddedFile

    Numbers = np.ndarray[Any, Any]


class SupersededRows(NamedTuple):
    """Rows that files of a batch supersede."""

    gone: list[tuple[FileScanTask, pa.Array]]
    """Files, and positions of rows in them that are no more."""
    marked: list[DataFile]
    """New files with those of these rows that stay, and are marked as deleted."""
    older: int = 0
    """Rows of the batch that are older than their row in the table."""


def superseded_by(table: Table, files: Sequence[AddedFile], rows: Sequence[DataFile]) -> SupersededRows:
    """Return what files of a batch supersede. `rows`: those of them with rows, as a snapshot has them.

    Raise what the library raises.
    """
    key, io, schema = files[-1].key, table.io, table.schema()
    _check_columns(files, {one.name for one in schema.fields})
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(lambda one: key_columns(io, one.path, schema, key), files))
    distinct, superseded = last_states(keys)
    added = {one.file_path: FileScanTask(one) for one in rows}
    there = deleted_positions(table, distinct, key)
    if files[-1].sequence is not None:
        return _by_sequence(table, files, [added.get(one.path) for one in files], keys, there)
    own = [(added[one.path], at) for one, at in zip(files, superseded, strict=True) if len(at) and not one.gone]
    gone = [*reversed(own), *there]
    soft = [at for at, one in enumerate(files) if one.gone and one.deleted is not None]
    if not soft:
        return SupersededRows(gone, [])
    left = pa.concat_tables([without(keys[at], superseded[at]) for at in soft])
    marked = marked_rows(table, [task for task, _ in gone], left, key, files[soft[0]].deleted or "")
    return SupersededRows(gone, list(written_files(table.metadata, io, marked)))


def _check_columns(files: Sequence[AddedFile], there: set[str]) -> None:
    """Raise ValueError where a column by which rows are found or marked is gone since files were written."""
    wanted = {*files[-1].key, *(name for one in files for name in (one.deleted, one.sequence) if name is not None)}
    if gone := sorted(wanted - there):
        msg = f"the column {gone[0]!r} is gone since rows were written: undo that, or give the batch up with"
        raise ValueError(f"{msg} ingest checkpoint reset --drop-batch, and its rows are read again")


def _by_sequence(
    table: Table,
    files: Sequence[AddedFile],
    tasks: Sequence[FileScanTask | None],
    keys: Sequence[pa.Table],
    there: Sequence[tuple[FileScanTask, pa.Array]],
) -> SupersededRows:
    """Return what is superseded where a column says which of two rows is the newer one.

    `tasks`: files of the batch as a snapshot has them; None for one of deletes.
    """
    name, key, deleted = (
        files[-1].sequence or "",
        files[-1].key,
        next((one.deleted for one in files if one.deleted), ""),
    )
    sources = [(task, _alive(table, task, positions)) for task, positions in there]
    contenders = [_of_table(table, task, at, key, name) for task, at in sources]
    for came, (one, found) in enumerate(zip(tasks, keys, strict=True)):
        contenders.append(Contender(found, _values(table, one, name, found.num_rows), came, one is not None))
        if one is not None:
            sources.append((one, np.arange(found.num_rows)))
    outcome = contest(contenders, marks=bool(deleted))
    of_rows = [at for at, one in enumerate(contenders) if one.has_rows]
    written: list[DataFile] = []
    gone = []
    for (task, positions), at in zip(sources, of_rows, strict=True):
        marked = positions[outcome.marked[at]]
        dead = np.unique(np.concatenate([positions[outcome.lost[at]], marked]))
        if len(marked):
            written += written_files(table.metadata, table.io, rows_at(table, task.file, marked, deleted or ""))
        if len(dead):
            gone.append((task, pa.array(dead)))
    return SupersededRows(gone, written, outcome.older)


def _alive(table: Table, task: FileScanTask, positions: pa.Array) -> Numbers:
    """Return those of the positions in a table's file whose rows are not dead."""
    dead = dead_positions(table.io, task.delete_files).get(task.file.file_path)
    at: Numbers = positions.to_numpy(zero_copy_only=False)
    return at if dead is None else at[~np.isin(at, dead.to_numpy(zero_copy_only=False))]


def _of_table(table: Table, task: FileScanTask, at: Numbers, key: Sequence[str], name: str) -> Contender:
    """Return the rows of a table's file at positions."""
    keys = key_columns(table.io, task.file.file_path, table.schema(), key).take(pa.array(at))
    return Contender(keys, _values(table, task, name, task.file.record_count).take(pa.array(at)), -1)


def _values(table: Table, task: FileScanTask | None, name: str, count: int) -> pa.Array:
    """Return the values of a column in a file; nulls where it is lacking."""
    field = table.schema().find_field(name)
    kind = schema_to_pyarrow(Schema(field), include_field_ids=False).types[0]
    if task is None:
        return pa.nulls(count, kind)
    with table.io.new_input(task.file.file_path).open() as stream:
        file = pq.ParquetFile(stream)
        (own,) = names_in(file.schema_arrow, [field])
        if own not in file.schema_arrow.names:
            return pa.nulls(count, kind)
        column = converted(file.read(columns=[own]).column(0), kind)
    return pc.cast(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, kind)


def marked_rows(
    table: Table, tasks: Sequence[FileScanTask], keys: pa.Table, key: Sequence[str], deleted: str
) -> Iterator[pa.Table]:
    """Yield the newest row of each of the keys, with the column that says that it is deleted.

    `tasks`: files that have rows of these keys, from the newest one to the oldest. Raise OSError.
    """
    left = KeysToMark(keys)
    for task in tasks:
        dead = dead_positions(table.io, task.delete_files).get(task.file.file_path)
        for rows in rows_of(table, task.file, dead):
            if not left:
                return
            columns = [rows.column(name).cast(to.type) for name, to in zip(key, keys.columns, strict=True)]
            found = left.take(pa.table(columns, names=keys.column_names))
            if len(found):
                yield _marked(rows.take(found), deleted)


_FEW: Final = 200
"""Keys that are looked for one by one in what the table says of its files."""


def key_columns(io: FileIO, path: str, schema: Schema, key: Sequence[str]) -> pa.Table:
    """Return the columns of the key of a whole file, which is of one batch. Raise OSError."""
    return pa.concat_tables([found for _, found in _groups(io, path, schema, key, None)])


def deleted_positions(table: Table, keys: pa.Table, key: Sequence[str]) -> list[tuple[FileScanTask, pa.Array]]:
    """Return the rows of a table whose keys are among a batch's: files, and positions in them.

    Raise what the library raises.
    """
    out = []
    for task in table.scan(row_filter=_filter(keys, key), limit=None).plan_files():
        for start, rows in _groups(table.io, task.file.file_path, table.schema(), key, keys):
            found = positions_of(keys, rows)
            if len(found):
                out.append((task, pc.add(found, start) if start else found))
    return out


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


def _groups(
    io: FileIO, path: str, schema: Schema, key: Sequence[str], keys: pa.Table | None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the columns of the key of groups of a file's rows, and where each group begins.

    `keys`: those that are looked for; groups that cannot have any are left out. None: all groups.
    """
    fields = [schema.find_field(name) for name in key]
    types = schema_to_pyarrow(Schema(*fields), include_field_ids=False).types
    with io.new_input(path).open() as stream:
        file = pq.ParquetFile(stream)
        names = names_in(file.schema_arrow, fields)
        if "" in names and keys is not None:
            return  # its rows have no value in a column of the key, so none of them is among the keys
        yield from key_groups(file, names, types, keys)
