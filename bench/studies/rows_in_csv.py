"""`.venv/bin/python bench/studies/rows_in_csv.py`: what CSV costs beside Debezium JSON with the same row.

Native code decodes and encodes both, and the reference decodes CSV for native code to encode, in turn, in one process:
the ratios are what counts. Messages are objects here; those of a Kafka consumer cost native code less.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
from columns import micros
from instructions import COUNT, columns, updates

from ingest.encode.encode import EncoderCache
from ingest.formats.csv.options import Csv
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.template import csv_field
from ingest.model.schema import TableSchema
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.upsert_kafka import UpsertKafka
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.formats import Format

ROUNDS = 15
OWN = columns()
CSV = Csv().with_tables({("t",): {column.name: column.type for column in OWN}})
_changes = msgspec.json.Decoder(dict[str, msgspec.Raw])
_rows = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def encoders(form: Format, table: tuple[str, ...]) -> native.NativeEncoders:
    """Return encoders of the messages' table."""
    schema = TableSchema(OWN, ("id",))
    sink = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h:1"}})
    cache = EncoderCache(sink.encoder, Inference(form.reading, False, {}, 2000))
    cache.renew(Schemas(1, {table: SourceTable(schema, (("out",),), table != ("t",))}, {("out",): schema}), None)
    return native.NativeEncoders(form, cache)


def lines() -> list[MemoryRecord]:
    """Return the rows of the benchmarks' messages as CSV."""
    made = []
    for at, message in enumerate(updates()):
        change = _changes.decode(message.value())
        row = _rows.decode(change["after"]) or _rows.decode(change["before"]) or {}
        made.append(MemoryRecord(at, "t", None, b",".join(csv_field(bytes(row[c.name])) for c in OWN)))
    return made


def natively(form: Format, table: tuple[str, ...], records: list[Any]) -> Callable[[], None]:
    """Return a function that takes all records by native code alone."""
    encoder = encoders(form, table).of(table[-1])

    def take() -> None:
        stop, full = 0, True
        while full:
            batch, stop = encoder.encode(records, stop)
            full = batch.full
        assert stop == COUNT, f"{stop} of {COUNT} messages were encoded"

    return take


def decoded_by_the_reference(records: list[Any]) -> Callable[[], None]:
    """Return a function that decodes CSV by the reference, and encodes the rows natively."""
    encoder, decoder = encoders(CSV, ("t",)).of_changes(), CSV.decoder("t")

    def take() -> None:
        for start in range(0, COUNT, 1000):
            changes = decoder.decode([], [r.value() for r in records[start : start + 1000]])
            at = 0
            while at < len(changes):
                _, at = encoder.encode(changes, at)

    return take


def main() -> None:
    """Measure in turn, and print."""
    rows = lines()
    debezium = [MemoryRecord(i, "inventory.t0", m.key(), m.value()) for i, m in enumerate(updates())]
    cases = {
        "debezium-json": natively(DebeziumJson(), ("inventory", "t0"), debezium),
        "csv": natively(CSV, ("t",), rows),
        "csv, decoded by the reference": decoded_by_the_reference(rows),
    }
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, take in cases.items():
            found[name].append(micros(take))
    beside = median(found["debezium-json"])
    print(f"{'':34} {'µs a message':>12} {'throughput beside debezium-json':>32}")
    for name, times in found.items():
        print(f"{name:34} {median(times):12.2f} {beside / median(times):32.2f}")


if __name__ == "__main__":
    main()
