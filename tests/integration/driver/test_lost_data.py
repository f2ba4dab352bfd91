"""Topics that go, and positions that retention took away: records that are lost are said to be."""

from __future__ import annotations

import signal
import time

import pytest
from commands import run_here
from harness import Kafka, Pipeline, finish, message, until


@pytest.mark.parametrize(("policy", "expected"), [("fail", None), ("earliest", {2}), ("latest", set())])
def test_a_recreated_topic_is_data_loss(
    kafka: Kafka, pipeline: Pipeline, policy: str, expected: set[int] | None
) -> None:
    pipeline.write(source=f"  scan.on-data-loss: {policy}\n")
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    assert run_here(pipeline).code == 0
    for future in kafka.admin.delete_topics([pipeline.topic]).values():
        future.result(10)
    assert kafka.cluster.wait_until(lambda: pipeline.topic not in kafka.cluster.topics([pipeline.topic]), 10)
    kafka.create(pipeline.topic, 2)
    kafka.send(pipeline.topic, message("c", None, {"id": 2}))
    done = run_here(pipeline)
    if expected is None:
        assert done.code == 1
        assert "deleted and created again" in done.err
        assert "scan.on-data-loss" in done.err
    else:
        assert done.code == 0, done.err
        assert kafka.ids(pipeline.out("orders")) == {1} | expected


def delete(kafka: Kafka, topic: str) -> None:
    for future in kafka.admin.delete_topics([topic]).values():
        future.result(10)
    assert kafka.cluster.wait_until(lambda: topic not in kafka.cluster.topics([topic]), 10)


@pytest.mark.parametrize("recreated", [False, True])
def test_a_topic_that_goes_during_a_run_ends_it_with_1(kafka: Kafka, pipeline: Pipeline, *, recreated: bool) -> None:
    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    process = pipeline.begin()
    out = pipeline.out("orders")
    until(lambda: out in kafka.cluster.names() and len(kafka.read(out)) == 1, 90, process)
    delete(kafka, pipeline.topic)
    if recreated:  # with as many records as were read before, so that no offset tells
        kafka.create(pipeline.topic, 2)
        kafka.send(pipeline.topic, message("c", None, {"id": 2}))
    done = finish(process, 60)
    assert done.code == 1, done.err
    assert f"data loss: topic {pipeline.topic} was deleted" in done.err
    assert "set scan.on-data-loss to earliest or latest" in done.err


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_topic_that_goes_during_a_run_and_comes_back(kafka: Kafka, pipeline: Pipeline, policy: str) -> None:
    lost, other = pipeline.topic, kafka.create(f"{kafka.name}.other", 1)
    pipeline.topic = f"{lost};{other}"
    pipeline.write(source=f"  scan.on-data-loss: {policy}\n")
    kafka.send(lost, message("c", None, {"id": 1}))
    kafka.send(lost, message("c", None, {"id": 2}), partition=1)
    process = pipeline.begin()
    out = pipeline.out("orders")
    until(lambda: out in kafka.cluster.names() and kafka.ids(out) == {1, 2}, 90, process)
    delete(kafka, lost)
    kafka.send(other, message("c", None, {"id": 3}))
    until(lambda: kafka.ids(out) == {1, 2, 3}, 60, process)  # the others are read on
    # Longer than what was read of the one before, and with a partition less
    kafka.create(lost, 1)
    kafka.send(lost, *[message("c", None, {"id": i}) for i in range(10, 15)])
    kafka.send(other, message("c", None, {"id": 4}))
    until(lambda: 4 in kafka.ids(out), 60, process)
    if policy == "earliest":
        until(lambda: kafka.ids(out) == {1, 2, 3, 4, *range(10, 15)}, 60, process)
    else:
        deadline = time.monotonic() + 90
        sent = 100
        while not any(i >= 100 for i in kafka.ids(out)):  # from when it was noticed on
            assert time.monotonic() < deadline
            kafka.send(lost, message("c", None, {"id": sent}))
            sent += 1
            time.sleep(0.5)
        assert not kafka.ids(out) & set(range(10, 15))
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.code == 0, done.err
    said = [event["event"] for event in done.events if event["event"].startswith("data loss: ")]
    assert [text.partition(";")[0] for text in said] == [
        f"data loss: topic {lost} was deleted",
        f"data loss: topic {lost} was deleted and created again during the run",
    ]
    again = run_here(pipeline)  # its checkpoint is of what there is now
    assert again.code == 0, again.err


@pytest.mark.parametrize(("recreated", "once"), [(False, True), (True, False)])
def test_a_topic_that_goes_while_it_is_read_and_the_run_still_ends(
    kafka: Kafka, pipeline: Pipeline, *, recreated: bool, once: bool
) -> None:
    bounded = "" if once else "  scan.bounded.mode: latest-offset\n"
    pipeline.write(source=f"  scan.on-data-loss: earliest\n  scan.rate-limit.records-per-second: 300\n{bounded}")
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(6000)])
    process = pipeline.begin(*(["--once"] if once else []))
    out = pipeline.out("orders")
    until(lambda: out in kafka.cluster.names() and kafka.end(out) > 100, 90, process)
    for future in kafka.admin.delete_topics([pipeline.topic]).values():
        future.result(10)
    if recreated:
        kafka.cluster.wait_until(lambda: pipeline.topic not in kafka.cluster.topics([pipeline.topic]), 10)
        kafka.create(pipeline.topic, 1)
        kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(10_000, 10_003)])
    done = finish(process, 90)
    assert done.code == 0, done.err
    assert any(event["event"].startswith(f"data loss: topic {pipeline.topic} was deleted") for event in done.events)
    if recreated:  # a bounded run ends where the new topic ended when it was noticed; the next one goes on there
        again = run_here(pipeline)
        assert again.code == 0, again.err
    assert {i for i in kafka.ids(out) if i >= 10_000} == (set(range(10_000, 10_003)) if recreated else set())


def test_positions_that_retention_took_away_are_data_loss(kafka: Kafka, pipeline: Pipeline) -> None:
    from confluent_kafka import TopicPartition

    kafka.send(pipeline.topic, message("c", None, {"id": 1}))
    assert run_here(pipeline).code == 0
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(2, 6)])
    for future in kafka.admin.delete_records([TopicPartition(pipeline.topic, 0, 4)]).values():
        future.result(10)
    lost = run_here(pipeline)
    assert lost.code == 1
    assert f"{pipeline.topic}[0] should be read from offset 1, but the topic holds 4 to 5" in lost.err
    pipeline.write(source="  scan.on-data-loss: earliest\n")
    assert run_here(pipeline).code == 0
    assert kafka.ids(pipeline.out("orders")) == {1, 5}
