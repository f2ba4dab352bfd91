"""Files of Iceberg tables: rows into Parquet on a worker, and what a snapshot says of each file.

Rules: docs/spec/iceberg.md#types.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import compute_statistics_plan, data_file_statistics_from_parquet_metadata, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider

from ingest.model.commit import RefusedRow
from ingest.model.jsontext import parse_row
from ingest.sinks.iceberg.partitions import Partitions
from ingest.sinks.iceberg.positions import DELETES, DELETES_PROPERTIES
from ingest.sinks.iceberg.types import our_type
from ingest.sinks.lake.batches import packed
from ingest.sinks.lake.columns import LakeColumn
from ingest.sinks.lake.native_rows import targets_of
from ingest.sinks.lake.table import AddedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import StatisticsCollector, StatsAggregator
    from pyiceberg.table import Table
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record as Partition
    from pyiceberg.types import NestedField

    from ingest.encode.upsert_encoder import Record
    from ingest.sinks.iceberg.catalog import Warehouse
    from ingest.sinks.lake.kept_rows import LastStates
    from ingest.sinks.lake.table import LakeTable

_LEVEL: Final = 1
"""Level of compression where the table names none: higher ones take more time than they save."""
_LAST: Final = "\U0010ffff"
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
                stream, self.schema, compression=self.codec, compression_level=self.level, store_decimal_as_integer=True
            ) as writer,
        ):
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
    partitions: Partitions


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

    def begin(self) -> None:
        """Forget the tables: their partitions may be others by now."""
        self._known.clear()

    def refused(self, records: Sequence[Record]) -> list[RefusedRow]:
        """Return the records that cannot be in a partition. Raise IngestError."""
        targets: Sequence[Any] = targets_of(records) or [record[0] for record in records]
        tables = {id(one): one for one in targets}
        narrow = {number: there for number, one in tables.items() if (there := self._table(one).partitions).narrow}
        out = []
        for destination, key, row in records if narrow else ():
            if row is not None and id(destination) in narrow:
                values = {**parse_row(msgspec.Raw(row)), **parse_row(msgspec.Raw(key or b"{}"))}
                if why := narrow[id(destination)].fault(values):
                    out.append(RefusedRow(destination, key, bytes(row), why))
        return out

    def write(self, table: LakeTable, states: LastStates) -> list[AddedFile]:
        """Write the last states of keys, and the keys of rows that are gone. Raise IngestError."""
        known = self._table(table)
        gone = states.rows.filter(states.gone).select(known.key)
        there = states.rows.filter(pc.invert(states.gone)) if gone.num_rows else states.rows
        cut, out = tuple(states.cut.items()), []
        key = table.key if table.unique else ()
        with self._warehouse.asking(f"write rows of the table {table}"):
            if gone.num_rows:
                path = known.keys.write([gone], "keys")
                out.append(AddedFile(table.id, key, path, gone.num_rows, True, cut, table.deleted, table.sequence))
                cut = ()
            for rows in known.partitions.split(there) if there.num_rows else ():
                path = known.rows.write([rows], "rows")
                out.append(AddedFile(table.id, key, path, rows.num_rows, False, cut, None, table.sequence))
                cut = ()
        return out

    def close(self) -> None:
        """Release the catalog."""
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
        if gone := [name for name in names if name not in types]:
            msg = f"somebody has removed or renamed its column {gone[0]!r}: run again, and it is created again"
            raise ValueError(msg)
        columns = tuple(LakeColumn(one.name, types.get(one.name) or one.type) for one in table.columns)
        if len(self._known) >= MOST_TABLES:
            self._known.clear()
        found = _Known(
            columns=_in_order(columns, there.schema(), names),
            key=[one.name for one in _in_order(columns, there.schema(), table.key)],
            rows=ParquetPlace.of(there, names),
            keys=ParquetPlace.of(there, table.key),
            partitions=Partitions(there.metadata),
        )
        self._known[table] = found
        return found


def _in_order(columns: Sequence[LakeColumn], schema: Schema, names: Iterable[str]) -> tuple[LakeColumn, ...]:
    """Return the named columns in the order of a table's fields."""
    by_name, wanted = {one.name: one for one in columns}, set(names)
    return tuple(by_name[one.name] for one in schema.fields if one.name in wanted)


def data_file(metadata: TableMetadata, io: FileIO, path: str) -> DataFile:
    """Return what a snapshot says of a file of rows, by the file itself. Raise OSError, ValueError.

    The partition is that of its rows: the table may have got other ones since they were written.
    """
    partitions = Partitions(metadata)
    source = io.new_input(path)
    with source.open() as stream:
        file = pq.ParquetFile(stream)
        names = _field_ids(file)
        _check_fields(metadata, path, names)
        rows = _columns(file, {number: name for name, number in names.items()}, partitions.sources)
    fields = {one.field_id: one for of in metadata.schemas for one in of.fields}
    # A column may have been dropped or renamed since the file was written
    schema = Schema(*(fields[number] for number in names.values()))
    plan = compute_statistics_plan(schema, dict(metadata.properties))
    place = partitions.of_rows(rows), metadata.default_spec_id
    return _data_file(path, len(source), DataFileContent.DATA, place, statistics_of(file.metadata, plan, names))


def written_files(metadata: TableMetadata, io: FileIO, rows: Iterable[pa.Table]) -> Iterator[DataFile]:
    """Write rows into new files of a table that has this metadata, or will have it. Raise OSError."""
    place, partitions = ParquetPlace.of_metadata(metadata, io), Partitions(metadata)
    for held in packed(rows):
        apart = [[one] for one in partitions.split(pa.concat_tables(held))] if partitions else [held]
        for batches in apart:
            yield data_file(metadata, io, place.write(batches, "rows"))


def deletes_data_file(io: FileIO, path: str, place: tuple[Partition, int]) -> DataFile:
    """Return what a snapshot says of a file of deletes. `place`: the partition of the rows, and its specification."""
    source = io.new_input(path)
    with source.open() as stream:
        file = pq.ParquetFile(stream)
        plan = compute_statistics_plan(DELETES, DELETES_PROPERTIES)
        found = statistics_of(file.metadata, plan, _field_ids(file))
    return _data_file(path, len(source), DataFileContent.POSITION_DELETES, place, found)


def statistics_of(
    footer: pq.FileMetaData, plan: dict[int, StatisticsCollector], names: dict[str, int]
) -> dict[str, Any]:
    """Return the statistics of a file, as a snapshot has them. `names`: the ids of columns by their names there.

    Readers leave files out by them, so no value is outside of its column's bounds.
    """
    found = data_file_statistics_from_parquet_metadata(footer, plan, names)
    unbounded = _unbounded(footer, names)
    bounded = {number: ends for number, ends in found.column_aggregates.items() if number not in unbounded}
    lower = {number: ends.min_as_bytes() for number, ends in bounded.items()}
    upper = {number: _upper_bound(ends) for number, ends in bounded.items()}
    out = replace(found, column_aggregates={}).to_serialized_dict()
    return {**out, "lower_bounds": _known(lower), "upper_bounds": _known(upper)}


def _known(bounds: dict[int, bytes | None]) -> dict[int, bytes]:
    return {number: bound for number, bound in bounds.items() if bound is not None}


def _unbounded(footer: pq.FileMetaData, names: Mapping[str, int]) -> set[int]:
    """Return the columns of which a group of rows has values and no ends: one of them is longer than 4 KiB.

    The library would take the ends of the other groups for those of the file.
    """
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(at) for group in groups for at in range(group.num_columns)]
    return {
        names[one.path_in_schema]
        for one in columns
        if one.statistics is None or not (one.statistics.has_min_max or one.statistics.null_count == one.num_values)
    }


def _upper_bound(ends: StatsAggregator) -> bytes | None:
    """Return what no value of a column is larger than; None where nothing so short is."""
    most, length = ends.current_max, ends.trunc_length
    if not isinstance(most, str) or length is None or len(most) <= length:
        return ends.max_as_bytes()
    kept = most[:length].rstrip(_LAST)
    # No text has surrogates, and the library does not leave them out
    return (kept[:-1] + ("\ue000" if kept[-1] == "\ud7ff" else chr(ord(kept[-1]) + 1))).encode() if kept else None


def _data_file(
    path: str, size: int, content: DataFileContent, place: tuple[Partition, int], statistics: dict[str, Any]
) -> DataFile:
    out = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=place[0],
        file_size_in_bytes=size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    out.spec_id = place[1]
    return out


def _field_ids(file: pq.ParquetFile) -> dict[str, int]:
    return {one.name: int(one.metadata[b"PARQUET:field_id"]) for one in file.schema_arrow}


def _columns(file: pq.ParquetFile, names: Mapping[int, str], fields: Sequence[NestedField]) -> pa.Table:
    """Return columns of a file by their names in the table, those that it has."""
    there = {names[one.field_id]: one.name for one in fields if one.field_id in names}
    if not there:  # no column is read, and it has its rows all the same
        return pa.table({"": pa.nulls(file.metadata.num_rows)})
    return file.read(columns=[*there]).select([*there]).rename_columns([*there.values()])


def _check_fields(metadata: TableMetadata, path: str, names: Mapping[str, int]) -> None:
    """Raise ValueError where a column of a file is another one in its table now: its values would be null there."""
    now = {one.name: one.field_id for one in metadata.schema().fields}
    for name, number in names.items():
        if now.get(name, number) != number:
            msg = f"the column {name!r} was created again since {path} was written: give the batch up with"
            raise ValueError(f"{msg} ingest checkpoint reset --drop-batch, and its rows are read again")
