"""Files of a table that have rows of a batch's keys, and the rows of them that remain.

Files, and groups of rows in them, whose keys lie outside of the batch's are not read. Of the others the columns of the
key are read, and then the rows of those that have such a key. Memory is bounded by the batch, a group of rows, and what
is written at once.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.delta.files import ListedFile, listed, parquet_file
from ingest.sinks.delta.tables import arrow_schema, values_of
from ingest.sinks.lake.superseded import FoundRows, ends_of, key_groups, repeated, rows_among
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

    from ingest.sinks.lake.files import AddedFile


class DeltaSearch:
    """A search for the rows of a table whose keys a batch brings."""

    def __init__(self, table: DeltaTable, place: FileSystem, files: Sequence[AddedFile]) -> None:
        """`place` has the table's files; `files`: those of the batch."""
        self._table, self._place, self._key, self._sequence = table, place, files[-1].key, files[-1].sequence

    def rows_with(self, keys: pa.Table, *, alive: bool) -> Iterator[FoundRows[ListedFile]]:
        """Yield the rows of the table that have one of the keys: none is dead. Raise OSError, LakeChangeError."""
        types = [column.type for column in keys.columns]
        for file in candidates(self._table, keys, self._key):
            with self._place.open_input_file(file.path) as stream:
                found = rows_among(key_groups(parquet_file(stream), self._key, types, keys, file.known), keys)
            if found is not None:
                yield FoundRows(file, *found)

    def order(self, found: FoundRows[ListedFile]) -> pa.Array:
        """Return the values of the column that orders changes, in rows of the table. Raise OSError."""
        return self._values(found.file.path, found.file.known, found.positions)

    def order_in(self, file: AddedFile, count: int) -> pa.Array:
        """Return these values in a file of the batch; nulls for one of deletes. Raise OSError."""
        if file.gone:
            return pa.nulls(count, self._order_field.type)
        return self._values(file.path, values_of(file.partition), pa.array(np.arange(count)))

    @property
    def _order_field(self) -> pa.Field:
        return arrow_schema(self._table).field(self._sequence)

    def _values(self, path: str, known: Mapping[str, pa.Scalar], positions: pa.Array) -> pa.Array:
        """Return the values of the column in rows of a file, by their positions; nulls where it is lacking."""
        field = self._order_field
        if field.name in known:
            return converted(repeated(known[field.name], len(positions)), field.type).combine_chunks()
        with self._place.open_input_file(path) as stream:
            file = parquet_file(stream)
            if field.name not in file.schema_arrow.names:
                return pa.nulls(len(positions), field.type)
            column = converted(file.read(columns=[field.name]).column(0), field.type)
        return column.combine_chunks().cast(field.type).take(positions)


def candidates(table: DeltaTable, keys: pa.Table, key: Sequence[str]) -> list[ListedFile]:
    """Return the files that may have one of the keys, by what the table says of them. Raise LakeChangeError."""
    actions = pa.table(table.get_add_actions())
    may = np.ones(actions.num_rows, bool)
    for name, column in zip(key, keys.columns, strict=True):
        of_partition = _said(actions, "partition", name)
        if of_partition is not None:
            if not pa.types.is_floating(column.type):  # of which 0.0 and -0.0 are equal, and two texts
                found = pc.is_in(of_partition.cast(column.type), value_set=column.combine_chunks())
                may &= found.to_numpy(zero_copy_only=False)
            continue
        ends = ends_of(column)
        least, most = _said(actions, "min", name), _said(actions, "max", name)
        if ends is None or least is None or most is None or not isinstance(ends[0], (int, str, date)):
            continue
        outside = pc.or_(pc.greater(least, ends[1]), pc.less(most, ends[0]))
        may &= ~pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    return listed(actions.filter(pa.array(may)))


def _said(actions: pa.Table, which: str, name: str) -> pa.Array | None:
    """Return what a table says of a column in each of its files; None where it says nothing."""
    if which not in actions.column_names:
        return None
    found = actions.column(which).combine_chunks()
    names = [field.name for field in found.type]
    return pc.struct_field(found, names.index(name)) if name in names else None
