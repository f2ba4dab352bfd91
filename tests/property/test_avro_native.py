"""The native reader of Avro gives what the reference gives, or leaves the message to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from avro_schemas import Names, changed, logical_records, possible, records, written
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.avro.native_nodes import members_reader, row_reader
from ingest.formats.avro.rows import MALFORMED, Compiler, EnvelopeReader, RowReader, ended
from ingest.formats.avro.schema import parse
from ingest.model.jsontext import object_of
from ingest.model.reject import Contradiction, RowError

if TYPE_CHECKING:
    from ingest.formats.avro.schema import Node

pytestmark = pytest.mark.compiled("avro")


def by_reference(node: Node, message: bytes) -> bytes | None:
    """A row as the reference reads it, or None."""
    try:
        row, at = RowReader(node, Compiler()).read(message, 0)
        ended(message, at)
        return msgspec.json.encode(row)
    except (*MALFORMED, Contradiction, RowError):
        return None


def by_native_code(node: Node, message: bytes, at: int = 0) -> bytes | None:
    reader = row_reader(node)
    assert reader is not None
    return reader.read(message, at)


@given(st.data())
def test_messages_of_plain_types_are_read_natively(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    if not possible(schema):
        return
    message = written(schema, data.draw(values))
    node = parse(json.dumps(schema))
    expected = by_reference(node, message)
    assert expected is not None
    assert by_native_code(node, message) == expected
    assert by_native_code(node, b"\x00" + message, 1) == expected


@given(st.data())
def test_changed_messages_are_read_alike_or_left(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    if not possible(schema):
        return
    message = changed(data, written(schema, data.draw(values)))
    node = parse(json.dumps(schema))
    assert by_native_code(node, message) in {None, by_reference(node, message)}


@given(logical_records(), st.data())
def test_logical_types_are_read_alike_or_left(record: tuple[Any, Any, Any], data: st.DataObject) -> None:
    schema, plain, value = record
    message = written(plain, value)
    node = parse(json.dumps(schema))
    assert by_native_code(node, message) in {None, by_reference(node, message)}
    message = changed(data, message)
    assert by_native_code(node, message) in {None, by_reference(node, message)}


def test_logical_types_are_read_natively() -> None:
    """What is usual of each type is not left to the reference."""
    fields: list[tuple[Any, Any, Any, str]] = [
        ({"type": "int", "logicalType": "date"}, "int", 19_000, '"2022-01-08"'),
        ({"type": "int", "logicalType": "time-millis"}, "int", 1, '"00:00:00.001"'),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long", -1, '"1969-12-31 23:59:59.999999Z"'),
        ({"type": "long", "connect.name": "io.debezium.time.Timestamp"}, "long", 5, '"1970-01-01 00:00:00.005"'),
        ({"type": "int", "connect.type": "int16"}, "int", -32_768, "-32768"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "bytes", b"\xff\xfb", "-0.05"),
        ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, "string", "2024-02-29T01:02:03.450Z",
         '"2024-02-29 01:02:03.45Z"'),
    ]  # fmt: skip
    names = [f"c{at}" for at in range(len(fields))]

    def record(kinds: list[Any]) -> dict[str, Any]:
        columns = [{"name": name, "type": kind} for name, kind in zip(names, kinds, strict=True)]
        return {"type": "record", "name": "r", "fields": columns}

    message = written(
        record([plain for _, plain, _, _ in fields]), dict(zip(names, [f[2] for f in fields], strict=True))
    )
    node = parse(json.dumps(record([kind for kind, _, _, _ in fields])))
    expected = "{" + ",".join(f'"{name}":{field[3]}' for name, field in zip(names, fields, strict=True)) + "}"
    assert by_native_code(node, message) == by_reference(node, message) == expected.encode()


@given(st.data())
def test_envelopes_are_read_alike_or_left(data: st.DataObject) -> None:
    row, values = data.draw(records(Names(), 1))
    other, others = data.draw(records(Names("o"), 1))
    source = {"type": "record", "name": "source", "fields": [
        {"name": "db", "type": "string"}, {"name": "other", "type": other["name"]},
        {"name": "table", "type": ["null", "string"]},
    ]}  # fmt: skip
    schema = {"type": "record", "name": "envelope", "fields": [
        {"name": "before", "type": ["null", row]}, {"name": "passed", "type": other},
        {"name": "after", "type": [row["name"], "null"]}, {"name": "source", "type": source},
        {"name": "op", "type": "string"}, {"name": "last", "type": ["null", "long", other["name"]]},
    ]}  # fmt: skip
    if not possible(schema):
        return
    value = {
        "before": data.draw(st.none() | values), "passed": data.draw(others), "after": data.draw(st.none() | values),
        "source": {"db": "d\n", "other": data.draw(others), "table": data.draw(st.sampled_from([None, "t"]))},
        "op": "u", "last": data.draw(st.none() | st.integers(0, 2**40)),
    }  # fmt: skip
    reader = EnvelopeReader(parse(json.dumps(schema)))
    native = members_reader(reader.node, reader.wanted)
    assert native is not None
    message = written(schema, value)
    whole = [message, changed(data, message)]
    for at, one in enumerate(whole):
        expected: bytes | None = None
        try:
            found, unread, end = reader.read(one, 0)
            ended(one, end)
            if not unread:  # the reference says which values these are
                expected = object_of({name: msgspec.json.encode(v) for name, v in found.items()})
        except (*MALFORMED, Contradiction, RowError):
            assert at
        read = native.read(one, 0)
        assert read == expected or (at and read is None)
