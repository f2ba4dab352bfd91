"""Exactly-once into Kafka: what is visible, what is remembered, who is let in; with deaths at the worst points."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from brokers import broker
from commands import called, run_here
from confluent_kafka import Producer, TopicPartition
from harness import EXACTLY, Kafka, debezium, faulty, finish, ids, message, until

from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Pipeline, Result


def fill(kafka: Kafka, pipeline: Pipeline, first: int, end: int, partitions: int = 2) -> None:
    for partition in range(partitions):
        changes = [message("c", None, {"id": i}) for i in range(first, end) if i % partitions == partition]
        kafka.send(pipeline.topic, *changes, partition=partition)


def test_everything_arrives_once_over_several_runs(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 1000)
    assert run_here(pipeline).code == 0
    fill(kafka, pipeline, 1000, 1500)
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(1500)]


@pytest.mark.parametrize("point", ["before-commit:1", "after-commit:1", "after-commit:2"])
def test_a_worker_dies_around_a_commit(kafka: Kafka, pipeline: Pipeline, tmp_path: Path, point: str) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 5000)
    done = faulty(pipeline, tmp_path / "fault", worker=point)
    assert done.code == 0, done.err
    assert (tmp_path / "fault" / "struck").exists()
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(5000)]
    (line,) = [line.split() for line in done.out.splitlines() if line.startswith("shop.orders")]
    assert line[1:3] == ["5,000", "5,000"], "what was counted before is counted on"


@pytest.mark.parametrize("point", ["before-done:2", "after-plan:1", "before-done:3"])
def test_the_driver_dies_around_a_batch(kafka: Kafka, pipeline: Pipeline, tmp_path: Path, point: str) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 60_000)  # several batches: the first one takes 20,000 of a shard
    died = faulty(pipeline, tmp_path, driver=point)
    assert died.code == -9, died.err
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(60_000)]


def test_a_half_written_batch_goes_on_with_other_parallelism_and_new_partitions(
    kafka: Kafka, pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 30_000)
    assert faulty(pipeline, tmp_path, driver="before-done:2").code == -9
    kafka.cluster.widen(pipeline.topic, 5)
    fill(kafka, pipeline, 30_000, 40_000, partitions=5)
    pipeline.write(sink=EXACTLY, rest="pipeline:\n  parallelism: 3\n")
    done = pipeline.run()
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(40_000)]
    pipeline.write(sink=EXACTLY + "  sink.parallelism: 1\n")
    fill(kafka, pipeline, 40_000, 41_000, partitions=5)
    assert run_here(pipeline).code == 0
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(41_000)]


def test_what_a_dead_run_left_open_blocks_no_reader_once_the_next_one_has_started(
    kafka: Kafka, pipeline: Pipeline
) -> None:
    pipeline.write(sink=EXACTLY + "  properties.transaction.timeout.ms: 600000\n")
    fill(kafka, pipeline, 0, 100)
    assert run_here(pipeline).code == 0
    prefix = f"ingest-{pipeline.file.stem}"
    left = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}/1"})
    left.init_transactions(30)
    left.begin_transaction()
    left.produce(pipeline.out("orders"), b"never", b'{"id":7}', partition=0)
    left.flush()
    ends = [TopicPartition(pipeline.out("orders"), p) for p in range(4)]
    before = kafka.cluster.latest([(tp.topic, tp.partition) for tp in ends])
    assert before != kafka.cluster.latest([(tp.topic, tp.partition) for tp in ends], committed=False)
    fill(kafka, pipeline, 100, 200)
    assert run_here(pipeline).code == 0
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(200)]


def test_dead_letters_are_part_of_the_transaction(kafka: Kafka, pipeline: Pipeline, tmp_path: Path) -> None:
    letters = f"{kafka.name}.dead"
    pipeline.write(
        source="  ingestion.ignore-errors: true\n  ingestion.error-tolerance.max-count: 100\n", sink=EXACTLY,
        rest=f"pipeline:\n  dirty-data.collector:\n    type: kafka\n    topic: {letters}\n",
    )  # fmt: skip
    fill(kafka, pipeline, 0, 1000)
    kafka.send(pipeline.topic, *[(b"k", b"broken %d" % i) for i in range(10)], partition=0)
    kafka.send(pipeline.topic, (b'{"id":1}', debezium("c", None, {"id": None})), partition=1)
    done = faulty(pipeline, tmp_path / "fault", worker="after-commit:1")
    assert done.code == 0, done.err
    again = faulty(pipeline, tmp_path / "fault2", worker="before-commit:1")
    assert again.code == 0, again.err
    assert len(kafka.read(letters)) == 11
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(1000)]
    assert [event["rejected"] for event in (done.events[-1], again.events[-1])] == [11, 0]


def test_a_deleted_checkpoint_means_everything_again_with_one_warning(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 500)
    assert run_here(pipeline).code == 0
    pipeline.checkpoint.rename(pipeline.checkpoint.with_name("lost"))
    done = run_here(pipeline)
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted([*range(500)] * 2)
    assert done.err.count("older progress of this pipeline was found") == 1
    after = run_here(pipeline)
    assert after.code == 0
    assert "older progress" not in after.err


def test_an_old_copy_of_a_checkpoint_is_refused(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 100)
    assert run_here(pipeline).code == 0
    shutil.copytree(pipeline.checkpoint, pipeline.checkpoint.with_name("copy"))
    fill(kafka, pipeline, 100, 200)
    assert run_here(pipeline).code == 0
    shutil.rmtree(pipeline.checkpoint)
    pipeline.checkpoint.with_name("copy").rename(pipeline.checkpoint)
    refused = run_here(pipeline)
    assert refused.code == 78, refused.err
    assert "it is an old copy" in refused.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(200)]


def test_the_newer_of_two_runs_with_one_prefix_stops_the_older(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY + f"  sink.transactional-id-prefix: {kafka.name}/mine\n")
    fill(kafka, pipeline, 0, 500)
    older = pipeline.begin()
    until(lambda: exists(kafka, pipeline) and len(ids(kafka, pipeline.out("orders"))) == 500, 60, older)
    command = pipeline.command("--once")
    command[command.index("--checkpoint") + 1] = str(pipeline.checkpoint.with_name("other"))
    other = pipeline.finished(command, pipeline.java)
    assert other.code == 0, other.err
    fill(kafka, pipeline, 500, 600)
    stopped = finish(older)
    assert stopped.code == 78, stopped.err
    assert "another run has taken over sink.transactional-id-prefix" in stopped.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted([*range(500)] * 2)
    assert run_here(pipeline).code == 0, "its own progress is as it was"
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted([*range(500)] * 2 + [*range(500, 600)])


def exists(kafka: Kafka, pipeline: Pipeline) -> bool:
    return bool(kafka.cluster.topics([pipeline.out("orders")]))


def test_what_cannot_be_exactly_once_is_refused_at_the_start(kafka: Kafka, pipeline: Pipeline) -> None:
    fill(kafka, pipeline, 0, 1)
    pipeline.write(sink=EXACTLY + "  properties.transaction.timeout.ms: 3600000\n")
    done = run_here(pipeline)
    assert done.code == 78, done.err
    assert "transaction.timeout.ms is above what the broker allows" in done.err
    pipeline.write(sink=EXACTLY)
    done = pipeline.run("--conf", "spark.speculation=true")
    assert done.code == 78, done.err
    assert "spark.speculation" in done.err
    pipeline.write(sink=EXACTLY + "  properties.enable.idempotence: false\n  properties.acks: 1\n")
    done = run_here(pipeline)
    assert done.code == 78, done.err
    assert "exactly-once needs enable.idempotence=true" in done.err
    assert "exactly-once needs acks=all" in done.err


def test_an_operator_finds_and_ends_what_was_left_open(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY + f"  sink.transactional-id-prefix: {kafka.name}\n")
    fill(kafka, pipeline, 0, 10)
    assert run_here(pipeline).code == 0
    left = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{kafka.name}/7"})
    left.init_transactions(30)
    left.begin_transaction()
    left.produce(pipeline.out("orders"), b"never", b'{"id":7}', partition=0)
    left.flush()
    file = ["--pipeline", str(pipeline.file)]

    def transactions(*arguments: str) -> Result:
        return called("transactions", *arguments)

    listed = transactions("list", *file)
    assert listed.code == 0, listed.err
    states = {line.split()[0]: line.split()[1] for line in listed.out.splitlines()[1:]}
    assert states.pop(f"{kafka.name}/7") == "open"
    assert set(states) == {f"{kafka.name}/{who}" for who in ("0", "1", "driver")}
    assert set(states.values()) <= {"committed", "committing"}
    assert "would be ended" in transactions("abort", kafka.name, *file, "--dry-run").out
    servers = ["--bootstrap-servers", kafka.bootstrap]
    (open_,) = [
        one
        for one in json.loads(transactions("list", kafka.name, *servers, "--format", "json").out)
        if one["state"] == "open"
    ]
    assert open_["partitions"] == [[pipeline.out("orders"), 0]]
    assert transactions("abort", kafka.name, *servers).out == f"{kafka.name}/7: open, was ended\n"
    assert transactions("abort", kafka.name, *servers).out == f"nothing is open under {kafka.name}\n"
    assert transactions("list").code == 2
    pipeline.write(rest=f"pipeline: {{name: {kafka.name}}}\n")
    assert transactions("list", *file).out.splitlines()[1:] == [], "none of others', where it has none itself"


def test_a_reset_does_not_forget_what_only_the_sink_knows(kafka: Kafka, pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 1000)
    assert faulty(pipeline, tmp_path, driver="before-done:2").code == -9
    reset = ["checkpoint", "reset", str(pipeline.checkpoint), "--errors"]
    refused = called(*reset)
    assert refused.code == 78
    assert "only the sink knows how far it came" in refused.err
    assert called(*reset, "--drop-batch").code == 0
    assert run_here(pipeline).code == 0
    assert sorted(ids(kafka, pipeline.out("orders"))) == sorted([*range(1000)] * 2)


def test_another_prefix_waits_for_the_batch_in_hand(kafka: Kafka, pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(sink=EXACTLY)
    fill(kafka, pipeline, 0, 1000)
    assert faulty(pipeline, tmp_path, driver="before-done:2").code == -9
    pipeline.write(sink=EXACTLY + f"  sink.transactional-id-prefix: {kafka.name}\n")
    refused = run_here(pipeline)
    assert refused.code == 78
    assert "was begun under sink.transactional-id-prefix ingest-pipe" in refused.err
    pipeline.write(sink=EXACTLY)
    assert run_here(pipeline).code == 0
    pipeline.write(sink=EXACTLY + f"  sink.transactional-id-prefix: {kafka.name}\n")
    fill(kafka, pipeline, 1000, 1100)
    assert run_here(pipeline).code == 0
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(1100)]


@pytest.mark.parametrize("death", [{"driver": "before-done:1"}, {"worker": "after-commit:1"}, {}])
def test_a_dead_letter_is_applied_once_whatever_dies(
    kafka: Kafka, pipeline: Pipeline, tmp_path: Path, death: dict[str, str]
) -> None:
    letters = f"pipeline:\n  dirty-data.collector:\n    type: kafka\n    topic: {kafka.name}.dead\n"
    pipeline.write(source="  ingestion.ignore-errors: true\n", sink=EXACTLY, rest=letters)
    fill(kafka, pipeline, 0, 100)
    unavailable = [message("c", None, {"id": i, "t": "__debezium_unavailable_value"}) for i in range(100, 300)]
    kafka.send(pipeline.topic, *unavailable)
    assert run_here(pipeline).code == 0
    assert len(kafka.read(f"{kafka.name}.dead")) == 200
    keep = "  ingestion.ignore-errors: true\n  debezium-json.unavailable-value: keep\n"
    pipeline.write(source=keep, sink=EXACTLY, rest=letters)
    first = faulty(pipeline, tmp_path / "fault", replay=True, **death)
    assert first.code == (-9 if "driver" in death else 0), first.err
    again = faulty(pipeline, tmp_path, replay=True)
    assert again.code == 0, again.err
    fill(kafka, pipeline, 300, 310)
    assert run_here(pipeline).code == 0, "the pipeline's own progress is as it was"
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(310)]


def test_source_and_sink_may_be_different_clusters(kafka: Kafka, pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    try:
        other = Kafka(broker(folder, heap="384m").bootstrap)
        pipeline.write(sink=EXACTLY)
        text = pipeline.file.read_text()
        head, sink = text.split("sink:", 1)
        pipeline.file.write_text(f"{head}sink:{sink.replace(kafka.bootstrap, other.bootstrap, 1)}")
        fill(kafka, pipeline, 0, 5000)
        done = faulty(pipeline, tmp_path / "fault", worker="after-commit:2")
        assert done.code == 0, done.err
        fill(kafka, pipeline, 5000, 5100)
        assert faulty(pipeline, tmp_path, driver="before-done:1").code == -9
        assert pipeline.run().code == 0
        assert sorted(ids(other, pipeline.out("orders"))) == [*range(5100)]
        assert not kafka.cluster.topics([pipeline.out("orders")])
    finally:
        sandbox.down(folder, wipe=True)


def test_runs_with_native_code_and_without_take_over_from_each_other(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink="  sink.delivery-guarantee: exactly-once\n")
    for i in range(4):
        kafka.send(pipeline.topic, message("c", None, {"id": i}))
        done = pipeline.run(env={"INGEST_NATIVE": "off"} if i % 2 else None)
        assert done.code == 0, done.err
    records = kafka.read(pipeline.out("orders"))
    assert sorted(json.loads(record.value or b"")["id"] for record in records) == [0, 1, 2, 3]
