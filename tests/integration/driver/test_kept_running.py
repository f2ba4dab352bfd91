"""A pipeline that is kept running: brokers restarted in turn, connections closed, workers gone, and nothing lost."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest
from brokers import Nodes
from harness import Kafka, Pipeline, finish, message, until

from ingest.errors import IngestError
from ingest.kafka.admin import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness import Background


@pytest.fixture
def nodes(java: None, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    made.close()


def test_brokers_restarted_in_turn_idle_connections_and_lost_workers(tmp_path: Path, nodes: Nodes) -> None:
    Cluster({"bootstrap.servers": nodes.bootstrap}).connect(60)
    kafka = Kafka(nodes.bootstrap)
    assert kafka.cluster.wait_until(lambda: brokers(kafka) == 3, 60)
    topic = f"{kafka.name}.in"
    from confluent_kafka.admin import NewTopic

    kafka.admin.create_topics([NewTopic(topic, 6, 3)])[topic].result(20)
    pipeline = Pipeline(tmp_path, kafka, topic)
    producer = kafka.producer(**{"enable.idempotence": True, "message.timeout.ms": 120_000})
    sent = 0

    def send(count: int) -> None:
        nonlocal sent
        for i in range(sent, sent + count):
            key, value = message("c", None, {"id": i, "v": i})
            producer.produce(topic, value, key, partition=i % 6)
        sent += count

    def written() -> bool:
        try:
            return kafka.end(out) >= sent
        except (IngestError, KeyError):
            return False

    out = pipeline.out("orders")
    send(1000)
    run = pipeline.start()
    try:
        until(lambda: out in kafka.cluster.names() and written(), 90, run)
        for node in (2, 3, 1):
            nodes.stop(node)
            send(1000)
            time.sleep(2)
            nodes.start(node)
            send(1000)
            until(lambda: nodes.all_in_sync([topic, out]), 90, run)
        assert producer.flush(120) == 0
        until(written, 90, run)
        time.sleep(5)  # the brokers close connections that are idle for three seconds
        send(500)
        assert producer.flush(60) == 0
        until(written, 60, run)
        workers = workers_of(run)
        daemon = min(workers, key=lambda p: p.create_time())
        for worker in workers:
            if worker.pid != daemon.pid:
                os.kill(worker.pid, signal.SIGKILL)
        send(500)
        assert producer.flush(60) == 0
        until(written, 60, run)
        run.terminate()
        done = finish(run)
        assert done.code == 0, done.err
        assert {row["id"] for row in kafka.table(out).values()} == set(range(sent))
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()


def workers_of(run: Background) -> list[psutil.Process]:
    """The daemon that forks Python workers, and the workers."""
    found = []
    for process in psutil.Process(run.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has just ended
            if "ingest.task.daemon" in process.cmdline():
                found.append(process)
    return found


def brokers(kafka: Kafka) -> int:
    return len(kafka.admin.list_topics(timeout=10).brokers)


def held(run: Background) -> dict[str, tuple[int, int]]:
    """Resident MiB and threads of the driver and of the Python workers together."""
    return {
        name: (sum(p.memory_info().rss for p in processes) >> 20, sum(p.num_threads() for p in processes))
        for name, processes in (("driver", [psutil.Process(run.pid)]), ("workers", workers_of(run)))
    }


def test_memory_and_threads_stay_flat(kafka: Kafka, pipeline: Pipeline) -> None:
    """A short run of what `bench/soak.py` does for an hour."""
    producer = kafka.producer()
    sent = 0
    out = pipeline.out("orders")

    def load(seconds: float) -> None:
        nonlocal sent
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for i in range(sent, sent + 50):
                key, value = message("c", None, {"id": i, "v": i})
                producer.produce(pipeline.topic, value, key, partition=i % 2)
            sent += 50
            producer.poll(0.1)

    load(0.5)
    run = pipeline.start()
    try:
        until(lambda: out in kafka.cluster.names(), 90, run)
        load(10)
        until(lambda: kafka.end(out) >= sent, 60, run)  # both workers are there, and have their clients
        early = held(run)
        load(25)
        late = held(run)
        until(lambda: kafka.end(out) >= sent, 60, run)
        run.terminate()
        done = finish(run)
    finally:
        if run.poll() is None:
            run.kill()
            run.communicate()
    assert done.code == 0, done.err
    assert len([event for event in done.events if event["event"] == "batch done"]) > 20
    for name, (memory, threads) in late.items():
        assert memory < early[name][0] * 1.3 + 20, (name, early, late)
        assert threads <= early[name][1] + 8, (name, early, late)  # one a batch would be more than a hundred
