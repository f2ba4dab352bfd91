"""Files of a table that have rows of a batch's keys, and the rows of them that remain.

Files, and groups of rows in them, whose keys lie outside of the batch's are not read. Of the others the columns of the
key are read, and then the rows of those that have such a key. Memory is bounded by the batch, a group of rows, and what
is written at once.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.delta.files import NOWHERE, ListedFile, Superseded, _listed, _parquet
from ingest.sinks.delta.tables import arrow_schema, values_of
from ingest.sinks.lake.ordering import Contender, contest
from ingest.sinks.lake.superseded import KeysToMark, ends_of, key_groups, last_states, positions_of, repeated, without
from ingest.sinks.lake.types import converted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

    from ingest.sinks.lake.files import AddedFile


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
    return _listed(actions.filter(pa.array(may)))


def _said(actions: pa.Table, which: str, name: str) -> pa.Array | None:
    """Return what a table says of a column in each of its files; None where it says nothing."""
    if which not in actions.column_names:
        return None
    found = actions.column(which).combine_chunks()
    names = [field.name for field in found.type]
    return pc.struct_field(found, names.index(name)) if name in names else None
