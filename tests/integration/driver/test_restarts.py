"""Drivers that are killed and brokers that restart in the middle of a run: nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from brokers import broker
from harness import Kafka, Pipeline, finish, free_port, message, until

from ingest.sandbox import broker as sandbox

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def feed(kafka: Kafka, topic: str, count: int, stop: threading.Event, partitions: int = 2) -> threading.Thread:
    """Numbered changes, some a second, until all are sent."""

    def send() -> None:
        producer = kafka.producer(**{"enable.idempotence": True, "message.timeout.ms": 120_000})
        for i in range(count):
            key, value = message("c", None, {"id": i, "v": i * 3})
            producer.produce(topic, value, key, partition=i % partitions)
            producer.poll(0)
            if i % 100 == 0 and stop.wait(0.05):
                break
        assert producer.flush(120) == 0

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_kill_9_at_20_random_moments_loses_nothing(
    kafka: Kafka, pipeline: Pipeline, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("KILL_SEED", "20261121"))
    chance = random.Random(seed)
    # Four with a Java that goes down with them. Where Java is there, a run is soon at its batches: half of the others
    # are killed while they start, and half so long after they have said that they read
    moments = [round(chance.uniform(0.2, 8.0 if number < 4 else 1.5), 2) for number in range(20)]
    print(f"seed {seed}: the run is killed {moments} s after its start, or after it has begun to read")
    record_property("kill_moments", moments)
    count = 40_000
    stop = threading.Event()
    feeder = feed(kafka, pipeline.topic, count, stop)
    try:
        for number, moment in enumerate(moments):
            process = pipeline.start() if number < 4 else pipeline.begin()
            if number >= 4 and number % 2:
                until(lambda run=process: "run started" in run.said(), 60, process)  # type: ignore[misc]
            try:
                process.wait(moment)
            except subprocess.TimeoutExpired:
                process.kill()
            _, err = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, f"kill {number} at {moment} s: {err}"
    finally:
        feeder.join()
    final = pipeline.run()
    assert final.code == 0, final.err
    rows = kafka.table(pipeline.out("orders"))
    assert len(rows) == count
    assert all(row["v"] == row["id"] * 3 for row in rows.values())
    done = [int(path.name.partition(".")[0]) for path in (pipeline.checkpoint / "batches").glob("*.done")]
    assert max(done) > 1, "no run before the last one came to a batch: the kills proved nothing"


@pytest.mark.usefixtures("java")
def test_a_broker_restarted_in_the_middle_of_a_run_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    port = free_port()
    own = Kafka(broker(folder, port).bootstrap)
    pipeline = Pipeline(tmp_path, own, own.create(f"{own.name}.in", 2))
    count = 30_000
    stop = threading.Event()
    process = None
    try:
        feeder = feed(own, pipeline.topic, count, stop)
        process = pipeline.start()
        out = pipeline.out("orders")
        until(lambda: out in own.cluster.names() and own.end(out) > 1000, 60, process)
        sandbox.down(folder)
        time.sleep(2)
        broker(folder, port)
        feeder.join()
        until(lambda: own.end(out) >= count, 120, process)
        process.send_signal(signal.SIGTERM)
        done = finish(process)
        assert done.code == 0, done.err
        assert pipeline.run().code == 0
        assert own.ids(out) == set(range(count))
    finally:
        stop.set()
        if process is not None and process.poll() is None:
            process.kill()
            process.communicate()
        sandbox.down(folder, wipe=True)
