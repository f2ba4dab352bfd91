"""Files of Delta tables: as a version lists, adds and removes them, and new ones with the rows that remain of others.

Readers leave files out by statistics, so that an end is never on the wrong side of a value: what is rounded is rounded
away from the values. All columns have ends where they can: the library's own datasets lose rows of a file without.
A new file is in no table before a version adds it. Memory is bounded by a few groups of rows.
"""

from __future__ import annotations

import re
import time
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from ingest.sinks.delta.tables import DeltaPartitions, text_of, texts_of
from ingest.sinks.delta.writer import new_file
from ingest.sinks.lake.changes import LakeChangeError
from ingest.sinks.lake.files import PartitionValue, packed
from ingest.sinks.lake.superseded import NONE_KNOWN, NOWHERE, repeated
from ingest.sinks.lake.values import converted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

    Partition = tuple[PartitionValue, ...]


_PATH: Final = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))(?:[A-Za-z0-9_-]|%25)(?:[A-Za-z0-9._/=-]|%2[05])*")
"""Paths in a log that the library writes with the same escapes: another spelling would remove no file."""


class ListedFile(NamedTuple):
    """A file of a table."""

    path: str
    """Its path in the table, without the escapes that the log has."""
    size: int
    """In bytes."""
    known: dict[str, pa.Scalar]
    """By column: the value that all of its rows have. The file itself lacks these columns."""


def listed_files(table: DeltaTable) -> list[ListedFile]:
    """Return the files of a table. Raise LakeChangeError for one that this tool does not rewrite."""
    return listed(pa.table(table.get_add_actions()))


def listed(actions: pa.Table) -> list[ListedFile]:
    """Return the files that a table's newest version adds. Raise LakeChangeError."""
    if not actions.num_rows:
        return []
    known: list[dict[str, pa.Scalar]] = [{}] * actions.num_rows
    if "partition" in actions.column_names:
        found = actions.column("partition").combine_chunks()
        names = [field.name for field in found.type]
        known = [dict(zip(names, values, strict=True)) for values in zip(*found.flatten(), strict=True)]
    paths, sizes = (actions.column(name).to_pylist() for name in ("path", "size_bytes"))
    return [ListedFile(*one) for one in zip(map(_checked, paths), sizes, known, strict=True)]


def _checked(path: str) -> str:
    """Return the path by which a file is opened. Raise LakeChangeError where the library has other escapes for it."""
    if not _PATH.fullmatch(path):
        raise LakeChangeError(f"it has a file with the name {path[:200]!r}, which this tool does not rewrite")
    return unquote(path)


_MOST_COLUMNS: Final = 32
"""Columns of a file that have statistics."""
_MOST_TEXT: Final = 64
"""Characters of a text in statistics."""
_LAST: Final = "\U0010ffff"


def added_file(
    path: str,
    size: int,
    footer: pq.FileMetaData,
    schema: pa.Schema,
    without: Collection[str] = (),
    partition: Iterable[PartitionValue] = (),
) -> AddAction:
    """Return the action that adds a file.

    `size`: in bytes. `schema`: the file's columns. `without`: columns whose ends are not those of the footer.
    `partition`: the columns that it lacks.
    """
    statistics = msgspec.json.encode(statistics_of(footer, schema, without)).decode()
    return AddAction(path, size, texts_of(partition), _now(), data_change=True, stats=statistics)


def removed_file(file: ListedFile, *, data_change: bool = True) -> RemoveAction:
    """Return the action that removes a file. `data_change`: whether rows change by it."""
    values = {name: text_of(value) for name, value in file.known.items()}
    return RemoveAction(
        file.path, data_change=data_change, deletion_timestamp=_now(), size=file.size, partition_values=values
    )


def _now() -> int:
    return time.time_ns() // 1_000_000


def watch_nans(tables: Iterator[pa.Table], found: set[str]) -> Iterator[pa.Table]:
    """Yield tables as they are, and add to `found` the names of columns with a NaN: footers know nothing of them."""
    for table in tables:
        for field in table.schema:
            if pa.types.is_floating(field.type) and pc.any(pc.is_nan(table.column(field.name))).as_py():
                found.add(field.name)
        yield table


def statistics_of(footer: pq.FileMetaData, schema: pa.Schema, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the statistics of a file, as a version has them."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    places = {footer.row_group(0).column(at).path_in_schema: at for at in range(footer.num_columns)}
    for field in list(schema)[:_MOST_COLUMNS]:
        if pa.types.is_nested(field.type) or field.name in without:
            continue
        groups = [footer.row_group(number).column(places[field.name]) for number in range(footer.num_row_groups)]
        if not all(one.statistics is not None and one.statistics.has_null_count for one in groups):
            continue
        nulls[field.name] = sum(one.statistics.null_count for one in groups)
        ends = _ends([one.statistics for one in groups if one.statistics.null_count != one.num_values])
        if ends is not None:
            least[field.name], most[field.name] = ends
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _ends(groups: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the smallest and the largest value of a column, as statistics have them; None where they have none."""
    if not groups or not all(one.has_min_max for one in groups):
        return None
    least, most = min(one.min for one in groups), max(one.max for one in groups)
    if isinstance(least, str):
        return least[:_MOST_TEXT], _after(most)
    if isinstance(least, datetime):
        latest = _up(most)
        return None if latest is None else (_moment(least), _moment(latest))
    if isinstance(least, Decimal):
        return msgspec.Raw(f"{least:f}".encode()), msgspec.Raw(f"{most:f}".encode())
    if isinstance(least, date):
        return least.isoformat(), most.isoformat()
    return (least, most) if isinstance(least, (bool, int, float)) else None


def _after(text: str) -> str:
    """Return a text that is not before another one, and is not long where that can be."""
    return text if len(text) <= _MOST_TEXT or text[_MOST_TEXT] == _LAST else text[:_MOST_TEXT] + _LAST


def _up(moment: datetime) -> datetime | None:
    """Return the millisecond that is not before a moment, as readers know no finer ones; None where there is none."""
    fine = moment.microsecond % 1000
    try:
        return moment + timedelta(microseconds=1000 - fine) if fine else moment
    except OverflowError:
        return None


def _moment(moment: datetime) -> str:
    zone = "" if moment.tzinfo is None else "Z"
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


_GROUP_BYTES: Final = 64 << 20
"""Bytes of Arrow's columns that become one group of rows."""
_GROUPS: Final = 4
"""Groups of rows in a file that is made of rows that remain."""


class RewrittenFile(NamedTuple):
    """A file to rewrite: its live rows go into new files."""

    path: str
    positions: pa.Array
    marked: pa.Array = NOWHERE
    """Those of them that stay, marked as deleted."""
    known: Mapping[str, pa.Scalar] = NONE_KNOWN
    """By column: the value that all of its rows have, whatever is in the file."""


def parquet_file(stream: NativeFile) -> pq.ParquetFile:
    """Return a file of a table. Its times may have the old type of 96 bits, which Spark writes."""
    return pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")


def remaining_rows(
    place: FileSystem,
    files: Sequence[RewrittenFile],
    schema: pa.Schema,
    deleted: str | None = None,
    key: Collection[str] = (),
) -> Iterator[pa.Table]:
    """Yield the rows of files that remain, as the columns of a schema. A column that a file lacks is null there.

    `deleted`: the column that becomes true in rows that are marked. `key`: the columns of the primary key.
    """
    for one in files:
        with place.open_input_file(one.path) as stream:
            file = parquet_file(stream)
            stays, marked = np.ones(file.metadata.num_rows, bool), np.zeros(file.metadata.num_rows, bool)
            stays[one.positions.to_numpy(zero_copy_only=False)] = False
            marked[one.marked.to_numpy(zero_copy_only=False)] = True
            stays |= marked
            start = 0
            for number in range(file.num_row_groups):
                count = file.metadata.row_group(number).num_rows
                mask, marks = stays[start : start + count], marked[start : start + count]
                start += count
                if mask.any():
                    # In this order: views, which other writers have, are no columns that can be filtered
                    rows = _as_schema(file.read_row_group(number), schema, one.known, key)
                    yield _marked_rows(rows, marks, deleted).filter(pa.array(mask))


def _marked_rows(rows: pa.Table, which: np.ndarray[Any, Any], deleted: str | None) -> pa.Table:
    """Return rows of which some are marked as deleted."""
    if deleted is None or not which.any():
        return rows
    place = rows.schema.get_field_index(deleted)
    values = pc.if_else(pa.array(which), True, rows.column(place))
    return rows.set_column(place, rows.schema.field(place), values)


def all_of(files: Sequence[ListedFile]) -> list[RewrittenFile]:
    """Return files of which all rows remain."""
    return [RewrittenFile(one.path, NOWHERE, known=one.known) for one in files]


def _as_schema(rows: pa.Table, schema: pa.Schema, known: Mapping[str, pa.Scalar], key: Collection[str]) -> pa.Table:
    columns: list[Any] = []
    for one in schema:
        if one.name in known:
            columns.append(converted(repeated(known[one.name], rows.num_rows), one.type, of_key=one.name in key))
        elif one.name in rows.column_names:
            columns.append(converted(rows.column(one.name), one.type, of_key=one.name in key))
        else:
            columns.append(pa.nulls(rows.num_rows, one.type))
    return pa.table(columns, schema=schema)


def rows_per_file(rows: Iterator[pa.Table]) -> Iterator[Iterator[pa.Table]]:
    """Yield the rows of each new file, as tables that become a group of rows each. Each is used up before the next."""
    groups = row_groups(rows)
    for first in groups:
        yield chain((first,), islice(groups, _GROUPS - 1))


def row_groups(rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows as tables that become a group of rows each."""
    return map(pa.concat_tables, packed(rows, _GROUP_BYTES))


class NewFiles:
    """New files of a table with these columns."""

    def __init__(
        self, place: FileSystem, schema: pa.Schema, partitions: DeltaPartitions, key: Collection[str] = ()
    ) -> None:
        """Write nothing yet. `place` has the table's files; `schema`: all of its columns; `key`: those of the key."""
        self._place, self._schema, self._partitions, self._key = place, schema, partitions, key

    def write(self, sources: Sequence[RewrittenFile], deleted: str | None = None) -> Iterator[AddAction]:
        """Write what remains of files; yield the action that adds each new file. Raise OSError, LakeChangeError.

        `deleted`: the column that becomes true in rows that are marked.
        """
        groups: dict[Partition | None, list[RewrittenFile]] = {}
        moves = deleted in self._partitions.names  # a row that is marked as deleted goes to another partition
        for one in sources:
            apart = moves and len(one.marked)
            groups.setdefault(None if apart else self._partitions.of_known(one.known, self._key), []).append(one)
        for partition, some in groups.items():
            if partition is None:
                yield from self._split(some, deleted)
                continue
            for rows in rows_per_file(remaining_rows(self._place, some, self._schema, deleted, self._key)):
                yield self.write_file(partition, rows)

    def _split(self, sources: Sequence[RewrittenFile], deleted: str | None) -> Iterator[AddAction]:
        """Write what remains of files whose rows get other partitions than they had."""
        for rows in remaining_rows(self._place, sources, self._schema, deleted, self._key):
            for partition, part in self._partitions.split(rows):
                yield self.write_file(partition, [part])

    def write_file(self, partition: Partition, rows: Iterable[pa.Table]) -> AddAction:
        """Write one file of rows that are in a partition; returns the action that adds it. Raise OSError."""
        nans: set[str] = set()
        schema = self._partitions.without(self._schema)
        own = (one.select(schema.names) for one in rows)
        path = new_file(self._place, schema, watch_nans(own, nans), "rows")
        return action_of(self._place, path, partition, nans)


def action_of(place: FileSystem, path: str, partition: Partition, without: Collection[str] = ()) -> AddAction:
    """Return the action that adds a file. Raise OSError. `without`: columns with values that its footer hides."""
    with place.open_input_file(path) as stream:
        file, size = pq.ParquetFile(stream), stream.size()
        return added_file(path, size, file.metadata, file.schema_arrow, without, partition)
