"""Types of a lake's tables, and rows of types that a lake does not have."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from any_table import Message, cache_of, schema
from native_encoding import compare, wrap

from ingest.encode.encode import encode
from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.native import native
from ingest.sinks.lake.rows import rows_to_batch
from ingest.sinks.lake.table import LakeColumn, lake_columns, stored_schema
from ingest.sinks.lake.values import arrow_type

SOURCE = schema(
    {
        "id": "BIGINT", "items": "ARRAY<BIGINT>", "tags": "MAP<STRING, STRING>", "place": "ROW<x DOUBLE, y DOUBLE>",
        "many": "DECIMAL(40,2)", "few": "DECIMAL(38,2)", "at": "TIME(3)", "nothing": "NULL", "name": "VARCHAR(5)",
    },
    ("id",),
)  # fmt: skip
FORM = DebeziumJson()
TABLE = ("shop", "t")
NESTED = (
    '{"id":1,"items":[1, 2],"tags":{"a": "b\\n"},"place":{"x":1.50},'
    '"many":12.50,"few":1.5,"at":"12:13:14","nothing":null,"name":"x"}'
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BOOLEAN", pa.bool_()), ("TINYINT", pa.int32()), ("SMALLINT", pa.int32()), ("INT", pa.int32()),
        ("BIGINT", pa.int64()), ("FLOAT", pa.float32()), ("DOUBLE", pa.float64()),
        ("DECIMAL(38,2)", pa.decimal128(38, 2)),
        ("STRING", pa.string()), ("CHAR(3)", pa.string()), ("VARCHAR(3)", pa.string()), ("BYTES", pa.binary()),
        ("DATE", pa.date32()), ("TIME(3)", pa.time64("us")), ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP_LTZ", pa.timestamp("us", tz="UTC")),
    ],
)  # fmt: skip
def test_a_type_has_its_type_in_arrow(name: str, expected: pa.DataType) -> None:
    assert arrow_type(types.parse(name)) == expected


@pytest.mark.parametrize("name", ["NULL", "DECIMAL(39,0)", "ARRAY<INT>", "MAP<STRING, INT>", "ROW<a INT>"])
def test_other_types_are_no_columns_of_a_lake(name: str) -> None:
    with pytest.raises(TypeError, match="a lake has no columns of"):
        arrow_type(types.parse(name))


def test_types_that_a_lake_does_not_have_are_strings_in_its_schema() -> None:
    stored = stored_schema(SOURCE, times=True)
    assert stored == schema(
        {
            "id": "BIGINT", "items": "STRING", "tags": "STRING", "place": "STRING", "many": "STRING",
            "few": "DECIMAL(38,2)", "at": "TIME(3)", "nothing": "NULL", "name": "VARCHAR(5)",
        },
        ("id",),
    )  # fmt: skip
    assert [c.name for c in lake_columns(stored)] == ["id", "items", "tags", "place", "many", "few", "at", "name"]
    assert lake_columns(stored)[0] == LakeColumn("id", types.BIGINT)


def test_times_of_a_day_are_strings_where_there_are_none() -> None:
    times = {c.name: types.name(c.type) for c in stored_schema(SOURCE, times=False).columns}
    assert times["at"] == "STRING"


@pytest.mark.parametrize("times", [True, False])
def test_an_encoder_makes_texts_of_what_a_lake_has_no_type_for(times: bool) -> None:
    stored = stored_schema(SOURCE, times=times)
    cache = cache_of(FORM, TABLE, SOURCE, stored, keyed=False)
    encoded = encode(FORM.decoder("t").decode([None], [wrap(NESTED)]), cache, 0)
    ((_, key, row),) = encoded.records
    assert key is not None
    assert row is not None
    assert json.loads(row) == {
        "id": 1, "items": "[1,2]", "tags": '{"a":"b\\n"}', "place": '{"x":1.50}', "many": "12.50", "few": 1.5,
        "at": "12:13:14", "nothing": None, "name": "x",
    }  # fmt: skip
    assert cache.compiled[TABLE].withheld == {}, "a column of nulls is no column that is withheld"
    (made,) = rows_to_batch(lake_columns(stored), ("id",), [(key, bytes(row))]).to_pylist()
    assert made["tags"] == '{"a":"b\\n"}'
    assert made["many"] == "12.50"
    assert made["at"] == (pa.scalar(43_994_000_000, pa.time64("us")).as_py() if times else "12:13:14")


@pytest.mark.compiled
@pytest.mark.skipif(not native.BUILT, reason="native code is not built")
@pytest.mark.parametrize("times", [True, False])
@pytest.mark.parametrize("name", ["items", "tags", "place", "many", "few", "at", "nothing", "name"])
def test_native_code_makes_the_same_texts(times: bool, name: str) -> None:
    """It leaves nested values and decimals of more than 38 digits to the reference."""
    row: dict[str, Any] = json.loads(NESTED)
    source = schema({c.name: types.name(c.type) for c in SOURCE.columns if c.name in {"id", name}}, ("id",))
    message = Message(None, wrap(json.dumps({"id": 1, name: row[name]})))
    taken = compare(FORM, TABLE, source, stored_schema(source, times=times), message, keyed=False)
    assert taken == (name not in {"items", "tags", "place", "many"})
