"""Files of a table that have rows of a batch's keys, and the rows of them that remain.

Files, and groups of rows in them, whose keys lie outside of the batch's are not read. Of the others the columns of the
key are read, and then the rows of those that have such a key. Memory is bounded by the batch, a group of rows, and what
is written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.delta.listing import candidates
from ingest.lake.converted import converted
from ingest.lake.key_groups import NONE_KNOWN, key_groups, repeated
from ingest.lake.keys import positions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

    from ingest.delta.listing import ListedFile
    from ingest.lake.keys import KeysToMark

_GROUP_BYTES: Final = 64 << 20
"""Bytes of Arrow's columns that become one group of rows."""
_GROUPS: Final = 4
"""Groups of rows in a file that is made of rows that remain."""
NOWHERE: Final = pa.array([], pa.int64())
"""No positions."""


class Superseded(NamedTuple):
    """A file, and the positions of those of its rows that are no more."""

    path: str
    positions: pa.Array
    marked: pa.Array = NOWHERE
    """Those of them that stay, marked as deleted."""
    known: Mapping[str, pa.Scalar] = NONE_KNOWN
    """By column: the value that all of its rows have, whatever is in the file."""


def files_with(
    table: DeltaTable, place: FileSystem, keys: pa.Table, key: Sequence[str], marking: KeysToMark
) -> list[tuple[Superseded, ListedFile]]:
    """Return the files of a table that have rows of a batch's keys. Raise OSError.

    `marking`: those of the keys whose row stays.
    """
    types = [column.type for column in keys.columns]
    out = []
    for file in candidates(table, keys, key):
        positions, of_keys = [], []
        with place.open_input_file(file.path) as stream:
            for start, rows in key_groups(_parquet(stream), key, types, keys, file.known):
                found = positions_of(keys, rows)
                positions.append(pc.add(found, start))
                of_keys.append(rows.take(found))
        if any(map(len, positions)):
            at = pa.concat_arrays(positions)
            marked = at.take(marking.take(pa.concat_tables(of_keys)))
            out.append((Superseded(file.path, at, marked, file.known), file))
    return out


def _parquet(stream: NativeFile) -> pq.ParquetFile:
    """Return a file of a table. Its times may have the old type of 96 bits, which Spark writes."""
    return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


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
                    rows = _as_schema(file.read_row_group(number), schema, one.known)
                    yield _marked(rows, marks, deleted).filter(pa.array(mask))


def _marked(rows: pa.Table, which: np.ndarray[Any, Any], deleted: str | None) -> pa.Table:
    """Return rows of which some are marked as deleted."""
    if deleted is None or not which.any():
        return rows
    place = rows.schema.get_field_index(deleted)
    values = pc.if_else(pa.array(which), True, rows.column(place))
    return rows.set_column(place, rows.schema.field(place), values)


def all_of(files: Sequence[ListedFile]) -> list[Superseded]:
    """Return files of which all rows remain."""
    return [Superseded(one.path, NOWHERE, known=one.known) for one in files]


def _as_schema(rows: pa.Table, schema: pa.Schema, known: Mapping[str, pa.Scalar]) -> pa.Table:
    columns: list[Any] = []
    for one in schema:
        if one.name in known:
            columns.append(converted(repeated(known[one.name], rows.num_rows), one.type))
        elif one.name in rows.column_names:
            columns.append(converted(rows.column(one.name), one.type))
        else:
            columns.append(pa.nulls(rows.num_rows, one.type))
    return pa.table(columns, schema=schema)


def rows_per_file(rows: Iterator[pa.Table]) -> Iterator[Iterator[pa.Table]]:
    """Yield the rows of each new file, as tables that become a group of rows each. Each is used up before the next."""
    groups = row_groups(rows)
    for first in groups:
        yield _with_next(first, groups)


def _with_next(first: pa.Table, groups: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    for _ in range(_GROUPS - 1):
        following = next(groups, None)
        if following is None:
            return
        yield following


def row_groups(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows as tables that become a group of rows each."""
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
