"""What messages say again and again is kept, up to a limit; past it nothing is wrong."""

from __future__ import annotations

import gc
import json
import pickle
import tracemalloc
from typing import Any

import msgspec
import pytest
from inmemory import run

from ingest.formats import canal_json, debezium_json
from ingest.formats.canal_json import CanalJson
from ingest.formats.debezium_json import DebeziumJson
from ingest.formats.metadata_columns import ExtraColumns, MetadataColumns
from ingest.model import types
from ingest.model.cache import MAX_COUNTED, Cache, count_up
from ingest.model.change import InlineSchema, Kind
from ingest.model.reject import Failure
from ingest.model.schema import Column, TableSchema
from ingest.model.table import show
from ingest.native import native
from ingest.native.native import TargetTable
from ingest.sinks import upsert_kafka
from ingest.sinks.kafka import KafkaSink
from ingest.sinks.topics import Destination
from ingest.task import worker
from ingest.task.counters import TableCounters, merge_counts
from ingest.task.rejects import MAX_KEPT, head_of, small

MIB = 1 << 20


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


def grown(make: Any, count: int) -> int:
    """Bytes that are kept after so many calls."""
    gc.collect()
    tracemalloc.start()
    try:
        for i in range(count):
            make(i)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def envelope(number: int, size: int) -> bytes:
    """A Debezium message whose schema's text is a large one, and says what it does."""
    field = {"type": "int32", "field": "id"}
    schema = {"type": "struct", "x": f"{number:09}".rjust(size), "fields": [{"field": "after", "fields": [field]}]}
    payload = {"before": None, "after": {"id": number}, "source": {"db": "d", "table": "t"}, "op": "c"}
    return msgspec.json.encode({"schema": schema, "payload": payload})


def test_schemas_of_envelopes_take_no_more_than_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debezium_json, "_INLINE_SCHEMAS", Cache(10_000, 4 * MIB))
    decoder = DebeziumJson().decoder("t")

    def decode(i: int) -> None:
        (change,) = decoder.decode([None], [envelope(i, 500_000)])
        assert isinstance(change, tuple)
        assert bytes(change[3] or b"") == b'{"id":%d}' % i
        assert change[5] is not None
        assert change[5].types == {"id": types.INT}

    assert grown(decode, 40) < 6 * MIB
    large = decoder.decode([None], [envelope(1, 3 * MIB)] * 1)
    assert isinstance(large[0], tuple), "what is too large to keep is taken all the same"


def canal(number: int, size: int, table: str = "t") -> bytes:
    said = {"id": 4, "x" * size + str(number): 4}
    row = {"data": [{"id": "1"}], "database": "d", "table": table, "type": "INSERT", "sqlType": said, "pkNames": ["id"]}
    return msgspec.json.encode(row)


@pytest.mark.parametrize("tables", [1, 1000])
def test_types_of_canal_take_no_more_than_their_room(tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canal_json, "_INLINE_SCHEMAS", Cache(10_000, 4 * MIB))
    decoder = CanalJson.model_validate({"canal-json.infer-schema.strategy": "SQL_TYPE"}).decoder("t")

    def decode(i: int) -> None:
        (change,) = decoder.decode([None], [canal(i, 50_000, f"t{i % tables}")])
        assert isinstance(change, tuple)
        assert bytes(change[3] or b"") == b'{"id":1}'

    assert grown(decode, 200) < 12 * MIB


def test_what_a_message_says_of_types_does_not_keep_the_whole_message() -> None:
    decoder = CanalJson.model_validate({"canal-json.infer-schema.strategy": "SQL_TYPE"}).decoder("t")

    def decode(i: int) -> None:
        message = json.loads(canal(0, 1, f"t{i}"))
        message["data"] = [{"id": "1", "text": "x" * 200_000}]
        (change,) = decoder.decode([None], [msgspec.json.encode(message)])
        assert isinstance(change, tuple)

    assert grown(decode, 100) < 2 * MIB


def test_names_of_tables_are_not_kept() -> None:
    plain, rows = DebeziumJson().decoder("t"), CanalJson().decoder("t")

    def decode(i: int) -> None:
        name = f"{i}" + "x" * 400_000
        value: dict[str, Any] = {"op": "c", "after": {"id": 1}, "source": {"db": name, "table": name}}
        (change,) = plain.decode([None], [msgspec.json.encode(value)])
        assert isinstance(change, tuple)
        assert change[0] == (name, name)
        value = {"data": [{"id": "1"}], "database": name, "table": name, "type": "INSERT"}
        (change,) = rows.decode([None], [msgspec.json.encode(value)])
        assert isinstance(change, tuple)

    assert grown(decode, 150) < 2 * MIB


def test_columns_of_keys_are_not_kept() -> None:
    columns = MetadataColumns(ExtraColumns(key=True, key_is_primary=True))

    class Keyed:
        def __init__(self, text: bytes) -> None:
            self._text = text

        def key(self) -> bytes:
            return self._text

    def add(i: int) -> None:
        change = (("t",), Kind.INSERT, None, msgspec.Raw(b'{"a":1}'), None, None)
        name = b"k%d" % i + b"x" * 30_000
        (made,) = columns.add([change], [Keyed(b'{"%b":1}' % name)])  # type: ignore[list-item]
        assert isinstance(made, tuple)
        assert isinstance(made[5], InlineSchema)
        assert made[5].primary_key == (name.decode(),)

    assert grown(add, 300) < 1 * MIB


@pytest.mark.compiled
def test_native_inline_schemas_take_no_more_than_their_room() -> None:
    """Of all encoders together: 128 MiB, where 10,000 texts of a megabyte were 10 GB."""
    from ingest.native.codes import MessageForm, ValueCodec
    from ingest.native.contract import ColumnCodecSpec, MessageSpec
    from ingest.native.inline_schema import RowCodec
    from ingest.native.native_encoder import NativeEncoder

    asked: list[int] = []
    table = native.NativeEncoders(DebeziumJson(), cache())._table(("d", "t"))
    assert table is not None

    def say(text: bytes) -> Any:
        asked.append(len(text))
        return RowCodec((ColumnCodecSpec(b"id", ValueCodec.CODEC_INT, 32),))

    encoders = [NativeEncoder(MessageSpec(MessageForm.FORM_DEBEZIUM), lambda _: table, say) for _ in range(3)]

    class Message:
        def __init__(self, value: bytes) -> None:
            self._value = value

        def key(self) -> bytes:
            return b'{"id":1}'

        def value(self) -> bytes:
            return self._value

    def take(i: int, size: int = 4 * MIB) -> int:
        schema = b'{"x":"%d%b"}' % (i, filling[:size])
        payload = b'{"after":{"id":1},"source":{"db":"d","table":"t"},"op":"c"}'
        message: Any = Message(b'{"schema":%b,"payload":%b}' % (schema, payload))
        return encoders[i % 3].encode([message], 0)[1]

    filling = b"x" * (40 * MIB)
    before = resident()
    for i in range(90):
        assert take(i) == 1
        assert take(i) == 1, "again, and it need not be asked for"
    assert len(asked) == 90
    assert resident() - before < 250 * MIB, "where all of it were 360"
    assert take(5000, 40 * MIB) == 0, "what is too large to keep is left to the reference"
    assert take(89) == 1


def cache() -> Any:
    from ingest.encode.encoder_cache import EncoderCache
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.schema.infer import Inference

    sink: Any = upsert_kafka.UpsertKafka.model_validate({
        "type": "upsert-kafka", "properties.*": {"bootstrap.servers": "nowhere:1"},
    })  # fmt: skip
    schema = TableSchema((Column("id", types.INT, nullable=False),), ("id",))
    made = EncoderCache(sink.encoder, Inference())
    made.renew(Schemas(1, {("d", "t"): SourceTable(schema, (("t",),), True)}, {("t",): schema}), None)
    return made


def resident() -> int:
    from pathlib import Path

    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def test_heads_that_are_made_for_messages_do_not_stay() -> None:
    heads, table = TargetTable(), ("d", "t")
    for i in range(150):
        heads.place("topic", ((table, Kind.INSERT),) * i)
    assert not heads.full
    for i in range(10_000):
        heads.place(f"topic-{i}", ())
    assert heads.full


def test_tables_have_as_many_heads_as_they_need() -> None:
    heads = TargetTable()
    for i in range(10_000):
        heads.of((f"t{i}",), i)
    assert not heads.full


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.usefixtures("java")
def test_heads_begin_anew_while_records_are_on_their_way(built: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[Any] = [
        (
            b'{"id":%d}' % i,
            b'{"op":"%b","after":{"id":%d,"a":%d},"source":{"db":"d","table":"t%d"}}'
            % (b"cu"[i % 2 :][:1], i, i, i % 5),
        )
        for i in range(450)
    ]
    rules = {"transform": [{"source-table": "d.t0", "projection": r"\*, a + 1 AS b"}]}
    monkeypatch.setattr(native, "BUILT", built)
    expected = run(messages, 1000, **rules)
    assert len(expected.records) == len(messages)
    monkeypatch.setattr(native, "_MAX_TARGETS", -1_000_000)
    renewed: list[int] = []
    renew = worker.RecordEncoders.renew_targets

    def renewing(encoders: worker.RecordEncoders) -> None:
        renewed.append(1)
        renew(encoders)

    monkeypatch.setattr(worker.RecordEncoders, "renew_targets", renewing)
    done = run(messages, 1000, **rules)
    assert len(renewed) > 4
    assert (done.records, done.rejects) == (expected.records, expected.rejects)


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
    encoder.upsert(Kind.INSERT, None, msgspec.Raw(key.encode()), None, None, records.append)
    ((to, _, _),) = records
    assert len(to.partition) == 4
    producer = Producer({"bootstrap.servers": "127.0.0.1:1"})
    producer._partitions["t"] = 7
    hashed = f'{{"TableId":"t","id":"{"x" * 100_000}"}}'
    assert producer._partition("t", to.partition) == crc32(hashed.encode()) % 7


def test_changes_that_are_held_back_have_a_limit_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert_kafka, "MAX_HELD", 1000)
    written: list[Any] = []

    class Writer:
        def write(self, records: Any) -> None:
            written.append([key for _, key, _ in records])

    held = upsert_kafka.Buffer(Writer(), 1000, 60)  # type: ignore[arg-type]
    to = Destination("a", None)
    for i in range(8):
        held.write([(to, b"%d" % i, b"x" * 300), (to, b"d%d" % i, None)])
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
