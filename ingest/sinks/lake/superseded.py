"""Which rows of a batch, and of the table's files, are superseded: those whose keys a later row or delete has.

In: columns of Arrow with the keys, a file each. Out: positions of rows. No row becomes a Python object, and groups of
rows whose keys lie outside of those that are looked for are not read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.lake.ordering import Contender, contest
from ingest.sinks.lake.rows import UnfitRows, rows_to_batch, schema_of
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from ingest.sinks.lake.files import AddedFile
    from ingest.sinks.lake.table import LakeColumn


FileT = TypeVar("FileT")
"""A file of a table, as the library of a lake has it."""
NOWHERE: Final = pa.array([], pa.int64())
"""No positions."""
NONE_KNOWN: Final[Mapping[str, pa.Scalar]] = MappingProxyType({})
"""No columns with one value in all rows."""
_BOUNDED: Final = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_decimal)


def is_bounded(data_type: pa.DataType) -> bool:
    """Return whether the smallest and largest values of a type are compared."""
    return any(bounded(data_type) for bounded in _BOUNDED)


def key_groups(
    file: pq.ParquetFile,
    names: Sequence[str],
    types: Sequence[pa.DataType],
    keys: pa.Table | None,
    known: Mapping[str, pa.Scalar] = NONE_KNOWN,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the columns of the key of groups of a file's rows, and where each group begins. Raise OSError.

    `names`: of the columns in the file; `types`: those that they get. `keys`: the keys to search for; row groups
    whose statistics exclude them are skipped. None: all groups. `known`: columns of which
    all rows have one value, whatever is in the file.
    """
    ends = None if keys is None else [ends_of(column) for column in keys.columns]
    start = 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if ends is None or _may_have(group, names, ends, known):
            read = file.read_row_group(number, columns=[name for name in names if name not in known])
            columns = [
                converted(
                    repeated(known[name], group.num_rows) if name in known else read.column(name), to, of_key=True
                )
                for name, to in zip(names, types, strict=True)
            ]
            yield start, pa.table(columns, names=key_names(len(columns)))
        start += group.num_rows


def repeated(value: pa.Scalar, count: int) -> pa.ChunkedArray:
    """Return a column that has one value in so many rows."""
    return pa.chunked_array([pa.repeat(value, count)], value.type)


def ends_of(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the smallest and the largest value of a column; None for a type whose values are not compared."""
    if not is_bounded(column.type):
        return None
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _may_have(
    group: pq.RowGroupMetaData,
    names: Sequence[str],
    ends: Sequence[tuple[Any, Any] | None],
    known: Mapping[str, pa.Scalar],
) -> bool:
    """Return whether a group of rows may have a key between the ends, by its statistics."""
    columns = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}
    for name, bounds in zip(names, ends, strict=True):
        found = None if name in known else columns[name].statistics
        if bounds is None or found is None or not found.has_min_max:
            continue
        if type(found.min) is type(bounds[0]) and (found.max < bounds[0] or found.min > bounds[1]):
            return False
    return True


ROW: Final = "row"
"""Name of the column with the numbers of rows. Columns of keys are `k0`, `k1`, …"""


def key_names(count: int) -> list[str]:
    """Return the names of the columns of keys."""
    return [f"k{at}" for at in range(count)]


def last_states(files: Sequence[pa.Table]) -> tuple[pa.Table, list[pa.Array]]:
    """Return the keys of files once each, and the positions of the rows in each file that a later row supersedes.

    The files have columns of keys only, and come in the order in which they were written.
    """
    whole = pa.concat_tables(files).combine_chunks()
    names = whole.column_names
    last = _numbered(whole).group_by(names, use_threads=False).aggregate([(ROW, "max")])
    stays = np.zeros(whole.num_rows, bool)
    stays[last.column(f"{ROW}_max").to_numpy()] = True
    superseded, start = [], 0
    for file in files:
        superseded.append(pa.array(np.flatnonzero(~stays[start : start + file.num_rows])))
        start += file.num_rows
    return last.select(names), superseded


def positions_of(keys: pa.Table, rows: pa.Table) -> pa.Array:
    """Return the positions of those rows whose keys are among the keys, in order. Both have the same columns."""
    names = keys.column_names
    if len(names) == 1:
        found = pc.is_in(rows.column(0), value_set=keys.column(0).combine_chunks())
        return pc.cast(pc.indices_nonzero(found), pa.int64())
    joined = _numbered(rows).join(keys, names, join_type="left semi", use_threads=False)
    return pa.array(np.sort(joined.column(ROW).to_numpy()))


def rows_of_other_keys(
    columns: Sequence[LakeColumn],
    key: Sequence[str],
    existing: pa.Table,
    keys: Iterable[Sequence[bytes]],
    deleted: str | None,
) -> pa.RecordBatch:
    """Return the keys of rows that are there and have none of these keys, each key once.

    `columns`: those of the key, as the table has them. `keys`: texts of JSON, some at a time. `deleted`: the column
    that is true in rows that stay, and are none any more.
    """
    if deleted is not None:
        existing = existing.filter(pc.invert(pc.fill_null(pc.equal(existing.column(deleted), True), False)))
    schema = schema_of(columns)
    rows = pa.table([converted(existing.column(one.name), one.type) for one in schema], schema=schema)
    batches, count = [], 0
    for some in keys:
        count += len(some)
        found = _batch(columns, key, [(one, None) for one in some])
        batches += [] if found is None else [found]
    kept = pa.Table.from_batches(batches, schema)
    if count and not kept.num_rows:
        rows = schema.empty_table()  # the table can hold none of them: so nobody knows whose its rows are
    others = without(rows, positions_of(kept, rows)) if kept.num_rows else rows
    distinct = others.group_by(schema.names, use_threads=False).aggregate([]).select(schema.names)
    columns_of = [pa.concat_arrays([pa.array([], one.type), *distinct.column(one.name).chunks]) for one in schema]
    return pa.RecordBatch.from_arrays(columns_of, schema=schema)


def _batch(
    columns: Sequence[LakeColumn], key: Sequence[str], records: Sequence[tuple[bytes, None]]
) -> pa.RecordBatch | None:
    """Return the columns of keys, without those that the table cannot hold; None where it can hold none."""
    try:
        return rows_to_batch(columns, key, records)
    except UnfitRows as exc:
        faults = {at for at, _ in exc.faults}
        fit = [one for at, one in enumerate(records) if at not in faults]
        return rows_to_batch(columns, key, fit) if fit else None


def without(rows: pa.Table, positions: pa.Array) -> pa.Table:
    """Return the rows that are not at positions."""
    stays = np.ones(rows.num_rows, bool)
    stays[positions.to_numpy(zero_copy_only=False)] = False
    return rows.filter(pa.array(stays))


class KeysToMark:
    """Keys of deleted rows that stay: the newest row of each is marked, and it is looked for from there on."""

    def __init__(self, keys: pa.Table) -> None:
        """Look for all of them."""
        self._keys = keys

    def __bool__(self) -> bool:
        """Return whether there are any left."""
        return bool(self._keys.num_rows)

    def take(self, rows: pa.Table) -> pa.Array:
        """Return the position of the last row of each key among rows, which are newer than those of later calls."""
        positions = positions_of(self._keys, rows) if self else pa.array([], pa.int64())
        if not len(positions):
            return positions
        chosen = rows.take(positions)
        _, (older,) = last_states([chosen])
        self._keys = without(self._keys, positions_of(chosen, self._keys))
        return without(pa.table([positions], [ROW]), older).column(0).combine_chunks()


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))


# -- a batch against its table -----------------------------------------------------------------------------------------


class FoundRows(NamedTuple, Generic[FileT]):
    """Rows of one file of a table whose keys a batch brings."""

    file: FileT
    positions: pa.Array
    keys: pa.Table


class DeadRows(NamedTuple):
    """Rows of one file that are no more."""

    positions: pa.Array
    marked: pa.Array = NOWHERE
    """Positions of those that stay elsewhere, marked as deleted."""


class SupersededRows(NamedTuple, Generic[FileT]):
    """Rows that the files of a batch supersede."""

    own: list[DeadRows]
    """Of each file of the batch."""
    others: list[tuple[FileT, DeadRows]]
    """Of files of the table."""
    older: int = 0
    """Rows of the batch that are older than their row in the table."""


class TableSearch(Protocol[FileT]):
    """The rows of a table and of a batch, as a format finds them. Methods raise OSError."""

    def rows_with(self, keys: pa.Table, *, alive: bool) -> Iterator[FoundRows[FileT]]:
        """Yield the rows of the table with one of the keys. `alive`: deleted rows are left out."""

    def order(self, found: FoundRows[FileT]) -> pa.Array:
        """Return the values of the column that orders changes, in these rows."""

    def order_in(self, file: AddedFile, count: int) -> pa.Array:
        """Return these values in all rows of a file of the batch; nulls for one of deletes."""


def superseded_rows(
    search: TableSearch[FileT], files: Sequence[AddedFile], keys: Sequence[pa.Table]
) -> SupersededRows[FileT]:
    """Return what the files of a batch supersede, in the table and among themselves. `keys`: those of each file."""
    distinct, superseded = last_states(keys)
    if files[-1].sequence is not None:
        return _by_sequence(search, files, keys, [*search.rows_with(distinct, alive=True)])
    soft = [at for at, file in enumerate(files) if file.gone and file.deleted is not None]
    left = [without(keys[at], superseded[at]) for at in soft]
    marking = KeysToMark(pa.concat_tables(left) if left else distinct.slice(0, 0))
    own = []
    for file, of_keys, positions in reversed([*zip(files, keys, superseded, strict=True)]):
        marks = marking and not file.gone
        own.append(DeadRows(positions, positions.take(marking.take(of_keys.take(positions))) if marks else NOWHERE))
    others = []
    for found in search.rows_with(distinct, alive=bool(soft)):
        marked = found.positions.take(marking.take(found.keys)) if marking else NOWHERE
        others.append((found.file, DeadRows(found.positions, marked)))
    return SupersededRows(own[::-1], others)


def _by_sequence(
    search: TableSearch[FileT], files: Sequence[AddedFile], keys: Sequence[pa.Table], found: Sequence[FoundRows[FileT]]
) -> SupersededRows[FileT]:
    """Return what is superseded where a column says which of two rows is the newer one."""
    contenders = [Contender(rows.keys, search.order(rows), -1) for rows in found]
    for came, (file, of_keys) in enumerate(zip(files, keys, strict=True)):
        contenders.append(Contender(of_keys, search.order_in(file, of_keys.num_rows), came, not file.gone))
    outcome = contest(contenders, marks=any(file.deleted for file in files))
    dead = [
        DeadRows(pa.array(np.union1d(lost, marked)), pa.array(marked))
        for lost, marked in zip(outcome.lost, outcome.marked, strict=True)
    ]
    others = [
        (rows.file, DeadRows(rows.positions.take(at.positions), rows.positions.take(at.marked)))
        for rows, at in zip(found, dead, strict=False)
        if len(at.positions)
    ]
    return SupersededRows(dead[len(found) :], others, outcome.older)


def rows_among(groups: Iterable[tuple[int, pa.Table]], keys: pa.Table) -> tuple[pa.Array, pa.Table] | None:
    """Return the positions and keys of rows of a file that have one of the keys; None where there is none.

    `groups`: as `key_groups` yields them.
    """
    positions, of_keys = [], []
    for start, rows in groups:
        found = positions_of(keys, rows)
        if len(found):
            positions.append(pc.add(found, start) if start else found)
            of_keys.append(rows.take(found))
    return (pa.concat_arrays(positions), pa.concat_tables(of_keys)) if positions else None
