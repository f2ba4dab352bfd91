"""Files of a table that have rows of a batch's keys, and the rows of them that remain.

Files, and groups of rows in them, whose keys lie outside of the batch's are not read. Of the others the columns of the
key are read, and then the rows of those that have such a key. Memory is bounded by the batch, a group of rows, and what
is written at once.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.lake.changes import LakeChangeError
from ingest.lake.converted import converted
from ingest.lake.key_groups import ends_of, key_groups
from ingest.lake.keys import positions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake import DeltaTable
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

    from ingest.lake.keys import KeysToMark

_GROUP_BYTES: Final = 64 << 20
"""Bytes of Arrow's columns that become one group of rows."""
_GROUPS: Final = 4
"""Groups of rows in a file that is made of rows that remain."""


_PATH: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._/-]*")
"""Paths that are the same with and without the escapes of a URL."""


NOWHERE: Final = pa.array([], pa.int64())
"""No positions."""


class Superseded(NamedTuple):
    """A file, and the positions of those of its rows that are no more."""

    path: str
    positions: pa.Array
    marked: pa.Array = NOWHERE
    """Those of them that stay, marked as deleted."""


def files_with(
    table: DeltaTable, place: FileSystem, keys: pa.Table, key: Sequence[str], marking: KeysToMark
) -> list[tuple[Superseded, int]]:
    """Return the files of a table that have rows of a batch's keys, and their sizes in bytes. Raise OSError.

    `marking`: those of the keys whose row stays.
    """
    types = [column.type for column in keys.columns]
    out = []
    for path, size in _candidates(pa.table(table.get_add_actions()), keys, key):
        positions, of_keys = [], []
        with place.open_input_file(path) as stream:
            for start, rows in key_groups(_parquet(stream), key, types, keys):
                found = positions_of(keys, rows)
                positions.append(pc.add(found, start))
                of_keys.append(rows.take(found))
        if any(map(len, positions)):
            at = pa.concat_arrays(positions)
            out.append((Superseded(path, at, at.take(marking.take(pa.concat_tables(of_keys)))), size))
    return out


def _parquet(stream: NativeFile) -> pq.ParquetFile:
    """Return a file of a table. Its times may have the old type of 96 bits, which Spark writes."""
    return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


def _candidates(actions: pa.Table, keys: pa.Table, key: Sequence[str]) -> list[tuple[str, int]]:
    """Return the files that may have one of the keys, by what the table says of them."""
    if not actions.num_rows:
        return []
    may = np.ones(actions.num_rows, bool)
    for name, column in zip(key, keys.columns, strict=True):
        ends = ends_of(column)
        least, most = _values(actions, "min", name), _values(actions, "max", name)
        if ends is None or least is None or most is None or not isinstance(ends[0], (int, str, date)):
            continue
        outside = pc.or_(pc.greater(least, ends[1]), pc.less(most, ends[0]))
        may &= ~pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    chosen = actions.select(["path", "size_bytes"]).filter(pa.array(may))
    paths = [_checked(path) for path in chosen.column(0).to_pylist()]
    return list(zip(paths, chosen.column(1).to_pylist(), strict=True))


def _checked(path: str) -> str:
    """Return the path of a file in a table. Raise LakeChangeError for one of which the library has another spelling."""
    if not _PATH.fullmatch(path):
        msg = f"it has a file with the name {path[:200]!r}, which this tool does not write anew"
        raise LakeChangeError(msg)
    return path


def _values(actions: pa.Table, which: str, name: str) -> pa.Array | None:
    if which not in actions.column_names:
        return None
    found = actions.column(which).combine_chunks()
    names = [field.name for field in found.type]
    return pc.struct_field(found, names.index(name)) if name in names else None


def remaining_rows(
    place: FileSystem, files: Sequence[Superseded], schema: pa.Schema, deleted: str | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of files that remain, as the columns of a schema. A column that a file lacks is null there.

    `deleted`: the column that becomes true in rows that are marked.
    """
    for one in files:
        with place.open_input_file(one.path) as stream:
            file = _parquet(stream)
            stays, marked = np.ones(file.metadata.num_rows, bool), np.zeros(file.metadata.num_rows, bool)
            stays[one.positions.to_numpy(zero_copy_only=False)] = False
            marked[one.marked.to_numpy(zero_copy_only=False)] = True
            stays |= marked
            start = 0
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                mask, marks = stays[start : start + count], marked[start : start + count]
                start += count
                if mask.any():
                    # In this order: views, which other writers have, are no columns that can be filtered
                    rows = _as_schema(file.read_row_group(number), schema)
                    yield _marked(rows, marks, deleted).filter(pa.array(mask))


def _marked(rows: pa.Table, which: np.ndarray[Any, Any], deleted: str | None) -> pa.Table:
    """Return rows of which some are marked as deleted."""
    if deleted is None or not which.any():
        return rows
    place = rows.schema.get_field_index(deleted)
    values = pc.if_else(pa.array(which), True, rows.column(place))
    return rows.set_column(place, rows.schema.field(place), values)


def all_rows(table: DeltaTable, place: FileSystem, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield all rows of a table as the columns of a schema, which holds their values. Raise OSError."""
    paths = map(_checked, pa.table(table.get_add_actions()).column("path").to_pylist())
    yield from remaining_rows(place, [Superseded(path, NOWHERE) for path in paths], schema)


def _as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [
        converted(rows.column(one.name), one.type)
        if one.name in rows.column_names
        else pa.nulls(rows.num_rows, one.type)
        for one in schema
    ]
    return pa.table(columns, schema=schema)


def rows_per_file(rows: Iterator[pa.Table]) -> Iterator[Iterator[pa.Table]]:
    """Yield the rows of each new file, as tables that become a group of rows each. Each is used up before the next."""
    groups = _grouped(rows)
    for first in groups:
        yield _with_next(first, groups)


def _with_next(first: pa.Table, groups: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    for _ in range(_GROUPS - 1):
        following = next(groups, None)
        if following is None:
            return
        yield following


def _grouped(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    size = 0
    for one in rows:
        held.append(one)
        size += one.nbytes
        if size >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)
