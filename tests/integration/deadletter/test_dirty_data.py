"""Rejects in a real topic of dead letters, and back through the pipeline."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest
from commands import called, run_here
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from harness import INGEST, Kafka, Pipeline, debezium, finish, message, until

PREFIX = "__ingest.errors."
UNAVAILABLE = "__debezium_unavailable_value"


def collector(kafka: Kafka, more: str = "") -> str:
    return f"pipeline:\n  dirty-data.collector:\n    type: kafka\n    topic: {kafka.name}.dead\n{more}"


def said(headers: list[tuple[str, bytes]]) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value.decode() for name, value in headers if name.startswith(PREFIX)}


def replay(pipeline: Pipeline, *arguments: str) -> Any:
    command = [INGEST, "replay", str(pipeline.file), "--checkpoint", str(pipeline.checkpoint), "--master", "local[2]"]
    return pipeline.finished([*command, *arguments], pipeline.java)


def test_a_record_as_large_as_the_brokers_take_becomes_a_dead_letter(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write("  ingestion.ignore-errors: true\n", rest=collector(kafka))
    producer = kafka.producer(**{"message.max.bytes": 2_000_000})
    value = random.Random(7).randbytes(1_048_450)
    producer.produce(pipeline.topic, value, b"k", partition=0)
    assert producer.flush(20) == 0
    ran = run_here(pipeline)
    assert ran.code == 0, ran.err
    (letter,) = kafka.read(f"{kafka.name}.dead")
    assert letter.value == value


def checkpoint(pipeline: Pipeline) -> list[str]:
    return ["--checkpoint", str(pipeline.checkpoint)]


def command(pipeline: Pipeline, *arguments: str) -> Any:
    """What a command says of the pipeline, in JSON."""
    done = called(*arguments, str(pipeline.file), "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def look(pipeline: Pipeline) -> None:
    """Look at the three letters of the test below, and at what a replay would take; change nothing."""
    listed = command(pipeline, "letters", "list")
    assert {(found["table"], found["stage"], found["code"]) for found in listed} == {
        (None, "decode", "malformed"), ("shop.orders", "decode", "unavailable-value"),
        ("shop.users", "decode", "unavailable-value"),
    }  # fmt: skip
    since = str(int(time.time() * 1000) - 60_000)
    (one,) = command(pipeline, "letters", "list", "--code", "malformed", "--since", since)
    assert (one["topic"], one["partition"], one["offset"]) == (pipeline.topic, 1, 0)
    assert command(pipeline, "letters", "list", "--until", "2020-01-01") == []
    assert len(command(pipeline, "letters", "list", "--table", r"shop.\.*", "--limit", "1")) == 1
    show = ["letters", "show", str(pipeline.file)]
    shown = called(*show, one["letter"]).out
    assert f"from:      {pipeline.topic}[1] at offset 0\n" in shown
    assert "header:    h: v\nkey:       \\x00key\nvalue:     {\n" in shown
    exact = json.loads(called(*show, one["letter"], "--format", "json").out)
    assert (exact["key"], exact["key_base64"]) == ("\x00key", "AGtleQ==")
    assert exact["headers"] == [{"name": "h", "value": "v", "value_base64": "dg=="}]
    refused = called(*show, "0:999")
    assert refused.code == 78
    assert "no dead letter of pipeline pipe at offset 999" in refused.err
    before = sorted(path.name for path in pipeline.checkpoint.rglob("*"))
    counts = command(pipeline, "replay", "--dry-run", *checkpoint(pipeline))
    assert {(found["table"], found["code"], found["topic"], found["count"]) for found in counts} == {
        (None, "malformed", pipeline.topic, 1), ("shop.orders", "unavailable-value", pipeline.topic, 1),
        ("shop.users", "unavailable-value", pipeline.topic, 1),
    }  # fmt: skip
    assert sorted(path.name for path in pipeline.checkpoint.rglob("*")) == before


def test_dead_letters_are_the_records_as_they_were_and_can_be_replayed_once(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write("  ingestion.ignore-errors: true\n", rest=collector(kafka))
    producer = kafka.producer()
    made = int(time.time() * 1000) - 60_000  # not older than the topic's retention
    producer.produce(pipeline.topic, b"{", b"\x00key", partition=1, headers=[("h", b"v")], timestamp=made)
    for number in (1, 2):
        key, value = message("c", None, {"id": number, "t": UNAVAILABLE if number == 2 else "x"})
        producer.produce(pipeline.topic, value, key, partition=0)
    bad = debezium("c", None, {"id": 3, "t": UNAVAILABLE}, table="users")
    producer.produce(pipeline.topic, bad, b'{"id":3}', partition=0)
    assert producer.flush(20) == 0

    ran = run_here(pipeline)
    assert ran.code == 0, ran.err
    assert kafka.table(pipeline.out("orders")) == {'{"id":1}': {"id": 1, "t": "x"}}
    letters = kafka.read(f"{kafka.name}.dead")
    assert len(letters) == 3
    broken = next(letter for letter in letters if letter.value == b"{")
    assert broken.key == b"\x00key"
    assert broken.headers[0] == ("h", b"v")
    assert broken.timestamp == made
    about = said(broken.headers)
    assert about.pop("time").isdigit()
    assert about == {
        "topic": pipeline.topic, "partition": "1", "offset": "0", "stage": "decode", "code": "malformed",
        "message": "not a Debezium message: truncated, or a lone surrogate", "table": "", "pipeline": "pipe",
    }  # fmt: skip
    assert run_here(pipeline).code == 0
    assert len(kafka.read(f"{kafka.name}.dead")) == 3, "what is passed is not collected again"

    look(pipeline)

    # Nothing was mended yet: it is rejected again, as a new letter that knows where the record came from first
    again = replay(pipeline, "--table", r"shop.o\.*")
    assert again.code == 0, again.err
    letters = kafka.read(f"{kafka.name}.dead")
    assert len(letters) == 4
    newest = max(letters, key=lambda letter: (said(letter.headers)["time"], letter.offset))
    assert said(newest.headers)["table"] == "shop.orders"
    assert (said(newest.headers)["topic"], said(newest.headers)["offset"]) == (pipeline.topic, "1")

    pipeline.write(
        "  ingestion.ignore-errors: true\n  debezium-json.unavailable-value: keep\n  metadata.list: offset\n",
        rest=collector(kafka),
    )
    mended = replay(pipeline, "--code", "unavailable-value")
    assert mended.code == 0, mended.err
    assert "2 records" in mended.out
    assert kafka.table(pipeline.out("orders"))['{"id":2}'] == {"id": 2, "t": UNAVAILABLE, "offset": 1}
    assert kafka.table(pipeline.out("users")) == {'{"id":3}': {"id": 3, "t": UNAVAILABLE, "offset": 2}}
    assert len(kafka.read(f"{kafka.name}.dead")) == 4

    before = kafka.end(pipeline.out("orders"))
    assert command(pipeline, "replay", "--dry-run", "--code", "unavailable-value", *checkpoint(pipeline)) == [], (
        "they were replayed"
    )
    nothing = replay(pipeline, "--code", "unavailable-value")
    assert (nothing.code, kafka.end(pipeline.out("orders"))) == (0, before), "a letter is replayed once"
    rest = replay(pipeline)
    assert rest.code == 0, rest.err
    assert len(kafka.read(f"{kafka.name}.dead")) == 5, "only the broken one was left, and is broken still"

    assert (
        "ADD COLUMN offset BIGINT" in called("schema", "history", str(pipeline.checkpoint), pipeline.out("orders")).out
    )
    found = json.loads(
        called("schema", "show", str(pipeline.checkpoint), "shop.users", "--observed", "--format", "json").out
    )
    assert found[0]["primary_key"] == ["id"]
    assert {"name": "offset", "type": "BIGINT", "nullable": True} in found[0]["columns"]


def test_a_replay_waits_for_nobody_and_disturbs_nobody(kafka: Kafka, pipeline: Pipeline) -> None:
    assert replay(pipeline).code == 78, "no collector"
    pipeline.write(rest=collector(kafka))
    assert replay(pipeline).code == 78, "never ran"
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    process = pipeline.begin()
    until(lambda: pipeline.out("orders") in kafka.cluster.topics([pipeline.out("orders")]), 90, process)
    refused = replay(pipeline)
    assert refused.code == 73
    assert "in use by another run" in refused.err
    process.terminate()
    assert finish(process).code == 0
    assert replay(pipeline).code == 0, "nothing to do"


def test_dead_letters_of_a_pipeline_that_is_tolerant_to_nothing_and_that_would_read_them(
    kafka: Kafka, pipeline: Pipeline
) -> None:
    pipeline.write(rest=collector(kafka))
    kafka.send(pipeline.topic, (None, b"{"))
    stopped = run_here(pipeline)
    assert stopped.code == 65
    assert kafka.read(f"{kafka.name}.dead") == [], "it is not passed: the next run meets it again"
    pipeline.write(rest=collector(kafka).replace(f"{kafka.name}.dead", pipeline.topic))
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "reads its own dead letters" in refused.err


def test_the_logger_has_every_reject(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write("  ingestion.ignore-errors: true\n", rest="pipeline: {dirty-data.collector: {type: logger}}\n")
    kafka.send(pipeline.topic, *[(b"k", b"{%d" % n) for n in range(300)])
    ran = run_here(pipeline)
    assert ran.code == 0, ran.err
    logged = [event for event in ran.events if event["event"] == "dirty data"]
    assert [event["offset"] for event in logged] == [*range(300)]
    assert logged[0] | {"time": ""} == {
        "event": "dirty data", "level": "warning", "time": "", "topic": pipeline.topic, "partition": 0, "offset": 0,
        "stage": "decode", "code": "malformed", "table": "", "key": "k", "value": "{0", "passed": True,
        "message": logged[0]["message"],
    }  # fmt: skip


def test_letters_of_another_cluster_and_a_print_sink(kafka: Kafka, pipeline: Pipeline) -> None:
    more = f"    properties:\n      bootstrap.servers: {kafka.bootstrap}\n"
    text = pipeline.file.read_text().partition("sink:")[0]
    pipeline.file.write_text(
        f"{text}  ingestion.ignore-errors: true\n  value.format: json\nsink: {{type: print}}\n{collector(kafka, more)}"
    )
    kafka.send(pipeline.topic, (None, b'{"a":1}'), (None, b"["))
    ran = pipeline.run()
    assert ran.code == 0, ran.err
    assert f"{pipeline.topic}> CREATE TABLE (a BIGINT)\n{pipeline.topic}> +I[1]\n" in ran.out
    assert [letter.value for letter in kafka.read(f"{kafka.name}.dead")] == [b"["]


LARGE = "x" * 30_000
NATIVE_OFF = {"INGEST_NATIVE": "off"}
EXACTLY = "  sink.delivery-guarantee: exactly-once\n"
NONE = "  sink.delivery-guarantee: none\n"
SMALL = {"max.message.bytes": "5000"}
PLAIN = "  properties.compression.type: none\n"
TRANSFORM = "transform:\n  - source-table: \\.*\n    projection: \\*, id + 0 AS same\n"


def rows_and_large(kafka: Kafka, pipeline: Pipeline) -> None:
    """Send 300 rows, of which three are large, and one is an update that makes a row large."""
    rows = [{"id": i, "t": LARGE if i in {7, 8, 250} else f"t{i}"} for i in range(300)]
    updates = [message("u", {"id": 20, "t": "t20"}, {"id": 20, "t": text}) for text in (LARGE, "last")]
    kafka.send(pipeline.topic, *[message("c", None, row) for row in rows], *updates)


@pytest.mark.parametrize(("more", "rest", "env"), [
    ("", "", None), (EXACTLY, "", None), (EXACTLY, "", NATIVE_OFF), (NONE, "", NATIVE_OFF), (EXACTLY, TRANSFORM, None),
], ids=["native", "transactions", "reference-transactions", "reference", "transforms"])  # fmt: skip
def test_records_that_a_topic_does_not_take_are_rejects_and_all_others_arrive(
    kafka: Kafka, pipeline: Pipeline, more: str, rest: str, env: dict[str, str] | None
) -> None:
    out, dead = pipeline.out("orders"), f"{kafka.name}.dead"
    for topic in (out, dead):
        kafka.create(topic, 2, **SMALL, **({"cleanup.policy": "compact"} if topic == out else {}))
    pipeline.write("  ingestion.ignore-errors: true\n", f"{PLAIN}{more}", collector(kafka) + rest)
    rows_and_large(kafka, pipeline)
    done = pipeline.run(env=env)
    assert done.code == 0, done.err
    table = kafka.table(out)
    assert {row["id"] for row in table.values()} == {*range(300)} - {7, 8, 250}
    assert table['{"id":20}']["t"] == "last"
    if more == EXACTLY:
        assert len(kafka.read(out)) == 298, "each change once"
    letters = [letter for letter in kafka.read(dead) if letter.value is None]
    found = sorted(int(said(letter.headers)["offset"]) for letter in letters)
    assert found == [7, 8, 250, 300] if more == EXACTLY else {*found} == {7, 8, 250, 300}
    about = said(letters[0].headers)
    assert (about["stage"], about["code"], about["left-out"]) == ("write", "refused", "value")
    assert about["table"] == "shop.orders"
    assert f"topic {out} does not take a record larger than its max.message.bytes" in about["message"]
    assert "(30,0" in about["message"]
    if rest or env is not None or not more:
        return
    # What has no value in its letter comes from where it was read, or is gone
    shown = called("letters", "show", str(pipeline.file), f"{letters[-1].partition}:{letters[-1].offset}")
    assert LARGE in shown.out
    assert "left out:  value: the topic of dead letters did not take it; the record is read from there" in shown.out
    larger = ConfigEntry("max.message.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
    room = ConfigResource("topic", out, incremental_configs=[larger])
    kafka.admin.incremental_alter_configs([room])[room].result(10)
    gone = TopicPartition(pipeline.topic, 0, 100)
    kafka.admin.delete_records([gone])[gone].result(10)
    again = replay(pipeline)
    assert again.code == 0, again.err
    table = kafka.table(out)
    assert table['{"id":250}']["t"] == LARGE
    assert {7, 8}.isdisjoint(row["id"] for row in table.values())
    assert again.err.count("decode/gone: the letter was written without its value, and the record is not where") >= 2


@pytest.mark.parametrize("more", ["", EXACTLY], ids=["at-least-once", "exactly-once"])
def test_records_of_times_that_a_topic_does_not_take_are_rejects(kafka: Kafka, pipeline: Pipeline, more: str) -> None:
    limits = {"message.timestamp.before.max.ms": "86400000", "message.timestamp.after.max.ms": "86400000"}
    out, dead = pipeline.out("orders"), f"{kafka.name}.dead"
    kafka.create(out, 1, **limits, **{"cleanup.policy": "compact"})
    kafka.create(dead, 1, **limits)
    times = "  metadata.list: timestamp\n"
    pipeline.write(f"  ingestion.ignore-errors: true\n{times}", f"{times}{more}", collector(kafka))
    now, old = int(time.time() * 1000), 1_600_000_000_000
    producer = kafka.producer()
    for i in range(30):
        key, value = message("c", None, {"id": i})
        producer.produce(pipeline.topic, value, key, partition=0, timestamp=old if i in {3, 17} else now)
    assert producer.flush(20) == 0
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert kafka.ids(out) == {*range(30)} - {3, 17}
    if more:
        assert len(kafka.read(out)) == 28, "each change once"
    letters = {int(said(letter.headers)["offset"]): letter for letter in kafka.read(dead)}
    assert letters.keys() == {3, 17}
    about = said(letters[3].headers)
    assert (about["code"], about["timestamp"]) == ("refused", str(old))
    assert f"topic {out} does not take a record of such a time" in about["message"]
    assert letters[3].value == message("c", None, {"id": 3})[1], "only its time is left out"
    wide = ConfigEntry("message.timestamp.before.max.ms", str(2**62), incremental_operation=AlterConfigOpType.SET)
    room = ConfigResource("topic", out, incremental_configs=[wide])
    kafka.admin.incremental_alter_configs([room])[room].result(10)
    again = replay(pipeline)
    assert again.code == 0, again.err
    assert {r.timestamp for r in kafka.read(out) if json.loads(r.value or b"{}")["id"] in {3, 17}} == {old}


def test_one_record_too_large_stops_a_run_that_tolerates_none(kafka: Kafka, pipeline: Pipeline) -> None:
    out = kafka.create(pipeline.out("orders"), 1, **SMALL, **{"cleanup.policy": "compact"})
    pipeline.write(sink=PLAIN)
    rows_and_large(kafka, pipeline)
    done = run_here(pipeline)
    assert done.code == 65, done.err
    assert f"{pipeline.topic}[0] at offset 7: write/refused: topic {out} does not take" in done.err
    assert "(table shop.orders)" in done.err
    assert {row["id"] for row in kafka.table(out).values()} >= {*range(7)}
    shown = json.loads(called("checkpoint", "show", str(pipeline.checkpoint), "--format", "json").out)
    assert [at["offset"] for at in shown["positions"]] == [7, 0]


def test_records_without_keys_in_a_compacted_topic_are_rejects_and_so_are_those_that_the_client_refuses(
    kafka: Kafka, pipeline: Pipeline
) -> None:
    out = kafka.create(pipeline.out("orders"), 1, **{"cleanup.policy": "compact"})
    pipeline.write("  ingestion.ignore-errors: true\n", rest=collector(kafka))
    pipeline.file.write_text(pipeline.file.read_text().replace("type: upsert-kafka", "type: kafka"))
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(20)])
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert not kafka.read(out)
    letters = kafka.read(f"{kafka.name}.dead")
    assert {int(said(letter.headers)["offset"]) for letter in letters} == {*range(20)}
    assert "one without a key, where it is compacted" in said(letters[0].headers)["message"]
    assert all(letter.value for letter in letters)
    pipeline.write("  ingestion.ignore-errors: true\n", "  properties.message.max.bytes: 5000\n", collector(kafka))
    rows_and_large(kafka, pipeline)
    pipeline.checkpoint = pipeline.checkpoint.with_name("another")
    done = run_here(pipeline)
    assert done.code == 0, done.err
    table = kafka.table(out).values()
    assert {row["id"] for row in table} == {*range(300)} - {250}
    assert all(row.get("t") != LARGE for row in table)
    assert "raise properties.message.max.bytes" not in done.err
