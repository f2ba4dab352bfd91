"""Runs on a real broker and a real schema registry, in Spark's workers: messages of Protocol Buffers in and out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from commands import run_here
from growing_table import UPSERTS, run_twice
from harness import message
from protobuf_messages import message_of
from schema_registry import Registry, ask, framed

from ingest.formats.protobuf.options import ProtobufConfluent
from ingest.formats.protobuf.schema import compile_schema

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Pipeline

NAME = "protobuf-confluent"
BOTH = f"  key.format: {NAME}\n  value.format: {NAME}\n  {NAME}.url: {{url}}\n"
KEY = 'syntax = "proto3"; message Key { int64 id = 1; }'
ROW = 'syntax = "proto3"; message Row { uint64 total = 1; repeated string tags = 2; }'
OUT = 'syntax = "proto3"; message Out { int32 id = 4; string total = 1; repeated string tags = 2; }'
WIDER = 'syntax = "proto3"; message Row { uint64 total = 1; repeated string tags = 2; optional bool paid = 3; }'


def sent(server: Registry, topic: str, number: int, value: str | None, schema: str = ROW) -> tuple[bytes, bytes | None]:
    key = framed(server.register(f"{topic}-key", KEY, "PROTOBUF"), b"\0" + message_of(KEY, "Key", f"id: {number}"))
    if value is None:
        return key, None
    row = server.register(f"{topic}-value", schema, "PROTOBUF")
    return key, framed(row, b"\0" + message_of(schema, "Row", value))


def test_messages_become_upserts_of_their_types(kafka: Kafka, pipeline: Pipeline, registry: str) -> None:
    pipeline.write(source=BOTH.format(url=registry) + "  ingestion.ignore-errors: true\n")
    server = Registry(registry)
    topic = pipeline.topic
    kafka.send(topic, sent(server, topic, 1, 'total: 18446744073709551615 tags: "a"'), sent(server, topic, 2, ""))
    kafka.send(topic, sent(server, topic, 1, "total: 5 paid: true", WIDER), sent(server, topic, 2, None))
    kafka.send(topic, (b"\0\0", b"\0\0"))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    values = {record.key: record.value for record in kafka.read(pipeline.out(topic))}
    assert values == {b'{"id":1}': b'{"id":1,"total":5,"tags":[],"paid":true}', b'{"id":2}': None}
    assert done.events[-1]["rejected"] == 1
    (made,) = [text for event in done.events if "CREATE TABLE" in (text := str(event.get("change")))]
    assert "id BIGINT NOT NULL, total DECIMAL(20,0), tags ARRAY<STRING>" in made


def test_a_descriptor_file_is_read_where_the_command_runs(kafka: Kafka, pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "row.desc").write_bytes(compile_schema(ROW, {}))
    (tmp_path / "out.desc").write_bytes(compile_schema(OUT, {}))
    named = "  value.format: protobuf\n  protobuf.message-class-name: {name}\n  protobuf.descriptor-file: {file}\n"
    pipeline.write(
        source=named.format(name="Row", file=tmp_path / "row.desc") + "  key.format: json\n",
        sink=named.format(name="Out", file=tmp_path / "out.desc"),
    )
    kafka.send(pipeline.topic, (b'{"id":1}', message_of(ROW, "Row", 'total: 7 tags: "a"')), (b'{"id":1}', None))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    records = [(record.key, record.value) for record in kafka.read(pipeline.out(pipeline.topic))]
    assert records == [(b'{"id":1}', b"\x0a\x017\x12\x01a\x20\x01"), (b'{"id":1}', None)]


def rows(registry: str, messages: list[bytes | None]) -> list[Any]:
    """What keys or values say, read as a source does."""
    read = ProtobufConfluent.model_validate({f"{NAME}.url": registry}).reader_of(("t",))
    found = [None if message is None else read(message) for message in messages]
    return [one if one is None else json.loads(bytes(one[0])) for one in found]  # type: ignore[index]  # no reject


def test_schemas_of_tables_are_registered_and_grow(kafka: Kafka, pipeline: Pipeline, registry: str) -> None:
    pipeline.write(sink=BOTH.format(url=registry))
    topic = run_twice(kafka, pipeline)
    records = kafka.read(topic)
    keys, values = rows(registry, [one.key for one in records]), rows(registry, [one.value for one in records])
    assert sorted(zip(keys, values, strict=True), key=lambda pair: pair[0]["id"]) == UPSERTS
    assert len({one.key for one in records}) == 3
    versions = f"{registry}/subjects/{topic}-value/versions"
    assert ask(versions) == [1, 2]
    assert ask(f"{registry}/subjects/{topic}-key/versions") == [1]
    text = ask(f"{versions}/latest")["schema"]
    assert [line.strip() for line in text.splitlines() if "=" in line and "syntax" not in line] == [
        "optional int64 id = 1;", "optional string name = 2;", "optional double n = 3;",
    ]  # fmt: skip


def test_a_subject_of_another_kind_of_schema_stops_the_run(kafka: Kafka, pipeline: Pipeline, registry: str) -> None:
    subject = f"{pipeline.out('orders')}-value"
    Registry(registry).register(subject, {"type": "record", "name": "R", "fields": []})
    pipeline.write(sink=BOTH.format(url=registry))
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    done = run_here(pipeline)
    assert done.code == 78
    assert f"subject '{subject}' has a schema of AVRO" in done.err
