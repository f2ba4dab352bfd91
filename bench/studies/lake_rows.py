"""`.venv/bin/python bench/studies/lake_rows.py`: what a row costs that becomes a row of Arrow, and then of Parquet.

Rows of ten columns and about 300 bytes, as an upsert encoder writes them. The reference, native code, the reader of
JSON that Arrow has, and writers of Parquet take turns in one process, on one core: the ratios are what counts.
"""

from __future__ import annotations

import io
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from ingest.encode.encode import EncoderCache
from ingest.encode.upsert_encoder import Record
from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.lake.pending_rows import PendingRows
from ingest.sinks.lake.rows import BUILT, rows_to_batch, rows_to_batch_by_reference, schema_of
from ingest.sinks.lake.table import LakeColumn
from ingest.sinks.topics.upsert_kafka import UpsertKafka
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


COUNT = 50_000
ROUNDS = 9
SLOW = 10
"""The reference takes one row of so many."""
KINDS = {
    "id": "BIGINT", "customer": "BIGINT", "status": "STRING", "amount": "DECIMAL(18,2)", "rate": "DOUBLE",
    "sku": "STRING", "note": "STRING", "created_at": "TIMESTAMP_LTZ", "day": "DATE", "active": "BOOLEAN",
}  # fmt: skip
COLUMNS = [LakeColumn(name, types.parse(kind)) for name, kind in KINDS.items()]
KEY = ("id",)
_STATUS = ("NEW", "PAID", "SHIPPED", "DONE")
_NOTE = (
    "customer asked for gift wrap, delivery before noon, ring twice, mind the dog, leave it with the neighbour or call"
)
_ROW = (
    '{"id":%d,"customer":%d,"status":"%s","amount":%d.%02d,"rate":%s,"sku":%s,"note":"%s, or else %s",'
    '"created_at":"2026-11-%02d %02d:%02d:%02d.%06dZ","day":"2026-11-%02d","active":%s}'
)


def records() -> list[tuple[bytes, bytes | None]]:
    """Return keys and rows."""
    made: list[tuple[bytes, bytes | None]] = []
    for n in range(COUNT):
        sku = "null" if n % 7 == 0 else f'"SKU-{n:012d}-{n % 31:02d}"'
        row = _ROW % (
            n, n % 9973, _STATUS[n % 4], n % 100_000, n % 100, repr(n * 7919 % 10_007 / 97), sku, _NOTE[: 55 + n % 50],
            _NOTE[: n % 60], 1 + n % 30, n % 24, n % 60, n * 7 % 60, n * 997 % 1_000_000, 1 + n % 30,
            "true" if n % 2 else "false",
        )  # fmt: skip
        made.append((b'{"id":%d}' % n, row.encode()))
    return made


def seconds(take: Callable[[], Any]) -> float:
    """Return the time that all threads of this process take."""
    before = time.process_time()
    take()
    return time.process_time() - before


def kept(batches: Sequence[Any]) -> Callable[[], Any]:
    """Return a function that keeps the last states of the keys of batches, and takes them."""

    def take() -> None:
        rows = PendingRows(lambda _: (COLUMNS, KEY))
        for batch in batches:
            rows.keep(batch)
        ((_, states),) = rows.take()
        assert states.rows.num_rows == COUNT

    return take


def cases() -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return, by name, how many rows a function takes, and the function."""
    given = records()
    few, lines = given[::SLOW], b"\n".join(row for _, row in given if row is not None)
    batch = rows_to_batch(COLUMNS, KEY, given)
    objects: list[list[Record]] = [[Record("t", *one) for one in given[at : at + 200]] for at in range(0, COUNT, 200)]
    made: dict[str, tuple[int, Callable[[], Any]]] = {
        "reference": (len(few), lambda: rows_to_batch_by_reference(COLUMNS, KEY, few)),
        "rows_to_batch": (COUNT, lambda: rows_to_batch(COLUMNS, KEY, given)),
        "PendingRows, objects": (COUNT, kept(objects)),
        "pyarrow.json": (COUNT, lambda: read(lines)),
        "Parquet, snappy": (COUNT, lambda: written(batch, "snappy")),
        "Parquet, zstd": (COUNT, lambda: written(batch, "zstd")),
    }
    if native.BUILT:
        made["PendingRows, native batches"] = (COUNT, kept(native_batches(given)))
    return made


def native_batches(given: Sequence[tuple[bytes, bytes | None]]) -> list[Any]:
    """Return the records as native code gives them, with the rows as they are."""
    schema, form = TableSchema(tuple(Column(one.name, one.type) for one in COLUMNS), KEY), DebeziumJson()
    sink = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h:1"}})
    cache = EncoderCache(sink.encoder, Inference(form.reading, False, {}, 2000))
    cache.renew(Schemas(1, {("s", "t"): SourceTable(schema, (("out",),), False)}, {("out",): schema}), None)
    encoder = native.NativeEncoders(form, cache).of("t")
    envelope = b'{"before":null,"after":%b,"source":{"db":"s","table":"t"},"op":"c"}'
    messages: list[Any] = [
        MemoryRecord(at, "t", None, envelope % row) for at, (_, row) in enumerate(given) if row is not None
    ]
    made, stop, full = [], 0, True
    while full:
        batch, stop = encoder.encode(messages, stop)
        full = batch.full
        made.append(batch)
    assert stop == COUNT, f"{stop} of {COUNT} messages were encoded"
    return made


def read(lines: bytes) -> pa.Table:
    """Read lines as Arrow does. It reads no dates, times or base64, and does not say which rows are at fault."""
    fields = {**KINDS, "day": "STRING"}
    schema = schema_of([LakeColumn(name, types.parse(kind)) for name, kind in fields.items()])
    reading = pa.json.ReadOptions(use_threads=False, block_size=1 << 20)
    return pa.json.read_json(io.BytesIO(lines), reading, pa.json.ParseOptions(explicit_schema=schema))


def written(batch: pa.RecordBatch, codec: str) -> int:
    """Write a batch; return how many bytes that made."""
    out = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_batches([batch]), out, compression=codec)
    return out.tell()


def main() -> None:
    """Measure, and print."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    given = cases()
    found: dict[str, list[float]] = {name: [] for name in given}
    for _ in range(ROUNDS):
        for name, (count, take) in given.items():
            found[name].append(count / seconds(take))
    size = sum(len(row or b"") for _, row in records()) / COUNT
    print(f"native code: {BUILT}; rows of {size:.0f} bytes; medians of {ROUNDS} rounds, in turn; CPU time")
    for name, rates in found.items():
        ratio = median(rate / other for rate, other in zip(rates, found["rows_to_batch"], strict=True))
        print(
            f"{name:26} {median(rates):10,.0f} rows/s, {1e6 / median(rates):6.2f} µs a row, {ratio:.3f} of the second"
        )


if __name__ == "__main__":
    main()
