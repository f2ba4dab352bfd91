"""A topic of rows in Avro, with a schema registry, to keyed upserts in JSON: a raw copy, `ingest run`, and Flink SQL.

They take turns, with two slots each; one table, no drift. Prints steady throughput of each (of the raw copy as
throughput.py has it, of the others as peers.py has it), the ratios pair by pair, and CPU per message. See README.md.
"""

from __future__ import annotations

import io
import json
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import fastavro
import peers
import throughput
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from setting import INGEST, options_of, own_broker, pipeline_file, save

from ingest.sandbox import registry
from ingest.sandbox.process import any_port

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

ROWS: Final = 100_000
"""Different messages; the topic has them again and again."""
_FIELDS: Final = {
    "id": "long", "customer_id": "long", "status": "string", "amount": "double", "quantity": "long",
    "sku": ["null", "string"], "note": ["null", "string"], "created_at": "long", "updated_at": "long",
    "active": "boolean", "address": ["null", "string"],
}  # fmt: skip
_SCHEMA: Final = {
    "type": "record", "name": "orders", "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
}  # fmt: skip
_STATUS: Final = ("NEW", "PAID", "SHIPPED", "DONE")
_NOTE: Final = "customer asked for gift wrap, delivery before noon, ring twice"


def _row(n: int) -> dict[str, Any]:
    return {
        "id": n, "customer_id": n % 9973, "status": _STATUS[n % 4], "amount": (n % 100_000) / 100, "quantity": n % 19,
        "sku": None if n % 7 == 0 else f"S{n}", "note": _NOTE[: 5 + n % 50], "created_at": 1_700_000_000_000 + n,
        "updated_at": 1_700_000_000_000 + 2 * n, "active": n % 2 == 0, "address": f"{n % 999} Main Street, Springfield",
    }  # fmt: skip


def write(bootstrap: str, topic: str, count: int, number: int) -> None:
    """Write messages of the schema with this number in the registry."""
    schema, head = fastavro.parse_schema(_SCHEMA), b"\0" + number.to_bytes(4, "big")
    made = []
    for n in range(ROWS):
        value = io.BytesIO()
        value.write(head)
        fastavro.schemaless_writer(value, schema, _row(n))
        made.append((b'{"id":%d}' % n, value.getvalue()))
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4",
        "queue.buffering.max.messages": 500_000,
    })  # fmt: skip
    for n in range(count):
        key, text = made[n % ROWS]
        while True:
            try:
                producer.produce(topic, text, key, partition=n % throughput.PARTITIONS)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if not n % 1000:
            producer.poll(0)
    producer.flush()


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=4_000_000, rounds=3).parse_args()
    python, jars = peers.flink_python(), [peers.jar_of(one).as_uri() for one in (peers.CONNECTOR, peers.AVRO)]
    with own_broker() as (bootstrap, folder):
        there = registry.up(folder, any_port())
        try:
            flink = [str(python), str(peers.flink_job(folder)), ";".join(jars)]
            measure(bootstrap, there.url, folder, flink, options)
        finally:
            registry.down(folder, wipe=True)


def measure(bootstrap: str, url: str, folder: Path, flink: list[str], options: argparse.Namespace) -> None:
    """Run all three in turn. `flink`: the beginning of its command."""
    client = SchemaRegistryClient({"url": url})
    throughput.create(bootstrap, "large")
    number = client.register_schema("large-value", Schema(json.dumps(_SCHEMA), "AVRO"))
    write(bootstrap, "large", options.messages, number)
    print(f"{options.messages:,} messages, {throughput.PARTITIONS} partitions, {peers.SLOTS} slots\n")
    print(f"{'round':<7}{'raw k/s':>9}{'ingest k/s':>12}{'flink k/s':>11}{'ingest CPU µs':>15}{'flink CPU µs':>14}")
    source = f"  value.format: avro-confluent\n  value.avro-confluent.url: {url}\n  key.format: json\n"
    form = f"'format'='avro-confluent','avro-confluent.url'='{url}'"
    raws: list[throughput.Result] = []
    ours: list[peers.Result] = []
    theirs: list[peers.Result] = []
    for i in range(options.rounds):
        throughput.create(bootstrap, f"raw{i}")
        throughput.create(bootstrap, f"ours{i}.large", f"flink{i}", partitions=peers.PARTITIONS)
        raws.append(throughput.raw(bootstrap, "large", f"raw{i}"))
        file = pipeline_file(folder, bootstrap, "large", f"ours{i}", peers.PARTITIONS, source=source)
        command = [INGEST, "run", str(file), "--once", "--checkpoint", str(folder / f"ck{i}")]
        commands = {
            f"ours{i}.large": [*command, "--master", f"local[{peers.SLOTS}]"],
            f"flink{i}": [*flink, bootstrap, "large", f"flink{i}", peers.AS_IT_IS, form],
        }
        for topic, one in list(commands.items())[:: -1 if i % 2 else 1]:
            done = peers.measure(one, bootstrap, topic, options.messages, folder / "log")
            (ours if topic.startswith("ours") else theirs).append(done)
            throughput.drop(bootstrap, topic)
        throughput.drop(bootstrap, f"raw{i}")
        rates = f"{raws[i].rate / 1e3:>9.1f}{ours[i].steady / 1e3:>12.1f}{theirs[i].steady / 1e3:>11.1f}"
        print(f"{i + 1:<7}{rates}{ours[i].cpu_us:>15.1f}{theirs[i].cpu_us:>14.1f}", flush=True)
    found = {
        "steady throughput by that of the raw copy": [a.steady / r.rate for a, r in zip(ours, raws, strict=True)],
        "steady throughput by Flink's": [a.steady / b.steady for a, b in zip(ours, theirs, strict=True)],
        "whole process by Flink's": [a.whole / b.whole for a, b in zip(ours, theirs, strict=True)],
        "thousand messages a second": [a.steady / 1e3 for a in ours],
    }
    for what, ratios in found.items():
        print(f"{what}, median of {options.rounds}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    save(options, "rows_in_avro", found, messages=options.messages)


if __name__ == "__main__":
    main()
