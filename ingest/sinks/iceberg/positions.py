"""Positions of rows in the files of a table: those whose keys a batch brings.

Files, and groups of rows in them, whose keys lie outside of the batch's are not read. Of the others only the columns of
the key are, a group of rows at a time: memory is bounded by the batch and by a group of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from ingest.sinks.lake.key_groups import is_bounded, key_groups
from ingest.sinks.lake.keys import positions_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask, Table

PATH_ID: Final = 2147483546
POSITION_ID: Final = 2147483545
DELETES: Final = Schema(
    NestedField(PATH_ID, "file_path", StringType(), required=True),
    NestedField(POSITION_ID, "pos", LongType(), required=True),
)
"""Schema of files of deletes, with the ids that the format reserves."""
DELETES_PROPERTIES: Final = {"write.metadata.metrics.default": "full"}
"""A cut path would not say which files the positions are of."""
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


def names_in(found: pa.Schema, fields: Sequence[NestedField]) -> list[str]:
    """Return the names that fields have in a file: by their ids, or in files without ids as in the table."""
    by_id = {int((one.metadata or {}).get(b"PARQUET:field_id", b"-1")): one.name for one in found}
    if set(by_id) == {-1}:
        return [one.name for one in fields]
    # A column of that name with another id is another one, which somebody has renamed or removed since
    return [by_id.get(one.field_id, "") for one in fields]
