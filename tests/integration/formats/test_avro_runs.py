"""Runs on a real broker and a real schema registry, in Spark's workers: Debezium's messages in Avro to upserts."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from commands import run_here
from harness import free_port
from schema_registry import Registry, envelope, record

if TYPE_CHECKING:
    from harness import Kafka, Pipeline

KEY = record("Key", id="int")
ROW = record(
    "Value", id="int", price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]
)
WIDER = record(
    "Value", id="int", price=["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}],
    at=["null", {"type": "long", "logicalType": "timestamp-micros"}],
)  # fmt: skip


def change(
    registry: Registry, op: str, row: dict[str, Any] | None, number: int = 1, schema: Any = ROW
) -> tuple[bytes, bytes]:
    source = {"connector": "mysql", "db": "shop", "schema": None, "table": "orders"}
    before, after = (row, None) if op == "d" else (None, row)
    value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": None}
    return (
        registry.message("shop.orders-key", KEY, {"id": number}),
        registry.message("shop.orders-value", envelope("shop.orders", schema), value),
    )


def test_changes_in_avro_become_upserts_of_their_types(kafka: Kafka, pipeline: Pipeline, registry: str) -> None:
    pipeline.write(
        source=f"  value.format: debezium-avro-confluent\n  debezium-avro-confluent.url: {registry}\n"
        "  ingestion.ignore-errors: true\n"
    )
    server = Registry(registry)
    first = {"id": 1, "price": Decimal("1.10")}
    at = dt.datetime(2020, 1, 31, 12, 13, 14, 500_000, dt.UTC)
    kafka.send(pipeline.topic, change(server, "c", first), change(server, "c", {"id": 2, "price": None}, 2))
    kafka.send(pipeline.topic, change(server, "u", {"id": 1, "price": Decimal("2.00"), "at": at}, schema=WIDER))
    kafka.send(pipeline.topic, change(server, "d", {"id": 2, "price": None}, 2), (b"{}", b"\0\0"))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    values = {record.key: record.value for record in kafka.read(pipeline.out("orders"))}
    assert values == {b'{"id":1}': b'{"id":1,"price":2.00,"at":"2020-01-31 12:13:14.5Z"}', b'{"id":2}': None}
    assert done.events[-1]["rejected"] == 1
    (made,) = [text for event in done.events if "CREATE TABLE" in (text := str(event.get("change")))]
    assert "id INT NOT NULL, price DECIMAL(12,2), at TIMESTAMP_LTZ" in made


def test_a_registry_that_is_away_ends_a_run_with_75(kafka: Kafka, pipeline: Pipeline, registry: str) -> None:
    lines = "  value.format: debezium-avro-confluent\n  debezium-avro-confluent.url: {url}\n"
    pipeline.write(source=lines.format(url=f"http://127.0.0.1:{free_port()}") + "  scan.max.pre.fetch.records: 0\n")
    kafka.send(pipeline.topic, change(Registry(registry), "c", {"id": 1, "price": None}))
    done = run_here(pipeline)
    assert done.code == 75
    assert "no answer from the schema registry" in done.err
    pipeline.write(source=lines.format(url=registry))
    again = run_here(pipeline)
    assert again.code == 0, again.err
    assert kafka.table(pipeline.out("orders")) == {'{"id":1}': {"id": 1, "price": None}}
