"""The same pipeline, unchanged, on a real standalone cluster of Spark: master and worker on loopback."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pyspark
import pytest
from harness import Kafka, Pipeline, finish, free_port, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    home = str(next(iter(pyspark.__path__)))
    env = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYSPARK_PYTHON", None)
    port, ui = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    spark = [f"{home}/bin/spark-class", "org.apache.spark.deploy"]
    commands = [
        [spark[0], f"{spark[1]}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)],
        [spark[0], f"{spark[1]}.worker.Worker", "-c", "2", "-m", "1g", "--work-dir", str(tmp_path / "work"), url],
    ]
    processes = []
    with (tmp_path / "cluster.log").open("wb") as log:
        for command in commands:
            processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
            _wait(f"http://127.0.0.1:{ui}/json/", alive=len(processes) > 1)
    yield url
    for process in reversed(processes):
        process.terminate()
        process.wait(30)


def _wait(url: str, *, alive: bool) -> None:
    """Until the master answers, and has a worker."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=5) as answer:  # noqa: S310  (loopback)
                if not alive or b'"state" : "ALIVE"' in answer.read():
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"{url} did not come up")


def test_a_pipeline_runs_unchanged_on_a_standalone_cluster(kafka: Kafka, pipeline: Pipeline, master: str) -> None:
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(500)])
    kafka.send(pipeline.topic, *[message("c", None, {"id": i, "n": 1}) for i in range(500, 900)], partition=1)
    command = pipeline.command("--once", "--conf", "spark.driver.host=127.0.0.1")
    command[command.index("--master") + 1] = master
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    done = finish(process)
    assert done.code == 0, done.err + (pipeline.checkpoint / "logs" / "spark.log").read_text()[-2000:]
    assert len(kafka.table(pipeline.out("orders"))) == 900
