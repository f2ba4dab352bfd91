"""The same pipeline, unchanged, on a real standalone cluster of Spark: master and worker on loopback."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from clusters import Standalone
from harness import Kafka, Pipeline, finish, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path, workers=1)
    yield cluster
    cluster.stop()


def test_a_pipeline_runs_unchanged_on_a_standalone_cluster(kafka: Kafka, pipeline: Pipeline, spark: Standalone) -> None:
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(500)])
    kafka.send(pipeline.topic, *[message("c", None, {"id": i, "n": 1}) for i in range(500, 900)], partition=1)
    command = pipeline.command("--once", "--conf", "spark.driver.host=127.0.0.1")
    command[command.index("--master") + 1] = spark.url
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    done = finish(process)
    assert done.code == 0, done.err + (pipeline.checkpoint / "logs" / "spark.log").read_text()[-2000:]
    assert len(kafka.table(pipeline.out("orders"))) == 900
