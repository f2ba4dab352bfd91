"""A task's files of Delta tables: rows and the keys of deletes, in the types and partitions that a table has.

Rules: docs/spec/delta.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from ingest.model.jsontext import parse_row
from ingest.sinks.delta.tables import DeltaPartitions, arrow_schema, existing_columns
from ingest.sinks.lake.files import PartitionValue, write_parquet
from ingest.sinks.lake.writer import LakeFiles, LakeWriter, TaskTable, known_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyarrow.fs import FileSystem

    from ingest.sinks.delta.options import DeltaSink
    from ingest.sinks.delta.warehouse import DeltaWarehouse
    from ingest.sinks.lake.table import LakeTable

_EMPTY: Final = "column {!r} of the key makes partitions, and Delta does not tell an empty text from a null there"


def new_file(files: FileSystem, schema: pa.Schema, batches: Iterable[pa.RecordBatch | pa.Table], kind: str) -> str:
    """Write batches into a new file, whose columns come in the schema's order; returns its path in the table.

    `kind`: a word in the file's name. Raise OSError.
    """
    path = f"{uuid.uuid4()}-{kind}.parquet"
    with files.open_output_stream(path) as stream:
        write_parquet(stream, schema, batches)
    return path


@dataclass(frozen=True, slots=True)
class _TaskTable(TaskTable):
    rows: pa.Schema
    """Columns of files with rows."""
    keys: pa.Schema
    partitions: DeltaPartitions
    files: FileSystem

    @property
    def refuses(self) -> bool:
        return not {*self.key}.isdisjoint(self.empty_is_null)

    def fault(self, key: bytes, _row: bytes | None) -> str | None:
        """Return why a key is refused: an empty text in a column that makes partitions is a null there."""
        if b'""' not in key:
            return None
        values = parse_row(msgspec.Raw(key))
        empty = [name for name in self.empty_is_null if name in self.key and values.get(name) == b'""']
        return _EMPTY.format(empty[0]) if empty else None

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[PartitionValue, ...], pa.RecordBatch]]:
        return self.partitions.split(rows)

    def write(self, rows: pa.RecordBatch, *, of_keys: bool) -> str:
        schema, names = self.keys if of_keys else self.rows, rows.schema.names
        columns = [rows.column(one.name) if one.name in names else pa.nulls(rows.num_rows, one.type) for one in schema]
        batch = pa.RecordBatch.from_arrays(columns, names=schema.names)
        return new_file(self.files, schema, [batch], "keys" if of_keys else "rows")


class DeltaFiles(LakeFiles[DeltaTable]):
    """Writes the data files of a worker's tasks for the Delta tables of a warehouse."""

    looks_up_for_each_batch = False
    """What others change in a table is seen when files are added to it."""

    _warehouse: DeltaWarehouse

    def _known_as(self, table: LakeTable, existing: DeltaTable) -> TaskTable:
        schema, partitions = arrow_schema(existing), DeltaPartitions.of(existing)
        columns = known_columns(table, existing_columns(existing), (table.deleted, table.sequence))
        names, of_files = {column.name for column in columns}, partitions.without(schema)
        return _TaskTable(
            columns=columns,
            key=[name for name in schema.names if name in table.key],
            empty_is_null=partitions.texts,
            # A file of no column would not say how many rows it has
            rows=pa.schema([one for one in of_files if one.name in names] or list(of_files)[:1]),
            keys=pa.schema([one for one in schema if one.name in table.key]),
            partitions=partitions,
            files=self._warehouse.files(table.id),
        )


def delta_writer(options: DeltaSink) -> LakeWriter:
    """Return a task's side of the sink."""
    return LakeWriter(DeltaFiles(options.warehouse), options.states)
