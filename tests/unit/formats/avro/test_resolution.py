"""Messages read as another schema than they were written with: the cases of Avro's own tests, and logical types.

Avro's tests have pairs of schemas of which one is read as the other, and pairs of which it cannot be.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from avro_pairs import AB, ABC, READ, REFUSED, array, mapped, named
from schema_registry import record, written

from ingest.formats.avro.messages import FAILURES, EnvelopeSchema, RowSchema
from ingest.formats.avro.schema import SchemaError, parse
from ingest.model import types
from ingest.model.change import Reject


def schema(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})


def read_as(writer: Any, reader: Any, value: Any) -> Any:
    """A value that was written with one schema, read as another one."""
    rows = RowSchema(parse(schema(writer)), parse(schema(reader)))
    row = rows.row(written(json.loads(schema(writer)), {"c": value}), 0)
    return json.loads(bytes(row))["c"]


def test_a_record_that_was_resolved_within_one_that_then_failed_is_resolved_again() -> None:
    """A holds C, which holds A; only A's last field cannot be read, so C without an A can be."""

    def union(last: str) -> Any:
        return [record("A", x=record("C", back=["null", "A"], z="int"), y=last), "C"]

    rows = RowSchema(parse(schema(union("int"))), parse(schema(union("boolean"))))
    assert json.loads(bytes(rows.row(b"\x02" + b"\x00\x0e", 0)))["c"] == {"back": None, "z": 7}
    for message in (b"\x02" + b"\x02\x00\x0a\x06" + b"\x0e", b"\x00" + b"\x00\x0a\x06"):
        found = rows.decode(message, 0)
        assert isinstance(found, Reject)
        assert (found.code, "the writer's 'record A' cannot be read" in found.message) == ("malformed", True)


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
    assert found.read(message, 0)[0] == {"after": b'{"id":1,"n":5}', "source": b'{"table":"t"}', "op": b'"c"'}
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


def test_a_default_of_the_writer_is_not_looked_at_where_messages_are_read_as_another_schema() -> None:
    writer = {"type": "record", "name": "r", "fields": [{"name": "c", "type": "int", "default": "abc"}]}
    rows = RowSchema(parse(json.dumps(writer)), parse(schema("long")))
    assert json.loads(bytes(rows.row(b"\x0a", 0))) == {"c": 5}


def test_an_invalid_decimal_is_read_as_a_decimal_and_as_bytes() -> None:
    valid = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    invalid = {**valid, "precision": 0, "scale": 1}
    for writer, reader, value in ((invalid, valid, 0.01), (valid, invalid, "AQ==")):
        rows = RowSchema(parse(schema(writer)), parse(schema(reader)))
        assert json.loads(bytes(rows.row(b"\x02\x01", 0))) == {"c": value}
