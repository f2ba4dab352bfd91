"""Files of Iceberg tables: rows into Parquet on a worker, and what a snapshot says of each file.

Rules: docs/spec/iceberg.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record as Partition

from ingest.iceberg.positions import DELETES
from ingest.iceberg.types import our_type
from ingest.lake.columns import LakeColumn
from ingest.lake.table import AddedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata

    from ingest.iceberg.catalog import Warehouse
    from ingest.lake.kept_rows import LastStates
    from ingest.lake.table import LakeTable

_LEVEL: Final = 1
"""Level of compression where the table names none: higher ones take more time than they save."""
MOST_TABLES: Final = 1_000
"""Tables whose schemas a worker keeps."""


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
            int(level) if level else _LEVEL if codec == "zstd" else None,
        )

    @classmethod
    def of_deletes(cls, table: Table) -> ParquetPlace:
        """Return the place of a table's files of deletes."""
        return replace(cls.of(table), schema=schema_to_pyarrow(DELETES))

    def write(self, batches: Iterable[pa.RecordBatch | pa.Table], kind: str) -> str:
        """Write batches into a new file, whose columns come in the schema's order; returns its path.

        `kind`: a word in the file's name. Raise OSError.
        """
        path = self.locations.new_data_location(f"{uuid.uuid4()}-{kind}.parquet")
        with (
            self.io.new_output(path).create() as stream,
            pq.ParquetWriter(
                stream, self.schema, compression=self.codec, compression_level=self.level,
                store_decimal_as_integer=True,
            ) as writer,
        ):  # fmt: skip
            for batch in batches:
                columns = [one.cast(to.type) for one, to in zip(batch.columns, self.schema, strict=True)]
                writer.write_table(pa.Table.from_arrays(columns, schema=self.schema))
        return path


@dataclass(frozen=True, slots=True)
class _Known:
    """A table as a worker knows it."""

    columns: tuple[LakeColumn, ...]
    key: list[str]
    """Names of the columns of the key, in the order of the table's."""
    rows: ParquetPlace
    keys: ParquetPlace


class IcebergFiles:
    """A worker's files of the tables of a warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        """Ask nothing yet."""
        self._warehouse = warehouse
        self._known: dict[LakeTable, _Known] = {}

    def columns_of(self, table: LakeTable) -> tuple[Sequence[LakeColumn], Sequence[str]]:
        """Return a table's columns, with the types that they have there, and the names of those of its key.

        Raises IngestError.
        """
        return self._table(table).columns, table.key

    def write(self, table: LakeTable, states: LastStates) -> list[AddedFile]:
        """Write the last states of keys, and the keys of rows that are gone. Raise IngestError."""
        known = self._table(table)
        gone = states.rows.filter(states.gone).select(known.key)
        there = states.rows.filter(pc.invert(states.gone)) if gone.num_rows else states.rows
        cut, out = tuple(states.cut.items()), []
        with self._warehouse.asking(f"write rows of the table {table}"):
            for rows, place, kind in ((there, known.rows, "rows"), (gone, known.keys, "keys")):
                if rows.num_rows:
                    path, of_keys = place.write([rows], kind), rows is gone
                    out.append(AddedFile(table.id, table.key, path, rows.num_rows, of_keys, cut=cut))
                    cut = ()
        return out

    def close(self) -> None:
        """Let go of the catalog."""
        self._warehouse.close()

    def _table(self, table: LakeTable) -> _Known:
        found = self._known.get(table)
        if found is None:
            with self._warehouse.asking(f"look the table {table} up"):
                found = self._look_up(table)
        return found

    def _look_up(self, table: LakeTable) -> _Known:
        """Return a table with the types that its columns have there, which may be wider than those of the rows."""
        there = self._warehouse.catalog.load_table(table.id)
        types = {one.name: our_type(one.field_type) for one in there.schema().fields}
        names = [one.name for one in table.columns]
        columns = tuple(LakeColumn(one.name, types.get(one.name) or one.type) for one in table.columns)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        found = _Known(
            columns=_in_order(columns, there.schema(), names),
            key=[one.name for one in _in_order(columns, there.schema(), table.key)],
            rows=ParquetPlace.of(there, names),
            keys=ParquetPlace.of(there, table.key),
        )
        self._known[table] = found
        return found


def _in_order(columns: Sequence[LakeColumn], schema: Schema, names: Iterable[str]) -> tuple[LakeColumn, ...]:
    """Return the named columns in the order of a table's fields."""
    by_name, wanted = {one.name: one for one in columns}, set(names)
    return tuple(by_name[one.name] for one in schema.fields if one.name in wanted)


def data_file(
    metadata: TableMetadata,
    io: FileIO,
    path: str,
    content: DataFileContent = DataFileContent.DATA,
    schema: Schema | None = None,
    properties: Mapping[str, str] | None = None,
) -> DataFile:
    """Return what a snapshot says of a file, by the file's own footer. Raise OSError.

    `schema` and `properties` are those of the file's columns, where they are not the table's.
    """
    source = io.new_input(path)
    with source.open() as stream:
        footer = pq.read_metadata(stream)
    names = {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in footer.schema.to_arrow_schema()}
    if schema is None:
        _check_fields(metadata, path, names)
    fields = {one.field_id: one for of in ([schema] if schema else metadata.schemas) for one in of.fields}
    found = data_file_statistics_from_parquet_metadata(
        footer,
        # A column may have been dropped or renamed since the file was written
        compute_statistics_plan(
            Schema(*(fields[number] for number in names.values())), dict(properties or metadata.properties)
        ),
        names,
    )
    return DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Partition(),
        file_size_in_bytes=len(source),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **found.to_serialized_dict(),
    )


def _check_fields(metadata: TableMetadata, path: str, names: Mapping[str, int]) -> None:
    """Raise ValueError where a column of a file is another one in its table now: its values would be null there."""
    now = {one.name: one.field_id for one in metadata.schema().fields}
    for name, number in names.items():
        if now.get(name, number) != number:
            msg = f"the column {name!r} was made anew since {path} was written: give the batch up with"
            raise ValueError(f"{msg} ingest checkpoint reset --drop-batch, and its rows are read again")
