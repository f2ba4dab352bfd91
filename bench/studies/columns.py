"""`.venv/bin/python bench/studies/columns.py`: what a message costs whose rows get columns from its key and its record.

The same messages are decoded and encoded by native code and by the reference, in turn, in one process: the ratio is
what counts. Messages are objects here; those of a Kafka consumer cost native code less.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

from instructions import COUNT, columns, updates

from ingest.encode.encode import EncoderCache, encode
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model.record import METADATA
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.upsert_kafka import UpsertKafka
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 15
CASES = {
    "none": ExtraColumns(),
    "metadata.list: offset": ExtraColumns(metadata=("offset",)),
    "metadata.list: topic,partition,offset,timestamp,headers": ExtraColumns(
        metadata=("topic", "partition", "offset", "timestamp", "headers")
    ),
    "metadata.list with all": ExtraColumns(metadata=METADATA),
    "key.format": ExtraColumns(key=True),
    "key.format and both prefixes": ExtraColumns(key=True, key_prefix="k_", value_prefix="v_"),
    "value.fields-prefix": ExtraColumns(value_prefix="v_"),
}


def cache_of(extra: ExtraColumns) -> EncoderCache:
    """Return encoders of the messages' table, with the columns that are asked for."""
    own = columns()
    named = [Column(extra.value_prefix + c.name, c.type, nullable=c.nullable) for c in own]
    of_key = [Column(f"{extra.key_prefix}id", own[0].type)] if extra.key and extra.key_prefix else []
    about = [Column(name, extra.type_of(name)) for name in extra.metadata]
    schema = TableSchema((*of_key, *named, *about), (f"{extra.value_prefix}id",))
    sink = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h:1"}})
    made = EncoderCache(sink.encoder, Inference(DebeziumJson().reading, False, {}, 2000))
    table = ("inventory", "t0")
    made.renew(Schemas(1, {table: SourceTable(schema, (("out",),), True)}, {("out",): schema}), None)
    return made


def by_native_code(extra: ExtraColumns, records: list[Any]) -> Callable[[], None]:
    """Return a function that takes all records."""
    encoder = native.NativeEncoders(DebeziumJson(), cache_of(extra), None, extra).of("t")

    def take() -> None:
        stop, full = 0, True
        while full:
            batch, stop = encoder.encode(records, stop)
            full = batch.full
        assert stop == COUNT, f"{stop} of {COUNT} messages were encoded"

    return take


def by_the_reference(extra: ExtraColumns, records: list[Any]) -> Callable[[], None]:
    """Return a function that takes all records, in chunks as a worker does."""
    cache, decoder = cache_of(extra), DebeziumJson().decoder("t")
    added = MetadataColumns(extra) if extra else None

    def take() -> None:
        for at in range(0, COUNT, 1000):
            some = records[at : at + 1000]
            changes = decoder.decode([r.key() for r in some], [r.value() for r in some])
            changes = changes if added is None else added.add(changes, some)
            assert encode(changes, cache, 0).stop == len(some)

    return take


def micros(take: Callable[[], None]) -> float:
    """Return what a message takes, in microseconds of the processor."""
    start = time.process_time_ns()
    take()
    return (time.process_time_ns() - start) / 1000 / COUNT


def main() -> None:
    """Measure in turn, and print."""
    headers: Any = [("trace-id", b"4bf92f3577b34da6"), ("origin", b"shop")]
    records = [
        MemoryRecord(i, "inventory.t0", m.key(), m.value(), 3, i, 1_700_000_000_123 + i, headers)
        for i, m in enumerate(updates())
    ]
    print(f"{'µs a message':56} {'native':>8} {'reference':>10} {'ratio':>6}")
    for name, extra in CASES.items():
        both = by_native_code(extra, records), by_the_reference(extra, records)
        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for take, times in zip(both, found, strict=True):
                times.append(micros(take))
        ours, theirs = map(median, found)
        print(f"{name:56} {ours:8.2f} {theirs:10.2f} {theirs / ours:6.1f}")


if __name__ == "__main__":
    main()
