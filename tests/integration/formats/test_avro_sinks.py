"""Runs that write Avro, on a real broker and a real schema registry: what is registered, written, and refused."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from commands import run_here
from examples import own_name
from growing_table import UPSERTS, run_twice
from harness import free_port, message
from planted import planted_into_records
from schema_registry import Registry, ask, record

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Pipeline

AVRO = "  value.format: avro-confluent\n  key.format: avro-confluent\n  value.avro-confluent.url: {url}\n"
TYPED = """\
  value.format: json
  scan.value.initial-schemas.ddls: |
    CREATE TABLE `{topic}` (id BIGINT, price DECIMAL(10, 2), day DATE, tags ARRAY<STRING>, PRIMARY KEY (id))
  scan.max.pre.fetch.records: 0
"""


class Reader:
    """A reader of messages with ids of schemas, by fastavro."""

    def __init__(self, url: str) -> None:
        self.url = url

    def subject(self, name: str) -> list[int]:
        """The versions of a subject."""
        found: list[int] = ask(f"{self.url}/subjects/{name}/versions")
        return found

    def schema(self, message: bytes) -> Any:
        found = ask(f"{self.url}/schemas/ids/{int.from_bytes(message[1:5], 'big')}")
        return json.loads(found["schema"])

    def value(self, message: bytes | None) -> Any:
        if message is None:
            return None
        assert message[0] == 0
        file = io.BytesIO(message[5:])
        value = fastavro.schemaless_reader(file, fastavro.parse_schema(self.schema(message)), None)
        assert file.read() == b""
        return value


@pytest.fixture
def reader(registry: str) -> Reader:
    return Reader(registry)


def test_upserts_in_avro_with_the_schema_of_each_version(
    kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader
) -> None:
    pipeline.write(sink=AVRO.format(url=registry))
    topic = run_twice(kafka, pipeline)
    records = sorted(kafka.read(topic), key=lambda one: reader.value(one.key)["id"])
    assert [(reader.value(one.key), reader.value(one.value)) for one in records] == UPSERTS
    assert reader.subject(f"{topic}-value") == [1, 2]
    assert reader.subject(f"{topic}-key") == [1]
    assert len({one.key for one in records}) == 3
    assert reader.schema(records[1].value or b"")["fields"] == [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "n", "type": ["null", "double"], "default": None},
    ]
    again = run_here(pipeline)
    assert again.code == 0, again.err
    assert reader.subject(f"{topic}-value") == [1, 2]


def test_debezium_in_avro_is_read_back_with_all_types(
    kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader
) -> None:
    url = f"  debezium-avro-confluent.url: {registry}\n"
    ddl = TYPED.replace("json", "debezium-json").replace("`{topic}`", "shop.orders")
    pipeline.write(source=ddl, sink=f"  value.format: debezium-avro-confluent\n{url}")
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", "type: kafka"))
    row = {"id": 1, "price": 1.1, "day": "2020-01-31", "tags": ["x", None]}
    kafka.send(
        pipeline.topic, message("c", None, row), message("u", row, {**row, "price": None}), message("d", row, None)
    )
    done = pipeline.run()
    assert done.code == 0, done.err
    topic = pipeline.out("orders")
    messages = [reader.value(one.value) for one in kafka.read(topic)]
    typed = {"id": 1, "price": Decimal("1.10"), "day": messages[0]["after"]["day"], "tags": ["x", None]}
    names = pipeline.out("orders").split(".")
    source = dict(zip(("db", "schema", "table"), names, strict=True))
    assert messages == [
        {"before": None, "after": typed, "op": "c", "source": source},
        {"before": typed, "after": {**typed, "price": None}, "op": "u", "source": source},
        {"before": typed, "after": None, "op": "d", "source": source},
    ]
    assert str(typed["day"]) == "2020-01-31"
    pipeline.write(source=f"  value.format: debezium-avro-confluent\n{url}", route=False)
    text = pipeline.file.read_text().replace(f"topic: {pipeline.topic}", f"topic: {topic}")
    pipeline.file.write_text(
        text + f"transform:\n  - {{source-table: '\\.*', primary-keys: id}}\n"
        f"route:\n  - {{source-table: '\\.*', sink-table: {kafka.name}.back}}\n"
    )
    pipeline.checkpoint = pipeline.checkpoint.with_name("back")
    back = pipeline.run()
    assert back.code == 0, back.err
    values = [one.value for one in kafka.read(f"{kafka.name}.back")]
    assert values == [
        rb'{"id":1,"price":1.10,"day":"2020-01-31","tags":"[\"x\",null]"}',
        rb'{"id":1,"price":null,"day":"2020-01-31","tags":"[\"x\",null]"}',
        None,
    ]


def test_a_schema_that_the_registry_refuses_stops_the_run(
    kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader
) -> None:
    pipeline.write(sink=AVRO.format(url=registry))
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "n": 1}))
    topic = pipeline.out("orders")
    planned = pipeline.plan()
    assert planned.code == 0, planned.err
    assert f"\nwould be declared at the sink:\n    {topic}-key\n    {topic}-value\n" in planned.out
    assert [ask(f"{registry}/subjects/{topic}-{part}/versions") for part in ("key", "value")] == [404, 404]
    assert run_here(pipeline).code == 0
    config = f"{registry}/config/{topic}-value"
    assert "BACKWARD" in ask(config, {"compatibility": "BACKWARD"}, method="PUT").values()
    kafka.send(pipeline.topic, message("c", None, {"id": 2, "n": 2}), message("c", None, {"id": 3, "n": "three"}))
    planned = pipeline.plan()
    assert planned.code == 78
    assert f"would refuse the schema for subject '{topic}-value'" in planned.err
    refused = run_here(pipeline)
    assert refused.code == 78
    assert f"refuses the schema for subject '{topic}-value'" in refused.err
    assert "change the compatibility that the registry demands" in refused.err
    found = [reader.value(one.value) for one in kafka.read(topic)]
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "n": 1}, {"id": 2, "n": 2}]
    assert reader.subject(f"{topic}-value") == [1]
    assert run_here(pipeline).code == 78
    ask(config, {"compatibility": "NONE"}, method="PUT")
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert {"id": 3, "n": "three"} in [reader.value(one.value) for one in kafka.read(topic)]


def test_a_sink_that_may_not_register_needs_the_schema_there(
    kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader
) -> None:
    more = "  value.avro-confluent.properties.auto.register.schemas: 'false'\n"
    pipeline.write(sink=AVRO.format(url=registry) + more)
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    done = run_here(pipeline)
    assert done.code == 78
    topic = pipeline.out("orders")
    assert f"subject '{topic}-key' of the schema registry lacks this schema" in done.err
    schema = record("record", id="long")
    schema["namespace"] = "org.apache.flink.avro.generated"
    for part in ("key", "value"):
        Registry(registry).register(f"{topic}-{part}", schema)
    again = run_here(pipeline)
    assert again.code == 0, again.err
    assert [reader.value(one.value) for one in kafka.read(topic)] == [{"id": 1}]


def test_a_schema_and_a_subject_of_ones_own(kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader) -> None:
    subject = own_name("mine-")
    schema = record(
        "shop.Order", id="int", kind={"type": "enum", "name": "k", "symbols": ["a", "b"]}, more=["null", "string"]
    )
    sink = (
        f"  value.format: avro-confluent\n  value.avro-confluent.url: {registry}\n"
        f"  value.avro-confluent.subject: {subject}\n  value.avro-confluent.schema: '{json.dumps(schema)}'\n"
    )
    pipeline.write(source="  ingestion.ignore-errors: true\n", sink=sink)
    rows = [{"id": 1, "kind": "b"}, {"id": 2, "kind": "c"}, {"id": 3, "kind": "a"}]
    kafka.send(pipeline.topic, *[message("c", None, row) for row in rows])
    done = run_here(pipeline)
    assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert {one.key: reader.value(one.value) for one in records} == {
        b'{"id":1}': {"id": 1, "kind": "b", "more": None},
        b'{"id":3}': {"id": 3, "kind": "a", "more": None},
    }
    assert reader.subject(subject) == [1]
    assert done.events[-1]["rejected"] == 1


def test_tables_of_one_topic_have_subjects_of_their_own(
    kafka: Kafka, pipeline: Pipeline, registry: str, reader: Reader
) -> None:
    """By the record's name, which is then the table's."""
    all_of_them = f"{kafka.name}.all"
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    sink = (
        f"  topic: {all_of_them}\n  value.format: debezium-avro-confluent\n"
        f"  value.debezium-avro-confluent.url: {registry}\n"
        f"  value.debezium-avro-confluent.properties.value.subject.name.strategy: {strategy}\n"
    )
    pipeline.write(sink=sink, route=False)
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", "type: kafka"))
    kafka.send(pipeline.topic, message("c", None, {"id": 1}), message("c", None, {"id": "x"}, "users"))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    records = kafka.read(all_of_them)
    rows = [reader.value(one.value)["after"] for one in records]
    assert sorted(rows, key=str) == [{"id": "x"}, {"id": 1}]
    for name in ("orders", "users"):
        assert reader.subject(f"{all_of_them}-shop.{name}.Envelope") == [1]


def test_a_registry_that_is_away_ends_the_run_with_75(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=AVRO.format(url=f"http://127.0.0.1:{free_port()}"))
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    done = run_here(pipeline)
    assert done.code == 75
    assert "no answer from the schema registry" in done.err


@pytest.mark.parametrize(
    "options",
    [
        {"type": "upsert-kafka", "value.format": "avro-confluent", "key.format": "avro-confluent"},
        {"type": "kafka", "value.format": "debezium-avro-confluent"},
        {"type": "upsert-kafka", "value.format": "protobuf-confluent", "key.format": "json"},
        {"type": "upsert-kafka", "value.format": "json-confluent", "key.format": "json-confluent"},
    ],
    ids=lambda options: options["value.format"],
)
def test_verify_finds_planted_faults_in_registered_formats(
    options: dict[str, str], kafka: Kafka, registry: str, tmp_path: Path
) -> None:
    route = [{"source-table": "\\.*", "sink-table": f"{kafka.name}.<>", "replace-symbol": "<>"}]
    form = options["value.format"]
    sink = {"properties.bootstrap.servers": kafka.bootstrap, f"{form}.url": registry, **options}
    planted_into_records(tmp_path, sink, says_deletes=True, route=route)
