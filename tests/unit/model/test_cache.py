"""What messages say again and again is kept, up to a limit; past it nothing is wrong."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
from inmemory import run

from ingest.encode.upsert_encoder import Record
from ingest.model import types
from ingest.model.cache import MAX_COUNTED, Cache, count_up
from ingest.model.change import Change, Kind
from ingest.model.reject import Failure
from ingest.model.schema import Column, TableSchema
from ingest.model.table import show
from ingest.sinks.topics import writer
from ingest.sinks.topics.kafka import KafkaSink
from ingest.sinks.topics.options import TopicDestination
from ingest.task.rejects import MAX_KEPT, head_of, small
from ingest.task.task import TableCounters, merge_counts

if TYPE_CHECKING:
    import pytest


def test_what_has_no_room_beside_others_makes_room() -> None:
    kept: Cache[int, str] = Cache(3, 100)
    assert [kept.put(i, str(i), 10) for i in range(3)] == ["0", "1", "2"]
    assert (kept.get(0), kept.get(9), len(kept)) == ("0", None, 3)
    kept.put(3, "3", 10)
    assert (kept.get(0), kept.get(3), len(kept)) == (None, "3", 1)
    for i in range(1000):
        kept.put(i, str(i), 25)
        assert kept.get(i) == str(i)
        assert len(kept) <= 3
    assert kept.put(5000, "large", 26) == "large"
    assert (kept.get(5000), kept.get(999)) == (None, "999")


def test_bytes_are_counted_as_well_as_values() -> None:
    kept: Cache[int, bytes] = Cache(1_000_000, 100)
    for i in range(100):
        kept.put(i, b"", 20)
        assert len(kept) <= 5


def test_names_past_the_first_are_counted_together() -> None:
    counts: dict[str, int] = {}
    for i in range(MAX_COUNTED * 2):
        count_up(counts, str(i), 1, "rest")
    count_up(counts, "0", 5, "rest")
    assert len(counts) == MAX_COUNTED + 1
    assert (counts["0"], counts["rest"]) == (6, MAX_COUNTED)


def test_a_destination_by_a_hash_is_as_small_as_the_hash() -> None:
    from zlib import crc32

    from ingest.kafka.reference import Producer
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference

    sink: Any = KafkaSink.model_validate({
        "type": "kafka", "properties.*": {"bootstrap.servers": "nowhere:1"}, "partition.strategy": "hash-by-key",
    })  # fmt: skip
    schema = TableSchema((Column("id", types.STRING, nullable=False),), ("id",))
    encoder = sink.encoder(("t",), SourceTable(schema, (("t",),), True), ("t",), schema, Inference())
    records: list[Any] = []
    key = '{"id":"%s"}' % ("x" * 100_000)
    encoder.upsert(Change(("t",), Kind.INSERT, None, msgspec.Raw(key.encode())), records.append)
    ((to, _, _),) = records
    assert len(to.partition) == 4
    producer = Producer({"bootstrap.servers": "127.0.0.1:1"})
    producer._partitions["t"] = 7
    hashed = f'{{"TableId":"t","id":"{"x" * 100_000}"}}'
    assert producer._partition("t", to.partition, None) == crc32(hashed.encode()) % 7


def test_changes_that_are_held_back_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_HELD", 1000)
    written: list[Any] = []

    class Writer:
        def write(self, records: Any) -> None:
            written.append([key for _, key, _ in records])

    held = writer.Buffer(Writer(), 1000, 60)  # type: ignore[arg-type]
    to = TopicDestination("a", None)
    for i in range(8):
        held.write([Record(to, b"%d" % i, b"x" * 300), Record(to, b"d%d" % i, None)])
    assert written == [
        [b"0", b"d0", b"1", b"d1", b"2", b"d2", b"3"],
        [b"d3", b"4", b"d4", b"5", b"d5", b"6", b"d6", b"7"],
    ]


def test_columns_that_are_left_out_are_counted_up_to_a_limit() -> None:
    messages = [
        (b'{"id":1}', json.dumps({"op": "c", "after": {"id": 1, **more}, "source": {"db": "d", "table": "t"}}).encode())
        for more in [{}, *({f"c{i}-{j}": 1 for j in range(300)} for i in range(5)), {"x" * 5000: 1}]
    ]
    done = run(messages, 1000, source={"schema.inference.strategy": "static"})
    assert done.error is None
    assert len(done.withheld) == MAX_COUNTED + 1
    assert done.withheld["d.t.(other columns)"] == 5 * 300 - MAX_COUNTED + 1
    assert sum(done.withheld.values()) == 5 * 300 + 1


def test_tables_of_rejects_are_counted_up_to_a_limit() -> None:
    counts: dict[Any, TableCounters] = {("known",): TableCounters(inserted=1)}
    for part in range(3):
        merge_counts(counts, {(f"{part}-{i}",): TableCounters(rejected=1) for i in range(50)}, 60)
    merge_counts(counts, {("known",): TableCounters(inserted=1), ("x" * 2000,): TableCounters(rejected=1)}, 60)
    assert len(counts) == 61
    assert counts["known",].inserted == 2
    assert sum(one.rejected for one in counts.values()) == 151
    assert all(len(show(table)) < 2000 for table in counts)


def test_columns_travel_whatever_their_names() -> None:
    for name in ("id", "n" * 1000):
        column = Column(name, types.parse("DECIMAL(5,2)"), nullable=False)
        assert pickle.loads(pickle.dumps(column)) == column  # noqa: S301  (our own)
        schema = TableSchema((column,), (name,))
        assert TableSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_a_reject_holds_no_more_than_is_shown() -> None:
    large = "x" * 100_000
    assert small(None) is None
    assert small(Failure(("t",), "s0", {"s0": large, "l0": 1})) is None
    assert small(few := Failure(("t",), "s0", {"s0": "x", "l0": 1, "s1": None})) is few
    assert (head_of(None), len(head_of(large.encode()) or b"")) == (None, MAX_KEPT)
