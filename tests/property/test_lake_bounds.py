"""Bounds in the metadata of lakes: any legal value has some, and none is outside of them."""

from __future__ import annotations

import datetime as dt
import io
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
)

from ingest.sinks.delta.files import statistics_of
from ingest.sinks.iceberg.files import data_file, written_files

_ENDS: Final = st.sampled_from("az\0\ud7ff\ue000\uffff\U00010000\U0010ffff")
"""Characters beside those that no text has, and the last ones of a size."""
_PART: Final = st.text(_ENDS | st.characters(exclude_categories=["Cs"]), max_size=3)
a_text = st.builds(lambda front, length, rest: front[:1] * length + rest, _PART, st.integers(0, 66), _PART)
a_long_text = st.sampled_from(["é" * 2048, "é" * 2049, "\ud7ff" * 5000])
some_bytes = st.builds(
    lambda front, length, rest: front * length + rest,
    st.binary(max_size=1), st.integers(0, 18), st.binary(max_size=2),
)  # fmt: skip
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (the column has no zone)
VALUES: Final[dict[str, tuple[PrimitiveType, pa.DataType, st.SearchStrategy[Any]]]] = {
    "text": (StringType(), pa.string(), a_text | a_long_text),
    "bytes": (BinaryType(), pa.binary(), some_bytes),
    "float": (FloatType(), pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (DoubleType(), pa.float64(), st.floats(allow_nan=False)),
    "integer": (LongType(), pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "decimal": (DecimalType(38, 20), pa.decimal128(38, 20), st.decimals(-(10**18) + 1, 10**18 - 1, places=20)),
    "time": (TimestampType(), pa.timestamp("us"), st.datetimes()),
}


@cache
def table_of(kind: str, *, partitioned: bool) -> TableMetadata:
    """A table of one column, by whose values it may be partitioned."""
    field = NestedField(1, "c", VALUES[kind][0], required=False)
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "c")) if partitioned else PartitionSpec()
    return new_table_metadata(Schema(field), spec, UNSORTED_SORT_ORDER, Path(mkdtemp()).as_uri(), {})


def committed(metadata: TableMetadata, groups: list[list[Any]], arrow: pa.DataType) -> list[DataFile]:
    """The files of rows, after a manifest has them as a commit writes it."""
    place = load_file_io({}, metadata.location)
    tables = [pa.table({"c": pa.array(values, arrow)}) for values in groups]
    files = list(written_files(metadata, place, tables))
    out = place.new_output(f"{metadata.location}/m.avro")
    with write_manifest(2, metadata.spec(), metadata.schema(), out, 1, "null") as writer:
        for one in files:
            entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, data_file=one, snapshot_id=1)
            writer.add_entry(entry)
    writer.to_manifest_file()
    for one in files:
        Path(one.file_path.removeprefix("file://")).unlink()
    return files


def order(value: Any) -> Any:
    """What values are compared by: texts by their bytes."""
    if isinstance(value, str):
        return value.encode()
    return (value - EPOCH) // dt.timedelta(microseconds=1) if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("partitioned", [False, True])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_iceberg_has_bounds_of_any_value(kind: str, partitioned: bool, data: Any) -> None:
    of_iceberg, arrow, values = VALUES[kind]
    groups = data.draw(st.lists(st.lists(values | st.none(), min_size=1, max_size=3), min_size=1, max_size=2))
    files = committed(table_of(kind, partitioned=partitioned), groups, arrow)
    assert sum(one.record_count for one in files) == sum(map(len, groups))
    for one in () if partitioned else files:
        for value in [value for group in groups for value in group if value is not None]:
            lower, upper = one.lower_bounds.get(1), one.upper_bounds.get(1)
            assert lower is None or order(from_bytes(of_iceberg, lower)) <= order(value)
            assert upper is None or order(value) <= order(from_bytes(of_iceberg, upper))


@pytest.mark.parametrize(
    ("text", "upper"),
    [
        ("a" * 15 + "\ud7ffz", "a" * 15 + "\ue000"), ("a" * 15 + "\U0010ffffz", "a" * 14 + "b"),
        ("\U0010ffff" * 17, None), ("a" * 16, "a" * 16), ("a" * 17, "a" * 15 + "b"),
    ],
)  # fmt: skip
def test_the_upper_bound_of_a_long_text(text: str, upper: str | None) -> None:
    (file,) = committed(table_of("text", partitioned=False), [[text]], pa.string())
    assert file.upper_bounds.get(1) == (None if upper is None else upper.encode())


def test_a_group_of_rows_without_ends_leaves_its_file_without() -> None:
    """Parquet has none of a text of more than 4 KiB: those of the other groups would hide its row from readers."""
    groups = [["b"], ["z" * 5000], [None]]
    place, metadata = load_file_io({}, "/"), table_of("text", partitioned=False)
    path = f"{metadata.location}/groups.parquet"
    schema = pa.schema([pa.field("c", pa.string(), metadata={"PARQUET:field_id": "1"})])
    with place.new_output(path).create() as stream, pq.ParquetWriter(stream, schema) as writer:
        for group in groups:
            writer.write_table(pa.table([group], schema=schema))
    file = data_file(metadata, place, path)
    assert (file.lower_bounds, file.upper_bounds, file.null_value_counts) == ({}, {}, {1: 1})


@settings(max_examples=examples(100))
@given(st.lists(a_text | a_long_text | st.none(), min_size=1, max_size=4), st.integers(1, 2))
@example(["a" * 63 + "\ud7ffz"], 1)
def test_delta_has_ends_of_any_text(values: list[str | None], rows_in_group: int) -> None:
    table, stream = pa.table({"c": pa.array(values, pa.string())}), io.BytesIO()
    pq.write_table(table, stream, row_group_size=rows_in_group)
    found = statistics_of(pq.read_metadata(stream), table.schema)
    if "c" in found["minValues"]:
        low, high = found["minValues"]["c"].encode(), found["maxValues"]["c"].encode()
        assert all(low <= one.encode() <= high for one in values if one is not None)
