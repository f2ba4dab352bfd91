"""The Avro schema of a table: as Flink derives it, and what Avro cannot say."""

from __future__ import annotations

import json

import pytest

from ingest.formats.avro.table_writer import FLINK, derived, envelope_columns, record_of
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column
from ingest.model.types import StructField, StructType

NULL = "null"
TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "CHAR(3)": "string",
    "VARCHAR(5)": "string",
    "BYTES": "bytes",
    "DECIMAL(10,2)": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME(0)": {"type": "int", "logicalType": "time-millis"},
    "TIME(3)": {"type": "int", "logicalType": "time-millis"},
    "TIME(6)": {"type": "long", "logicalType": "time-micros"},
    "TIMESTAMP": {"type": "long", "logicalType": "local-timestamp-micros"},
    "TIMESTAMP_LTZ": {"type": "long", "logicalType": "timestamp-micros"},
    "ARRAY<INT>": {"type": "array", "items": [NULL, "int"]},
    "MAP<STRING, ARRAY<BIGINT>>": {"type": "map", "values": [NULL, {"type": "array", "items": [NULL, "long"]}]},
    "ROW<x INT, y ROW<z DATE>>": {
        "type": "record",
        "name": "record_c",
        "fields": [
            {"name": "x", "type": [NULL, "int"], "default": None},
            {
                "name": "y",
                "type": [
                    NULL,
                    {
                        "type": "record",
                        "name": "record_c_y",
                        "fields": [
                            {"name": "z", "type": [NULL, {"type": "int", "logicalType": "date"}], "default": None}
                        ],
                    },
                ],
                "default": None,
            },
        ],
    },
}


@pytest.mark.parametrize("name", TYPES)
def test_a_column_has_the_schema_that_flink_gives_it(name: str) -> None:
    made = record_of([Column("k", types.parse(name), nullable=False), Column("c", types.parse(name))], FLINK)
    assert (made["namespace"], made["name"]) == ("org.apache.flink.avro.generated", "record")
    key = json.loads(json.dumps(TYPES[name]).replace("record_c", "record_k"))
    assert made["fields"] == [{"name": "k", "type": key}, {"name": "c", "type": [NULL, TYPES[name]], "default": None}]


def test_a_column_that_was_only_null_is_null() -> None:
    (field,) = record_of([Column("n", types.NULL)], FLINK)["fields"]
    assert field == {"name": "n", "type": "null", "default": None}


@pytest.mark.parametrize("name", ["", "a b", "ü", "1a", "a-b", "a.b"])
def test_a_name_that_avro_does_not_allow_is_a_reject_of_the_table(name: str) -> None:
    inside = StructType((StructField(name, types.INT),))
    for columns in ({name: Column(name, types.INT)}, {"r": Column("r", inside)}):
        with pytest.raises(RowError, match="rename it in a transform") as raised:
            derived(columns)
        assert raised.value.code == "unwritable-table"


def test_a_map_of_other_keys_than_texts_is_a_reject_of_the_table() -> None:
    with pytest.raises(RowError, match=r"MAP<INT, INT> has others") as raised:
        derived({"m": Column("m", types.parse("MAP<INT, INT>"))})
    assert raised.value.code == "unwritable-table"


def test_an_envelope_has_rows_that_may_lack_values() -> None:
    made = json.loads(derived(envelope_columns({"id": Column("id", types.INT, nullable=False)})))
    assert [field["name"] for field in made["fields"]] == ["before", "after", "source", "op"]
    before, after, source, op = (field["type"] for field in made["fields"])
    assert [before[1]["name"], after[1]["name"], source["name"], op] == [
        "record_before",
        "record_after",
        "record_source",
        "string",
    ]
    assert before[1]["fields"] == [{"name": "id", "type": [NULL, "int"], "default": None}]
