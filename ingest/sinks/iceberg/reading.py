"""Rows of files of a table, as the table has its columns now.

The library reads whole tables only, or files by an inner part of it, which is used here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, GreaterThan, LessThan, Or
from pyiceberg.io.pyarrow import _read_deletes, _task_to_record_batches
from pyiceberg.table import FileScanTask
from pyiceberg.types import LongType

from ingest.model.numbers import LARGEST
from ingest.sinks.lake.keys import KeysToMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def dead_positions(io: FileIO, deletes: Iterable[DataFile]) -> dict[str, pa.Array]:
    """Return the positions of dead rows by the paths of their files. Raise OSError."""
    found: dict[str, list[Any]] = {}
    for one in deletes:
        for path, positions in _read_deletes(io, one).items():
            found.setdefault(path, []).append(positions.to_numpy())
    return {path: pa.array(np.unique(np.concatenate(some))) for path, some in found.items()}


def has_beyond(table: Table, name: str) -> bool:
    """Return whether a BIGINT column holds an integer beyond ±2^53. Raise what the library raises."""
    if not isinstance(table.schema().find_field(name).field_type, LongType):
        return False
    beyond = Or(GreaterThan(term=name, value=LARGEST), LessThan(term=name, value=-LARGEST))
    return bool(table.scan(row_filter=beyond, selected_fields=(name,), limit=1).to_arrow().num_rows)


def rows_of(table: Table, file: DataFile, dead: pa.Array | None) -> Iterator[pa.Table]:
    """Yield the rows of a file that are not dead. Raise OSError."""
    schema = table.schema()
    for batch in _task_to_record_batches(
        table.io,
        FileScanTask(file),
        AlwaysTrue(),
        schema,
        schema,
        set(schema.field_ids),
        None if dead is None else [pa.chunked_array([dead])],
        case_sensitive=True,
        name_mapping=table.metadata.name_mapping(),
        partition_spec=table.metadata.specs()[file.spec_id],
        format_version=table.format_version,
    ):
        yield pa.table(batch)


def rows_at(table: Table, file: DataFile, positions: np.ndarray[Any, Any], deleted: str) -> Iterator[pa.Table]:
    """Yield the rows of a file at positions, with the column that says that they are deleted. Raise OSError."""
    others = np.ones(file.record_count, bool)
    others[positions] = False
    for rows in rows_of(table, file, pa.array(np.flatnonzero(others))):
        yield _marked(rows, deleted)


def _marked(rows: pa.Table, deleted: str) -> pa.Table:
    place = rows.schema.get_field_index(deleted)
    return rows.set_column(place, rows.schema.field(place), pa.repeat(True, rows.num_rows))


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
