"""Bad input, brokers that go away, killed runs, two runs at once: what is lost (nothing) and what is said."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import time
from typing import TYPE_CHECKING

from commands import called, run_here
from harness import Kafka, Pipeline, debezium, finish, free_port, message

if TYPE_CHECKING:
    from pathlib import Path


def test_a_broken_message_stops_with_65_and_a_corrected_run_goes_on(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(
        pipeline.topic,
        message("c", None, {"id": 1}),
        (b'{"id":2}', b'{"op": "c", "after": {'),
        message("c", None, {"id": 3}),
    )
    stopped = pipeline.run()
    assert stopped.code == 65
    assert f"{pipeline.topic}[0] at offset 1: decode/malformed" in stopped.err
    assert '{"op": "c", "after": {' in stopped.err
    assert "Traceback" not in stopped.err
    assert kafka.ids(pipeline.out("orders")) == {1}
    written = kafka.end(pipeline.out("orders"))

    assert run_here(pipeline).code == 65, "nothing changed, so it stops again, and writes nothing"
    assert kafka.end(pipeline.out("orders")) == written

    pipeline.write(source="  ingestion.ignore-errors: true\n  ingestion.error-tolerance.max-count: 1\n")
    tolerant = pipeline.run()
    assert tolerant.code == 0, tolerant.err
    assert kafka.ids(pipeline.out("orders")) == {1, 3}
    assert kafka.end(pipeline.out("orders")) == written + 1
    assert any(event["event"] == "record rejected" for event in tolerant.events)


def test_the_tolerance_counts_over_runs(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(source="  ingestion.ignore-errors: true\n  ingestion.error-tolerance.max-count: 2\n")
    kafka.send(pipeline.topic, (None, b"x"), message("c", None, {"id": 1}), (None, b"y"))
    assert run_here(pipeline).code == 0
    kafka.send(pipeline.topic, message("c", None, {"id": 2}), (None, b"z"), message("c", None, {"id": 3}))
    stopped = run_here(pipeline)
    assert stopped.code == 65
    assert "more records were rejected than tolerated (ingestion.error-tolerance.max-count: 2)" in stopped.err
    assert kafka.ids(pipeline.out("orders")) == {1, 2}


BROKEN = [
    (b'{"op":"c","after":null,"source":{"db":"shop","table":"orders"}}', "no-after"),
    (b'{"op":"x","after":{"id":1},"source":{"db":"shop","table":"orders"}}', "unknown-op"),
    (b'{"op":"c","after":{"id":1},"source":{"db":"shop"}}', "no-table"),
    (b'{"op":"c","after":{"id":null,"v":1},"source":{"db":"shop","table":"orders"}}', "null-key"),
    (b'{"op":"c","after":{"id":2,"v":"\xff"},"source":{"db":"shop","table":"orders"}}', "malformed"),
    (b'{"op":"c","after":{"id":2,"v":NaN},"source":{"db":"shop","table":"orders"}}', "malformed"),
    (b'{"op":"c","after":{"id":2,"v":"\\ud800"},"source":{"db":"shop","table":"orders"}}', "malformed"),
    (b'{"op":"c","after":[1],"source":{"db":"shop","table":"orders"}}', "malformed"),
    (b'{"op":"d","before":null,"source":{"db":"shop","table":"orders"}}', "no-key"),
    (b"[" * 100_000, "malformed"),
    (b"", "malformed"),
]


def test_each_kind_of_reject_has_its_code(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(source="  ingestion.ignore-errors: true\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": None}), *[(None, broken) for broken, _ in BROKEN])
    done = run_here(pipeline)
    assert done.code == 0, done.err
    reasons = [event["reason"] for event in done.events if event["event"] == "record rejected"]
    for offset, (reason, (_, code)) in enumerate(zip(reasons, BROKEN, strict=True), 1):
        assert f"/{code}:" in reason
        assert f"{pipeline.topic}[0] at offset {offset}:" in reason
    assert len(kafka.read(pipeline.out("orders"))) == 1


def test_a_table_whose_topic_cannot_have_its_name_is_rejected(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(source="  ingestion.ignore-errors: true\n", route=False)
    key, name = b'{"id":1}', f"{kafka.name}.plain"
    broken = b'{"op":"c","after":{"id":1},"source":{"db":"a/b","table":"c d"}}'
    kafka.send(pipeline.topic, (key, debezium("c", None, {"id": 1}, name, db="")), (key, broken))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    (rejected,) = [event for event in done.events if event["event"] == "record rejected"]
    assert "/bad-topic-name:" in rejected["reason"]
    assert f"{pipeline.topic}[0] at offset 1" in rejected["reason"]
    assert len(kafka.read(name)) == 1


def test_a_table_without_a_key_says_how_to_give_one(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, (None, debezium("c", None, {"id": 1, "v": 2})))
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "table shop.orders has no primary key" in refused.err
    assert "primary-keys" in refused.err
    rule = "transform:\n  - source-table: shop.orders\n    projection: \\*\n    primary-keys: id, v\n"
    pipeline.write(rest=rule)
    assert run_here(pipeline).code == 0
    assert [record.key for record in kafka.read(pipeline.out("orders"))] == [b'{"id":1,"v":2}']


def test_a_primary_key_that_changes_stops_the_run(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": 1}))
    assert run_here(pipeline).code == 0
    kafka.send(pipeline.topic, (b'{"id":2,"v":1}', debezium("c", None, {"id": 2, "v": 1})))
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "the primary key of table shop.orders changed from (id) to (id, v)" in refused.err
    assert len(kafka.read(pipeline.out("orders"))) == 1


def test_missing_topic_unknown_option_and_foreign_checkpoint_are_one_clear_error_each(
    kafka: Kafka, pipeline: Pipeline
) -> None:
    topic = pipeline.topic
    pipeline.topic = "not-there"
    pipeline.write()
    missing = run_here(pipeline)
    assert missing.code == 78
    assert "topic 'not-there' of source.topic does not exist" in missing.err
    pipeline.topic = topic
    pipeline.write(source="  scan.startup.mod: x\n")
    unknown = run_here(pipeline)
    assert unknown.code == 78
    assert "did you mean 'scan.startup.mode'?" in unknown.err
    pipeline.write(source="  properties.no.such.setting: 1\n")
    setting = run_here(pipeline)
    assert setting.code == 78
    assert "no.such.setting" in setting.err
    for text in (missing.err, unknown.err, setting.err):
        assert "Traceback" not in text
    pipeline.write()
    kafka.send(topic, message("c", None, {"id": 1}))
    assert run_here(pipeline).code == 0
    meta = json.loads((pipeline.checkpoint / "checkpoint.json").read_bytes())
    meta["fingerprint"]["source"]["cluster"] = "another"
    (pipeline.checkpoint / "checkpoint.json").write_text(json.dumps(meta))
    foreign = run_here(pipeline)
    assert foreign.code == 78
    assert "is of a pipeline with another source cluster" in foreign.err


def test_missing_sink_topic_is_an_error_where_it_may_not_be_created(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink="  sink.topic.create: false\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "sink.topic.create is false" in refused.err
    pipeline.write(sink="  properties.allow.auto.create.topics: false\n")
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "properties.allow.auto.create.topics is false" in refused.err
    assert pipeline.out("orders") not in kafka.cluster.names()
    kafka.create(pipeline.out("orders"))
    assert run_here(pipeline).code == 0
    assert kafka.ids(pipeline.out("orders")) == {1}


def test_broker_away_at_the_start_is_75_within_30_seconds(kafka: Kafka, pipeline: Pipeline) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    pipeline.file.write_text(pipeline.file.read_text().replace(kafka.bootstrap, nobody))
    away = pipeline.run()
    assert away.code == 75, away.err
    assert [line for line in away.err.splitlines() if line.startswith("error: ")] != []
    assert nobody in away.err
    assert "Traceback" not in away.err
    said = [event for event in away.events if "; trying until " in event["event"]]
    assert len(said) == 1
    assert said[0]["event"].startswith(f"no answer from the broker at {nobody}: ")
    at, ended = (dt.datetime.fromisoformat(event["time"]) for event in (said[0], away.events[-1]))
    until = dt.datetime.strptime(said[0]["event"][-12:], "%H:%M:%S UTC").replace(tzinfo=dt.UTC)
    left = (until - at) % dt.timedelta(days=1)  # the text has no date
    assert dt.timedelta(seconds=10) < left <= dt.timedelta(seconds=15)  # of the 15 that it waits
    assert ended - at > dt.timedelta(seconds=10)


def test_a_second_run_on_a_checkpoint_is_refused(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    first = pipeline.begin()
    try:
        deadline = time.monotonic() + 60
        while pipeline.out("orders") not in kafka.cluster.names():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        second = run_here(pipeline)
        assert second.code == 73
        assert f"is in use by another run (process {first.pid})" in second.err
    finally:
        first.send_signal(signal.SIGTERM)
        assert finish(first).code == 0


def test_sandbox_commands(sandbox_folder: Path, bootstrap: str) -> None:
    done = called("sandbox", "status", "--dir", str(sandbox_folder), "--format", "json")
    assert done.code == 0, done.err
    status = json.loads(done.out)
    assert status["running"] is True
    assert status["bootstrap"] == bootstrap
    assert os.path.getsize(status["log"]) > 0  # noqa: PTH202
    none = called("sandbox", "status", "--dir", str(sandbox_folder / "nothing"))
    assert none.code == 1
    assert "no sandbox is running" in none.out


def test_many_rejects_in_a_row_and_caps(kafka: Kafka, pipeline: Pipeline) -> None:
    """Tables past the cap are rejects, thousands in one chunk, and what follows them is written."""
    pipeline.write(source="  ingestion.ignore-errors: true\n", rest="pipeline:\n  max-tables: 1\n  max-columns: 3\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    assert run_here(pipeline).code == 0
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}, f"t{i}") for i in range(5000)])
    kafka.send(pipeline.topic, message("c", None, {"id": 2, "a": 1, "b": 1}), message("c", None, {"id": 3, "c": 1}))
    kafka.send(pipeline.topic, message("c", None, {"id": 4}))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert kafka.ids(pipeline.out("orders")) == {1, 2, 4}
    assert done.events[-1]["rejected"] == 5001
    assert "conform/too-many-tables" in done.err
    assert "conform/too-many-columns" in done.err


def test_properties_that_only_a_consumer_or_producer_refuses_are_78(kafka: Kafka, pipeline: Pipeline) -> None:
    for source, sink, why in (
        ("  properties.fetch.min.bytes: many\n", "", "'many' is not a whole number"),
        ("", "  properties.acks: never\n", "'never' is not"),
        ("  properties.max.poll.interval.ms: 5000\n", "", "correct the properties.*"),
        ("", "  properties.delivery.timeout.ms: 5\n  properties.linger.ms: 5000\n", "correct the properties.*"),
    ):
        pipeline.write(source, sink)
        refused = run_here(pipeline)
        assert refused.code == 78, refused.err
        assert why in refused.err
        assert "Traceback" not in refused.err
    assert pipeline.topic in kafka.cluster.names()


def test_parse_errors_that_are_to_be_ignored_do_not_count(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, (b"{}", b"not JSON"), message("c", None, {"id": 1, "v": 1}), (b"{}", b"[1]"))
    cloud = (
        "aliyun.kafka.accessKeyId", "aliyun.kafka.accessKeySecret", "aliyun.kafka.instanceId", "aliyun.kafka.endpoint",
        "aliyun.kafka.regionId",
    )  # fmt: skip
    pipeline.write(
        source="  debezium-json.ignore-parse-errors: true\n  debezium-json.distributed-tables: true\n"
        "  schema.inference.strategy: continuous\n  dew.projectId: p\n",
        sink="".join(f"  {name}: x\n" for name in cloud),
    )
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert "2 parse-error" in done.out
    assert done.events[-1]["rejected"] == 0
    assert len(kafka.table(pipeline.out("orders"))) == 1
    said = " ".join(event["event"] for event in done.events)
    assert "aliyun.kafka.* options have no effect outside that cloud" in said
    assert "dew.projectId has no effect" in said


def test_a_record_that_is_refused_is_a_reject_with_every_guarantee(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": "x" * 5000}), message("c", None, {"id": 2, "v": "y"}))
    out = kafka.create(pipeline.out("orders"), 1, **{"max.message.bytes": "2000", "cleanup.policy": "compact"})
    alone = "  properties.batch.num.messages: 1\n  properties.compression.type: none\n"
    pipeline.write(sink=f"  sink.delivery-guarantee: at-least-once\n{alone}")
    refused = run_here(pipeline)
    assert (refused.code, out in refused.err) == (65, True), refused.err
    pipeline.write("  ingestion.ignore-errors: true\n", f"  sink.delivery-guarantee: none\n{alone}")
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert done.events[-1]["rejected"] == 1
    assert not any("were lost" in event["event"] for event in done.events)
    assert [row["id"] for row in kafka.table(out).values()] == [2]


def test_more_replicas_than_brokers_are_refused(kafka: Kafka, pipeline: Pipeline) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "v": 1}))
    pipeline.write(sink="  sink.topic.replication-factor: 2\n")
    refused = run_here(pipeline)
    assert (refused.code, "cannot create topic" in refused.err) == (78, True), refused.err
