"""Delta tables, read by DuckDB: types, those that widen, names, and what a run may not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lake_sink import lake_schema

from ingest.errors import SchemaChangeRefused

if TYPE_CHECKING:
    from delta_lake import DeltaSinkSide

TABLE = ("shop", "t")


def test_columns_are_added_to_tables_with_and_without_rows(sink: DeltaSinkSide) -> None:
    first, second = lake_schema("id INT"), lake_schema("id INT", "at TIMESTAMP", "n INT")
    third = lake_schema("id STRING", "at TIMESTAMP", "n DOUBLE", "late TIMESTAMP_LTZ")
    other = ("shop", "empty")
    for schema, row in ((first, "{}"), (second, '{"at":"2020-01-01 00:00:00","n":5}'), (third, '{"n":0.5}')):
        sink.side.declare({TABLE: schema, other: schema})
        number = len(schema.columns)
        key = f'{{"id":"{number}"}}' if schema is third else f'{{"id":{number}}}'
        sink.write(TABLE, schema, (key, row))
    assert [(key, n, late) for key, _, n, late in sink.lake.rows(*TABLE)] == [
        ("1", None, None), ("3", 5.0, None), ("4", 0.5, None),
    ]  # fmt: skip
    assert sink.lake.types(*TABLE) == sink.lake.types(*other)
    assert sink.lake.rows(*other) == []
    assert [one.nullable for one in sink.lake.table(*TABLE).schema().fields] == [False, True, True, True]


def test_rows_of_a_table_that_others_made_stay_what_they_are(sink: DeltaSinkSide) -> None:
    """Also columns of types that no column of ours has."""
    path = sink.lake.warehouse.path(TABLE)
    sink.lake.folder.mkdir(exist_ok=True)
    inner = pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.list_(pa.string()))])
    rows = pa.table({
        "id": pa.array([1, 2, 3], pa.int16()), "x": pa.array([{"a": 1, "b": ["q"]}, None, {"a": 3, "b": []}], inner),
        "at": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
    })  # fmt: skip
    write_deltalake(path, rows)
    schema = lake_schema("id SMALLINT", "n INT")
    sink.side.declare({TABLE: schema})
    sink.write(TABLE, schema, ('{"id":2}', '{"id":2,"n":1}'), ('{"id":4}', '{"id":4,"n":1}'))
    assert sink.lake.types(*TABLE)["id"] == "short"
    assert sink.lake.rows(*TABLE, columns="id, x, n") == [
        (1, {"a": 1, "b": ["q"]}, None), (2, None, 1), (3, {"a": 3, "b": []}, None), (4, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("columns", "more", "why"), [
    ({"id": pa.int32(), "n": pa.struct([("a", pa.int32())])}, {}, "'n' is struct<a:integer>"),
    ({"id": pa.int32(), "n": pa.binary()}, {"partition_by": "n"}, "of the column 'n', which is binary"),
    ({"id": pa.int32()}, {"partition_by": "id"}, "all of its columns make partitions (id)"),
    ({"id": pa.int32()}, {"configuration": {"delta.appendOnly": "true"}}, "delta.appendOnly"),
    ({"id": pa.int32()}, {"configuration": {"delta.enableChangeDataFeed": "true"}}, "delta.enableChangeDataFeed"),
    ({"id": pa.int32()}, {"configuration": {"delta.enableDeletionVectors": "true"}}, "deletionVectors"),
])  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused(
    sink: DeltaSinkSide, columns: dict[str, pa.DataType], more: dict[str, Any], why: str
) -> None:
    DeltaTable.create(sink.lake.warehouse.path(TABLE), pa.schema(columns), **more)
    with pytest.raises(SchemaChangeRefused) as refused:
        sink.side.declare({TABLE: lake_schema("id INT", "n INT")})
    assert why in refused.value.message


def test_a_required_column_that_is_not_in_the_key_is_refused(sink: DeltaSinkSide) -> None:
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("x", pa.string(), nullable=False)])
    DeltaTable.create(sink.lake.warehouse.path(TABLE), schema)
    with pytest.raises(SchemaChangeRefused, match="'x' is required"):
        sink.side.declare({TABLE: lake_schema("id INT", "n INT")})


# -- names -------------------------------------------------------------------------------------------------------------


def test_no_table_is_inside_of_another(sink: DeltaSinkSide) -> None:
    """Or the other one's vacuum would remove its files."""
    names = [("a", "b"), ("a", "b", "c"), ("a",), ("a", "b", "_delta_log"), ("a", "b", "c", "d"), ("a", "b.c")]
    schema = lake_schema("id INT")
    sink.side.declare(dict.fromkeys(names, schema))
    logs = sorted(path.parent.relative_to(sink.lake.folder).parts for path in sink.lake.folder.rglob("_delta_log"))
    tables = [parts for parts in logs if len(parts) == 2]
    assert len(tables) == len(names)
    assert all(len(parts) == 2 or parts[-1] == "_delta_log" for parts in logs)
