"""Rows of Avro messages: what each type becomes, and which schemas and messages are refused."""

from __future__ import annotations

import json
import struct
from typing import Any
from uuid import UUID

import msgspec
import pytest
from schema_registry import record, written

from ingest.formats.avro.rows import MALFORMED, Compiler, RowReader, ended, why_malformed
from ingest.formats.avro.schema import SchemaError, check_defaults, parse
from ingest.model import types
from ingest.model.jsontext import fields_of
from ingest.model.reject import Contradiction

FIXED = {"type": "fixed", "name": "F"}
VARIABLE = {**record("V", scale="int", value="bytes"), "connect.name": "io.debezium.data.VariableScaleDecimal"}


def reader(kind: Any) -> RowReader:
    return RowReader(parse(json.dumps(record("R", c=kind))), Compiler())


def plain(kind: Any) -> Any:
    """The schema without its logical type, so that fastavro writes the plain value."""
    if isinstance(kind, list):
        return [plain(one) for one in kind]
    return {k: v for k, v in kind.items() if k != "logicalType"} if isinstance(kind, dict) else kind


def read(kind: Any, value: Any) -> str:
    """The column's type and its text."""
    found = reader(kind)
    message = written(record("R", c=plain(kind)), {"c": value})
    row, at = found.read(message, 0)
    ended(message, at)
    text = fields_of(msgspec.json.encode(row))["c"]
    return f"{types.name(found.types['c'])} {bytes(text).decode()}"


def logical(kind: str, name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def connect(kind: str, name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, **more}


@pytest.mark.parametrize("name", ["record", "array", "map", "enum", "fixed", "error"])
def test_a_record_may_have_the_name_of_a_type_that_is_made_of_others(name: str) -> None:
    inner = {
        "type": "record",
        "name": f"{name}_c",
        "fields": [{"name": "list", "type": {"type": "array", "items": "int"}}],
    }
    found = RowReader(parse(json.dumps(record(name, c=inner, d="int"))), Compiler())
    assert {column: types.name(kind) for column, kind in found.types.items()} == {"c": "STRING", "d": "INT"}


@pytest.mark.parametrize(("kind", "value", "expected"), [
    ("long", 2**63 - 1, "BIGINT 9223372036854775807"),
    ("float", struct.unpack("<f", struct.pack("<f", 0.1))[0], "FLOAT 0.1"),
    ("bytes", b"\x00\xff", 'BYTES "AP8="'),
    ({**FIXED, "size": 2}, b"ab", 'BYTES "YWI="'),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", 'STRING "B"'),
    (logical("int", "date"), 18292, 'DATE "2020-01-31"'),
    (logical("int", "date"), -719162, 'DATE "0001-01-01"'),
    (logical("int", "time-millis"), 43994500, 'TIME(3) "12:13:14.5"'),
    (logical("long", "time-micros"), 86_399_999_999, 'TIME(6) "23:59:59.999999"'),
    (logical("long", "timestamp-millis"), -1, 'TIMESTAMP_LTZ "1969-12-31 23:59:59.999Z"'),
    (logical("long", "timestamp-micros"), 1580472794500001, 'TIMESTAMP_LTZ "2020-01-31 12:13:14.500001Z"'),
    (logical("long", "local-timestamp-millis"), 0, 'TIMESTAMP "1970-01-01 00:00:00"'),
    (logical("long", "local-timestamp-micros"), 10, 'TIMESTAMP "1970-01-01 00:00:00.00001"'),
    (logical("long", "timestamp-nanos"), 1580472794500001002, "BIGINT 1580472794500001002"),
    (logical("int", "date"), 2932897, 'DATE "10000-01-01"'),
    (logical("int", "time-millis"), -1, 'TIME(3) "-00:00:00.001"'),
    (logical("long", "time-micros"), 86_400_000_000, 'TIME(6) "24:00:00"'),
    (logical("long", "timestamp-micros"), 253402300800000001, 'TIMESTAMP_LTZ "10000-01-01 00:00:00.000001Z"'),
    (logical("long", "timestamp-micros"), 9223372036825200000, 'TIMESTAMP_LTZ "294247-01-10 04:00:25.2Z"'),
    (logical("long", "local-timestamp-millis"), -62135596800001, 'TIMESTAMP "0001-12-31 23:59:59.999 BC"'),
    (connect("long", "io.debezium.time.MicroTimestamp"), 9223372036825200000, 'TIMESTAMP "infinity"'),
    (connect("int", "io.debezium.time.Date"), 2146033979, 'DATE "infinity"'),
    (
        connect("string", "io.debezium.time.ZonedTimestamp"), "2024-05-10T16:00:01.604805109+03:00",
        'TIMESTAMP_LTZ "2024-05-10 13:00:01.604805109Z"',
    ),
    (logical("bytes", "decimal", precision=4, scale=2), b"\x00\xff", "DECIMAL(4,2) 2.55"),
    (logical("bytes", "decimal", precision=4), b"\xff", "DECIMAL(4,0) -1"),
    (logical("bytes", "decimal", precision=4, scale=2), b"\xff", "DECIMAL(4,2) -0.01"),
    (logical("bytes", "decimal", precision=4, scale=2), b"\xd8\xf1", "DECIMAL(4,2) -99.99"),
    (logical("bytes", "decimal", precision=38, scale=38), b"\x01", f"DECIMAL(38,38) 0.{'0' * 37}1"),
    (logical("bytes", "decimal", precision=50, scale=1), b"\x7f" * 9, 'STRING "235192369931154879270.3"'),
    (logical("fixed", "decimal", name="F", size=3, precision=5, scale=1), b"\xff\xff\x9c", "DECIMAL(5,1) -10.0"),
    (logical("int", "decimal", precision=4, scale=2), 5, "INT 5"),
    (logical("bytes", "decimal", precision=2, scale=4), b"\x01", 'BYTES "AQ=="'),
    (logical("bytes", "decimal", precision=0), b"\x01", 'BYTES "AQ=="'),
    (logical("bytes", "decimal", precision=2, scale=-1), b"\x01", 'BYTES "AQ=="'),
    (logical("bytes", "decimal", precision="4"), b"\x01", 'BYTES "AQ=="'),
    (logical("bytes", "decimal"), b"\x01", 'BYTES "AQ=="'),
    (logical("fixed", "decimal", name="F", size=1, precision=3), b"\x01", 'BYTES "AQ=="'),
    (logical("fixed", "decimal", name="F", size=1, precision=2), b"\x01", "DECIMAL(2,0) 1"),
    (logical("fixed", "decimal", name="F", size=0, precision=1), b"", 'BYTES ""'),
    ({"type": "array", "items": logical("bytes", "decimal", precision=0)}, [b"\x01"], 'STRING ["AQ=="]'),
    (
        connect("bytes", "org.apache.kafka.connect.data.Decimal", **{"connect.parameters": {
            "scale": "2", "connect.decimal.precision": "0"}}), b"\x01", 'STRING "0.01"',
    ),
    (logical("bytes", "big-decimal"), b"\x04\x00\xff\x04", 'STRING "2.55"'),
    (logical("bytes", "big-decimal"), b"\x02\x05\x05", 'STRING "5000"'),
    (logical("string", "uuid"), "any text", 'STRING "any text"'),
    (logical("fixed", "uuid", name="F", size=16), UUID(int=5).bytes, 'STRING "00000000-0000-0000-0000-000000000005"'),
    (
        logical("fixed", "duration", name="F", size=12), struct.pack("<III", 1, 2, 3),
        'STRING {"months":1,"days":2,"milliseconds":3}',
    ),
    (logical("int", "of somebody"), 7, "INT 7"),
    ({"type": "int", "connect.type": "int8"}, -128, "TINYINT -128"),
    ({"type": "int", "connect.type": "int16"}, 32767, "SMALLINT 32767"),
    (connect("int", "io.debezium.time.Date"), 0, 'DATE "1970-01-01"'),
    (
        connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis"), 0,
        'TIMESTAMP "1970-01-01 00:00:00"',
    ),
    (connect("long", "io.debezium.time.NanoTimestamp"), 5, "BIGINT 5"),
    (
        connect("string", "io.debezium.time.ZonedTimestamp"), "2020-01-31T12:13:14.5+02:00",
        'TIMESTAMP_LTZ "2020-01-31 10:13:14.5Z"',
    ),
    (
        connect("string", "io.debezium.time.ZonedTimestamp"), "1900-01-01T00:00:00+00:19:32",
        'TIMESTAMP_LTZ "1899-12-31 23:40:28Z"',
    ),
    (
        connect("bytes", "org.apache.kafka.connect.data.Decimal", **{"connect.parameters": {"scale": "2"}}), b"\x01",
        "DECIMAL(38,2) 0.01",
    ),
    (VARIABLE, {"scale": 3, "value": b"{"}, 'STRING "0.123"'),
    (["null", "int"], None, "INT null"),
    (["int", "null", "float"], 1.5, "DOUBLE 1.5"),
    (["int", "string"], "5", 'STRING "5"'),
    ({"type": "array", "items": logical("int", "date")}, [0], 'STRING ["1970-01-01"]'),
    ({"type": "map", "values": "bytes"}, {"k": b"a"}, 'STRING {"k":"YQ=="}'),
])  # fmt: skip
def test_types_and_texts(kind: Any, value: Any, expected: str) -> None:
    assert read(kind, value) == expected


@pytest.mark.parametrize(("kind", "value", "expected"), [
    ({"type": {"type": "string"}}, "a", 'STRING "a"'),
    ({"type": {"type": {"type": "long"}}}, 5, "BIGINT 5"),
    ({"type": ["null", {"type": {"type": "string"}}]}, "a", 'STRING "a"'),
    (["null", {"type": {"type": "int"}, "logicalType": "date"}], 0, 'DATE "1970-01-01"'),
    ({"type": {"type": "int", "logicalType": "date"}, "doc": "d", "name": "n"}, 0, 'DATE "1970-01-01"'),
    ({"type": "array", "items": {"type": {"type": "string"}}}, ["a"], 'STRING ["a"]'),
    ({"type": "map", "values": {"type": {"type": "string"}}}, {"k": "a"}, 'STRING {"k":"a"}'),
    ({"type": record("I", a={"type": {"type": "string"}}, b={"type": "I2"}, c="int")}, None, ""),
    ({"type": record("I", a={"type": {"type": "fixed", "name": "I2", "size": 1}}, b={"type": "I2"})},
     {"a": b"a", "b": b"b"}, 'STRING {"a":"YQ==","b":"Yg=="}'),
])  # fmt: skip
def test_a_schema_in_place_of_a_types_name(kind: Any, value: Any, expected: str) -> None:
    if not expected:
        with pytest.raises(SchemaError, match="UnknownType: I2"):
            reader(kind)
        return
    flat = {"R": record("R", c=flattened(kind))}
    found = reader(kind)
    row, _ = found.read(written(flat["R"], {"c": value}), 0)
    text = bytes(fields_of(msgspec.json.encode(row))["c"]).decode()
    assert f"{types.name(found.types['c'])} {text}" == expected


def flattened(kind: Any) -> Any:
    """The schema as fastavro takes it: without logical types, and with names as types."""
    if isinstance(kind, list):
        return [flattened(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    if isinstance(kind["type"], (dict, list)):
        return flattened(kind["type"])
    if kind["type"] == "record":
        return {**kind, "fields": [{**one, "type": flattened(one["type"])} for one in kind["fields"]]}
    if kind["type"] == "I2":
        return "I2"
    made = {name: flattened(one) if name in {"items", "values"} else one for name, one in kind.items()}
    return {name: one for name, one in made.items() if name != "logicalType"}


DEFAULTS_OF_OTHER_TYPES: list[tuple[Any, Any]] = [
    ("int", "abc"), ("int", None), ("int", ""), ("string", 5), ("boolean", "false"), ("double", 1),
    (["null", "int"], "a"), (["int", "null"], {}),
    ({"type": "array", "items": "int"}, {}), ({"type": "map", "values": "int"}, []),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, 5),
    ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "A"),
    ({"type": "fixed", "name": "F", "size": 1}, "ab"), (record("I", a="int"), 5),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "default"), DEFAULTS_OF_OTHER_TYPES)
def test_the_defaults_of_a_writers_schema_are_not_looked_at(kind: Any, default: Any) -> None:
    fields = [{"name": "c", "type": kind, "default": default}, {"name": "id", "type": "long"}]
    inner = {"type": "record", "name": "Inner", "fields": [{**fields[0], "name": "d"}]}
    row = {"type": "record", "name": "R", "fields": [*fields, {"name": "r", "type": ["null", inner]}]}
    if not isinstance(kind, str):  # a type that is named twice
        row["fields"] = fields
    assert "id" in RowReader(parse(json.dumps(row)), Compiler()).types


@pytest.mark.parametrize(("kind", "default"), DEFAULTS_OF_OTHER_TYPES)
def test_a_given_schema_is_refused_for_a_default_of_another_type(kind: Any, default: Any) -> None:
    node = parse(
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "c", "type": kind, "default": default}]})
    )
    if kind == "double":  # a whole number is one
        check_defaults(node)
        return
    with pytest.raises(SchemaError, match="default"):
        check_defaults(node)


def test_branches_that_are_numbers_to_python_are_told_apart() -> None:
    found = reader([logical("int", "date"), "long", logical("long", "local-timestamp-micros")])
    assert found.types == {"c": types.STRING}
    texts = [bytes(msgspec.json.encode(found.read(message, 0)[0])) for message in (b"\0\2", b"\2\2", b"\4\2")]
    assert texts == [b'{"c":"1970-01-02"}', b'{"c":1}', b'{"c":"1970-01-01 00:00:00.000001"}']


@pytest.mark.parametrize(("kind", "value", "why"), [
    (logical("long", "time-micros"), 2**62, "neither a time of day nor a TIME of MySQL"),
    (logical("bytes", "decimal", precision=2, scale=0), b"\x64", "a number of more than 2 digits"),
    (logical("bytes", "decimal", precision=2, scale=0), b"", "it has no bytes"),
    (logical("bytes", "decimal", precision=60, scale=0), b"\x7f" * 5000, "declared STRING"),
    (logical("bytes", "big-decimal"), b"\x02\x05\xd2\x0f", "a scale past all reason"),
    ({"type": "int", "connect.type": "int8"}, 128, "declared TINYINT and holds 128"),
    (connect("string", "io.debezium.time.ZonedTimestamp"), "noon", "no timestamp"),
    (VARIABLE, {"scale": 5000, "value": b"{"}, "a scale past all reason"),
])  # fmt: skip
def test_values_that_are_none_of_their_type(kind: Any, value: Any, why: str) -> None:
    message = written(record("R", c=plain(kind)), {"c": value})
    with pytest.raises(Contradiction, match=f"column 'c' .*{why}"):
        reader(kind).read(message, 0)


@pytest.mark.parametrize(("kind", "message", "why"), [
    ("int", b"", "ends before"),
    ("int", b"\x80\x80\x80\x80\x10", "more than 32 bits"),
    ("long", b"\xff" * 12, "more than 64 bits"),
    ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
    ("boolean", b"\x02", "a boolean is 2"),
    ("string", b"\x01a", "ends before"),
    ("string", b"\x08a", "ends before"),
    ("string", b"\x02\xff", "not UTF-8"),
    ("double", b"1234567", "ends before"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "no symbol -1"),
    (["null", "int"], b"\x04", "none of its branches"),
    (["null", "int", "long"], b"\x01", "no branch -1"),
    ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x02", "ends before"),
    ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f\x02", "ends before"),
    ({**FIXED, "size": 3}, b"ab", "ends before"),
    ("null", b"x", "1 bytes longer"),
])  # fmt: skip
def test_messages_that_are_none_of_their_schema(kind: Any, message: bytes, why: str) -> None:
    with pytest.raises(MALFORMED) as raised:
        ended(message, reader(kind).read(message, 0)[1])
    assert why in why_malformed(raised.value)


def test_a_record_within_itself_is_read_as_deep_as_python_goes() -> None:
    schema = parse('{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}')
    found = RowReader(schema, Compiler())
    row, _ = found.read(b"\x02\x02\x00", 0)
    assert row == {"next": {"next": {"next": None}}}
    with pytest.raises(RecursionError):
        found.read(b"\x02" * 1_000_000 + b"\x00", 0)


@pytest.mark.parametrize(("text", "why"), [
    ("{", "not JSON"),
    ('"int"', "a row is a record"),
    ('["null", {"type":"record","name":"R","fields":[]}]', "a row is a record"),
    ('{"type":"record","name":"R","fields":[{"name":"c","type":"S"}]}', "S"),
    ('{"type":"record","name":"R","fields":[{"name":"c"}]}', "missing 'type'"),
    ('{"type":"record","name":"R","fields":[{"name":"c","type":"int"},{"name":"c","type":"int"}]}', "two fields"),
    ('{"type":"record","name":"R","fields":[{"name":"c","type":[["int"]]}]}', "holds a union"),
    ('{"type":"record","name":"R","fields":[{"name":"c","type":{"type":"fixed","name":"F","size":-1}}]}', "no number"),
    ('{"type":"record","name":"R","fields":[{"name":"c","type":{"type":"array","items":"null"}}]}', "take no bytes"),
    ("5", "Error"),
    ('{"type":' * 5000 + '"int"' + "}" * 5000, "nested too deep"),
    (json.dumps(record("R", c="x")).replace('"x"', '{"type":"array","items":' * 250 + '"int"' + "}" * 250), "another"),
])  # fmt: skip
def test_schemas_that_cannot_be_used(text: str, why: str) -> None:
    with pytest.raises((SchemaError, RecursionError), match=why):
        RowReader(parse(text), Compiler())


@pytest.mark.parametrize("name", [5, None, ["id"], True])
def test_a_field_whose_name_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(SchemaError):
        parse(json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}))
