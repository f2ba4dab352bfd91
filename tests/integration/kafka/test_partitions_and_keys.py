"""The keys of records and their partitions, as options of the kafka sink and source choose them, on a real broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from commands import called, run_here
from harness import message

if TYPE_CHECKING:
    from harness import Kafka, Pipeline, Result

EXACTLY = "  sink.delivery-guarantee: exactly-once\n"
OFF = {"INGEST_NATIVE": "off"}


def as_kafka(pipeline: Pipeline, sink: str, source: str = "", rest: str = "") -> None:
    pipeline.write(source=source, sink="  sink.topic.partitions: 3\n" + sink, rest=rest)
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", "type: kafka"))


def partitions_of(kafka: Kafka, topic: str) -> dict[int, set[int]]:
    """The partitions that the records of each id are in."""
    found: dict[int, set[int]] = {}
    for record in kafka.read(topic):
        row = json.loads(record.value or b"")["after"]
        found.setdefault(row["id"], set()).add(record.partition)
    return found


def ran(pipeline: Pipeline, env: dict[str, str] | None) -> Result:
    """Run to the end in this process, which has native code, or on Spark with these variables."""
    return run_here(pipeline) if env is None else pipeline.run(env=env)


@pytest.mark.parametrize("env", [None, OFF], ids=["native", "reference"])
@pytest.mark.parametrize("more", ["", EXACTLY], ids=["at-least-once", "exactly-once"])
def test_round_robin_takes_the_partitions_in_turn(
    kafka: Kafka, pipeline: Pipeline, more: str, env: dict[str, str] | None
) -> None:
    as_kafka(pipeline, f"  sink.partitioner: round-robin\n  key.format: json\n{more}")
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(300)])
    done = ran(pipeline, env)
    assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert Counter(record.partition for record in records) == {0: 100, 1: 100, 2: 100}


def test_a_task_has_one_partition_with_fixed(kafka: Kafka, pipeline: Pipeline) -> None:
    as_kafka(pipeline, "  sink.partitioner: fixed\n  sink.semantic: exactly-once\n")
    for partition in range(2):
        kafka.send(
            pipeline.topic, *[message("c", None, {"id": i}) for i in range(partition, 200, 2)], partition=partition
        )
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert "sink.semantic is an old name of sink.delivery-guarantee" in done.err
    where = partitions_of(kafka, pipeline.out("orders"))
    assert {frozenset(where[i]) for i in range(0, 200, 2)} != {frozenset(where[i]) for i in range(1, 200, 2)}
    assert {len({p for i in range(start, 200, 2) for p in where[i]}) for start in range(2)} == {1}


def test_the_default_partitioner_goes_by_the_key(kafka: Kafka, pipeline: Pipeline) -> None:
    as_kafka(pipeline, "  sink.partitioner: default\n  key.format: json\n  sink.add-tableId-to-key-enabled: false\n")
    kafka.send(pipeline.topic, *[message("u", None, {"id": i, "n": n}) for n in range(2) for i in range(60)])
    assert run_here(pipeline).code == 0
    where = partitions_of(kafka, pipeline.out("orders"))
    assert {len(partitions) for partitions in where.values()} == {1}
    assert {p for partitions in where.values() for p in partitions} == {0, 1, 2}
    java = kafka.create(f"{kafka.name}.java", 3)
    producer = kafka.producer(partitioner="murmur2_random")
    for i in range(60):
        producer.produce(java, b"{}", b'{"id":%d}' % i)
    assert producer.flush(20) == 0
    assert {(r.key, r.partition) for r in kafka.read(java)} == {
        (r.key, r.partition) for r in kafka.read(pipeline.out("orders"))
    }


PARTITIONERS = """
import by_remainder

class ByRemainder:
    def __init__(self):
        self.topics = set()

    def partition(self, topic, key, value, partitions):
        self.topics.add(topic)
        return by_remainder.remainder(key, partitions)

class Wrong:
    def partition(self, topic, key, value, partitions):
        if key == b'{"id":7}':
            raise LookupError("no region 7")
        return 0 if key != b'{"id":8}' else partitions
"""


@pytest.mark.parametrize("env", [None, OFF], ids=["native", "reference"])
def test_a_class_of_the_users_chooses_partitions(kafka: Kafka, pipeline: Pipeline, env: dict[str, str] | None) -> None:
    name = f"partitioners_{kafka.name}"
    (pipeline.file.parent / f"{name}.py").write_text(PARTITIONERS)
    (pipeline.file.parent / "by_remainder.py").write_text(
        "import json\n\ndef remainder(key, partitions):\n    return json.loads(key)['id'] % partitions\n"
    )
    as_kafka(pipeline, f"  sink.partitioner: {name}:ByRemainder\n  key.format: json\n  key.fields: id\n")
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(60)])
    done = ran(pipeline, env)
    assert done.code == 0, done.err
    assert partitions_of(kafka, pipeline.out("orders")) == {i: {i % 3} for i in range(60)}


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (7, 'failed: LookupError: no region 7, for a record to {topic} with the key {{"id":7}}'),
        (8, 'gave 3, and the topic has the partitions 0 to 2, for a record to {topic} with the key {{"id":8}}'),
    ],
)
def test_an_error_of_a_partitioner_stops_the_run_and_says_where(
    kafka: Kafka, pipeline: Pipeline, at: int, why: str
) -> None:
    name = f"wrong_{kafka.name}"
    (pipeline.file.parent / f"{name}.py").write_text(PARTITIONERS)
    (pipeline.file.parent / "by_remainder.py").write_text("")
    as_kafka(pipeline, f"  sink.partitioner: {name}:Wrong\n  key.format: json\n  key.fields: id\n")
    kafka.send(pipeline.topic, *[message("c", None, {"id": at})])
    done = run_here(pipeline)
    assert done.code == 78, done.err
    assert f"sink.partitioner {name}:Wrong {why.format(topic=pipeline.out('orders'))}" in done.err.replace('\\"', '"')
    assert f"it was read from {pipeline.topic}[0] at offset 0" in done.err
    assert not kafka.read(pipeline.out("orders"))


@pytest.mark.parametrize("env", [None, OFF], ids=["native", "reference"])
def test_keys_and_values_that_share_no_column_come_back_as_rows(
    kafka: Kafka, pipeline: Pipeline, env: dict[str, str] | None
) -> None:
    topic = f"{kafka.name}.rows"
    as_kafka(
        pipeline,
        f"  topic: {topic}\n  format: json\n  key.format: json\n  key.fields: k_user;k_id\n"
        "  key.fields-prefix: k_\n  value.fields-include: EXCEPT_KEY\n  sink.partitioner: default\n",
    )  # fmt: skip
    rows = [{"k_id": i, "k_user": f"u{i % 3}", "id": "mine", "n": i} for i in range(5)]
    kafka.send(pipeline.topic, *[message("c", None, row) for row in rows])
    done = ran(pipeline, env)
    assert done.code == 0, done.err
    written = {record.key: record.value for record in kafka.read(topic)}
    assert written == {b'{"user":"u%d","id":%d}' % (i % 3, i): b'{"id":"mine","n":%d}' % i for i in range(5)}
    again = f"{kafka.name}.again"
    pipeline.file.write_text(
        f"source:\n  type: kafka\n  properties.bootstrap.servers: {kafka.bootstrap}\n  topic: {topic}\n"
        "  scan.startup.mode: earliest-offset\n  format: json\n  key.format: json\n  key.fields: k_user;k_id\n"
        "  key.fields-prefix: k_\n  value.fields-include: EXCEPT_KEY\npipeline: {name: again}\n"
        f"sink:\n  type: upsert-kafka\n  properties.bootstrap.servers: {kafka.bootstrap}\n"
        f"route:\n  - {{source-table: '\\.*', sink-table: {again}}}\n"
    )
    pipeline.checkpoint = pipeline.checkpoint.with_name("again")
    done = ran(pipeline, env)
    assert done.code == 0, done.err
    assert sorted(kafka.table(again).values(), key=lambda row: row["n"]) == [
        {"k_user": row["k_user"], "k_id": row["k_id"], "id": "mine", "n": row["n"]} for row in rows
    ]


@pytest.mark.parametrize("env", [None, OFF], ids=["native", "reference"])
@pytest.mark.parametrize("more", ["", EXACTLY], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("kind", ["kafka", "upsert-kafka"])
def test_headers_and_times_are_passed_on(
    kafka: Kafka, pipeline: Pipeline, kind: str, more: str, env: dict[str, str] | None
) -> None:
    pipeline.write(
        source="  metadata.list: headers,timestamp\n",
        sink="  metadata.list: headers,timestamp\n  sink.custom-header: origin:test\n  sink.topic.partitions: 3\n"
        f"{'  sink.partitioner: round-robin' if kind == 'kafka' else ''}\n{more}",
    )
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", f"type: {kind}"))
    producer = kafka.producer()
    now = time.time_ns() // 1_000_000 - 60_000
    for i in range(30):
        headers: list[tuple[str, Any]] = [("n", b"%d" % i), ("none", None), ("bytes", b"\xff\0"), ("empty", b"")]
        producer.produce(
            pipeline.topic, message("c", None, {"id": i})[1], b'{"id":%d}' % i, 0, timestamp=now + i, headers=headers
        )
    producer.produce(pipeline.topic, message("d", {"id": 3}, None)[1], b'{"id":3}', 0, timestamp=now + 99)
    assert producer.flush(20) == 0
    done = ran(pipeline, env)
    assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert len(records) == 31
    if kind == "kafka":
        assert {record.partition for record in records} == {0, 1, 2}
    for record in records:
        value = None if record.value is None else json.loads(record.value)
        row = (value or {}).get("after") if kind == "kafka" else value
        if row is None:
            assert (record.headers, record.timestamp) == ([("origin", b"test")], now + 99)
            continue
        i = row["id"]
        assert row == {"id": i}
        assert record.timestamp == now + i
        assert record.headers == [
            ("origin", b"test"), ("n", b"%d" % i), ("none", None), ("bytes", b"\xff\0"), ("empty", b""),
        ]  # fmt: skip


@pytest.mark.parametrize("env", [None, OFF], ids=["native", "reference"])
def test_a_projection_makes_headers_and_times(kafka: Kafka, pipeline: Pipeline, env: dict[str, str] | None) -> None:
    pipeline.write(
        sink="  metadata.list: headers,timestamp\n",
        rest="transform:\n  - source-table: \\.*\n    projection: |-\n"
        "      id, map('name', name) AS headers, TIMESTAMP '2024-02-29 00:00:00.5' AS `timestamp`\n",
    )
    kafka.send(pipeline.topic, *[message("c", None, {"id": i, "name": f"é{i}"}) for i in range(5)])
    done = pipeline.run(env=env)
    assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert {(r.key, r.value, r.timestamp, *r.headers) for r in records} == {
        (b'{"id":%d}' % i, b'{"id":%d}' % i, 1_709_164_800_500, ("name", f"é{i}".encode())) for i in range(5)
    }


def id_of(record: Any) -> int:
    """The id of a row, from the key where there is one."""
    found = json.loads(record.key or record.value)
    return int(found.get("after", found)["id"])


@pytest.mark.parametrize(("kind", "more", "env"), [
    ("upsert-kafka", "", None), ("upsert-kafka", EXACTLY, OFF),
    ("kafka", "  partition.strategy: hash-by-key\n", None),
], ids=["upserts", "exactly-once", "without-keys"])  # fmt: skip
def test_a_key_stays_in_its_partition_when_the_topic_grows(
    kafka: Kafka, pipeline: Pipeline, kind: str, more: str, env: dict[str, str] | None
) -> None:
    pipeline.write(sink=f"  sink.topic.partitions: 2\n{more}")
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", f"type: {kind}"))
    out = pipeline.out("orders")

    def rows(n: int) -> dict[int, int]:
        """Write 30 rows; the partition that each of them is in."""
        kafka.send(pipeline.topic, *[message("c", None, {"id": i, "n": n}) for i in range(30)])
        before = {(record.partition, record.offset) for record in kafka.read(out)} if n else set()
        done = ran(pipeline, env)
        assert done.code == 0, done.err
        assert ("partitions by now" in done.err) == (n == 1)
        new = [record for record in kafka.read(out) if (record.partition, record.offset) not in before]
        assert len(new) == 30
        return {id_of(record): record.partition for record in new}

    first = rows(0)
    kafka.cluster.widen(out, 7)
    assert rows(1) == first
    if kind == "kafka" or env is not None:
        return  # commands are the same
    plan = pipeline.plan()
    assert f"topic {out} has 7 partitions by now, and keys go to the first 2" in plan.out
    at = ("checkpoint", "reset", str(pipeline.file), "--checkpoint", str(pipeline.checkpoint), "--partitions", out)
    dry = called(*at, "--dry-run")
    assert f"{out}: keys were hashed over 2 partitions" in dry.out
    shown = called("checkpoint", "show", str(pipeline.checkpoint))
    assert f"keys of topic {out} are hashed over 2 partitions" in shown.out
    assert called(*at).code == 0
    assert max(rows(2).values()) > 1


def test_other_partitioners_use_all_partitions_of_now(kafka: Kafka, pipeline: Pipeline) -> None:
    as_kafka(pipeline, "  sink.partitioner: round-robin\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 0}))
    assert run_here(pipeline).code == 0
    kafka.cluster.widen(pipeline.out("orders"), 6)
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(12)])
    done = run_here(pipeline)
    assert (done.code, "partitions by now" in done.err) == (0, False)
    assert {record.partition for record in kafka.read(pipeline.out("orders"))} == set(range(6))
