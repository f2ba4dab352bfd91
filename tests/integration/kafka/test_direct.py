"""Records that librdkafka is given and gives directly: the same as by the reference, and no failure is lost."""

from __future__ import annotations

import gc
import itertools
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from harness import free_port

from ingest.encode.encode import EncoderCache, encode
from ingest.encode.upsert_encoder import Record
from ingest.errors import ConfigError, IngestError, Unavailable
from ingest.formats.json.options import Json
from ingest.formats.metadata_columns import TYPES, ExtraColumns, MetadataColumns
from ingest.kafka import handle, reference
from ingest.kafka.reader import RangeReader
from ingest.kafka.refusals import Letter
from ingest.kafka.transactions import NOTES_TOPIC, Channel
from ingest.kafka.writer import KafkaWriter
from ingest.model import types
from ingest.model.commit import CommitScope, RowsRefused
from ingest.model.record import METADATA, offset_of
from ingest.model.schema import Column, TableSchema
from ingest.native.native import NativeEncoders
from ingest.schema.evolve import Schemas, SourceTable
from ingest.schema.infer import Inference
from ingest.sinks.topics.kafka import KafkaSink
from ingest.sinks.topics.options import TopicDestination
from ingest.sinks.topics.upsert_kafka import UpsertKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness import Kafka

    from ingest.model.record import Chunk

pytestmark = pytest.mark.compiled("client")
ODD: list[tuple[bytes | None, bytes | None]] = [
    (b"k", b"v"), (None, b"v"), (b"k", None), (None, None), (b"", b""), (b"\0\xff", b"x" * 100_000),
]  # fmt: skip
HEADERS = (("a", b"1"), ("a", None), ("é", b""))


def as_reference() -> str:
    """Stand for `unusable` where the reference is to be tested."""
    return "a test"


@pytest.fixture(params=[True, False], ids=["native", "reference"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Either implementation in turn."""
    if not request.param:
        monkeypatch.setattr(handle, "unusable", as_reference)
    return bool(request.param)


def chunks(reader: RangeReader, kafka: Kafka, topic: str) -> Iterator[Chunk]:
    """All that is in a topic now."""
    partitions = kafka.cluster.topics([topic])[topic].partitions
    splits = [(topic, p) for p in range(partitions)]
    ends = kafka.cluster.latest(splits, committed=False)
    for chunk in reader.read({split: (0, ends[split]) for split in splits}):
        if chunk is not None:
            yield chunk


def conf(kafka: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap, "group.id": kafka.name}


def everything(message: Any) -> tuple[Any, ...]:
    kept = message.key(), message.value(), message.headers(), message.timestamp(), message.leader_epoch()
    return (message.topic(), message.partition(), message.offset(), *kept)


def test_what_is_written_is_what_was_given(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a", 3)
    writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap}, checked=True)
    assert isinstance(writer.producer, reference.Producer) is not native
    for headers, partition in itertools.product((None, HEADERS), (0, 2)):
        writer.write([Record((topic, headers, partition), key, value) for key, value in ODD])
    writer.write([Record((topic, None, b"the same"), b"%d" % i, b"hashed") for i in range(10)])
    writer.write([Record((topic, None, -1), b"key %d" % i, b"by key") for i in range(50)])
    writer.send(Letter(topic, b"k", b"sent", [*HEADERS], 12_345))
    began = time.time()
    writer.send(Letter(topic, b"k", b"sent", [], None))
    writer.commit({}, b"", final=True)
    ended = time.time()
    assert writer.failures == 0
    found = kafka.read(topic)
    for partition, headers in itertools.product((0, 2), (None, HEADERS)):
        assert [(r.key, r.value) for r in found if r.partition == partition][: len(ODD)] == ODD
        with_headers = [(r.key, r.value) for r in found if r.partition == partition and r.headers == [*(headers or [])]]
        assert with_headers[: len(ODD)] == ODD
    assert len({r.partition for r in found if r.value == b"hashed"}) == 1
    placed = {r.key: r.partition for r in found if r.value == b"by key"}
    expected = kafka.create(f"{kafka.name}.b", 3)
    client = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random"})
    for i in range(50):
        client.produce(expected, b"", b"key %d" % i)
    client.flush()
    assert placed == {r.key: r.partition for r in kafka.read(expected)}
    sent = [(r.headers, r.timestamp) for r in found if r.value == b"sent"]
    assert sent[0] == ([*HEADERS], 12_345)
    assert sent[1][0] == []
    assert int(began * 1000) <= sent[1][1] <= ended * 1000


def test_what_is_read_is_what_the_client_reads(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.create(f"{kafka.name}.a", 2)
    producer: Any = kafka.producer()  # its stubs do not know that a header's value may be None
    for (key, value), headers in itertools.product(ODD, (None, [*HEADERS])):
        producer.produce(topic, value, key, partition=len(value or b"") % 2, headers=headers, timestamp=12_345)
    producer.flush()
    found = []
    for why in (handle.unusable, as_reference):
        monkeypatch.setattr(handle, "unusable", why)
        reader = RangeReader(conf(kafka))
        found.append(sorted(everything(m) for chunk in chunks(reader, kafka, topic) for m in chunk.messages))
        reader.close()
    assert len(found[0]) == 2 * len(ODD)
    assert found[0] == found[1]


def test_native_code_has_what_there_is_to_know_of_records(kafka: Kafka) -> None:
    topic = kafka.create(f"{kafka.name}.a", 1)
    producer: Any = kafka.producer()
    headers = (None, [("trace", b"\0\xff"), ("none", None), ("é", b"")], [("one", b"1")])
    for i in range(60):
        key = None if i % 7 == 0 else b'{"id":%d}' % i
        producer.produce(topic, b'{"a":%d}' % i, key, headers=headers[i % 3], timestamp=1_700_000_000_123 + i)
    producer.flush()
    extra = ExtraColumns(metadata=METADATA)
    columns = [Column("a", types.BIGINT, nullable=False), *(Column(name, TYPES[name]) for name in METADATA)]
    schema = TableSchema(tuple(columns), ("a",))
    sink: Any = UpsertKafka.model_validate({"type": "upsert-kafka", "properties.*": {"bootstrap.servers": "h:1"}})
    made = EncoderCache(sink.encoder, Inference(Json().reading, False, {}, 2000))
    made.renew(Schemas(1, {(topic,): SourceTable(schema, (("out",),), False)}, {("out",): schema}), None)
    encoder = NativeEncoders(Json(), made, None, extra).of(topic)
    reader = RangeReader(conf(kafka), METADATA)
    for chunk in reader.read({(topic, 0): (3, 50)}):
        if chunk is None:
            continue
        objects = [*chunk.messages]
        changes = MetadataColumns(extra).add(
            Json().decoder(topic).decode([m.key() for m in objects], [m.value() for m in objects]), objects
        )
        expected = [(key, bytes(value or b"")) for _, key, value in encode(changes, made, 0).records]
        assert len(expected) == len(objects)
        for messages in (chunk.messages, objects, chunk.messages[1:], chunk.messages[::-2]):
            found, stop = encoder.encode(messages, 0)
            assert stop == len(messages)
            first = offset_of(objects[0])
            assert [(key, value) for _, key, value in found] == [expected[offset_of(m) - first] for m in messages]
    reader.close()


def test_records_are_cut_at_the_end_of_a_range_and_outlive_their_reader(kafka: Kafka) -> None:
    topic = kafka.create(f"{kafka.name}.a")
    kafka.send(topic, *((b"k", b"%d" % i) for i in range(1000)))
    reader = RangeReader(conf(kafka))
    kept = [c for c in reader.read({(topic, 0): (3, 500)}) if c is not None]
    reader.close()
    messages = [m for chunk in kept for m in chunk.messages]
    assert [offset_of(m) for m in messages] == [*range(3, 500)]
    (first, *_) = kept
    part = first.messages[5:2:-1]
    assert [m.value() for m in part] == [b"8", b"7", b"6"]
    assert first.messages[-1].offset() == offset_of(first.messages[len(first.messages) - 1])
    with pytest.raises(IndexError):
        first.messages[len(first.messages)]
    last = messages[-1]
    del kept, messages, part, first, reader
    gc.collect()
    assert last.value() == b"499"


def test_a_record_that_the_broker_does_not_take_fails_the_commit(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a", 1, **{"max.message.bytes": "1000"})
    writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap, "compression.type": "none"}, checked=True)
    writer.write([Record((topic, None, -1), b"k", b"small")])
    writer.commit({}, b"", final=False)
    writer.write([Record((topic, None, -1), b"k", b"x" * 5000)])
    with pytest.raises(RowsRefused, match=f"topic {topic} does not take .*Message size too large") as caught:
        writer.commit({}, b"", final=True)
    assert caught.value.rows == (), "which it was is not known yet"
    assert writer.failures == 0, "nothing is lost: its task goes over it again"
    writer.abort()
    writer.apart(on=True)
    rows = [((topic, None, -1), b"k", value) for value in (b"first", b"x" * 5000, b"small again")]
    writer.write(rows)
    with pytest.raises(RowsRefused) as caught:
        writer.commit({}, b"", final=False)
    assert [row[:3] for row in caught.value.rows] == [rows[1]]
    writer.abort()
    writer.write([rows[0], rows[2]])
    writer.commit({}, b"", final=True)
    values = [r.value for r in kafka.read(topic)]
    assert (values[0], values[-2:]) == (b"small", [b"first", b"small again"])


def test_a_topic_that_takes_little_at_a_time_gets_little(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a", 1, **{"max.message.bytes": "5000"})
    conf = {"bootstrap.servers": kafka.bootstrap, "compression.type": "none", "batch.size": "16384"}
    writer = KafkaWriter(conf, checked=True)
    rows = [((topic, None, -1), b"%d" % i, b"x" * 100) for i in range(100)]
    writer.write(rows)
    with pytest.raises(RowsRefused):
        writer.commit({}, b"", final=False)
    writer.abort()
    writer.apart(on=True)
    writer.write(rows)
    writer.commit({}, b"", final=False)  # one by one, and from then on a quarter at a time
    writer.apart(on=False)
    writer.write(rows)
    writer.commit({}, b"", final=True)
    assert [r.key for r in kafka.read(topic)][-100:] == [key for _, key, _ in rows]
    writer.close()


def test_without_a_guarantee_what_failed_is_counted(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a", 1, **{"max.message.bytes": "1000"})
    writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap, "compression.type": "none"}, checked=False)
    writer.write([Record((topic, None, 7), b"k", b"to a partition that is not there")])
    writer.commit({}, b"", final=True)
    assert writer.failures == 1
    writer.write([Record((topic, None, -1), b"k", b"x" * 5000)])
    with pytest.raises(RowsRefused):
        writer.commit({}, b"", final=True)
    assert writer.failures == 1, "what is refused is a reject, and not lost"


def test_a_record_that_the_client_does_not_take_is_refused_at_once(kafka: Kafka, native: bool) -> None:
    writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap, "message.max.bytes": "2000"}, checked=True)
    topic = kafka.create(f"{kafka.name}.a")
    with pytest.raises(ConfigError, match=f"cannot write a record of 5000 bytes to {topic}"):
        writer.write([Record((topic, None, -1), b"k", b"x" * 5000)])


def test_a_full_queue_makes_the_writer_wait(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a")
    small = {"queue.buffering.max.messages": "7", "linger.ms": "1"}
    writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap, **small}, checked=True)
    writer.write([Record((topic, None, -1), b"k", b"%d" % i) for i in range(500)])
    writer.commit({}, b"", final=True)
    assert [r.value for r in kafka.read(topic)] == [b"%d" % i for i in range(500)]


def test_waiting_ends_when_deliveries_fail(native: bool) -> None:
    small = {"queue.buffering.max.messages": "7", "message.timeout.ms": "1500"}
    nobody = f"127.0.0.1:{free_port()}"
    writer = KafkaWriter({"bootstrap.servers": nobody, **small}, checked=True)
    with pytest.raises(Unavailable, match=nobody):
        writer.write([Record(("t", None, 0), b"k", b"%d" % i) for i in range(500)])
    told = writer.report()
    assert told is not None
    assert any("Connection refused" in text for _, _, text in told.lines)
    assert (told.client, told.statistics) == ("producer", None)


def test_what_is_written_outside_a_transaction_is_refused(kafka: Kafka, native: bool) -> None:
    topic = kafka.create(f"{kafka.name}.a")
    channel = Channel({"bootstrap.servers": kafka.bootstrap}, f"{kafka.name}/0")
    try:
        with pytest.raises(Exception, match="Erroneous state"):
            channel.writer.write([Record((topic, None, -1), b"k", b"v")])
    finally:
        channel.close()


FAULTS: dict[str, tuple[dict[str, str], dict[str, str], Any, str, str, str]] = {
    "size": ({"max.message.bytes": "1000"}, {"compression.type": "none"}, (b"k", b"x" * 5000),
             "topic {} does not take a record larger than its max.message.bytes", "Message size too large",
             "change the topic's settings, or leave such records out"),
    "no key": ({"cleanup.policy": "compact"}, {}, (None, b"v"),
               "topic {} does not take a record that its settings forbid: one without a key", "failed to validate",
               "change the topic's settings, or leave such records out"),
    "larger than the client sends": ({}, {"message.max.bytes": "2000"}, (b"k", b"x" * 5000),
                                     "cannot write a record of 5000 bytes to {}", "Message size too large",
                                     "raise properties.message.max.bytes of the sink"),
    "gone": ({}, {"topic.metadata.propagation.max.ms": "500"}, (b"k", b"v"),
             "cannot write to {}[", "Unknown topic or partition", "create the topic, or correct its name"),
    "fenced": ({}, {}, (b"k", b"v"), "{}", "FENCED|EPOCH", "a newer attempt has taken over; nothing is lost"),
    "long transactions": ({}, {"transaction.timeout.ms": "7200000"}, (b"k", b"v"),
                          "cannot take transactional id {}", "above what the broker allows",
                          "raise the broker's transaction.max.timeout.ms"),
}  # fmt: skip
"""Settings of a topic and of the sink, and a record; the words of the error then: which place, why, and what to do."""
OF_TRANSACTIONS = {"fenced", "long transactions"}
CASES = [
    (kind, guarantee, fault)
    for kind in ("kafka", "upsert-kafka")
    for guarantee in ("at-least-once", "exactly-once")
    for fault in FAULTS
    if guarantee == "exactly-once" or fault not in OF_TRANSACTIONS
]


@pytest.mark.parametrize(("kind", "guarantee", "fault"), CASES)
def test_what_fails_in_a_task_has_the_words_of_the_broker(kafka: Kafka, kind: str, guarantee: str, fault: str) -> None:
    settings, properties, (key, value), place, why, hint = FAULTS[fault]
    topic = f"{kafka.name}.gone" if fault == "gone" else kafka.create(f"{kafka.name}.a", 1, **settings)
    if guarantee == "exactly-once" and NOTES_TOPIC not in kafka.cluster.topics([NOTES_TOPIC]):
        kafka.create(NOTES_TOPIC)
    writer: Any = options(kafka, kind, guarantee, properties).writer("p", 1)

    def task() -> None:
        writer.begin(CommitScope("c", 1, 1, 1, 0, {("t", 0): 0}, kept=False))
        writer.write([Record(TopicDestination(topic, None), key, value)])
        if fault == "fenced":
            Channel({"bootstrap.servers": kafka.bootstrap}, f"{kafka.name}/0").close()
        writer.commit({("t", 0): 1}, b"", final=True)

    with pytest.raises(IngestError) as raised:
        task()
    assert place.format(kafka.name if fault in OF_TRANSACTIONS else topic) in raised.value.message
    assert re.search(why, raised.value.message)
    assert hint in (raised.value.hint or "")
    writer.abort()


def options(kafka: Kafka, kind: str, guarantee: str, properties: dict[str, str]) -> Any:
    """A sink of Kafka's."""
    given = {"bootstrap.servers": kafka.bootstrap, **properties}
    made: Any = {"kafka": KafkaSink, "upsert-kafka": UpsertKafka}[kind]
    more = {"sink.transactional-id-prefix": kafka.name} if guarantee == "exactly-once" else {}
    return made.model_validate({"type": kind, "sink.delivery-guarantee": guarantee, "properties.*": given, **more})


def threads() -> int:
    """Each client has some."""
    return len([*Path("/proc/self/task").iterdir()])


def test_clients_that_come_and_go_leave_nothing_behind(kafka: Kafka) -> None:
    topic = kafka.create(f"{kafka.name}.a")
    kafka.send(topic, (b"k", b"v"))

    def once() -> None:
        writer = KafkaWriter({"bootstrap.servers": kafka.bootstrap}, checked=True)
        writer.write([Record((topic, HEADERS, -1), b"k", b"v")])
        writer.commit({}, b"", final=True)
        reader = RangeReader(conf(kafka))
        kept = [*chunks(reader, kafka, topic)]
        reader.close()
        assert kept

    once()
    gc.collect()
    before = threads()
    for _ in range(5):
        once()
    gc.collect()
    for _ in range(100):  # a client's threads end by and by
        if threads() <= before:
            break
        time.sleep(0.1)
    assert threads() <= before
