"""Transforms on Spark: what comes out, in order, once, whatever dies; and while the tables change under them."""

from __future__ import annotations

import json
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from commands import run_here
from harness import EXACTLY, debezium, faulty, finish, ids, message, until

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Pipeline

RULES = """\
transform:
  - source-table: shop.orders
    projection: \\*, UPPER(status) AS status, n * 2 AS twice
    filter: n % 10 <> 3
"""


def fill(kafka: Kafka, pipeline: Pipeline, first: int, end: int, partitions: int = 2) -> None:
    """Orders, which the rule is for, and users, which it is not."""
    for partition in range(partitions):
        changes = [
            message("c", None, {"id": i, "status": "new", "n": i}, "orders" if i % 4 else "users")
            for i in range(first, end)
            if i % partitions == partition
        ]
        kafka.send(pipeline.topic, *changes, partition=partition)


def expected(first: int, end: int) -> set[int]:
    return {i for i in range(first, end) if i % 4 and i % 10 != 3}


@pytest.mark.parametrize("guarantee", ["", EXACTLY])
def test_rows_are_changed_and_others_are_not(kafka: Kafka, pipeline: Pipeline, guarantee: str) -> None:
    pipeline.write(sink=guarantee, rest=RULES)
    fill(kafka, pipeline, 0, 3000)
    done = pipeline.run()
    assert done.code == 0, done.err
    fill(kafka, pipeline, 3000, 4000)
    kafka.send(pipeline.topic, *[message("d", {"id": 1, "status": "new", "n": 1}, None)], partition=1)
    done = pipeline.run()
    assert done.code == 0, done.err
    rows = kafka.table(pipeline.out("orders"))
    assert {row["id"] for row in rows.values()} == expected(0, 4000) - {1}
    assert all(row["status"] == "NEW" and row["twice"] == 2 * row["n"] for row in rows.values())
    assert len(ids(kafka, pipeline.out("users"))) == 1000
    assert kafka.table(pipeline.out("users"))['{"id":4}'] == {"id": 4, "status": "new", "n": 4}
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted([*expected(0, 4000), 1])
    filtered = len([i for i in range(3000, 4000) if i % 4 and i % 10 == 3])
    assert ": 1,001 records in" in done.out
    assert f"skipped: {filtered} filter" in done.out


@pytest.mark.parametrize("death", ["before-commit:1", "after-commit:1"])
def test_exactly_once_whatever_dies(kafka: Kafka, pipeline: Pipeline, tmp_path: Path, death: str) -> None:
    pipeline.write(sink=EXACTLY, rest=RULES)
    fill(kafka, pipeline, 0, 1000)
    assert pipeline.run().code == 0
    fill(kafka, pipeline, 1000, 5000)
    done = faulty(pipeline, tmp_path / "faults", worker=death)
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted(expected(0, 5000))
    assert len(ids(kafka, pipeline.out("users"))) == 1250


def test_kill_9_at_random_moments_loses_nothing(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(rest=RULES)
    chance = random.Random(7)
    fill(kafka, pipeline, 0, 20_000)
    for _ in range(4):
        process = pipeline.begin("--once")
        until(lambda run=process: "run started" in run.said(), 60, process)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 6.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = pipeline.run()
    assert done.code == 0, done.err
    assert {row["id"] for row in kafka.table(pipeline.out("orders")).values()} == expected(0, 20_000)
    assert len(kafka.table(pipeline.out("users"))) == 5000


def test_tables_change_under_their_transforms(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(rest=RULES)
    running = pipeline.begin()
    try:
        kafka.send(pipeline.topic, message("c", None, {"id": 1, "status": "a", "n": 1}), partition=0)
        until(lambda: _row(kafka, pipeline, 1) is not None, 60, running)
        kafka.send(pipeline.topic, message("c", None, {"id": 2, "status": "b", "n": 2, "more": [1]}), partition=0)
        until(lambda: _row(kafka, pipeline, 2) is not None, 60, running)
        assert _row(kafka, pipeline, 2) == {"id": 2, "status": "B", "n": 2, "twice": 4, "more": "[1]"}
        kafka.send(pipeline.topic, message("c", None, {"id": 4, "status": "c", "n": 2.5}), partition=0)
        until(lambda: _row(kafka, pipeline, 4) is not None, 60, running)
        assert _row(kafka, pipeline, 4) == {"id": 4, "status": "C", "n": 2.5, "twice": 5.0, "more": None}
        kafka.send(pipeline.topic, message("c", None, {"id": 5, "status": "c", "n": {"no": "number"}}), partition=0)
        said = finish(running)
    finally:
        running.kill()
    assert said.code == 65, said.err
    assert "transform/expression-failed" in said.err
    assert "n % 10 <> 3" in said.err


def _row(kafka: Kafka, pipeline: Pipeline, key: int) -> object:
    try:
        return kafka.table(pipeline.out("orders")).get(f'{{"id":{key}}}')
    except KeyError:
        return None


def test_an_expression_that_a_table_does_not_allow_stops_the_run(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(rest=RULES.replace("UPPER(status)", "UPPER(statsu)"))
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "status": "a", "n": 1}), partition=0)
    done = run_here(pipeline)
    assert done.code == 78, done.err
    assert "transform[0].projection, column 'status', table shop.orders" in done.err
    assert "has no column 'statsu', did you mean 'status'?" in done.err
    assert "in version 1 of the schemas" in done.err
    assert "Traceback" not in done.err + done.out


def test_rejects_of_expressions_are_dead_letters_as_they_came(kafka: Kafka, pipeline: Pipeline) -> None:
    dead = f"{kafka.name}.dead"
    pipeline.write(
        source="  ingestion.ignore-errors: true\n  ingestion.error-tolerance.max-count: 10\n",
        sink=EXACTLY,
        rest="transform: [{source-table: shop.orders, projection: '*, 10 / n AS part'}]\n"
        f"pipeline: {{dirty-data.collector.type: kafka, dirty-data.collector.topic: {dead}}}\n",
    )
    bad = debezium("c", None, {"id": 2, "n": 0})
    kafka.send(pipeline.topic, (b'{"id":1}', debezium("c", None, {"id": 1, "n": 4})), (b'{"id":2}', bad), partition=0)
    kafka.send(pipeline.topic, (b'{"id":3}', b"{"), (b'{"id":4}', debezium("c", None, {"id": 4, "n": 5})), partition=0)
    done = pipeline.run()
    assert done.code == 0, done.err
    assert {row["id"]: row["part"] for row in kafka.table(pipeline.out("orders")).values()} == {1: 2.5, 4: 2.0}
    letters = {record.key: record for record in kafka.read(dead)}
    assert letters.keys() == {b'{"id":2}', b'{"id":3}'}
    assert letters[b'{"id":2}'].value == bad
    headers = dict(letters[b'{"id":2}'].headers)
    assert headers["__ingest.errors.stage"] == b"transform"
    assert b"10 / n" in (headers["__ingest.errors.message"] or b"")
    # One too many stops the run before it, and nothing after it is written
    pipeline.write(sink=EXACTLY, rest="transform: [{source-table: shop.orders, projection: '*, 10 / n AS part'}]\n")
    kafka.send(pipeline.topic, (b'{"id":5}', debezium("c", None, {"id": 5, "n": 1})), partition=0)
    kafka.send(pipeline.topic, (b'{"id":6}', bad), (b'{"id":7}', debezium("c", None, {"id": 7, "n": 1})), partition=0)
    done = pipeline.run()
    assert done.code == 65, done.err
    assert f"{pipeline.topic}[0] at offset 5" in done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [1, 4, 5]
    assert json.loads(bad)["after"] == {"id": 2, "n": 0}


def test_merged_tables_stay_merged_across_restarts(kafka: Kafka, pipeline: Pipeline) -> None:
    rule = (
        f"route: [{{source-table: 'shop\\d+\\.orders', sink-table: {pipeline.prefix}.orders}}]\n"
        "transform:\n  - source-table: 'shop\\d+\\.orders'\n"
        "    projection: \\*, n + 1 AS next, __schema_name__ || '/' || id AS key\n    primary-keys: key\n"
    )
    pipeline.write(route=False, rest=rule)

    def send(*rows: tuple[str, dict[str, object]]) -> None:
        changes = [debezium("c", None, row, db=db) for db, row in rows]
        kafka.send(pipeline.topic, *[(f'{{"id":{json.loads(c)["after"]["id"]}}}'.encode(), c) for c in changes])

    send(("shop1", {"id": 1, "n": 1}), ("shop2", {"id": 1, "n": 2.5, "more": "x"}))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    first = {
        "shop1/1": {"id": 1, "n": 1, "next": 2, "key": "shop1/1", "more": None},
        "shop2/1": {"id": 1, "n": 2.5, "next": 3.5, "key": "shop2/1", "more": "x"},
    }
    assert {row["key"]: row for row in kafka.table(pipeline.out("orders")).values()} == first
    # What only the second shard has, the first one's rows have as well after a restart; a third widens a column
    send(("shop1", {"id": 2, "n": 3}), ("shop3", {"id": 1, "n": 4, "more": 5}))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    rows = {row["key"]: row for row in kafka.table(pipeline.out("orders")).values()}
    assert rows["shop1/2"] == {"id": 2, "n": 3, "next": 4, "key": "shop1/2", "more": None}
    assert rows["shop3/1"] == {"id": 1, "n": 4, "next": 5, "key": "shop3/1", "more": "5"}
    assert {name: rows[name] for name in first} == first


def test_rows_that_wait_beside_spark_are_gone_when_they_are_written(
    kafka: Kafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    pipeline.write(rest=RULES)
    fill(kafka, pipeline, 0, 100)
    process = pipeline.start("--conf", f"spark.local.dir={scratch}")
    topic = pipeline.out("orders")

    def written(count: int) -> bool:
        return kafka.end(topic) >= count and len(kafka.table(topic)) == count

    until(lambda: written(len(expected(0, 100))), 60, process)
    fill(kafka, pipeline, 100, 20_000)
    until(lambda: written(len(expected(0, 20_000))), 60, process)
    assert [*scratch.rglob("blockmgr-*")]
    until(lambda: not [*scratch.rglob("ingest-*")], 60, process)
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 0
