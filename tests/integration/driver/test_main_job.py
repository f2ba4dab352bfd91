"""The main job on a real broker: what goes in, what comes out, and what a second run does."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest
from brokers import FOR_MINUTES
from commands import run_here
from confluent_kafka import TopicPartition
from harness import debezium, finish, message

if TYPE_CHECKING:
    from harness import Kafka, Pipeline


@pytest.mark.parametrize("looked_at", [0, 50])
def test_inserts_updates_deletes_drift_and_key_changes_become_upserts(
    kafka: Kafka, pipeline: Pipeline, looked_at: int
) -> None:
    pipeline.write(source=f"  scan.max.pre.fetch.records: {looked_at}\n")
    send = kafka.send
    a, b = {"id": 1, "qty": 1, "price": 1.5}, {"id": 2, "qty": 2, "price": 2.5}
    send(pipeline.topic, message("c", None, a), message("c", None, b))
    send(pipeline.topic, message("u", a, {**a, "qty": 7}), message("d", b, None), (b'{"id":2}', None))
    send(pipeline.topic, message("c", None, {"id": 3, "qty": 3, "price": 3.5, "note": "new column"}))
    send(pipeline.topic, message("c", None, {"id": 4, "qty": "many", "price": 1, "note": None}))
    # A changed primary key in one update: the old row has to go
    send(pipeline.topic, (b'{"id": 30}', debezium("u", {"id": 3, "qty": 3}, {"id": 30, "qty": 3, "price": 3.5})))
    send(pipeline.topic, message("r", None, {"id": 9, "name": "Ada"}, "customers"), partition=1)

    first = pipeline.run()
    assert first.code == 0, first.err
    assert kafka.table(pipeline.out("orders")) == {
        '{"id":1}': {"id": 1, "qty": "7", "price": 1.5, "note": None},
        '{"id":4}': {"id": 4, "qty": "many", "price": 1, "note": None},
        '{"id":30}': {"id": 30, "qty": "3", "price": 3.5, "note": None},
    }
    assert kafka.table(pipeline.out("customers")) == {'{"id":9}': {"id": 9, "name": "Ada"}}
    batches = [event["records"] for event in first.events if event["event"] == "batch done"]
    assert (batches[0] > 0) is (looked_at > 0)  # without a first look the first batch only finds the tables
    lines = {line.split()[0]: line.split()[1:] for line in first.out.splitlines() if line.startswith("shop.")}
    assert lines["shop.orders"][:5] == ["7", "4", "2", "1", "0"]  # in, inserted, updated, deleted, rejected
    assert "1 tombstone" in first.out

    written = kafka.end(pipeline.out("orders"))
    second = pipeline.run()
    assert second.code == 0, second.err
    assert second.events[-1]["records"] == 0
    assert kafka.end(pipeline.out("orders")) == written

    send(pipeline.topic, message("d", {"id": 1}, None))
    assert pipeline.run().events[-1]["records"] == 1
    assert '{"id":1}' not in kafka.table(pipeline.out("orders"))


def test_created_topics_are_compacted_and_carry_table_ids_in_headers(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink="  sink.add-tableId-to-header-enabled: true\n  sink.topic.partitions: 3\n", route=False)
    kafka.send(pipeline.topic, (b'{"id":1}', debezium("c", None, {"id": 1}, f"{kafka.name}-x")))
    assert run_here(pipeline).code == 0
    topic = f"shop.{kafka.name}-x"
    assert kafka.cluster.topic_config(topic, "cleanup.policy") == "compact"
    assert kafka.cluster.topics([topic])[topic].partitions == 3
    (record,) = kafka.read(topic)
    table = f"{kafka.name}-x".encode()
    assert record.headers == [("namespace", b""), ("schemaName", b"shop"), ("tableName", table)]


def test_rows_with_the_schema_envelope_are_the_same_rows(kafka: Kafka, pipeline: Pipeline) -> None:
    plain = json.loads(debezium("c", None, {"id": 1, "v": "x"}))
    wrapped = json.dumps({"schema": {"type": "struct"}, "payload": plain}).encode()
    key = json.dumps({"schema": {"type": "struct"}, "payload": {"id": 1}}).encode()
    kafka.send(pipeline.topic, (key, wrapped), message("c", None, {"id": 2, "v": "y"}))
    assert run_here(pipeline).code == 0
    assert kafka.table(pipeline.out("orders")) == {'{"id":1}': {"id": 1, "v": "x"}, '{"id":2}': {"id": 2, "v": "y"}}


def test_values_keep_their_exact_text(kafka: Kafka, pipeline: Pipeline) -> None:
    row = b'{"id":1,"a":1.10,"b":123456789012345678901234567890,"c":1e5,"d":"\\u00e9","e":-0.0}'
    value = b'{"before":null,"after":' + row + b',"source":{"db":"shop","table":"orders"},"op":"c"}'
    kafka.send(pipeline.topic, (b'{"id":1}', value))
    assert run_here(pipeline).code == 0
    assert kafka.read(pipeline.out("orders"))[0].value == row


def test_compacted_and_transactional_topics_end_at_their_gaps(kafka: Kafka, pipeline: Pipeline) -> None:
    """Commit markers, aborted records and compacted offsets: the range's last offsets hold no record."""
    producer = kafka.producer(**{"transactional.id": kafka.name})
    producer.init_transactions(20)
    for number, commit in enumerate((True, False, True, False)):
        producer.begin_transaction()
        for i in range(50):
            key, value = message("c", None, {"id": number * 100 + i, "v": number})
            producer.produce(pipeline.topic, value, key, partition=0)
        if commit:
            producer.commit_transaction(20)
        else:
            producer.flush()
            producer.abort_transaction(20)
    compacted = kafka.create(
        f"{kafka.name}.compacted", 1,
        **{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
        **{"segment.bytes": "1048576"},
    )  # fmt: skip
    for _ in range(3):
        kafka.send(compacted, *[message("u", None, {"id": 1000 + i % 5, "v": i}) for i in range(200)])
        time.sleep(0.3)
    kafka.send(compacted, message("u", None, {"id": 2000, "v": 0}))
    assert kafka.cluster.wait_until(lambda: len(kafka.read(compacted)) < 400, 40), "the broker did not compact"
    pipeline.topic += f";{compacted}"
    pipeline.write()
    done = run_here(pipeline)
    assert done.code == 0, done.err
    ids = {row["id"] for row in kafka.table(pipeline.out("orders")).values()}
    assert ids == {*range(50), *range(200, 250), *range(1000, 1005), 2000}
    stored = json.loads(
        max((pipeline.checkpoint / "batches").glob("*.done"), key=lambda p: int(p.name.partition(".")[0])).read_bytes()
    )
    assert {(t, p): at for t, p, at, _ in stored["positions"]}[kafka.name + ".in", 0] == 204
    assert run_here(pipeline).events[-1]["records"] == 0


def test_a_run_may_start_at_the_latest_offset(kafka: Kafka, pipeline: Pipeline) -> None:
    """The runs of all other tests start at the earliest one."""
    pipeline.write(mode="latest-offset")
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    assert run_here(pipeline).code == 0
    kafka.send(pipeline.topic, message("c", None, {"id": 2}))
    assert run_here(pipeline).code == 0
    assert {row["id"] for row in kafka.table(pipeline.out("orders")).values()} == {2}


def test_group_offsets_start_and_progress_show_in_the_consumer_group(kafka: Kafka, pipeline: Pipeline) -> None:
    group = f"  properties.group.id: {kafka.name}\n"
    kafka.send(pipeline.topic, message("c", None, {"id": 1}), message("c", None, {"id": 2}))
    pipeline.write(source=group, mode="group-offsets")
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "properties.auto.offset.reset" in refused.err
    assert "Traceback" not in refused.err

    kafka.cluster.commit(kafka.name, {(pipeline.topic, 0): 1, (pipeline.topic, 1): 0})
    assert run_here(pipeline).code == 0
    assert {row["id"] for row in kafka.table(pipeline.out("orders")).values()} == {2}
    assert kafka.cluster.group_offsets(kafka.name, [(pipeline.topic, 0)]) == {(pipeline.topic, 0): 2}


def test_sigterm_finishes_the_batch_and_exits_0(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(1000)])
    process = pipeline.begin()
    deadline = time.monotonic() + 60
    out = pipeline.out("orders")
    while not (out in kafka.cluster.names() and kafka.end(out) >= 1000):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    kafka.send(pipeline.topic, message("c", None, {"id": 5000}))
    while kafka.end(out) < 1001:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.code == 0, done.err
    assert done.events[-1]["stopped"] == "signal"
    assert pipeline.run().events[-1]["records"] == 0


def test_the_java_client_finds_the_same_partition(kafka: Kafka, pipeline: Pipeline, tmp_path: object) -> None:
    """Our records lie where the Java client's own producer puts the same keys."""
    import subprocess
    from pathlib import Path

    from ingest.paths import java
    from ingest.sandbox.jars import jars

    partitions = 7
    pipeline.write(sink=f"  sink.topic.partitions: {partitions}\n")
    kafka.send(pipeline.topic, *[message("c", None, {"id": i * 7919}) for i in range(300)])
    assert run_here(pipeline).code == 0
    ours = {record.key: record.partition for record in kafka.read(pipeline.out("orders"))}
    theirs = kafka.create(f"{kafka.name}.java", partitions)
    source = Path(str(tmp_path)) / "Send.java"
    source.write_text("""
        import java.util.*; import java.io.*; import org.apache.kafka.clients.producer.*;
        import org.apache.kafka.common.serialization.*;
        public class Send { public static void main(String[] a) throws Exception {
            Properties p = new Properties(); p.put("bootstrap.servers", a[0]);
            var s = new StringSerializer();
            try (var producer = new KafkaProducer<String, String>(p, s, s);
                 var in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String k; (k = in.readLine()) != null; ) producer.send(new ProducerRecord<>(a[1], k, "x")).get();
            } } }
    """)
    keys = "".join((key or b"").decode() + "\n" for key in ours)
    command = [java(), *FOR_MINUTES, "-cp", f"{jars()}/*", str(source), kafka.bootstrap, theirs]
    subprocess.run(command, input=keys, text=True, check=True, capture_output=True, timeout=120)
    assert {record.key: record.partition for record in kafka.read(theirs)} == ours
    assert len(set(ours.values())) == partitions


def test_partition_discovery_reads_new_partitions_from_their_beginning(kafka: Kafka, pipeline: Pipeline) -> None:
    from confluent_kafka.admin import NewPartitions

    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    assert pipeline.run().code == 0
    for future in kafka.admin.create_partitions([NewPartitions(pipeline.topic, 3)]).values():
        future.result(10)
    assert kafka.cluster.wait_until(lambda: kafka.cluster.topics([pipeline.topic])[pipeline.topic].partitions == 3, 10)
    kafka.send(pipeline.topic, message("c", None, {"id": 3}), partition=2)
    assert pipeline.run().code == 0
    assert {row["id"] for row in kafka.table(pipeline.out("orders")).values()} == {1, 3}


def test_positions_of_a_topic_split_are_offsets(kafka: Kafka, pipeline: Pipeline) -> None:
    """A tombstone-only range moves the position, and nothing is written for it."""
    kafka.send(pipeline.topic, *[(b'{"id":1}', None)] * 5)
    done = run_here(pipeline)
    assert done.code == 0
    assert "5 tombstone" in done.out
    group = kafka.cluster.group_offsets("ingest.pipe", [(pipeline.topic, 0)])
    assert group[pipeline.topic, 0] == TopicPartition(pipeline.topic, 0, 5).offset


def test_a_new_route_under_a_checkpoint_is_allowed_and_another_key_is_not(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": 1}))
    assert run_here(pipeline).code == 0
    more = f"  - {{source-table: shop.orders, sink-table: {pipeline.prefix}.copy}}\n"
    pipeline.write(rest=more)
    kafka.send(pipeline.topic, message("c", None, {"id": 2, "v": 2}))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert kafka.table(pipeline.out("copy")) == {'{"id":2}': {"id": 2, "v": 2}}
    assert len(kafka.table(pipeline.out("orders"))) == 2
    pipeline.write(rest="transform:\n  - {source-table: shop.orders, primary-keys: v}\n")
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "the primary key that the file gives table shop.orders changed: (id), now (v)" in refused.err
