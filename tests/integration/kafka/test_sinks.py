"""The sinks in Kafka on a real broker: where records go, with which headers, and how few there need to be."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from commands import run_here
from confluent_kafka import TopicPartition
from examples import own_name
from harness import message
from planted import planted_into_records
from verified import FilePipeline, found, found_in

from ingest.sinks import SINKS

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Pipeline

EXACTLY = "  sink.delivery-guarantee: exactly-once\n"


def as_kafka(pipeline: Pipeline, more: str, *, route: bool = True) -> None:
    pipeline.write(sink=more, route=route)
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", "type: kafka"))


def test_everything_goes_to_partition_zero_in_one_order(kafka: Kafka, pipeline: Pipeline) -> None:
    as_kafka(pipeline, "  sink.topic.partitions: 3\n" + EXACTLY)
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(50)])
    kafka.send(pipeline.topic, *[message("u", {"id": i}, {"id": i, "n": 1}) for i in range(50)])
    done = run_here(pipeline)
    assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert {(record.partition, record.key) for record in records} == {(0, None)}
    values = [json.loads(record.value or b"") for record in records]
    assert [(v["op"], v["after"]["id"]) for v in values] == [(op, i) for op in "cu" for i in range(50)]
    *schema, name = pipeline.out("orders").split(".")
    assert values[-1]["source"] == {**dict(zip(("db", "schema")[-len(schema) :], schema, strict=True)), "table": name}


@pytest.mark.parametrize("key", ["", "  key.format: json\n"])
def test_changes_of_a_key_share_a_partition(kafka: Kafka, pipeline: Pipeline, key: str) -> None:
    as_kafka(pipeline, f"  sink.topic.partitions: 4\n  partition.strategy: hash-by-key\n{key}")
    for partition in range(2):
        changes = [message("u", None, {"id": i, "n": n}) for n in range(3) for i in range(partition, 100, 2)]
        kafka.send(pipeline.topic, *changes, partition=partition)
    assert run_here(pipeline).code == 0
    where: dict[int, set[int]] = {}
    numbers: dict[int, list[int]] = {}
    for record in kafka.read(pipeline.out("orders")):
        row = json.loads(record.value or b"")["after"]
        where.setdefault(row["id"], set()).add(record.partition)
        numbers.setdefault(row["id"], []).append(row["n"])
        assert (record.key is None) == (not key)
    assert len(where) == 100
    assert all(len(partitions) == 1 for partitions in where.values())
    assert len({p for partitions in where.values() for p in partitions}) == 4
    assert all(order == [0, 1, 2] for order in numbers.values())


def test_topics_by_table_and_headers(kafka: Kafka, pipeline: Pipeline) -> None:
    one, rest = f"{kafka.name}.one", f"{kafka.name}.rest"
    as_kafka(
        pipeline,
        f"  sink.tableId-to-topic.mapping: 'shop.orders,shop.items:{one};shop\\.*:{rest}'\n"
        "  sink.add-tableId-to-header-enabled: true\n  sink.custom-header: 'origin:test,team: shop one'\n",
        route=False,
    )  # fmt: skip
    for table in ("orders", "items", "others"):
        kafka.send(pipeline.topic, message("c", None, {"id": 1}, table))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    first, others = kafka.read(one), kafka.read(rest)
    tables = [json.loads(record.value or b"")["source"] for record in first + others]
    assert tables == [{"db": "shop", "table": table} for table in ("orders", "items", "others")]
    assert others[0].headers == [
        ("namespace", b""), ("schemaName", b"shop"), ("tableName", b"others"), ("origin", b"test"),
        ("team", b"shop one"),
    ]  # fmt: skip


def test_rows_that_change_often_are_written_seldom(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink="  sink.buffer-flush.max-rows: 1000\n  sink.buffer-flush.interval: 10 s\n")
    changes = [message("u", None, {"id": i % 10, "n": i}) for i in range(5000)]
    kafka.send(pipeline.topic, *changes, message("d", {"id": 3}, None))
    assert run_here(pipeline).code == 0
    records = kafka.read(pipeline.out("orders"))
    assert len(records) < 500
    last = {record.key: record.value for record in records}
    assert last[b'{"id":3}'] is None
    assert {json.loads(v)["n"] for v in last.values() if v} == {*range(4990, 5000)} - {4993}


def test_the_sink_bounds_how_many_write_at_once(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink="  sink.parallelism: 1\n")
    for partition in range(2):
        kafka.send(pipeline.topic, message("c", None, {"id": partition}), partition=partition)
    assert run_here(pipeline).code == 0
    stored = max((pipeline.checkpoint / "batches").glob("*.done"), key=lambda p: int(p.name.partition(".")[0]))
    assert {shard for *_, shard in json.loads(stored.read_bytes())["positions"]} == {0}


def upserts(pipeline: Pipeline, sink: str) -> None:
    text = pipeline.file.read_text().replace("  scan.startup.mode: earliest-offset\n", "")
    text = text.replace("source:\n  type: kafka", "source:\n  type: upsert-kafka")
    pipeline.file.write_text(text.replace("type: upsert-kafka\n  properties", f"type: {sink}\n  properties", 2).replace(
        f"source:\n  type: {sink}", "source:\n  type: upsert-kafka"
    ))  # fmt: skip


def test_an_upsert_topic_becomes_a_changelog_that_survives_the_loss_of_its_state(
    kafka: Kafka, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("INGEST_STATE_DIR", str(state))
    pipeline.write(sink="  topic: " + f"{kafka.name}.log\n" + EXACTLY, route=False)
    upserts(pipeline, "kafka")

    def send(*rows: tuple[int, int | None]) -> None:
        for key, number in rows:
            value = None if number is None else b'{"id":%d,"n":%d}' % (key, number)
            kafka.send(pipeline.topic, (b'{"id":%d}' % key, value), partition=key % 2)

    send((1, 1), (2, 1), (1, 2), (2, None), (3, 1))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert [*state.glob("changelog/*/*.db")], "the rows are where they were to be"
    send((1, 3), (2, 2), (3, None))
    assert run_here(pipeline).code == 0
    shutil.rmtree(state)  # as when a split moves to another machine
    send((1, 4), (2, None), (3, 2), (4, None))
    assert run_here(pipeline).code == 0
    log: dict[int, list[tuple[str, int | None, int | None]]] = {}
    for record in kafka.read(f"{kafka.name}.log"):
        value = json.loads(record.value or b"")
        before, after = value["before"], value["after"]
        row = after or before
        log.setdefault(row["id"], []).append((value["op"], before and before["n"], after and after["n"]))
    assert log == {
        1: [("c", None, 1), ("u", 1, 2), ("u", 2, 3), ("u", 3, 4)],
        2: [("c", None, 1), ("d", 1, None), ("c", None, 2), ("d", 2, None)],
        3: [("c", None, 1), ("d", 1, None), ("c", None, 2)],
    }


@pytest.mark.parametrize(
    "options",
    [
        {"type": "upsert-kafka", "sink.delivery-guarantee": "exactly-once", "sink.topic.partitions": 3},
        {"type": "upsert-kafka", "value.format": "csv", "key.format": "csv"},
        {"type": "upsert-kafka", "value.fields-include": "EXCEPT_KEY"},
        {"type": "kafka", "partition.strategy": "hash-by-key", "sink.topic.partitions": 3},
        {"type": "kafka", "debezium-json.include-schema.enabled": True, "key.format": "json"},
        {"type": "kafka", "value.format": "json", "key.format": "json"},
        {"type": "kafka", "value.format": "json", "key.format": "json", "value.fields-include": "EXCEPT_KEY"},
        {"type": "kafka", "key.format": "csv"},
        {"type": "kafka", "value.format": "json"},
    ],
    ids=lambda options: "-".join(str(value).lower() for value in options.values()),
)
def test_verify_finds_planted_faults_in_topics(options: dict[str, Any], kafka: Kafka, tmp_path: Path) -> None:
    route = [{"source-table": "\\.*", "sink-table": f"{kafka.name}.<>", "replace-symbol": "<>"}]
    sink = {"properties.bootstrap.servers": kafka.bootstrap, **options}
    planted_into_records(tmp_path, sink, says_deletes=[*options] != ["type", "value.format"], route=route)


def test_verify_knows_tables_of_one_topic_apart(kafka: Kafka, tmp_path: Path) -> None:
    sink = {"type": "kafka", "properties.bootstrap.servers": kafka.bootstrap, "topic": f"{kafka.name}.all"}
    pipeline = FilePipeline(tmp_path, sink)
    for table in ("orders", "items"):
        for i in range(5):
            pipeline.change("c", None, {"id": i, "name": table}, table=table)
    pipeline.change("d", {"id": 1, "name": "orders"}, None)
    pipeline.run()
    kafka.send(f"{kafka.name}.all", message("c", None, {"id": 2, "name": "of another pipeline"}, table="others"))
    report = pipeline.verify()
    assert report.equal, report
    assert [table.counts.compared for table in report.tables] == [5, 5]
    kafka.send(f"{kafka.name}.all", message("u", None, {"id": 2, "name": "wrong"}, table="items"))
    kafka.send(f"{kafka.name}.all", (b"key", b"no message"))
    first, second = pipeline.verify().tables
    assert (first.table, found_in(first), first.unreadable) == ("shop.items", {"other": 1}, 1)
    assert (second.table, found_in(second)) == ("shop.orders", {})


def test_verify_reads_an_upsert_topic_from_its_first_record(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.create(f"{kafka.name}.rows", 2, **{"cleanup.policy": "compact,delete"})
    for n in range(3):
        for i in range(20):
            value = None if i == 3 and n == 2 else json.dumps({"id": i, "n": n}).encode()
            kafka.send(topic, (json.dumps({"id": i}).encode(), value), partition=i % 2)
    source = {"type": "upsert-kafka", "properties.bootstrap.servers": kafka.bootstrap, "topic": topic}
    pipeline = FilePipeline(tmp_path, {"type": "delta", "warehouse": str(tmp_path / "lake")}, source)
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert report.tables[0].counts.compared == 20
    kafka.send(topic, (b'{"id":4}', b'{"id":4,"n":9}'))  # the pipeline has not read it
    assert pipeline.verify().equal
    until = TopicPartition(topic, 1, 25)
    kafka.admin.delete_records([until])[until].result()
    report = pipeline.verify()
    assert found(report) == {}
    assert report.tables[0].counts.unjudged == 4
    assert "does not have all of its records" in report.tables[0].notes[0]


def test_a_topic_of_rows_that_the_source_empties_gets_a_tombstone_for_each_key(kafka: Kafka) -> None:
    """In the partition that has the key, be it another one than that of its hash; a changelog keeps what it has."""
    name = kafka.create(own_name("emptied-"), partitions=3)
    given = {"type": "upsert-kafka", "properties.*": {"bootstrap.servers": kafka.bootstrap}}
    options: Any = SINKS["upsert-kafka"].model_validate({**given, "key.format": "json", "value.format": "json"})
    for partition, key in ((0, b"a"), (0, b"b"), (1, b"c"), (2, b"d")):
        kafka.send(name, (key, b"{}"), partition=partition)
    kafka.send(name, (b"b", None), partition=0)
    side = options.coordinator("p", lambda _: None)
    side.connect()
    for _ in range(2):
        assert side.empty((name,))
    side.close()
    written = [(one.partition, one.key) for one in kafka.read(name) if one.value is None]
    assert sorted(written) == [(0, b"a"), (0, b"b"), (1, b"c"), (2, b"d")]
    changes: Any = SINKS["kafka"].model_validate({**given, "type": "kafka", "value.format": "debezium-json"})
    assert changes.coordinator("p", lambda _: None).rows is None
