"""What native code keeps of messages has a limit; past it nothing is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inmemory import run

from ingest.formats.debezium.options import DebeziumJson
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.schema import Column, TableSchema
from ingest.native import native
from ingest.native.native import TargetTable
from ingest.sinks.topics import upsert_kafka
from ingest.task import worker

MIB = 1 << 20


@pytest.mark.compiled
def test_native_inline_schemas_take_no_more_than_their_room() -> None:
    """Of all encoders together: 128 MiB, where 10,000 texts of a megabyte were 10 GB."""
    from ingest.native.codes import MessageForm, ValueCodec
    from ingest.native.contract import ColumnCodecSpec, MessageSpec
    from ingest.native.message_schemas import RowCodec
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
    from ingest.encode.encode import EncoderCache
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
