"""Messages read as another schema than they were written with: the cases of Avro's own tests, and logical types.

Avro's tests have pairs of schemas of which one is read as the other, and pairs of which it cannot be.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from schema_registry import record, written

from ingest.avro.messages import FAILURES, EnvelopeSchema, RowSchema
from ingest.avro.schema import SchemaError, parse
from ingest.model import types
from ingest.model.change import Reject

AB = {"type": "enum", "name": "Enum1", "symbols": ["A", "B"]}
ABC = {**AB, "symbols": ["A", "B", "C"]}
BC = {**AB, "symbols": ["B", "C"]}
AB_ELSE_A = {**AB, "default": "A"}
FIXED = {"type": "fixed", "name": "Fixed", "size": 4}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def named(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A record's schema from names, types, and perhaps defaults."""
    made = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": name, "fields": made}


def schema(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})


def read_as(writer: Any, reader: Any, value: Any) -> Any:
    """A value that was written with one schema, read as another one."""
    rows = RowSchema(parse(schema(writer)), parse(schema(reader)))
    row = rows.row(written(json.loads(schema(writer)), {"c": value}), 0)
    return json.loads(bytes(row))["c"]


READ: list[tuple[Any, Any, Any, Any]] = [
    # promotions
    ("int", "long", 219, 219),
    ("int", "float", 219, 219.0),
    ("int", "double", -219, -219.0),
    ("long", "float", 219, 219.0),
    ("long", "double", 1 << 40, float(1 << 40)),
    ("float", "double", 1.5, 1.5),
    ("string", "bytes", "abc", "YWJj"),
    ("bytes", "string", b"abc", "abc"),
    # unions
    (["int"], "float", 1, 1.0),
    (["int"], "double", 1, 1.0),
    (["int"], ["long"], 1, 1),
    (["int"], ["float"], 1, 1.0),
    (["long"], ["double"], 1, 1.0),
    (["float"], ["double"], 1.5, 1.5),
    (["string"], ["bytes"], "a", "YQ=="),
    (["bytes"], ["string"], b"a", "a"),
    (["int", "string"], ["string", "int"], "a", "a"),
    (["int", "string"], ["string", "int"], 5, 5),
    (["int", "float"], ["float"], 5, 5.0),
    ("int", ["int", "string"], 5, 5),
    ("int", ["string", "double", "long"], 5, 5.0),
    ("int", ["null", "long"], 5, 5),
    (["null", "int"], ["int", "null"], None, None),
    (["null", "int"], ["long", "null"], 7, 7),
    (["null", "int"], "int", 7, 7),
    (["null", array("int")], array("long"), [1], [1]),
    # arrays and maps
    (array("int"), array("long"), [1, 2], [1, 2]),
    (array("int"), array("double"), [], []),
    (mapped("int"), mapped("long"), {"a": 1}, {"a": 1}),
    # enums: symbols in another order, fewer of them, and a default
    (AB, ABC, "B", "B"),
    (ABC, BC, "C", "C"),
    (ABC, AB_ELSE_A, "C", "A"),
    # records: fields in another order, left out, added with a default, renamed
    (
        named("R", ("a", "int"), ("b", "string")),
        named("R", ("b", "string"), ("a", "long")),
        {"a": 1, "b": "x"},
        {"b": "x", "a": 1},
    ),
    (named("R", ("a", "int"), ("b", array("string"))), named("R", ("a", "int")), {"a": 1, "b": ["x"]}, {"a": 1}),
    (named("R", ("a", "int")), named("R"), {"a": 1}, {}),
    (named("R"), named("R", ("a", "int", 5)), {}, {"a": 5}),
    (named("R", ("a", "int")), named("R", ("a", "int", 0), ("b", ["int", "string"], 7)), {"a": 1}, {"a": 1, "b": 7}),
    (named("R"), named("R", ("a", ["null", "int"], None)), {}, {"a": None}),
    (named("ns1.R", ("a", "int")), named("ns2.R", ("a", "int")), {"a": 1}, {"a": 1}),
    (
        named("R", ("old", "int")),
        {"type": "record", "name": "R", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]},
        {"old": 3},
        {"new": 3},
    ),
    ({**FIXED, "name": "Old"}, {**FIXED, "aliases": ["Old"]}, b"abcd", "YWJjZA=="),
    (["int", named("R1", ("f", "int"))], ["int", named("R1", ("f", "long"))], {"f": 1}, {"f": 1}),
]
DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("null", None, None),
    ("boolean", True, True),
    ("string", "foo", "foo"),
    ("bytes", "\u00ff\u00ff", "//8="),
    ("int", 5, 5),
    ("long", 5, 5),
    ("float", 1.1, 1.1),
    ("double", 1.1, 1.1),
    ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u00ff", "//8="),
    ({"type": "enum", "name": "F", "symbols": ["FOO", "BAR"]}, "FOO", "FOO"),
    (array("int"), [1, 2, 3], [1, 2, 3]),
    (mapped("int"), {"a": 1, "b": 2}, {"a": 1, "b": 2}),
    (["int", "null"], 5, 5),
    (named("F", ("A", "int")), {"A": 5}, {"A": 5}),
    ({"type": "int", "logicalType": "date"}, 1, "1970-01-02"),
]
REFUSED: list[tuple[Any, Any]] = [
    ("int", "null"),
    ("null", "int"),
    ("int", "boolean"),
    ("long", "int"),
    ("float", "int"),
    ("double", "float"),
    ("float", "long"),
    ("string", "double"),
    ("bytes", "long"),
    ("boolean", "int"),
    ("int", "string"),
    (array("long"), array("int")),
    (mapped("int"), array("int")),
    (array("int"), mapped("int")),
    (mapped("long"), mapped("int")),
    (AB, "int"),
    ("int", AB),
    (AB, {**AB, "name": "Enum2"}),
    (FIXED, {**FIXED, "size": 8}),
    (FIXED, {**FIXED, "name": "Other"}),
    (FIXED, "bytes"),
    (["string"], ["int"]),
    ("string", ["null", "int"]),
    (named("R"), named("R", ("a", "int"))),
    (named("R", ("a", "string")), named("R", ("a", "int"))),
    (array("null"), array("null")),
    # one number would mean two values
    ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
    ),
]


@pytest.mark.parametrize(("writer", "reader", "value", "expected"), READ)
def test_what_is_read_as_another_schema(writer: Any, reader: Any, value: Any, expected: Any) -> None:
    assert read_as(writer, reader, value) == expected


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS)
def test_a_field_that_the_writer_lacks_is_its_default(kind: Any, default: Any, expected: Any) -> None:
    reader = {"type": "record", "name": "r", "fields": [{"name": "H", "type": kind, "default": default}]}
    writer = record("r", **dict.fromkeys("ABCDEFG", "int"))
    rows = RowSchema(parse(json.dumps(writer)), parse(json.dumps(reader)))
    row = rows.row(written(writer, {name: at for at, name in enumerate("ABCDEFG")}), 0)
    assert msgspec.json.decode(row) == {"H": expected}


@pytest.mark.parametrize(("writer", "reader"), REFUSED)
def test_what_cannot_be_read_as_another_schema(writer: Any, reader: Any) -> None:
    with pytest.raises(SchemaError):
        RowSchema(parse(schema(writer)), parse(schema(reader)))


@pytest.mark.parametrize(
    ("writer", "reader", "good", "bad"),
    [
        (["int", "string"], "int", 5, "a"),
        (["null", "int"], "int", 5, None),
        (ABC, AB, "A", "C"),
        (["int", AB], "int", 5, "A"),
    ],
)
def test_a_value_that_the_readers_schema_lacks_is_a_reject(writer: Any, reader: Any, good: Any, bad: Any) -> None:
    assert read_as(writer, reader, good) == good
    rows = RowSchema(parse(schema(writer)), parse(schema(reader)))
    found = rows.decode(written(json.loads(schema(writer)), {"c": bad}), 0)
    assert isinstance(found, Reject)
    assert found.code == "malformed"


def test_the_types_are_those_of_the_readers_schema() -> None:
    rows = RowSchema(parse(schema("int")), parse(schema({"type": "long", "logicalType": "timestamp-millis"})))
    assert rows.declared.types == {"c": types.TIMESTAMP_LTZ}
    assert json.loads(bytes(rows.row(written(json.loads(schema("int")), {"c": 1000}), 0))) == {
        "c": "1970-01-01 00:00:01Z"
    }


def test_a_record_that_holds_itself() -> None:
    def node(kind: str) -> dict[str, Any]:
        return named("N", ("v", kind), ("next", ["null", "N"]))

    value = {"v": 1, "next": {"v": 2, "next": None}}
    assert read_as(node("int"), node("long"), value) == value


def test_an_envelope_is_read_as_another_one() -> None:
    def envelope(*fields: tuple[Any, ...]) -> dict[str, Any]:
        source = named("S", ("table", "string"))
        return named("E", ("after", ["null", named("V", *fields)]), ("source", source), ("op", "string"))

    writer = envelope(("id", "int"))
    reader = envelope(("id", "long"), ("n", "int", 5))
    found = EnvelopeSchema(parse(json.dumps(writer)), parse(json.dumps(reader)))
    message = written(writer, {"after": {"id": 1}, "source": {"table": "t"}, "op": "c"})
    assert found.read(message, 0) == {"after": b'{"id":1,"n":5}', "source": b'{"table":"t"}', "op": b'"c"'}
    assert found.declared.types == {"id": types.BIGINT, "n": types.INT}


REJECTED: list[tuple[str, str]] = [
    ('"long"', "80808080808080808080"),
    ('"int"', "8080808080"),
    ('{"type":"array","items":"int"}', "ffffffffffffffffff0102"),
    ('"bytes"', "01"),
    ('"string"', "01"),
    ('["null","int"]', "01"),
    ('["null","int"]', "0a"),
    ('{"type":"enum","name":"E","symbols":["A","B"]}', "01"),
    ('{"type":"enum","name":"E","symbols":["A","B"]}', "0a"),
]
"""Bytes that Avro asks every implementation to refuse."""


@pytest.mark.parametrize(("kind", "text"), REJECTED)
def test_bytes_that_every_reader_has_to_refuse(kind: str, text: str) -> None:
    node = parse(schema(json.loads(kind)))
    for rows in (RowSchema(node), RowSchema(node, node)):
        with pytest.raises(FAILURES):
            rows.row(bytes.fromhex(text), 0)
