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

from ingest.sinks.delta.listing import candidates
from ingest.sinks.delta.partitions import values_of
from ingest.sinks.delta.tables import arrow_schema
from ingest.sinks.lake.converted import converted
from ingest.sinks.lake.key_groups import NONE_KNOWN, key_groups, repeated
from ingest.sinks.lake.keys import KeysToMark, last_states, positions_of, without
from ingest.sinks.lake.sequence import Contender, contest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

    from ingest.sinks.delta.listing import ListedFile
    from ingest.sinks.lake.table import AddedFile

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


class SupersededFiles(NamedTuple):
    """Rows that files of a batch supersede."""

    own: list[Superseded]
    """The files of the batch, in their order."""
    found: list[tuple[Superseded, ListedFile]]
    """Files of the table that have such rows."""
    older: int = 0
    """Rows of the batch that are older than their row in the table."""


def superseded_by(
    table: DeltaTable, place: FileSystem, files: Sequence[AddedFile], keys: Sequence[pa.Table]
) -> SupersededFiles:
    """Return what files of a batch supersede. `keys`: those of each of them. Raise OSError."""
    distinct, superseded = last_states(keys)
    if files[-1].sequence is not None:
        return _by_sequence(table, place, files, keys, distinct)
    soft = [at for at, one in enumerate(files) if one.gone and one.deleted is not None]
    left = [without(keys[at], superseded[at]) for at in soft]
    marking = KeysToMark(pa.concat_tables(left) if left else distinct.slice(0, 0))
    own = []
    for one, of_keys, positions in reversed([*zip(files, keys, superseded, strict=True)]):
        marked = NOWHERE if one.gone else positions.take(marking.take(of_keys.take(positions)))
        own.append(Superseded(one.path, positions, marked, values_of(one.partition)))
    found = []
    for file, at, of_keys in rows_with(table, place, distinct, files[-1].key):
        found.append((Superseded(file.path, at, at.take(marking.take(of_keys)), file.known), file))
    return SupersededFiles(own[::-1], found)


def _by_sequence(
    table: DeltaTable, place: FileSystem, files: Sequence[AddedFile], keys: Sequence[pa.Table], distinct: pa.Table
) -> SupersededFiles:
    """Return what is superseded where a column says which of two rows is the newer one."""
    field = arrow_schema(table).field(files[-1].sequence)
    there = [*rows_with(table, place, distinct, files[-1].key)]
    contenders = [
        Contender(of_keys, _values(place, Superseded(file.path, at, known=file.known), field), -1)
        for file, at, of_keys in there
    ]
    batch = [Superseded(one.path, NOWHERE, known=values_of(one.partition)) for one in files]
    for came, (one, of_keys) in enumerate(zip(files, keys, strict=True)):
        every = pa.array(np.arange(of_keys.num_rows))
        values = (
            pa.nulls(len(every), field.type)
            if one.gone
            else _values(place, batch[came]._replace(positions=every), field)
        )
        contenders.append(Contender(of_keys, values, came, not one.gone))
    outcome = contest(contenders, marks=any(one.deleted for one in files))
    found = []
    for (file, at, _), lost, marked in zip(there, outcome.lost, outcome.marked, strict=False):
        if len(lost) or len(marked):
            rows = Superseded(file.path, at.take(_both(lost, marked)), at.take(pa.array(marked)), file.known)
            found.append((rows, file))
    own = [
        one._replace(positions=_both(lost, marked), marked=pa.array(marked))
        for one, lost, marked in zip(batch, outcome.lost[len(there) :], outcome.marked[len(there) :], strict=True)
    ]
    return SupersededFiles(own, found, outcome.older)


def _both(lost: np.ndarray[Any, Any], marked: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.union1d(lost, marked))


def _values(place: FileSystem, file: Superseded, field: pa.Field) -> pa.Array:
    """Return the values of a column in rows of a file, by their positions; nulls where it is lacking. Raise OSError."""
    if field.name in file.known:
        return converted(repeated(file.known[field.name], len(file.positions)), field.type).combine_chunks()
    with place.open_input_file(file.path) as stream:
        found = _parquet(stream)
        if field.name not in found.schema_arrow.names:
            return pa.nulls(len(file.positions), field.type)
        column = converted(found.read(columns=[field.name]).column(0), field.type)
    whole = column.combine_chunks().cast(field.type)
    return whole.take(file.positions)


def rows_with(
    table: DeltaTable, place: FileSystem, keys: pa.Table, key: Sequence[str]
) -> Iterator[tuple[ListedFile, pa.Array, pa.Table]]:
    """Yield the files of a table that have rows of a batch's keys, the positions of these, and their keys.

    Raise OSError, LakeChangeError.
    """
    types = [column.type for column in keys.columns]
    for file in candidates(table, keys, key):
        positions, of_keys = [], []
        with place.open_input_file(file.path) as stream:
            for start, rows in key_groups(_parquet(stream), key, types, keys, file.known):
                found = positions_of(keys, rows)
                positions.append(pc.add(found, start))
                of_keys.append(rows.take(found))
        if any(map(len, positions)):
            yield file, pa.concat_arrays(positions), pa.concat_tables(of_keys)


def _parquet(stream: NativeFile) -> pq.ParquetFile:
    """Return a file of a table. Its times may have the old type of 96 bits, which Spark writes."""
    return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


def remaining_rows(
    place: FileSystem,
    files: Sequence[Superseded],
    schema: pa.Schema,
    deleted: str | None = None,
    key: Collection[str] = (),
) -> Iterator[pa.Table]:
    """Yield the rows of files that remain, as the columns of a schema. A column that a file lacks is null there.

    `deleted`: the column that becomes true in rows that are marked. `key`: the columns of the primary key.
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
                    rows = _as_schema(file.read_row_group(number), schema, one.known, key)
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


def _as_schema(rows: pa.Table, schema: pa.Schema, known: Mapping[str, pa.Scalar], key: Collection[str]) -> pa.Table:
    columns: list[Any] = []
    for one in schema:
        if one.name in known:
            columns.append(converted(repeated(known[one.name], rows.num_rows), one.type, of_key=one.name in key))
        elif one.name in rows.column_names:
            columns.append(converted(rows.column(one.name), one.type, of_key=one.name in key))
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
