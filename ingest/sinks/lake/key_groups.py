"""Columns of the key in a Parquet file, a group of rows at a time.

Groups whose keys lie outside of those that are looked for are not read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest.sinks.lake.converted import converted
from ingest.sinks.lake.keys import key_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

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

    `names`: of the columns in the file; `types`: those that they get. `keys`: those that are looked for; groups that
    cannot have any are left out. None: all groups. `known`: columns of which all rows have one value, whatever is in
    the file.
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
