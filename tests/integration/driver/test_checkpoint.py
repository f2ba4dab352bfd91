"""Checkpoints as operators meet them: shown, reset, exported, kept while the pipeline file changes, and on Hadoop."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from commands import called, run_here
from confluent_kafka.admin import NewTopic
from harness import INGEST, Kafka, Pipeline, Result, finish, message, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def command(*arguments: object) -> Result:
    return called("checkpoint", *map(str, arguments))


def shown(*arguments: object, by: Callable[..., Result] = command) -> dict[str, Any]:
    done = by("show", *arguments, "--format", "json")
    assert done.code == 0, done.err
    value: dict[str, Any] = json.loads(done.out)
    return value


def feed(kafka: Kafka, pipeline: Pipeline, first: int, last: int, partition: int = 0) -> None:
    messages = [message("c", None, {"id": i, "v": i}) for i in range(first, last)]
    kafka.send(pipeline.topic, *messages, partition=partition)


def test_show_reset_and_export(kafka: Kafka, pipeline: Pipeline) -> None:
    at = ("--checkpoint", pipeline.checkpoint)
    none = command("show", pipeline.checkpoint)
    assert (none.code, "there is no checkpoint at" in none.err) == (78, True)
    feed(kafka, pipeline, 0, 10)
    feed(kafka, pipeline, 10, 15, partition=1)
    kafka.send(pipeline.topic, (b"{}", b"not JSON"))
    pipeline.write(source="  ingestion.ignore-errors: true\n")
    first = run_here(pipeline)
    assert first.code == 0, first.err
    feed(kafka, pipeline, 20, 23)

    value = shown(pipeline.file, *at)
    assert [(p["partition"], p["offset"], p["end"], p["lag"]) for p in value["positions"]] == [
        (0, 11, 14, 3),
        (1, 5, 5, 0),
    ]
    assert (value["errors"], value["tables"], value["unfinished_batch"]) == (1, 1, None)
    offline = shown(pipeline.checkpoint)  # without the file there is no way to the cluster
    assert [(p["offset"], p["lag"]) for p in offline["positions"]] == [(11, None), (5, None)]
    text = command("show", pipeline.file, *at).out
    assert f"{pipeline.topic}          0      11   14    3" in text
    assert "1 error counted" in text

    before = shown(pipeline.checkpoint)
    one = ("--topic", pipeline.topic, "--partition", 1)
    dry = command("reset", pipeline.file, *at, "--to", "earliest", "--dry-run")
    assert f"{pipeline.topic}[0]: 11 -> 0, 11 offsets are read again" in dry.out
    assert "nothing was changed" in dry.out
    assert shown(pipeline.checkpoint) == before
    for arguments, why in (
        (("--to", "offset:99", *one), "holds offsets 0 to 5, not 99"),
        (("--to", "offset:1"), "would set 2 partitions"),
        (("--to", "earliest", "--topic", "nope"), "no position of topic nope"),
    ):
        refused = command("reset", pipeline.file, *at, *arguments)
        assert (refused.code, why in refused.err) == (78, True), refused.err
    assert command("reset", pipeline.checkpoint, "--to", "latest").code == 78
    assert command("reset", pipeline.checkpoint).code == 2
    assert command("reset", pipeline.checkpoint, "--to", "soon").code == 2

    assert command("reset", pipeline.checkpoint, "--to", "offset:3", *one).code == 0
    assert [p["offset"] for p in shown(pipeline.checkpoint)["positions"]] == [11, 3]
    done = run_here(pipeline)
    assert (done.code, done.events[-1]["records"]) == (0, 2 + 3)
    assert [p["offset"] for p in shown(pipeline.checkpoint)["positions"]] == [14, 5]
    assert command("reset", pipeline.checkpoint, "--errors").code == 0
    assert shown(pipeline.checkpoint)["errors"] == 0
    assert command("reset", pipeline.file, *at, "--to", "timestamp:2100-01-01").code == 0
    assert [p["offset"] for p in shown(pipeline.checkpoint)["positions"]] == [14, 5]
    assert command("reset", pipeline.file, *at, "--to", "2001-01-01T00:00:00Z").code == 0
    assert [p["offset"] for p in shown(pipeline.checkpoint)["positions"]] == [0, 0]
    exported = command("export", pipeline.checkpoint, "--format", "offsets").out.strip()
    assert exported == f"topic:{pipeline.topic},partition:0,offset:0;topic:{pipeline.topic},partition:1,offset:0"
    assert json.loads(command("export", pipeline.checkpoint).out)["id"] == before["id"]


def test_a_checkpoint_in_use_is_not_reset_and_a_recreated_topic_can_be_accepted(
    kafka: Kafka, pipeline: Pipeline
) -> None:
    feed(kafka, pipeline, 0, 5)
    running = pipeline.begin()
    out = pipeline.out("orders")
    until(lambda: out in kafka.cluster.names() and kafka.end(out) >= 5, 60, running)
    refused = command("reset", pipeline.checkpoint, "--errors")
    assert (refused.code, "is in use by another run" in refused.err) == (73, True)
    assert shown(pipeline.checkpoint)["batch"] >= 0  # looking is always possible
    running.terminate()
    assert finish(running).code == 0
    kafka.admin.delete_topics([pipeline.topic])[pipeline.topic].result(10)
    assert kafka.cluster.wait_until(lambda: pipeline.topic not in kafka.cluster.names(), 10)
    kafka.admin.create_topics([NewTopic(pipeline.topic, 3, 1)])[pipeline.topic].result(10)
    feed(kafka, pipeline, 100, 103)
    stopped = run_here(pipeline)
    assert (stopped.code, "created again" in stopped.err) == (1, True)
    reset = ("reset", pipeline.file, "--checkpoint", pipeline.checkpoint, "--to", "earliest")
    part = command(*reset, "--topic", pipeline.topic, "--partition", "0")  # the others' positions are of the old topic
    assert (part.code, "leave out --partition" in part.err) == (78, True)
    assert run_here(pipeline).code == 1
    done = command(*reset)
    assert done.code == 0, done.err
    again = run_here(pipeline)
    assert again.code == 0, again.err
    assert again.events[-1]["records"] == 3


def test_a_pipeline_file_may_change_under_its_checkpoint(kafka: Kafka, pipeline: Pipeline) -> None:
    feed(kafka, pipeline, 0, 3)
    assert run_here(pipeline).code == 0
    other = kafka.create(f"{kafka.name}.more", 1)
    pipeline.topic = f"{pipeline.topic};{other}"
    kafka.send(other, message("c", None, {"id": 50, "v": 1}))
    pipeline.write(
        source="  properties.sasl.password: hunter2hunter2\n", sink="  sink.add-tableId-to-header-enabled: true\n",
        rest="pipeline: {parallelism: 1}\n",
    )  # fmt: skip
    done = run_here(pipeline)
    assert done.code == 0, done.err
    changed = {e["option"]: (e["before"], e["now"]) for e in done.events if e["event"] == "option changed"}
    assert changed["source.topic"] == (pipeline.topic.partition(";")[0], pipeline.topic)
    assert changed["sink.sink.add-tableId-to-header-enabled"] == (None, "true")
    assert changed["pipeline.parallelism"] == (None, "1")
    assert changed["source.properties.sasl.password"] == (None, "********")
    assert "hunter2" not in "".join(p.read_text() for p in pipeline.checkpoint.rglob("*") if p.is_file())
    assert done.events[-1]["records"] == 1
    assert len(shown(pipeline.checkpoint)["positions"]) == 3


def test_a_checkpoint_on_a_file_system_of_hadoop(tmp_path: Path, kafka: Kafka, pipeline: Pipeline) -> None:
    conf = ("--conf", f"spark.hadoop.fs.viewfs.mounttable.c.link./ck=file://{tmp_path}/mounted")
    (tmp_path / "mounted").mkdir()
    place = "viewfs://c/ck/pipe"
    where = ("--checkpoint", place, *conf)

    def run() -> Result:
        return pipeline.finished(pipeline.command("--once", *where), pipeline.java)

    def with_spark(*arguments: object) -> Result:
        return pipeline.finished([INGEST, "checkpoint", *map(str, arguments)], pipeline.java)

    feed(kafka, pipeline, 0, 5)
    first = run()
    assert first.code == 0, first.err
    feed(kafka, pipeline, 5, 7)
    second = run()
    assert (second.code, second.events[-1]["records"]) == (0, 2), second.err
    assert not pipeline.checkpoint.exists()
    assert (tmp_path / "mounted" / "pipe" / "checkpoint.json").is_file()
    value = shown(pipeline.file, *where, by=with_spark)
    assert [(p["offset"], p["lag"]) for p in value["positions"]] == [(7, 0), (0, 0)]
    # Nobody can be kept out there: the newer run takes over, and the older one notices before it plans
    old = pipeline.start(*where)
    until(lambda: shown_runs(tmp_path) >= 3, 60, old)
    time.sleep(3)
    new = run()
    assert new.code == 0, new.err
    feed(kafka, pipeline, 7, 9)
    fenced = finish(old)
    assert (fenced.code, "taken over by a newer run" in fenced.err) == (78, True), fenced.err
    last = run()
    assert (last.code, last.events[-1]["records"]) == (0, 2)
    gone = with_spark("show", "viewfs://c/ck/nothing", *conf)
    assert (gone.code, "there is no checkpoint" in gone.err) == (78, True), gone.err
    unknown = with_spark("show", "nope://c/ck")
    assert (unknown.code, "Spark has no file system 'nope'" in unknown.err) == (78, True), unknown.err


def shown_runs(tmp_path: Path) -> int:
    return len([*(tmp_path / "mounted" / "pipe" / "runs").glob("[0-9]*")])
