"""JSON Schema, by Connect's converter and by others: the types of rows, and which schemas and rows are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.formats.debezium.confluent import DebeziumJsonConfluent
from ingest.formats.json.confluent import JsonConfluent, JsonRows
from ingest.formats.json.schema import JsonSchema, SchemaError, is_exact
from ingest.formats.json.table_writer import schema_of
from ingest.formats.typed import TypedColumn
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.jsontext import fields_of
from ingest.model.schema import Column
from ingest.model.types import ArrayType, DecimalType, MapType, StructField, StructType
from ingest.schema_registry.client import Found

NULL = {"type": "null"}


def rows(schema: Any, **references: Any) -> JsonRows:
    names = {name.replace("_", "."): json.dumps(other) for name, other in references.items()}
    return JsonRows(Found("JSON", json.dumps(schema), tuple(names.values()), tuple(names)))


def read(kind: Any, value: str, **references: Any) -> str:
    """The type that a column is declared to have, and its text; or the code of the message's reject."""
    definitions = {"size": {"type": "string"}, "same": {"$ref": "#/definitions/size"}, "a/b": {"type": "boolean"}}
    schema = {"type": "object", "properties": {"c": kind}, "definitions": definitions}
    found = rows(schema, **references).decode(b'\0\0\0\0\1 {"c": %b} ' % value.encode(), 5)
    if isinstance(found, Reject):
        return found.code
    row, declared = found
    said = declared.types.get("c")
    return f"{'-' if said is None else types.name(said)} {bytes(fields_of(row)['c']).decode()}"


def connect(kind: str, of: str, title: str = "", **parameters: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind, "connect.type": of, "connect.index": 0}
    if title:
        schema |= {"title": title, "connect.version": 1}
    return {**schema, "connect.parameters": parameters} if parameters else schema


DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = {
    "type": "object", "title": "io.debezium.data.VariableScaleDecimal",
    "properties": {"scale": connect("integer", "int32"), "value": connect("string", "bytes")},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "expected"), [
    (connect("integer", "int8"), "5", "TINYINT 5"), (connect("integer", "int8"), "500", "type-mismatch"),
    (connect("integer", "int64"), "5", "BIGINT 5"), (connect("number", "float32"), "1.5", "FLOAT 1.5"),
    (connect("number", "float64"), "1", "DOUBLE 1"), (connect("string", "bytes"), '"YWI="', 'BYTES "YWI="'),
    (connect("number", "bytes", DECIMAL, scale="2"), '"AP8="', "DECIMAL(38,2) 2.55"),
    (connect("number", "bytes", DECIMAL, scale="2", **{"connect.decimal.precision": "5"}), "2.5", "DECIMAL(5,2) 2.5"),
    (connect("integer", "int32", "io.debezium.time.Date"), "18292", 'DATE "2020-01-31"'),
    (connect("integer", "int32", "org.apache.kafka.connect.data.Time"), "43994500", 'TIME(3) "12:13:14.5"'),
    (connect("integer", "int64", "io.debezium.time.MicroTimestamp"), "1", 'TIMESTAMP "1970-01-01 00:00:00.000001"'),
    (connect("string", "string", "io.debezium.time.ZonedTimestamp"), '"2020-01-31T12:00:00+02:00"',
     'TIMESTAMP_LTZ "2020-01-31 10:00:00Z"'),
    (connect("string", "string", "io.debezium.time.ZonedTimestamp"), '"1900-01-01T00:00:00+00:19:32"',
     'TIMESTAMP_LTZ "1899-12-31 23:40:28Z"'),
    (VARIABLE, '{"scale":3,"value":"ew=="}', 'STRING "0.123"'),
    ({"oneOf": [NULL, connect("integer", "int16")], "connect.index": 1}, "null", "SMALLINT null"),
    ({"anyOf": [{"type": "string"}, NULL]}, '"a"', 'STRING "a"'), ({"type": ["null", "string"]}, '"a"', 'STRING "a"'),
    ({"allOf": [{"type": "integer"}]}, "5", "BIGINT 5"),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "5", "- 5"),
    ({"type": "integer"}, "5", "BIGINT 5"), ({"type": "integer"}, "12345678901234567890", "- 12345678901234567890"),
    ({"type": "integer"}, "5.0", "- 5.0"), ({"type": "integer"}, '"5"', "type-mismatch"),
    ({"type": "number"}, "5", "DOUBLE 5"), ({"type": "number"}, "123456789012345678.91", "- 123456789012345678.91"),
    ({"type": "string", "format": "date-time"}, '"2020-01-31T12:00:00.5Z"', 'TIMESTAMP_LTZ "2020-01-31 12:00:00.5Z"'),
    ({"type": "string", "format": "date-time"}, '"yesterday"', "type-mismatch"),
    ({"type": "string", "format": "date"}, '"2020-01-31"', 'DATE "2020-01-31"'),
    ({"type": "string", "format": "uuid"}, '"x"', 'STRING "x"'), ({"enum": ["A", None]}, '"A"', 'STRING "A"'),
    ({"type": "array", "items": {"type": "string"}}, '["a"]', 'STRING ["a"]'), (True, "5", "- 5"), ({}, "5", "- 5"),
    ({"$ref": "#/definitions/same"}, '"a"', 'STRING "a"'), ({"$ref": "#/definitions/a~1b"}, "true", "BOOLEAN true"),
    ({"type": "boolean"}, "1", "type-mismatch"),
    ({"type": "array", "items": connect("integer", "int32", "io.debezium.time.Date")}, "[0,null]",
     'STRING ["1970-01-01",null]'),
    ({"type": "object", "properties": {"d": {"oneOf": [NULL, connect("number", "bytes", DECIMAL, scale="2")]}}},
     '{"d":"AP8=","x":1}', 'STRING {"d":2.55,"x":1}'),
    ({"type": "object", "connect.type": "map",
      "additionalProperties": connect("integer", "int32", "io.debezium.time.Date")},
     '{"k":0}', 'STRING {"k":"1970-01-01"}'),
])  # fmt: skip
def test_types_and_texts(kind: Any, value: str, expected: str) -> None:
    assert read(kind, value) == expected


@pytest.mark.parametrize(("target", "other"), [
    ("o.json", {"type": "boolean"}), ("o.json#/definitions/x", {"definitions": {"x": {"type": "boolean"}}}),
    ("o.json", {"$ref": "#/definitions/x", "definitions": {"x": {"type": "boolean"}}}),
    ("https://shop/o", {"$id": "https://shop/o", "type": "boolean"}),
])  # fmt: skip
def test_references_to_other_schemas(target: str, other: Any) -> None:
    assert read({"$ref": target}, "true", o_json=other) == "BOOLEAN true"


def test_schemas_that_hold_themselves_and_one_another_are_looked_at_once() -> None:
    levels: dict[str, Any] = {
        f"L{at}": {"properties": {side: {"$ref": f"#/definitions/L{at - 1}"} for side in "ab"}} for at in range(1, 60)
    }
    levels |= {"L0": {"type": "integer"}, "tree": {"properties": {"left": {"$ref": "#/definitions/tree"}}}}
    properties = {"c": {"$ref": "#/definitions/L59"}, "t": {"$ref": "#/definitions/tree"}}
    found = JsonSchema(json.dumps({"properties": properties, "definitions": levels}), {}).rows().typed
    assert {name: types.name(column.type) for name, column in found.items()} == {"c": "STRING", "t": "STRING"}


def test_times_that_the_pipeline_declares_as_numbers_stay_numbers() -> None:
    made = rows({"properties": {"d": connect("integer", "int32", "io.debezium.time.Date")}})
    found = made.decode(b'\0\0\0\0\1{"d":5}', 5, {"d": types.BIGINT})
    assert not isinstance(found, Reject)
    assert (bytes(found[0]), found[1].types) == (b'{"d":5}', {"d": types.BIGINT})


def test_a_reference_is_relative_to_the_schemas_own_name() -> None:
    schema = {"$id": "https://shop/a", "type": "object", "properties": {"c": {"$ref": "b"}, "d": {"$ref": "https://shop/a#/properties/e"},
              "e": {"type": "string"}}}  # fmt: skip
    found = JsonSchema(json.dumps(schema), {"x": '{"$id":"https://shop/b","type":"boolean"}'}).rows().typed
    assert {name: types.name(column.type) for name, column in found.items()} == {
        "c": "BOOLEAN",
        "d": "STRING",
        "e": "STRING",
    }


def test_a_reference_by_a_name_of_a_schemas_own() -> None:
    named = [{"$anchor": "n", "type": "boolean"}, {"$id": "#old", "type": "boolean"}]
    schema = {"properties": {"c": {"$ref": "#n"}, "d": {"$ref": "#old"}}, "$defs": {"x": {"allOf": named}}}
    found = JsonSchema(json.dumps(schema), {}).rows().typed
    assert {name: types.name(column.type) for name, column in found.items()} == {"c": "BOOLEAN", "d": "BOOLEAN"}
    assert read({"$ref": "o.json#n"}, "true", o_json={"$defs": {"x": named[0]}}) == "BOOLEAN true"


@pytest.mark.parametrize(("schema", "why"), [
    ({"properties": {"c": {"$ref": "#no"}}}, "'#no', which is not there"),
    ({"type": "string"}, "a row is an object"), ({"$ref": "#"}, "lead to one another"),
    ({"properties": {"c": {"$ref": "#/no"}}}, "'#/no', which is not there"),
    ({"properties": {"c": {"$ref": "no.json"}}}, "none of its references"),
    ({"properties": {"c": {"$ref": "#/properties/c"}}}, "lead to one another"),
])  # fmt: skip
def test_a_schema_that_cannot_be_used(schema: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        rows(schema)
    with pytest.raises(SchemaError, match="it is not JSON"):
        JsonSchema("{", {})


@pytest.mark.parametrize(
    "body", [b"", b"[1]", b"1", b'{"c":1}x', b'{"c":', b'{"c":NaN}', b'{"c":"\xff"}', b'{"c":"\\ud800"}']
)
def test_what_is_no_object_is_a_reject(body: bytes) -> None:
    found = rows({"properties": {"c": {"type": "string"}}}).decode(b"\0\0\0\0\1" + body, 5)
    assert isinstance(found, Reject)
    assert found.code == "malformed"


@pytest.mark.parametrize(("text", "exact"), [
    ("0.1", True), ("0.10000000000000001", True), ("4.9E-324", True), ("5", True), ("-0.0", True), ("0", True),
    ("123456789012345678.91", False), ("9007199254740993", False), ("1e400", False), ("1" * 200, False),
])  # fmt: skip
def test_a_number_is_exact_if_a_double_prints_it(text: str, exact: bool) -> None:
    assert is_exact(TypedColumn(types.DOUBLE), text.encode()) is exact


def test_the_schema_of_a_table_is_as_connect_writes_it() -> None:
    kinds = {
        "id": types.BIGINT, "de": DecimalType(10, 2), "ts": types.TIMESTAMP, "m": MapType(types.STRING, types.DOUBLE),
        "a": ArrayType(DecimalType(5, 1)), "r": StructType((StructField("b", types.BYTES),)), "n": types.NULL,
    }  # fmt: skip
    columns = {name: Column(name, kind, name != "id") for name, kind in kinds.items()}
    made = schema_of("shop.t.Value", columns)
    assert (made["type"], made["title"], made["additionalProperties"]) == ("object", "shop.t.Value", False)
    properties = made["properties"]
    assert properties["id"] == {"type": "integer", "connect.type": "int64", "connect.index": 0}
    assert properties["de"]["oneOf"] == [NULL, {
        "type": "number", "title": DECIMAL, "connect.version": 1, "connect.type": "bytes",
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    }]  # fmt: skip
    assert properties["ts"]["oneOf"][1]["title"] == "io.debezium.time.MicroTimestamp"
    assert properties["m"]["oneOf"][1]["connect.type"] == "map"
    assert properties["a"]["oneOf"][1]["items"] == {"oneOf": [NULL, {"type": "number"}]}
    assert properties["n"] == {"type": "null", "connect.index": 6}
    again = JsonSchema(json.dumps(made), {}).rows().typed
    assert {name: again[name].type for name in ("id", "de", "ts")} == {name: kinds[name] for name in ("id", "de", "ts")}


@pytest.mark.parametrize(("model", "option"), [
    (JsonConfluent, "json-confluent.schema"), (DebeziumJsonConfluent, "debezium-json-confluent.schema"),
])  # fmt: skip
def test_a_schema_of_the_pipelines_file_is_refused(model: Any, option: str) -> None:
    with pytest.raises(ValueError, match="is not possible: a source's messages have the ids"):
        model.model_validate({f"{model.name}.url": "http://h", option: "{}"})
