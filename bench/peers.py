"""The same topic to the same keyed upserts by `ingest run --once` and by Flink SQL, interleaved.

One table, as Flink has to be told each table's columns; no drift, as it would stop at it. Both read the whole topic, at
least once, with two slots. Prints for both: the whole process from the command to its end, the steady state (between a
tenth and nine tenths of what reached the sink topic, as a reader of its end sees it), and the CPU of all processes that
the command started, per message. Flink has a virtual environment of its own in the cache directory; its connector comes
from Maven Central. See README.md here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import messages
import psutil
import pyspark
from confluent_kafka import Consumer, KafkaException, TopicPartition
from setting import INGEST, options_of, own_broker, pipeline_file, save
from throughput import create, drop

from ingest.paths import cache, java

FLINK: Final = "2.0.1"
CONNECTOR: Final = ("org.apache.flink", "flink-sql-connector-kafka", "4.0.1-2.0")
AVRO: Final = ("org.apache.flink", "flink-sql-avro-confluent-registry", "2.0.0")
PARTITIONS: Final = 4
SLOTS: Final = 2
_COLUMNS: Final = (
    "id BIGINT, customer_id BIGINT, status STRING, amount DOUBLE, quantity BIGINT, sku STRING, note STRING, "
    "created_at BIGINT, updated_at BIGINT, active BOOLEAN, address STRING"
)
_FLINK_JOB: Final = """\
import sys
from pyflink.table import EnvironmentSettings, TableEnvironment

jars, bootstrap, source, sink, query, source_format = sys.argv[1:]
env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
settings = {{
    "pipeline.jars": jars, "parallelism.default": "{slots}", "execution.checkpointing.interval": "1 s",
    "table.exec.sink.upsert-materialize": "NONE", "taskmanager.memory.task.heap.size": "2g",
    "pipeline.object-reuse": "true",
}}
for key, value in settings.items():
    env.get_config().set(key, value)
kafka = f"'properties.bootstrap.servers'='{{bootstrap}}'"
env.execute_sql(
    f"CREATE TABLE src ({columns}) WITH ('connector'='kafka','topic'='{{source}}',{{kafka}},"
    "'properties.group.id'='flink','scan.startup.mode'='earliest-offset','scan.bounded.mode'='latest-offset',"
    f"{{source_format}})"
)
env.execute_sql(
    f"CREATE TABLE dst ({columns}, PRIMARY KEY(id) NOT ENFORCED) WITH ('connector'='upsert-kafka',"
    f"'topic'='{{sink}}',{{kafka}},'key.format'='json','value.format'='json','properties.linger.ms'='20',"
    "'properties.batch.size'='1000000','properties.compression.type'='lz4')"
)
env.execute_sql("INSERT INTO dst " + query).wait()
"""


AS_IT_IS: Final = "SELECT * FROM src"
_CHANGED: Final = (
    "SELECT id, customer_id, UPPER(status) AS status, amount * quantity AS amount, quantity, sku, note, created_at, "
    "updated_at, active, address FROM src WHERE quantity >= 0"
)
_RULE: Final = (
    "transform: [{source-table: inventory.t0, projection: '\\*, UPPER(status) AS status, amount * quantity AS amount', "
    "filter: quantity >= 0}]\n"
)
"""All rows pass, so that both sinks hold as many records; both sides have to look at the row before an update, too."""
JOBS: Final = ("ingest", "flink", "ingest, transform", "flink, transform")
CHANGED: Final = "with a projection and a filter"


@dataclass
class Result:
    """One run."""

    whole: float
    """Seconds from the command to its end."""
    steady: float
    """Messages a second."""
    cpu_us: float
    """Of all processes, per message."""


def environment(name: str, *steps: list[str]) -> Path:
    """The Python of a virtual environment in the cache, made on first use by installing packages step by step."""
    home = cache() / name
    python = home / "bin" / "python"
    if not (home / "ready").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        for packages in steps:
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages], check=True)
        (home / "ready").touch()
    return python


def flink_python() -> Path:
    """The Python of Flink's own environment."""
    return environment(f"flink-{FLINK}", ["setuptools<80", "wheel"], [f"apache-flink=={FLINK}"])


def flink_job(folder: Path) -> Path:
    """A program that copies a topic to keyed upserts by Flink SQL."""
    job = folder / "flink_job.py"
    job.write_text(_FLINK_JOB.format(slots=SLOTS, columns=_COLUMNS))
    return job


def jar_of(artifact: tuple[str, str, str]) -> Path:
    """A jar for Flink from Maven Central, by the Ivy that ships inside pyspark's jars."""
    folder = cache() / f"flink-{FLINK}" / "jars"
    _, name, version = artifact
    jar = folder / f"{name}-{version}.jar"
    if not jar.is_file():
        ivy = Path(next(iter(pyspark.__path__))) / "jars" / "*"
        settings = os.environ.get("INGEST_IVY_SETTINGS")
        command = [
            java(), "-cp", str(ivy), "org.apache.ivy.Main", *(["-settings", settings] if settings else []),
            "-dependency", *artifact, "-confs", "default", "-retrieve", str(folder / "[artifact]-[revision].[ext]"),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return jar


def measure(command: list[str], bootstrap: str, sink: str, total: int, log: Path) -> Result:
    """Run a command until it ends; it puts `total` records into the sink topic."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-peers"})
    splits = [TopicPartition(sink, partition) for partition in range(PARTITIONS)]
    cpu: dict[tuple[int, float], float] = {}
    marks: dict[int, tuple[float, int]] = {}
    started = time.time()
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as running:
        root = psutil.Process(running.pid)
        while running.poll() is None:
            for process in (root, *_children(root)):
                try:
                    used = process.cpu_times()
                    cpu[process.pid, process.create_time()] = used.user + used.system
                except psutil.Error:
                    continue
            ends = _records(reader, splits)
            for tenths in (1, 9):
                if ends * 10 >= total * tenths:
                    marks.setdefault(tenths, (time.time(), ends))
            time.sleep(0.1)
        whole = time.time() - started
    ends = _records(reader, splits)
    reader.close()
    if running.returncode or ends < total:
        sys.exit(
            f"{command[0]}: exit code {running.returncode}, {ends:,} of {total:,} records\n{log.read_text()[-3000:]}"
        )
    (first, at_first), (last, at_last) = marks[1], marks.get(9, (started + whole, ends))
    return Result(whole, (at_last - at_first) / max(last - first, 0.001), sum(cpu.values()) / total * 1e6)


def _records(reader: Consumer, splits: list[TopicPartition]) -> int:
    """How many records there are; a topic that was just made is not known everywhere at once."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return sum(reader.get_watermark_offsets(split, timeout=10)[1] for split in splits)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _children(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []


def main() -> None:
    """Measure, and print."""
    options = options_of(messages=4_000_000, rounds=3).parse_args()
    found: dict[str, list[float]] = {}
    python, jar = flink_python(), jar_of(CONNECTOR)
    results: dict[str, list[Result]] = {name: [] for name in JOBS}
    with own_broker() as (bootstrap, folder):
        create(bootstrap, "large", partitions=PARTITIONS)
        load = messages.Load(tables=1, drift=False)
        messages.write(bootstrap, "large", options.messages, PARTITIONS, load=load)
        job = flink_job(folder)
        print(f"{options.messages:,} messages of one table, {PARTITIONS} partitions, {SLOTS} slots\n")
        print(f"{'round':<7}{'':<20}{'whole s':>9}{'steady k/s':>12}{'CPU µs':>9}")
        for i in range(options.rounds):
            # The one that comes second finds another broker: they take turns
            for number, name in list(enumerate(JOBS))[:: -1 if i % 2 else 1]:
                sink = f"peer{number}x{i}.t0"
                create(bootstrap, sink, partitions=PARTITIONS)
                changed = "transform" in name
                if name.startswith("ingest"):
                    rule = _RULE if changed else ""
                    file = pipeline_file(folder, bootstrap, "large", f"peer{number}x{i}", PARTITIONS, rule)
                    command = [INGEST, "run", str(file), "--once", "--checkpoint", str(folder / f"ck{number}x{i}")]
                    command += ["--master", f"local[{SLOTS}]"]
                else:
                    query = _CHANGED if changed else AS_IT_IS
                    command = [
                        str(python),
                        str(job),
                        jar.as_uri(),
                        bootstrap,
                        "large",
                        sink,
                        query,
                        "'format'='debezium-json'",
                    ]
                done = measure(command, bootstrap, sink, options.messages, folder / f"{number}.log")
                results[name].append(done)
                drop(bootstrap, sink)
                rates = f"{done.whole:>9.1f}{done.steady / 1e3:>12.1f}{done.cpu_us:>9.1f}"
                print(f"{i + 1:<7}{name:<20}{rates}", flush=True)
    for what, ours, theirs in (("as it is", *JOBS[:2]), (CHANGED, *JOBS[2:])):
        pairs = list(zip(results[ours], results[theirs], strict=True))
        print(f"\n{what}, medians of {options.rounds}:")
        print(f"  whole process, our time by Flink's: {median(o.whole / f.whole for o, f in pairs):.2f}")
        print(f"  steady throughput, ours by Flink's: {median(o.steady / f.steady for o, f in pairs):.2f}")
        found[f"{what}, whole process by Flink's"] = [o.whole / f.whole for o, f in pairs]
        found[f"{what}, steady throughput by Flink's"] = [o.steady / f.steady for o, f in pairs]
        print(f"  CPU per message, ours by Flink's: {median(o.cpu_us / f.cpu_us for o, f in pairs):.2f}")
    pairs = list(zip(results[JOBS[2]], results[JOBS[0]], strict=True))
    found[f"steady throughput, {CHANGED} by without"] = ratios = [a.steady / b.steady for a, b in pairs]
    print(f"\nsteady throughput, with the transform by without: {median(ratios):.2f}")
    save(options, "peers", found, messages=options.messages)


if __name__ == "__main__":
    main()
