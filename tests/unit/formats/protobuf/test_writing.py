"""Rows that become messages: what each value becomes, what is refused, and the schemas that tables get."""

from __future__ import annotations

import json
from typing import Any

import pytest
from protobuf_messages import class_of

from ingest.formats.protobuf.messages import RowSchema
from ingest.formats.protobuf.options import Protobuf
from ingest.formats.protobuf.row_writer import RowWriter
from ingest.formats.protobuf.schema import DescriptorSet, compile_schema
from ingest.formats.protobuf.table_writer import schema_text
from ingest.formats.written import RowPlace
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.reject import RowError
from ingest.model.schema import Column

HEAD = (
    'syntax = "proto3"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto"; '
    'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; '
    'import "google/type/date.proto"; import "google/type/timeofday.proto"; import "confluent/type/decimal.proto"; '
    "enum E { ZERO = 0; ONE = 1; } message Tree { string name = 1; Tree left = 2; } "
)


VALUES = [
    ("optional int32 f", "-5", "-5"), ("optional uint64 f", "18446744073709551615", "18446744073709551615"),
    ("optional float f", "0.1", "0.1"), ("optional double f", "5", "5.0"), ("optional bool f", "false", "false"),
    ("optional int32 f", "null", "null"), ("int32 f", "null", "0"), ("repeated int32 f", "null", "[]"),
    ("optional string f", r'"\u00fc"', '"ü"'), ("optional string f", "1.50", '"1.50"'),
    ("optional string f", '{"a": [1]}', r'"{\"a\":[1]}"'), ("optional bytes f", '"AP8="', '"AP8="'),
    ("optional E f", '"ONE"', '"ONE"'), ("optional E f", '"7"', '"7"'),
    ("google.protobuf.Timestamp f", '"2020-01-31 12:13:14.5Z"', '"2020-01-31 12:13:14.5Z"'),
    ("google.protobuf.Timestamp f", '"0001-01-01 00:00:00.000000001Z"', '"0001-01-01 00:00:00.000000001Z"'),
    ("google.protobuf.Timestamp f", '"2020-01-31"', '"2020-01-31 00:00:00Z"'),
    ("google.protobuf.Duration f", '"-0.5s"', '"-0.5s"'), ("google.protobuf.Int32Value f", "0", "0"),
    ("google.protobuf.Struct f", r'"{\"a\":[null,\"x\",true,{}]}"', r'"{\"a\":[null,\"x\",true,{}]}"'),
    ("google.protobuf.ListValue f", "[1]", '"[1]"'), ("google.protobuf.Value f", '"5"', '"5"'),
    ("google.type.Date f", '"2020-00-00"', '"2020-00-00"'), ("google.type.TimeOfDay f", '"24:00:00"', '"24:00:00"'),
    ("confluent.type.Decimal f", "-12.50", '"-12.50"'), ("confluent.type.Decimal f", '"0.001"', '"0.001"'),
    ("Tree f", r'"{\"name\":\"a\",\"left\":{\"name\":\"b\",\"left\":null}}"',
     r'"{\"name\":\"a\",\"left\":{\"name\":\"b\",\"left\":null}}"'),
    ("repeated E f", '["ONE","ZERO"]', '["ONE","ZERO"]'), ("map<bool, E> f", '{"true":"ONE"}', '{"true":"ONE"}'),
    ("map<string, google.type.Date> f", '{"k":"2020-01-31"}', '{"k":"2020-01-31"}'),
]  # fmt: skip
NO_VALUES_OF_FIELDS = [
    ("int32 f", "2147483648"), ("uint32 f", "-1"), ("int64 f", "1.5"), ("int32 f", '"5"'), ("float f", "1e39"),
    ("double f", "1e400"), ("bool f", "1"), ("bytes f", '"a"'), ("E f", '"TWO"'), ("E f", '"99999999999"'),
    ("google.protobuf.Timestamp f", '"noon"'), ("google.type.Date f", '"2021-02-29"'),
    ("google.type.TimeOfDay f", '"12:60:00"'), ("google.protobuf.Duration f", '"5"'), ("repeated int32 f", "[1,null]"),
    ("map<int32, string> f", '{"a":"b"}'), ("map<string, Tree> f", '{"a":null}'), ("Tree f", '"text"'),
    ("Tree f", '{"names":"a"}'), ("repeated int32 f", "5"), ("confluent.type.Decimal f", "1e5"),
    ("repeated string f", '["a",null]'), ("string f", r'"\ud800"'),
]  # fmt: skip
OF_TEXTS = ["repeated string f", "map<string, string> f"]
FIELDS = {
    field: f"M{i}"
    for i, field in enumerate([*(f for f, _, _ in VALUES), *(f for f, _ in NO_VALUES_OF_FIELDS), *OF_TEXTS])
}
"""The name of a message that has only this field, by the field."""
ALL = HEAD + " ".join(f"message {name} {{ {field} = 1; }}" for field, name in FIELDS.items())
"""A schema of all of them: protoc reads it in a process of its own, once."""


def through(field: str, value: str, column: str = "STRING", null_text: str | None = None) -> str:
    """The JSON of a value that was written to a field and read again."""
    descriptor = class_of(ALL, FIELDS[field]).DESCRIPTOR
    written = RowWriter(descriptor, {"f": types.parse(column)}, null_text).write({"f": value.encode()})
    found = RowSchema(descriptor).decode(written)
    assert not isinstance(found, Reject), found
    return bytes(found[0]).decode()[5:-1]


@pytest.mark.parametrize(("field", "value", "read"), VALUES)
def test_values(field: str, value: str, read: str) -> None:
    assert through(field, value) == read


@pytest.mark.parametrize(("field", "value"), NO_VALUES_OF_FIELDS)
def test_values_that_a_field_cannot_say(field: str, value: str) -> None:
    with pytest.raises(RowError, match=r"^column 'f") as raised:
        through(field, value)
    assert raised.value.code == "type-mismatch"


def test_a_text_for_nulls_among_texts() -> None:
    assert through("repeated string f", '["a",null]', "ARRAY<STRING>", "NULL") == '["a","NULL"]'
    assert through("map<string, string> f", '{"a":null}', "MAP<STRING, STRING>", "") == '{"a":""}'
    with pytest.raises(RowError, match="a null inside of it"):
        through("repeated int32 f", "[null]", "ARRAY<INT>", "NULL")


def test_a_row_nested_too_deep_is_a_reject() -> None:
    value = '{"left":' * 5000 + "{}" + "}" * 5000
    with pytest.raises(RowError) as raised:
        through("Tree f", value)
    assert raised.value.code == "type-mismatch"


def test_members_of_a_oneof_exclude_each_other() -> None:
    text = 'syntax = "proto3"; message M { oneof payment { string card = 1; int64 cash = 2; } }'
    writer = RowWriter(class_of(text, "M").DESCRIPTOR, {"card": types.STRING, "cash": types.BIGINT})
    assert writer.write({"card": b"null", "cash": b"0"}) == b"\x10\x00"
    with pytest.raises(RowError, match="either this or card"):
        writer.write({"card": b'"a"', "cash": b"0"})


@pytest.mark.parametrize(("columns", "why"), [
    ({"a": "INT", "x": "INT"}, "M has no field 'x'"), ({"b": "INT"}, "must have a, and no column"),
    ({"a": "INT", "i": "ROW<n INT, x INT>"}, "I has no field 'x'"),
    ({"a": "INT", "l": "ARRAY<ROW<x INT>>"}, "I has no field 'x'"),
    ({"a": "INT", "m": "MAP<STRING, ROW<x INT>>"}, "I has no field 'x'"),
])  # fmt: skip
def test_tables_that_a_message_cannot_take(columns: dict[str, str], why: str) -> None:
    text = (
        'syntax = "proto2"; message I { optional int32 n = 1; } message M { required int32 a = 1; '
        "optional int32 b = 2; optional I i = 3; repeated I l = 4; map<string, I> m = 5; }"
    )
    with pytest.raises(RowError, match=why) as raised:
        RowWriter(class_of(text, "M").DESCRIPTOR, {name: types.parse(one) for name, one in columns.items()})
    assert raised.value.code == "unwritable-table"


def test_a_required_field_that_is_null_is_a_reject() -> None:
    writer = RowWriter(
        class_of('syntax = "proto2"; message M { required int32 a = 1; }', "M").DESCRIPTOR, {"a": types.INT}
    )
    with pytest.raises(RowError, match="must have is null") as raised:
        writer.write({"a": b"null"})
    assert raised.value.code == "type-mismatch"


def test_a_row_in_a_generated_schema_is_read_as_it_was() -> None:
    row = {
        "b": True, "i": -5, "l": 2**40, "f": 0.1, "d": 1.5, "s": "x", "y": "AP8=", "at": "2020-01-31 12:13:14.5Z",
        "de": "12.50", "da": "2020-01-31", "a": [1, 2], "r": {"x": None, "y": ["a"]}, "m": {"k": {"n": 1}},
        "aa": "[[1]]", "n": None,
    }  # fmt: skip
    kinds = [
        "BOOLEAN", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "TIMESTAMP_LTZ", "DECIMAL(10,2)", "DATE",
        "ARRAY<INT>", "ROW<x INT, y ARRAY<STRING>>", "MAP<STRING, ROW<n INT>>", "ARRAY<ARRAY<INT>>", "NULL",
    ]  # fmt: skip
    columns = {name: types.parse(kind) for name, kind in zip(row, kinds, strict=True)}
    descriptor = DescriptorSet(compile_schema(schema_text(columns, "Row"), {})).message("Row")
    found = RowSchema(descriptor).decode(
        RowWriter(descriptor, columns).write({n: json.dumps(v).encode() for n, v in row.items()})
    )
    assert not isinstance(found, Reject)
    assert json.loads(bytes(found[0])) == row


def test_columns_that_have_no_field() -> None:
    with pytest.raises(RowError, match="do not allow") as raised:
        schema_text({"a b": types.INT}, "Row")
    assert raised.value.code == "unwritable-table"


def test_a_format_writes_the_columns_under_the_names_of_their_fields() -> None:
    options: dict[str, Any] = {
        "protobuf.schema": 'syntax = "proto3"; message Key { int32 id = 1; }', "protobuf.message-class-name": "Key"
    }  # fmt: skip
    write = Protobuf.model_validate(options).row_writer(
        RowPlace("t", "key", ("t",)), {"id": Column("key_id", types.INT)}
    )
    assert write({"key_id": b"5", "other": b"1"}) == b"\x08\x05"
