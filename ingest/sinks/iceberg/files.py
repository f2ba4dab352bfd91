"""Files of Iceberg tables: what a snapshot says of each, and how their rows are read back.

Rules: docs/spec/iceberg.md#types.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, GreaterThan, LessThan, Or
from pyiceberg.io.pyarrow import (
    _read_deletes,
    _task_to_record_batches,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import LongType, NestedField, StringType

from ingest.model.numbers import LARGEST
from ingest.sinks.iceberg.tables import Partitions
from ingest.sinks.iceberg.writer import ParquetPlace
from ingest.sinks.lake.files import packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import StatisticsCollector, StatsAggregator
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record as Partition


PATH_ID: Final = 2147483546
POSITION_ID: Final = 2147483545
DELETES: Final = Schema(
    NestedField(PATH_ID, "file_path", StringType(), required=True),
    NestedField(POSITION_ID, "pos", LongType(), required=True),
)
"""Schema of files of deletes, with the ids that the format reserves."""
DELETES_PROPERTIES: Final = {"write.metadata.metrics.default": "full"}
"""A cut path would not say which files the positions are of."""


def names_in(found: pa.Schema, fields: Sequence[NestedField]) -> list[str]:
    """Return the names that fields have in a file: by their ids, or in files without ids as in the table."""
    by_id = {int((one.metadata or {}).get(b"PARQUET:field_id", b"-1")): one.name for one in found}
    if set(by_id) == {-1}:
        return [one.name for one in fields]
    # A column of that name with another id is another one, which somebody has renamed or removed since
    return [by_id.get(one.field_id, "") for one in fields]


_FILE_BYTES: Final = 256 << 20
"""Bytes of Arrow's columns that become one file."""
_LAST: Final = "\U0010ffff"


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
    for held in packed(rows, _FILE_BYTES):
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
    return {**out, "lower_bounds": _bounds(lower), "upper_bounds": _bounds(upper)}


def _bounds(bounds: dict[int, bytes | None]) -> dict[int, bytes]:
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


def dead_positions(io: FileIO, deletes: Iterable[DataFile]) -> dict[str, pa.Array]:
    """Return the positions of dead rows by the paths of their files. Raise OSError."""
    found: dict[str, list[Any]] = {}
    for one in deletes:
        for path, positions in _read_deletes(io, one).items():
            found.setdefault(path, []).append(positions.to_numpy())
    return {path: pa.array(np.unique(np.concatenate(some))) for path, some in found.items()}


def has_beyond(table: Table, name: str) -> bool:
    """Return whether a BIGINT column holds an integer beyond ±2^53. Raise what the library raises."""
    if not isinstance(table.schema().find_field(name).field_type, LongType):
        return False
    beyond = Or(GreaterThan(term=name, value=LARGEST), LessThan(term=name, value=-LARGEST))
    return bool(table.scan(row_filter=beyond, selected_fields=(name,), limit=1).to_arrow().num_rows)


def rows_of(table: Table, file: DataFile, dead: pa.Array | None) -> Iterator[pa.Table]:
    """Yield the rows of a file that are not dead. Raise OSError."""
    schema = table.schema()
    for batch in _task_to_record_batches(
        table.io,
        FileScanTask(file),
        AlwaysTrue(),
        schema,
        schema,
        set(schema.field_ids),
        None if dead is None else [pa.chunked_array([dead])],
        case_sensitive=True,
        name_mapping=table.metadata.name_mapping(),
        partition_spec=table.metadata.specs()[file.spec_id],
        format_version=table.format_version,
    ):
        yield pa.table(batch)


def rows_at(table: Table, file: DataFile, positions: pa.Array, deleted: str) -> Iterator[pa.Table]:
    """Yield the rows of a file at positions, with the column that says that they are deleted. Raise OSError."""
    others = np.ones(file.record_count, bool)
    others[positions.to_numpy(zero_copy_only=False)] = False
    for rows in rows_of(table, file, pa.array(np.flatnonzero(others))):
        place = rows.schema.get_field_index(deleted)
        yield rows.set_column(place, rows.schema.field(place), pa.repeat(True, rows.num_rows))
