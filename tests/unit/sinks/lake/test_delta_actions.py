"""Statistics of the files of Delta tables: no end is on the wrong side of a value."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.sinks.delta.files import statistics_of, watch_nans


def found(values: list[Any], kind: pa.DataType, rows_in_group: int = 1000) -> tuple[Any, Any, Any]:
    """The least and the greatest value of a column, and its nulls, as statistics have them."""
    table = pa.table({"c": pa.array(values, kind)})
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=rows_in_group)
    out = statistics_of(pq.read_metadata(stream), table.schema)
    return out["minValues"].get("c"), out["maxValues"].get("c"), out["nullCount"].get("c")


def test_ends_are_those_of_all_groups() -> None:
    assert found([5, None, 1, 9, None, 7], pa.int32(), 2) == (1, 9, 2)
    assert found([None, None, 4, 4], pa.int64(), 2) == (4, 4, 2)
    assert found([None, None], pa.string()) == (None, None, 2)
    assert found([True, False], pa.bool_()) == (False, True, 0)
    assert found([b"x"], pa.binary()) == (None, None, 0)


def test_long_texts_are_cut_to_ends_that_hold_them() -> None:
    least, most, _ = found(["b" * 100, "é" * 100], pa.string())
    assert least == "b" * 64
    assert most.encode() > ("é" * 100).encode()
    assert len(most) == 65
    last = "a" * 64 + "\U0010ffff" * 9
    assert found([last], pa.string())[1] == last


def test_moments_are_cut_to_milliseconds_away_from_the_values() -> None:
    one = datetime(2020, 1, 1, 0, 0, 0, 1001, UTC)
    assert found([one], pa.timestamp("us", tz="UTC"))[:2] == ("2020-01-01T00:00:00.001Z", "2020-01-01T00:00:00.002Z")
    naive = one.replace(tzinfo=None)
    assert found([naive], pa.timestamp("us"))[:2] == ("2020-01-01T00:00:00.001", "2020-01-01T00:00:00.002")
    latest = datetime.max.replace(tzinfo=UTC)
    assert found([latest], pa.timestamp("us", tz="UTC"))[:2] == (None, None)
    whole = latest.replace(microsecond=0)
    assert found([whole], pa.timestamp("us", tz="UTC"))[1] == "9999-12-31T23:59:59.000Z"


def test_columns_with_a_nan_are_named() -> None:
    names: set[str] = set()
    table = pa.table({"a": [1.0, float("nan")], "b": [1.0, None], "c": [1, 2]})
    assert list(watch_nans(iter([table]), names)) == [table]
    assert names == {"a"}
