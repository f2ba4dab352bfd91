"""The file sink's envelopes hold values of every format: what is no text is in Base64."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from inmemory import run

from ingest.config.loader import load_text
from ingest.formats import FORMATS

ROW = '{"type":"record","name":"r","fields":[{"name":"id","type":"int"},{"name":"n","type":["null","long"]}]}'
PROTO = 'syntax = "proto3"; message Row { int32 id = 1; optional int64 n = 2; }'
URL = "http://registry:8081"
WITH_SCHEMAS: dict[str, dict[str, str]] = {
    "avro": {},
    "avro-confluent": {"avro-confluent.url": URL},
    "debezium-avro-confluent": {"debezium-avro-confluent.url": URL},
    "protobuf": {"protobuf.schema": PROTO, "protobuf.message-class-name": "Row"},
    "protobuf-confluent": {"protobuf-confluent.url": URL},
    "json-confluent": {"json-confluent.url": URL},
}
KEY = [{"source-table": r"\.*", "primary-keys": "id"}]
SOURCE = {"value.format": "json", "scan.value.initial-schemas.ddls": "CREATE TABLE topic (id INT, n BIGINT)"}


def file(**options: Any) -> dict[str, Any]:
    return {"type": "file", "path": "out", "file.envelope": True, **options}


def test_these_are_all_formats_with_schemas() -> None:
    assert sorted(WITH_SCHEMAS) == sorted(name for name in FORMATS if FORMATS[name].capabilities.table_schemas)


@pytest.mark.parametrize("wire", WITH_SCHEMAS)
def test_lines_without_envelopes_cannot_hold_bytes(wire: str) -> None:
    given = {"type": "file", "path": "out", "value.format": wire, **WITH_SCHEMAS[wire]}
    source = {"type": "file", "path": "in/*.jsonl"}
    loaded = load_text("p", json.dumps({"source": source, "sink": given}), "p")
    assert loaded.pipeline is None
    (said,) = loaded.diagnostics
    assert said.message == (
        f"value.format: {wire} needs file.envelope: true, where values are value-base64: its bytes may hold the end of "
        "a line"
    )
    loaded = load_text("p", json.dumps({"source": source, "sink": {**given, "file.envelope": True}}), "p")
    assert loaded.pipeline is not None, loaded.diagnostics


@pytest.mark.parametrize(
    ("wire", "options", "written"),
    [
        ("avro", {}, b"\x02\x02\x14"),
        ("avro", {"avro.schema": ROW}, b"\x02\x02\x14"),
        ("protobuf", WITH_SCHEMAS["protobuf"], b"\x08\x01\x10\x0a"),
        ("avro-confluent", WITH_SCHEMAS["avro-confluent"], b"\0\0\0\0\0\x02\x02\x14"),
        ("protobuf-confluent", WITH_SCHEMAS["protobuf-confluent"], b"\0\0\0\0\0\0\x08\x01\x10\x0a"),
        ("json-confluent", WITH_SCHEMAS["json-confluent"], b'\0\0\0\0\0{"id":1,"n":10}'),
    ],
)
def test_a_row_is_bytes_beside_its_key(wire: str, options: dict[str, str], written: bytes) -> None:
    ran = run(
        [(None, b'{"id":1,"n":10}')], source=SOURCE, sink=file(**{"value.format": wire, **options}), transform=KEY
    )
    assert (ran.error, ran.rejects) == (None, [])
    ((name, _, line),) = ran.records
    assert (name, line) == ("topic", b'{"key":{"id":1},"value-base64":"%b"}' % b64encode(written))


def test_a_delete_is_null_in_rows_and_an_event_in_debeziums_envelope() -> None:
    message = b'{"before":{"id":1,"n":10},"after":null,"op":"d","source":{"table":"topic"}}'
    source = {"scan.value.initial-schemas.ddls": "CREATE TABLE topic (id INT, n BIGINT, PRIMARY KEY (id))"}
    lines = []
    for wire in ("avro", "debezium-avro-confluent"):
        ran = run([(None, message)], source=source, sink=file(**{"value.format": wire, **WITH_SCHEMAS[wire]}))
        assert (ran.error, ran.rejects) == (None, [])
        ((_, _, line),) = ran.records
        lines.append(line)
    event = b"\0\0\0\0\0\x02\x02\x02\x02\x14\x00\x00\x00\x02\x0atopic\x02d"
    assert lines[0] == b'{"key":{"id":1},"value":null}'
    assert lines[1] == b'{"key":{"id":1},"value-base64":"%b"}' % b64encode(event)


def test_a_table_without_a_key_has_null_for_it() -> None:
    ran = run([(None, b'{"id":1,"n":10}')], source=SOURCE, sink=file(**{"value.format": "avro"}))
    ((_, _, line),) = ran.records
    assert line == b'{"key":null,"value-base64":"%b"}' % b64encode(b"\x02\x02\x02\x14")


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (b"\xff\n", b'"value-base64":"/wo="'),
        ("ü\n".encode(), '"value":"ü\\n"'.encode()),
        (b"null", b'"value":"null"'),
        (b"", b'"value":""'),
    ],
)
def test_raw_values_are_texts_where_they_can_be(value: bytes, member: bytes) -> None:
    source = {"value.format": "raw", "scan.value.initial-schemas.ddls": "CREATE TABLE topic (b BYTES)"}
    ran = run([(None, value)], source=source, sink=file(**{"value.format": "raw"}))
    assert (ran.error, ran.rejects) == (None, [])
    assert [line for _, _, line in ran.records] == [b'{"key":null,%b}' % member]


def test_what_is_cut_of_a_time_is_counted() -> None:
    source = {"value.format": "json", "scan.value.initial-schemas.ddls": "CREATE TABLE topic (at TIMESTAMP_LTZ)"}
    messages = [(None, b'{"at":"2020-01-31 00:00:00.123456789Z"}')]
    ran = run(messages, source=source, sink=file(**{"value.format": "avro"}))
    assert (ran.error, ran.rejects, ran.cut) == (None, [], {"topic.at": 1})


def test_a_table_that_the_format_cannot_say_is_rejects() -> None:
    ran = run([(None, b'{"a b":1}')], source={"value.format": "json"}, sink=file(**{"value.format": "avro"}))
    assert (ran.records, ran.rejects) == ([], [(0, "conform", "unwritable-table")])
