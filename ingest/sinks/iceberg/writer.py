"""A task's files of Iceberg tables: rows and the keys of deletes, in the types and partitions that a table has.

Rules: docs/spec/iceberg.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider, load_location_provider

from ingest.model.jsontext import parse_row
from ingest.sinks.iceberg.tables import Partitions, existing_columns
from ingest.sinks.lake.files import LEVEL, PartitionValue, write_parquet
from ingest.sinks.lake.writer import LakeFiles, LakeWriter, TaskTable, known_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

    from ingest.sinks.iceberg.options import IcebergSink
    from ingest.sinks.lake.table import LakeTable


@dataclass(frozen=True, slots=True)
class ParquetPlace:
    """The place where files of a table are written, and their form."""

    io: FileIO
    locations: LocationProvider
    schema: pa.Schema
    """Columns with the ids of their fields."""
    codec: str
    level: int | None

    @classmethod
    def of(cls, table: Table, fields: Iterable[str] | None = None) -> ParquetPlace:
        """Return the place of a table's files. `fields`: the names of their columns; all of them where it is None."""
        return cls.of_metadata(table.metadata, table.io, fields)

    @classmethod
    def of_metadata(cls, metadata: TableMetadata, io: FileIO, fields: Iterable[str] | None = None) -> ParquetPlace:
        """Return the place of the files of a table that has this metadata, or will have it."""
        schema, properties = metadata.schema(), metadata.properties
        if fields is not None:
            wanted = set(fields)
            schema = Schema(*(one for one in schema.fields if one.name in wanted))
        codec = properties.get("write.parquet.compression-codec", "zstd").lower()
        level = properties.get("write.parquet.compression-level")
        return cls(
            io,
            load_location_provider(metadata.location, properties),
            schema_to_pyarrow(schema),
            "none" if codec == "uncompressed" else codec,
            int(level) if level else LEVEL if codec == "zstd" else None,
        )

    def write(self, batches: Iterable[pa.RecordBatch | pa.Table], kind: str) -> str:
        """Write batches into a new file, whose columns come in the schema's order; returns its path.

        `kind`: a word in the file's name. Raise OSError.
        """
        path = self.locations.new_data_location(f"{uuid.uuid4()}-{kind}.parquet")
        with self.io.new_output(path).create() as stream:
            write_parquet(stream, self.schema, batches, self.codec, self.level)
        return path


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
