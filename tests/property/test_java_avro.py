"""Avro as its own implementation in Java has it: each reads what the other writes, and schemas that differ alike.

Where ours refuses what Java reads, or the reverse, is said here, with the rule of docs/spec/avro.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from avro_pairs import READ, REFUSED
from avro_schemas import Names, possible, readers_of_records, records
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from java_avro import JavaAvro, running, same
from schema_registry import record
from typed_rows import TYPED, typed_rows

from ingest.formats.avro.messages import RowSchema
from ingest.formats.avro.row_writer import RowWriter
from ingest.formats.avro.schema import SchemaError, parse
from ingest.formats.avro.table_writer import AvroRows, derived
from ingest.model.change import Reject
from ingest.model.jsontext import fields_of
from ingest.model.schema import Column
from ingest.schema.ddl import parse_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

SEEDS = st.integers(0, (1 << 48) - 1)
NODE = record("Node", label="string", children={"type": "array", "items": "Node"})
FIXED = {"type": "fixed", "name": "MD5", "size": 16}


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    return {**({"type": kind} if isinstance(kind, str) else kind), "logicalType": name, **more}


def fixed(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


WRITABLE = record(
    "Interop",
    intField="int", longField="long", stringField="string", boolField="boolean", floatField="float",
    doubleField="double", bytesField="bytes", nullField="null", fixedField=FIXED,
    arrayField={"type": "array", "items": "double"}, mapField={"type": "map", "values": record("Foo", label="string")},
    unionField=["boolean", "long", {"type": "array", "items": "bytes"}, "null"],
    enumField={"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}, recordField=NODE,
    day=logical("int", "date"), millis=logical("int", "time-millis"), micros=logical("long", "time-micros"),
    momentMillis=logical("long", "timestamp-millis"), momentMicros=["null", logical("long", "timestamp-micros")],
    localMillis=logical("long", "local-timestamp-millis"), localMicros=logical("long", "local-timestamp-micros"),
    nanos=logical("long", "timestamp-nanos"), localNanos=logical("long", "local-timestamp-nanos"),
    number=logical("bytes", "decimal", precision=38, scale=10), whole=logical("bytes", "decimal", precision=5),
    small=logical(fixed("Small", 4), "decimal", precision=9, scale=2), uuid=logical("string", "uuid"),
    uuidBytes=logical(fixed("Uuid", 16), "uuid"), ignored=logical("string", "date"),
    days={"type": "array", "items": ["null", logical("int", "date")]},
)  # fmt: skip
"""The schema of Avro's interoperability test, and logical types, of which one does not fit its type."""
READABLE = record(
    "Readable", big=logical("bytes", "big-decimal"), period=logical(fixed("Period", 12), "duration"),
    long=logical("bytes", "decimal", precision=60, scale=20),
    mixed=["null", "int", "string", record("Inner", n=["null", logical("bytes", "decimal", precision=4, scale=2)])],
)  # fmt: skip
"""Types that are only read, or of which JSON does not say the branch of a union."""


@pytest.fixture(scope="module")
def java_avro(java: None) -> Iterator[JavaAvro]:
    yield from running()


def rows_of(writer: Any, reader: Any = None) -> RowSchema:
    return RowSchema(parse(json.dumps(writer)), None if reader is None else parse(json.dumps(reader)))


# -- what one writes, the other reads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [WRITABLE, READABLE], ids=["writable", "readable"])
@settings(max_examples=examples(20))
@given(seed=SEEDS)
def test_rows_that_java_wrote_are_read(java_avro: JavaAvro, schema: Any, seed: int) -> None:
    rows = rows_of(schema)
    for message in java_avro.make(schema, seed, 20).messages:
        assert message.error is None
        assert same(bytes(rows.row(message.content, 0)), message.value)
        by_reference, _ = rows.reader.read(message.content, 0)
        assert same(msgspec.json.encode(by_reference), message.value)


@settings(max_examples=examples(20))
@given(seed=SEEDS)
def test_rows_that_java_wrote_are_written_again_and_read_by_it(java_avro: JavaAvro, seed: int) -> None:
    rows = rows_of(WRITABLE)
    writer = RowWriter(json.dumps(WRITABLE), [field["name"] for field in WRITABLE["fields"]])
    made = java_avro.make(WRITABLE, seed, 20).messages
    again = []
    for message in made:
        row = fields_of(bytes(rows.row(message.content, 0)))
        again.append(writer.write({name: bytes(value) for name, value in row.items()}))
    assert [found.value for found in java_avro.read(WRITABLE, *again).messages] == [message.value for message in made]


@settings(max_examples=examples(60))
@given(data=st.data(), seed=SEEDS)
def test_rows_of_any_schema_go_both_ways(java_avro: JavaAvro, data: st.DataObject, seed: int) -> None:
    schema, _ = data.draw(records(Names()))
    if not possible(schema):
        return
    rows = rows_of(schema)
    writer = RowWriter(json.dumps(schema), [field["name"] for field in schema["fields"]])
    for message in java_avro.make(schema, seed, 4).messages:
        row = bytes(rows.row(message.content, 0))
        assert same(row, message.value)
        content = writer.write({name: bytes(value) for name, value in fields_of(row).items()})
        (found,) = java_avro.read(schema, content).messages
        assert found.value == message.value


@settings(max_examples=examples(60))
@given(st.lists(typed_rows, min_size=1, max_size=4))
def test_rows_of_a_table_are_read_by_java(java_avro: JavaAvro, rows: list[dict[str, Any]]) -> None:
    """The schema is the one that is derived from the table's columns, as that of a sink without a schema is."""
    types = parse_columns(", ".join(f"{name} {sql}" for name, (sql, _) in TYPED.items()))
    columns = {name: Column(name, kind, nullable=name != "id") for name, kind in types.items()}
    schema = derived(columns)
    write = AvroRows(schema, columns)
    texts = [{name: spelled(name, row[name]) for name in TYPED} for row in rows]
    found = java_avro.read(json.loads(schema), *map(write, texts)).messages
    for message, text in zip(found, texts, strict=True):
        assert message.error is None
        assert same(b"{%b}" % b",".join(b'"%b":%b' % (n.encode(), t) for n, t in text.items()), message.value)


def spelled(name: str, value: Any) -> bytes:
    """A value as a row has it: with the digits of its type, and without zeros at the end of a time."""
    if name == "n" and value is not None:
        return b"%.2f" % value
    if name in {"t3", "t6", "ts"} and value is not None:
        value = value.rstrip("0") if "." in value else value
    return json.dumps(value, ensure_ascii=False).encode()


# -- schemas that differ ----------------------------------------------------------------------------------------------


def compare(java_avro: JavaAvro, writer: Any, reader: Any, seed: int) -> None:
    """Compare rows by another schema with Java's. A schema that ours refuses is one that Avro's own check refuses.

    Ours refuses it for each message (A20); Java refuses a message only where it meets the place, and an array or map
    without items never.
    """
    answer = java_avro.make(writer, seed, 6, reader)
    try:
        rows = rows_of(writer, reader)
    except SchemaError:
        assert not answer.fits
        return
    for message in answer.messages:
        found, said = rows.decode(message.content, 0), json.dumps(message.value, ensure_ascii=False)
        if not isinstance(found, Reject):
            assert message.error is None
            assert same(bytes(found[0]), message.value)
        elif found.message.endswith("a text is not UTF-8"):  # A3; Java puts another character there
            assert "\N{REPLACEMENT CHARACTER}" in said
        elif message.error is None:
            assert not answer.fits
            assert "[]" in said or "{}" in said
            assert "cannot be read as" in found.message


def column(kind: Any) -> dict[str, Any]:
    return record("r", c=kind)


ENUM = {"type": "enum", "name": "one.E", "symbols": ["A", "B"]}
OF_NAMES = [
    (ENUM, {**ENUM, "name": "other.E"}),
    (fixed("one.F", 2), fixed("other.F", 2)),
    (record("One", a="int"), record("Other", a="long")),
    (record("One", a="int"), ["null", record("Other", a="long")]),
    (record("Two", a="int"), [record("One", a="int", b=["null", "int"]), record("Two", a="long")]),
    (record("x.Two", a="int"), [record("One", a="int"), record("y.Two", a="long")]),
    (record("x.Two", a="int"), [record("One", a="int"), record("y.Two", a="string")]),
]
"""Names count without their namespaces, and those of records only to choose among the branches of a union (A19)."""


@pytest.mark.parametrize(("writer", "reader"), [*((writer, reader) for writer, reader, _, _ in READ), *OF_NAMES])
def test_a_pair_is_read_as_java_reads_it(java_avro: JavaAvro, writer: Any, reader: Any) -> None:
    compare(java_avro, column(writer), column(reader), 1)


@settings(max_examples=examples(150))
@given(data=st.data(), seed=SEEDS)
def test_any_schema_is_read_as_another_one_as_java_does(java_avro: JavaAvro, data: st.DataObject, seed: int) -> None:
    names = Names()
    writer, _ = data.draw(records(names))
    reader = data.draw(readers_of_records(writer, names))
    if possible(writer) and possible(reader):
        compare(java_avro, writer, reader, seed)


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
TWO, THREE = (logical("bytes", "decimal", precision=9, scale=scale) for scale in (2, 3))
NULLS = {"type": "array", "items": "null"}
ONLY_JAVA = [(MILLIS, MICROS), (TWO, THREE), (NULLS, NULLS)]
"""One number would mean two values (A20); a short message could hold any number of items (A7)."""


@pytest.mark.parametrize(("writer", "reader"), [pair for pair in REFUSED if pair not in ONLY_JAVA])
def test_a_pair_is_refused_by_both(java_avro: JavaAvro, writer: Any, reader: Any) -> None:
    answer = java_avro.make(column(writer), 1, 6, column(reader))
    assert not answer.fits
    assert any(message.error for message in answer.messages)
    with pytest.raises(SchemaError):
        rows_of(column(writer), column(reader))


@pytest.mark.parametrize(("writer", "reader"), ONLY_JAVA)
def test_a_pair_is_read_by_java_alone(java_avro: JavaAvro, writer: Any, reader: Any) -> None:
    assert not any(message.error for message in java_avro.make(column(writer), 1, 6, column(reader)).messages)
    with pytest.raises(SchemaError):
        rows_of(column(writer), column(reader))
