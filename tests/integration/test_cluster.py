"""The same pipeline, unchanged, on a real standalone cluster of Spark: master and worker on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from clusters import Standalone
from harness import Kafka, Pipeline, finish, message

import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path, workers=2)
    yield cluster
    cluster.stop()


def test_spark_submit_starts_it_as_an_operator_would_on_two_executors(
    kafka: Kafka, pipeline: Pipeline, two: Standalone, tmp_path: Path
) -> None:
    pipeline.write(sink="  sink.delivery-guarantee: exactly-once\n")
    for partition in range(2):
        kafka.send(
            pipeline.topic, *[message("c", None, {"id": i}) for i in range(partition, 900, 2)], partition=partition
        )
    home = Path(next(iter(pyspark.__path__)))
    alive = tmp_path / "alive"
    main = str(Path(ingest.__file__).with_name("__main__.py"))
    command = [
        str(home / "bin" / "spark-submit"), "--master", two.url, "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.executor.cores=1", "--conf", "spark.cores.max=2", main,
        "run", str(pipeline.file), "--once", "--checkpoint", str(pipeline.checkpoint), f"--alive={alive}",
    ]  # fmt: skip
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_HOME": str(home)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=180, env={**os.environ, **python}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert alive.exists()
    assert sorted(json.loads(record.key or b"")["id"] for record in kafka.read(pipeline.out("orders"))) == [*range(900)]
