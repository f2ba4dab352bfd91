"""The same pipeline, unchanged, on a real standalone cluster of Spark: master and worker on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from brokers import Standalone
from deltalake import DeltaTable
from harness import INGEST, Kafka, Pipeline, Result, debezium, finish, message

import ingest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and two executors."""
    cluster = Standalone(tmp_path_factory.mktemp("cluster"), workers=2)
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


def test_functions_beside_the_file_travel_to_the_cluster(kafka: Kafka, pipeline: Pipeline, spark: Standalone) -> None:
    folder = pipeline.file.parent
    (folder / "some_helpers.py").write_text("LIMIT = 7\n\ndef first(text):\n    return text[:1]\n")
    (folder / "some_functions.py").write_text(
        "import some_helpers\nfrom some_helpers import LIMIT\n\n"
        "def mask(text: str) -> str:\n    return some_helpers.first(text) + '***'\n\n"
        "def checked(n: int) -> int:\n    if n == LIMIT:\n        raise ValueError(f'{n} is not possible')\n"
        "    return n * 2\n"
    )
    dead = f"{kafka.name}.dead"
    pipeline.write(
        source="  ingestion.ignore-errors: true\n",
        rest="transform:\n  - source-table: shop.orders\n"
        "    projection: '\\*, mask(name) AS name, checked(id) AS twice'\n"
        f"pipeline:\n  dirty-data.collector.type: kafka\n  dirty-data.collector.topic: {dead}\n"
        "  user-defined-function:\n    - {name: mask, python: 'some_functions:mask'}\n"
        "    - {name: checked, python: 'some_functions:checked'}\n",
    )
    for partition in range(2):
        rows = [{"id": i, "name": f"n{i}"} for i in range(partition, 900, 2)]
        kafka.send(pipeline.topic, *[message("c", None, row) for row in rows], partition=partition)
    command = pipeline.command("--once", "--conf", "spark.driver.host=127.0.0.1")
    command[command.index("--master") + 1] = spark.url
    done = finish(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    assert done.code == 0, done.err + (pipeline.checkpoint / "logs" / "spark.log").read_text()[-2000:]
    found = kafka.table(pipeline.out("orders")).values()
    assert {row["id"] for row in found} == {*range(900)} - {7}
    assert all(row["name"] == "n***" and row["twice"] == 2 * row["id"] for row in found)
    (letter,) = kafka.read(dead)
    said = dict(letter.headers)["__ingest.errors.message"] or b""
    assert b"checked(id): cannot be computed for this row: checked: ValueError: 7 is not possible" in said


@pytest.mark.usefixtures("java")
def test_directories_are_shared_by_driver_and_executors_or_refused(spark: Standalone, tmp_path: Path) -> None:
    read, lake, refused = tmp_path / "in", tmp_path / "lake", tmp_path / "refused"
    read.mkdir()
    for part in range(2):
        rows = [debezium("c", None, {"id": i, "v": i}).decode() for i in range(part, 900, 2)]
        (read / f"{part}.jsonl").write_text("".join(f"{row}\n" for row in rows))
    key = "transform:\n  - {source-table: shop.orders, primary-keys: id}\n"

    def run(warehouse: str) -> Result:
        """What is a path of each process' own is absolute and still another directory for the executor."""
        file = tmp_path / "pipe.yaml"
        source = f"source:\n  type: file\n  path: {read}/*.jsonl\n"
        file.write_text(f"{source}sink:\n  type: delta\n  warehouse: {warehouse}\n{key}")
        command = [INGEST, "run", str(file), "--once", "--checkpoint", str(tmp_path / "c"), "--master", spark.url]
        command += ["--conf", "spark.driver.host=127.0.0.1"]
        refused.mkdir(exist_ok=True)
        return finish(subprocess.Popen(command, cwd=refused, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    done = run("/proc/self/cwd/lake")
    assert done.code == 78, done.err
    assert f"the executor on host {socket.gethostname()} does not see /proc/self/cwd/lake (warehouse)" in done.err
    assert [*(refused / "lake").iterdir()] == [], "nothing was written"
    done = run(str(lake))
    assert done.code == 0, done.err
    assert DeltaTable(str(lake / "shop" / "orders")).to_pyarrow_table().num_rows == 900
    assert [one.name for one in lake.iterdir()] == ["shop"], "no mark is left"


def test_spark_submit_starts_it_as_an_operator_would_on_two_executors(
    kafka: Kafka, pipeline: Pipeline, spark: Standalone, tmp_path: Path
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
        str(home / "bin" / "spark-submit"), "--master", spark.url, "--conf", "spark.driver.host=127.0.0.1",
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
