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

_GROUP_BYTES: Final = 64 << 20
"""Bytes of Arrow's columns that become one group of rows."""
_GROUPS: Final = 4
"""Groups of rows in a file that is made of rows that remain."""


_PATH: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._/-]*")
"""Paths that are the same with and without the escapes of a URL."""


class Superseded(NamedTuple):
    """A file, and the positions of those of its rows that are no more."""

    path: str
    positions: pa.Array


def files_with(
    table: DeltaTable, place: FileSystem, keys: pa.Table, key: Sequence[str]
) -> list[tuple[str, int, pa.Array]]:
    """Return the files of a table that have rows of a batch's keys: path, size in bytes, positions. Raise OSError."""
    types = [column.type for column in keys.columns]
    out = []
    for path, size in _candidates(pa.table(table.get_add_actions()), keys, key):
        with place.open_input_file(path) as stream:
            found = [
                pc.add(positions_of(keys, rows), start)
                for start, rows in key_groups(_parquet(stream), key, types, keys)
            ]
        positions = pa.concat_arrays(found) if found else pa.array([], pa.int64())
        if len(positions):
            out.append((path, size, positions))
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


def remaining_rows(place: FileSystem, files: Sequence[Superseded], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files that remain, as the columns of a schema. A column that a file lacks is null there."""
    for one in files:
        with place.open_input_file(one.path) as stream:
            file = _parquet(stream)
            stays = np.ones(file.metadata.num_rows, bool)
            stays[one.positions.to_numpy(zero_copy_only=False)] = False
            start = 0
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                mask = stays[start : start + count]
                start += count
                if mask.any():
                    # In this order: views, which other writers have, are no columns that can be filtered
                    yield _as_schema(file.read_row_group(number), schema).filter(pa.array(mask))


def all_rows(table: DeltaTable, place: FileSystem, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield all rows of a table as the columns of a schema, which holds their values. Raise OSError."""
    none = pa.array([], pa.int64())
    paths = map(_checked, pa.table(table.get_add_actions()).column("path").to_pylist())
    yield from remaining_rows(place, [Superseded(path, none) for path in paths], schema)


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
