"""A task's files of Iceberg tables: rows and the keys of deletes, in the types and partitions that a table has.

Rules: docs/spec/iceberg.md#types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from pyiceberg.table import Table

from ingest.model.jsontext import parse_row
from ingest.sinks.iceberg.files import ParquetPlace
from ingest.sinks.iceberg.tables import Partitions, existing_columns
from ingest.sinks.lake.writer import LakeFiles, LakeWriter, TaskTable, known_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ingest.sinks.iceberg.options import IcebergSink
    from ingest.sinks.lake.files import PartitionValue
    from ingest.sinks.lake.table import LakeTable


@dataclass(frozen=True, slots=True)
class _TaskTable(TaskTable):
    rows: ParquetPlace
    keys: ParquetPlace
    partitions: Partitions

    @property
    def refuses(self) -> bool:
        return self.partitions.narrow

    def fault(self, key: bytes, row: bytes | None) -> str | None:
        if row is None:
            return None
        return self.partitions.fault({**parse_row(msgspec.Raw(row)), **parse_row(msgspec.Raw(key))})

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[PartitionValue, ...], pa.RecordBatch]]:
        return (((), part) for part in self.partitions.split(rows))

    def write(self, rows: pa.RecordBatch, *, of_keys: bool) -> str:
        return self.keys.write([rows], "keys") if of_keys else self.rows.write([rows], "rows")


class IcebergFiles(LakeFiles[Table]):
    """Writes the data files of a worker's tasks for the Iceberg tables of a catalog."""

    looks_up_for_each_batch = True

    def _known_as(self, table: LakeTable, existing: Table) -> TaskTable:
        names = [column.name for column in table.columns]
        columns = existing_columns(existing.metadata)
        return _TaskTable(
            columns=known_columns(table, columns, names),
            key=[name for name in columns if name in table.key],
            empty_is_null=(),
            rows=ParquetPlace.of(existing, names),
            keys=ParquetPlace.of(existing, table.key),
            partitions=Partitions(existing.metadata),
        )


def iceberg_writer(options: IcebergSink) -> LakeWriter:
    """Return a task's side of the sink."""
    return LakeWriter(IcebergFiles(options.warehouse), options.states)
