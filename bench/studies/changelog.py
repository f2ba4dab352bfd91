"""What it costs to keep the rows of an upsert topic, per million keys.

Prints throughput into a sink that needs no rows kept and into one that does, the disk that they take, and how long it
takes to read them again where a split has moved. See README.md here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from setting import INGEST, own_broker

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 4
_PIPELINE = """\
source:
  type: upsert-kafka
  properties.bootstrap.servers: {bootstrap}
  topic: rows
sink:
  type: {sink}
  properties.bootstrap.servers: {bootstrap}
  sink.topic.partitions: {partitions}
{more}route:
  - source-table: rows
    sink-table: {name}
"""


def fill(bootstrap: str, keys: int) -> None:
    """Rows of about 150 bytes, each key once."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for i in range(keys):
        value = (
            b'{"id":%d,"status":"NEW","amount":12.5,"note":"customer asked for gift wrap","address":"1 Long Road"}' % i
        )
        producer.produce("rows", value, b'{"id":%d}' % i, partition=i % PARTITIONS)
        if not i % 10_000:
            producer.poll(0)
    producer.flush()


def run(bootstrap: str, folder: Path, name: str, sink: str, more: str) -> float:
    """Drain the topic; the seconds of its batches."""
    file = folder / f"{name}.yaml"
    file.write_text(_PIPELINE.format(bootstrap=bootstrap, sink=sink, name=name, partitions=PARTITIONS, more=more))
    command = [INGEST, "run", str(file), "--once", "--checkpoint", str(folder / name), "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    batches = [json.loads(line) for line in done.stderr.splitlines() if '"batch done"' in line]
    return sum(float(batch["seconds"]) for batch in batches)


def main() -> None:
    """Measure, and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keys", type=int, default=1_000_000)
    options = arguments.parse_args()
    with own_broker() as (bootstrap, folder):
        os.environ["INGEST_STATE_DIR"] = str(folder / "state")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic("rows", PARTITIONS, 1)])["rows"].result()
        fill(bootstrap, options.keys)
        by_partition = "  partition.strategy: hash-by-key\n"
        plain = run(bootstrap, folder, "plain", "upsert-kafka", "")
        rows = run(bootstrap, folder, "rows-only", "kafka", f"  value.format: json\n  key.format: json\n{by_partition}")
        kept = run(bootstrap, folder, "kept", "kafka", by_partition)
        size = sum(path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file())
        shutil.rmtree(folder / "state")
        producer = Producer({"bootstrap.servers": bootstrap})
        for partition in range(PARTITIONS):
            producer.produce("rows", b'{"id":%d}' % partition, b'{"id":%d}' % partition, partition=partition)
        producer.flush()
        time.sleep(1)
        anew = run(bootstrap, folder, "kept", "kafka", by_partition)
    rates = [f"{options.keys / seconds / 1e3:.0f} k/s" for seconds in (plain, rows, kept)]
    millions = options.keys / 1e6
    print(f"{options.keys:,} keys: into upserts {rates[0]}, into rows {rates[1]}, with the rows kept {rates[2]}")
    print(
        f"per million keys: {size / 2**20 / millions:.0f} MiB of disk, read again in {anew / millions:.1f} s by 2 tasks"
    )


if __name__ == "__main__":
    main()
