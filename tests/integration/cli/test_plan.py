"""`ingest plan`: what a run would do, and nothing of it is done."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from commands import run_here
from harness import EXACTLY, debezium, message

from ingest.kafka.admin import Cluster
from ingest.native import native

if TYPE_CHECKING:
    from harness import Kafka, Pipeline, Result

RULES = "transform: [{source-table: shop.orders, projection: '\\*, n * 2 AS twice', filter: n > 0}]\n"


def test_tables_topics_and_changes_are_shown_and_nothing_is_written(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(rest=RULES)
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "n": 1}), message("c", None, {"id": 2}, "users"))
    shown = pipeline.plan()
    assert shown.code == 0, shown.err
    assert f"shop.orders (new) -> {pipeline.out('orders')}, transform[0]" in shown.out
    assert "twice  BIGINT" in shown.out
    assert f"    {pipeline.out('users')}\n" in shown.out
    assert not pipeline.checkpoint.exists()
    assert not Cluster({"bootstrap.servers": kafka.bootstrap}).topics([pipeline.out("orders")])

    ran = run_here(pipeline)
    assert ran.code == 0
    (began,) = [event for event in ran.events if event["event"] == "run started"]
    assert began["native"] is native.BUILT
    kafka.send(pipeline.topic, message("c", None, {"id": 3, "n": 1.5, "more": "x"}))
    before = sorted(path.name for path in pipeline.checkpoint.rglob("*"))
    found = json.loads(pipeline.plan("--format", "json").out)
    assert found["waiting"] == 1
    assert found["new_topics"] == []
    assert set(found["changes"]) == {
        f"{pipeline.out('orders')}> ADD COLUMN more STRING",
        f"{pipeline.out('orders')}> ALTER COLUMN n BIGINT -> DOUBLE",
        f"{pipeline.out('orders')}> ALTER COLUMN twice BIGINT -> DOUBLE",
    }
    (orders,) = [table for table in found["tables"] if table["table"] == "shop.orders"]
    assert orders["known"]
    assert orders["primary_key"] == ["id"]
    assert {"name": "twice", "type": "DOUBLE", "nullable": True} in orders["columns"]
    assert sorted(path.name for path in pipeline.checkpoint.rglob("*")) == before


def test_a_wrong_expression_is_marked_in_the_file(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(rest="transform:\n  - source-table: shop.orders\n    filter: n > 0 AND n = TRUE\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1, "n": 1}))
    shown = pipeline.plan()
    assert shown.code == 78
    lines = shown.err.splitlines()
    where = next(i for i, line in enumerate(lines) if "error: transform[0].filter, table shop.orders" in line)
    assert lines[where].startswith(f"{pipeline.file}:")
    assert 'Cannot resolve "(n = true)" due to data type mismatch' in lines[where]
    assert lines[where + 2].strip("| ") == "^" * len("n > 0 AND n = TRUE")
    assert "Traceback" not in shown.err


def test_what_refuses_a_run_refuses_a_plan(kafka: Kafka, pipeline: Pipeline) -> None:
    """What only a broker shows; `tests/unit/testing/test_plan.py` has the rest."""
    cluster = Cluster({"bootstrap.servers": kafka.bootstrap})

    def planned(*records: tuple[bytes | None, bytes | None], also_run: bool = False, **parts: Any) -> Result:
        pipeline.topic = kafka.create(f"{kafka.name}.{time.monotonic_ns()}")
        pipeline.checkpoint = pipeline.checkpoint.with_name(pipeline.topic)
        pipeline.prefix = f"{pipeline.topic}.out"
        edit = parts.pop("edit", lambda text: text)
        pipeline.write(**parts)
        pipeline.file.write_text(edit(pipeline.file.read_text()))
        kafka.send(pipeline.topic, *records)
        before = {name for name in cluster.names() if not name.startswith("__")}
        found = pipeline.plan()
        assert {name for name in cluster.names() if not name.startswith("__")} == before
        assert not pipeline.checkpoint.exists()
        if also_run:
            ran = run_here(pipeline)
            assert (found.code, found.err) == (ran.code, "".join(f"{s}\n" for s in ran.err.splitlines() if s[0] != "{"))
        return found

    good = message("c", None, {"id": 1, "n": 1})
    kept = "pipeline:\n  dirty-data.collector: {type: kafka, topic: TOPIC}\n"
    loop = planned(good, edit=lambda text: text.replace(f"{pipeline.prefix}.<>", pipeline.topic), also_run=True)
    assert loop.code == 78
    assert "reads what it writes" in loop.err
    own = planned(good, rest=kept, edit=lambda text: text.replace("TOPIC", pipeline.topic))
    assert (own.code, "reads its own dead letters" in own.err) == (78, True)
    dirty = planned(good, (None, b"{"), good)
    assert dirty.code == 65
    assert f"decode/malformed: 1 record, the first {pipeline.topic}[0] at offset 1" in dirty.out
    keyless = planned(good, (None, debezium("c", None, {"n": 1}, "audit")))
    assert keyless.code == 78
    assert "tables without a primary key:\n    table shop.audit has no primary key" in keyless.out
    missing = planned(good, sink="  sink.topic.create: false\n")
    assert (missing.code, "sink.topic.create is false" in missing.err) == (78, True)
    assert planned(good, sink="  sink.topic.replication-factor: 9\n", also_run=True).code != 0, "only brokers know"
    good_one = planned(good, sink=EXACTLY, rest=kept.replace("TOPIC", f"{kafka.name}.dead"))
    assert good_one.code == 0, good_one.err
