"""Change messages into a table of a lake, by the sink and by Spark's `MERGE INTO` in `foreachBatch`, in turn.

Both read one topic with two slots, in batches of as many messages, into one table of 11 columns: Iceberg, then Delta.
Spark is told the columns, and keeps the last change of each key in a batch. It has a virtual environment of its own in
the cache directory, as its runtimes for lakes are older than the Spark that is installed here; its jars come from Maven
Central. Rates are those between the end of the second batch and the end of the last one, so no start counts. Prints
both rates and their ratio; both tables have to have the same rows. See README.md here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import quoteattr

import messages
import pyarrow as pa
import pyarrow.compute as pc
from setting import options_of, own_broker, save
from throughput import create

from ingest.paths import cache, locked
from ingest.sandbox.jars import fetch
from ingest.sinks.delta.warehouse import DeltaWarehouse
from ingest.sinks.iceberg.warehouse import IcebergWarehouse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

SPARK: Final = "4.1.1"
JARS: Final = {
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    "delta": ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "kafka": (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
        f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK}",
        "org.apache.kafka:kafka-clients:3.9.1", "org.apache.commons:commons-pool2:2.12.1",
    ),
}  # fmt: skip
PARTITIONS: Final = 4
SLOTS: Final = 2
WARM: Final = 2
"""Batches that are not counted."""
TABLE: Final = ("inventory", "t0")
_PIPELINE: Final = """\
source:
  type: kafka
  properties.bootstrap.servers: {bootstrap}
  topic: changes
  scan.startup.mode: earliest-offset
sink:
  type: {kind}
  {option}: {lake}
"""
_OPTIONS: Final = {"iceberg": "catalog.properties.warehouse", "delta": "warehouse"}


@dataclass
class Result:
    """One run."""

    rate: float
    """Messages a second, without the first batches."""
    rows: int
    digest: int
    """A number that the rows of the table make."""


def peer_python() -> Path:
    """Return the Python of the peer's environment, which is made on first use."""
    home = cache() / f"peer-spark-{SPARK}"
    python = home / "bin" / "python"
    with locked(home.name):
        if not (home / "ready").is_file():
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, f"pyspark=={SPARK}"], check=True)
            (home / "ready").touch()
    return python


def peer_jars(kind: str) -> str:
    """Return the jars of the peer for a lake, as `--jars` takes them; they are fetched on first use."""
    folder = cache() / f"peer-spark-{SPARK}" / "jars"
    wanted = [one.split(":") for part in (kind, "kafka") for one in JARS[part]]
    places = [folder / f"{name}-{version}.jar" for _, name, version in wanted]
    with locked(f"peer-jars-{SPARK}"):
        if not all(place.is_file() for place in places):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                lines = "\n".join(
                    f"    <dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(version)}"
                    ' transitive="false"/>'
                    for org, name, version in wanted
                )
                fetch(Path(temporary), lines, "jar bundle", "the jars of the peer")
                for jar in Path(temporary, "jars").iterdir():
                    jar.rename(folder / jar.name)
    return ",".join(map(str, places))


def rate_of(ends: Sequence[float], size: int) -> float:
    """Return messages a second of batches of a size, which ended at these times."""
    return (len(ends) - WARM) * size / (ends[-1] - ends[WARM - 1])


def by_sink(kind: str, bootstrap: str, folder: Path, size: int) -> Result:
    """Run the pipeline."""
    lake = folder / "lake"
    file = folder / "pipeline.yaml"
    file.write_text(_PIPELINE.format(bootstrap=bootstrap, kind=kind, option=_OPTIONS[kind], lake=lake))
    program = [sys.executable, str(Path(__file__).with_name("sized_batches.py")), str(size // SLOTS)]
    command = [*program, "run", str(file), "--once", "--checkpoint", str(folder / "c"), "--master", f"local[{SLOTS}]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    batches = [line for line in lines if line["event"] == "batch done" and line["records"]]
    assert {batch["records"] for batch in batches} == {size}, "all batches have one size"
    rows = _iceberg_rows(lake) if kind == "iceberg" else _delta_rows(lake)
    digest = pc.sum(pc.add(rows["updated_at"], rows["quantity"])).as_py()
    return Result(
        rate_of([datetime.fromisoformat(one["time"]).timestamp() for one in batches], size), len(rows), digest
    )


def _iceberg_rows(lake: Path) -> pa.Table:
    table = IcebergWarehouse({"warehouse": str(lake)}).catalog.load_table(TABLE)
    return table.scan(selected_fields=("updated_at", "quantity")).to_arrow()


def _delta_rows(lake: Path) -> pa.Table:
    table: Any = DeltaWarehouse(str(lake), {}).load(TABLE)
    return table.to_pyarrow_table(columns=["updated_at", "quantity"])


def by_merge(kind: str, bootstrap: str, folder: Path, size: int) -> Result:
    """Run the peer."""
    python = peer_python()
    home = next((python.parent.parent / "lib").glob("python*/site-packages/pyspark"))
    command = [
        str(home / "bin" / "spark-submit"), "--master", f"local[{SLOTS}]", "--driver-memory", "4g",
        "--jars", peer_jars(kind), str(Path(__file__).with_name("merge_job.py")), kind, bootstrap, "changes",
        str(folder / "merged"), str(size),
    ]  # fmt: skip
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Result(rate_of([line["end"] for line in lines[:-1]], size), lines[-1]["rows"], lines[-1]["digest"])


def main() -> None:
    """Measure, and print."""
    parser = options_of(batches=12, size=100_000, rounds=3)
    parser.add_argument("--kinds", default=",".join(_OPTIONS), help="lakes that are measured: iceberg,delta")
    options = parser.parse_args()
    with own_broker() as (bootstrap, folder):
        create(bootstrap, "changes", partitions=PARTITIONS)
        load = messages.Load(tables=1, drift=False)
        messages.write(bootstrap, "changes", options.batches * options.size, PARTITIONS, load=load)
        print(f"{options.batches} batches of {options.size:,} messages, {messages.KEYS:,} keys, {SLOTS} slots\n")
        found = {}
        for kind in options.kinds.split(","):
            found[f"{kind}, rate by that of MERGE"] = compare(kind, bootstrap, folder, options)
        save(options, "merges", found, messages=options.batches * options.size)


def compare(kind: str, bootstrap: str, folder: Path, options: argparse.Namespace) -> list[float]:
    """Let both write a lake in turn; return the ratios."""
    print(f"{kind:<10}{'MERGE k/s':>11}{'sink k/s':>10}{'ratio':>7}{'rows':>10}")
    ratios = []
    for number in range(options.rounds):
        done: dict[str, Result] = {}
        for name, way in [("merge", by_merge), ("sink", by_sink)][:: -1 if number % 2 else 1]:
            own = folder / f"{kind}-{name}-{number}"
            own.mkdir()
            done[name] = way(kind, bootstrap, own, options.size)
            shutil.rmtree(own)
            time.sleep(1)
        merge, sink = done["merge"], done["sink"]
        assert (merge.rows, merge.digest) == (sink.rows, sink.digest), f"the rows differ: {done}"
        ratios.append(sink.rate / merge.rate)
        rates = f"{merge.rate / 1e3:>11.1f}{sink.rate / 1e3:>10.1f}"
        print(f"{number + 1:<10}{rates}{ratios[-1]:>7.2f}{sink.rows:>10,}", flush=True)
    print(f"{kind}, the sink's rate by that of MERGE, median: {median(ratios):.2f}\n")
    return ratios


if __name__ == "__main__":
    main()
