"""Actions of a version: a file that is added, with its statistics, and one that is removed.

In: the footer of a Parquet file. Out: actions as the library has them. By statistics readers leave files out, so that
an end is never on the wrong side of a value: what is rounded is rounded away from the values. All columns have ends
where they can: the library's own datasets lose rows of a file that has none.
"""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction, RemoveAction

from ingest.sinks.delta.partitions import text_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    from ingest.sinks.delta.listing import ListedFile
    from ingest.sinks.lake.table import PartitionValue

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
