"""The native reader of Avro refuses nodes that do not fit each other, and leaves what is too deep or too large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.formats.avro.messages import RowSchema
from ingest.formats.avro.native_nodes import AvroNodeSpec, row_reader
from ingest.formats.avro.schema import parse

pytestmark = pytest.mark.compiled("avro")


def codec(name: str) -> Any:
    from ingest.formats.avro.native.reader import AvroCodec

    return AvroCodec[f"AVRO_{name}"]


def refused(*nodes: AvroNodeSpec) -> None:
    from ingest.formats.avro.native.reader import AvroReader

    with pytest.raises(ValueError, match=r"."):
        AvroReader(nodes, 0, 0)


def record(*nodes: int, texts: tuple[bytes, ...] | None = None) -> AvroNodeSpec:
    return AvroNodeSpec(codec("RECORD"), nodes=nodes, texts=texts or tuple(b'"a":' for _ in nodes))


def test_nodes_that_do_not_fit_are_refused() -> None:
    refused()
    refused(AvroNodeSpec(codec("NULL")))
    refused(record(1))
    refused(record(-1))
    refused(record(0, texts=(b'"a":', b'"b":')))
    refused(record(1), AvroNodeSpec(99))  # type: ignore[arg-type]
    refused(record(1), AvroNodeSpec(codec("INTEGER"), 0))
    refused(record(1), AvroNodeSpec(codec("INTEGER"), 65))
    refused(record(1), AvroNodeSpec(codec("INTEGER"), 32, nodes=(0,)))
    refused(record(1), AvroNodeSpec(codec("MOMENT"), 0))
    refused(record(1), AvroNodeSpec(codec("DECIMAL"), 0))
    refused(record(1), AvroNodeSpec(codec("BYTES"), size=-2))
    refused(record(1), AvroNodeSpec(codec("ARRAY"), nodes=(0, 0)))
    refused(record(1), AvroNodeSpec(codec("UNION")))


def test_a_schema_with_numbers_that_are_too_odd_is_left() -> None:
    kind = {"type": "fixed", "name": "f", "size": 2**63}
    row = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", kind]}]}
    node = parse(json.dumps(row))
    assert row_reader(node) is None
    assert bytes(RowSchema(node).row(b"\x00", 0)) == b'{"a":null}'


def test_a_place_that_a_message_does_not_have_is_refused() -> None:
    reader = row_reader(parse('{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'))
    assert reader is not None
    for at in (-1, 3):
        with pytest.raises(ValueError, match="no such place"):
            reader.read(b"\x02\x02", at)
    assert reader.read(b"\x02\x02", 2) is None
    assert reader.read(b"\x02\x02", 1) == b'{"a":1}'


def test_what_is_nested_too_deep_is_left() -> None:
    linked = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
    reader = row_reader(parse(json.dumps(linked)))
    assert reader is not None
    assert reader.read(b"\x02" * 10 + b"\x00", 0) == b'{"next":' * 11 + b"null" + b"}" * 11
    assert reader.read(b"\x02" * 1_000_000 + b"\x00", 0) is None


def test_a_short_message_of_a_long_text_is_left() -> None:
    """Items of one byte, each with a long name: the text would be a thousand times as long."""
    inner = {"type": "record", "name": "i", "fields": [{"name": "n" * 1000, "type": "int"}]}
    outer = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": inner}}]}
    reader = row_reader(parse(json.dumps(outer)))
    assert reader is not None
    few = b"\x06" + b"\x02" * 3 + b"\x00"
    assert reader.read(few, 0) == b'{"a":[' + b",".join([b'{"%b":1}' % (b"n" * 1000)] * 3) + b"]}"
    count = 100_000
    many = bytes([count * 2 & 127 | 128, count * 2 >> 7 & 127 | 128, count * 2 >> 14]) + b"\x02" * count + b"\x00"
    assert reader.read(many, 0) is None
