"""What a batch costs that touches 10 tables, in a pipeline of 1,000 and in one of 10, in turn.

For each sink with tables both pipelines make theirs first. Then each round sends as many messages of the same 10 tables
to both, which run them in batches of one size. Prints the seconds of a batch, from the end of one to the end of the
next, and their ratio: 1 where other tables cost nothing. See README.md here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer
from setting import options_of, own_broker, save
from throughput import create

from ingest.sandbox import postgres
from ingest.sandbox.process import any_port

if TYPE_CHECKING:
    import argparse

PARTITIONS: Final = 4
SLOTS: Final = 2
TOUCHED: Final = 10
_KEYS: Final = 2000
_PIPELINE: Final = """\
source:
  type: kafka
  properties.bootstrap.servers: {bootstrap}
  topic: {topic}
  scan.startup.mode: earliest-offset
  scan.max.pre.fetch.records: 1000
sink:
{sink}"""
_VALUE: Final = (
    '{"op":"u","before":null,"after":{"id":%d,"customer_id":%d,"status":"PAID","amount":%.2f,"note":"noon"},'
    '"source":{"db":"%s","table":"t%d"}}'
)
KINDS: Final = ("iceberg", "delta", "postgres")


@dataclass
class Side:
    """A pipeline with so many tables."""

    topic: str
    tables: int
    bootstrap: str
    file: Path
    sent: int = 0

    def send(self, count: int, tables: int) -> None:
        """Send changes of the first tables, as many to each partition."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20})
        for n in range(self.sent, self.sent + count):
            key = n * 7919 % _KEYS
            value = _VALUE % (key, n % 97, n % 1000 / 100, self.topic, n % tables)
            producer.produce(self.topic, value, b'{"id":%d}' % key, partition=n // tables % PARTITIONS)
            if not n % 1000:
                producer.poll(0)
        producer.flush()
        self.sent += count

    def run(self, size: int) -> list[float]:
        """Run until all is read; return the seconds of the batches that are whole, but the first."""
        program = [sys.executable, str(Path(__file__).with_name("sized_batches.py")), str(size // SLOTS)]
        where = ["--once", "--checkpoint", str(self.file.with_suffix("")), "--master", f"local[{SLOTS}]"]
        done = subprocess.run([*program, "run", str(self.file), *where], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        batches = [line for line in lines if line["event"] == "batch done" and line["records"] == size]
        ends = [datetime.fromisoformat(one["time"]).timestamp() for one in batches]
        return [end - start for start, end in pairwise(ends)]


def main() -> None:
    """Measure, and print."""
    parser = options_of(tables=1000, batches=20, size=4000, rounds=5)
    parser.add_argument("--kinds", default=",".join(KINDS), help="sinks that are measured: iceberg,delta,postgres")
    options = parser.parse_args()
    with own_broker() as (bootstrap, folder):
        print(f"{TOUCHED} tables in a batch of {options.size:,} messages, {options.batches} batches in a round\n")
        found = {}
        for kind in options.kinds.split(","):
            ratios = compare(kind, bootstrap, folder, options)
            found[f"{kind}, batch of {TOUCHED} tables, {options.tables:,} tables by {TOUCHED}, time"] = ratios
        save(options, "touched_tables", found)


def compare(kind: str, bootstrap: str, folder: Path, options: argparse.Namespace) -> list[float]:
    """Let both pipelines run in turn; return the ratios."""
    if kind != "postgres":
        place = {"iceberg": "catalog.properties.warehouse", "delta": "warehouse"}[kind]
        return _compare(kind, f"  type: {kind}\n  {place}: {folder}/{{topic}}\n", bootstrap, folder, options)
    folder.chmod(0o755)
    server = postgres.up(folder, any_port())
    sink = (
        f"  type: postgres\n  endpoint: {server.endpoint}\n  dbname: {postgres.DATABASE}\n"
        f"  username: {postgres.USER}\n  password: {Path(server.password_file).read_text(encoding='ascii')}\n"
    )
    try:
        return _compare(kind, sink, bootstrap, folder, options)
    finally:
        postgres.down(folder, wipe=True)


def _compare(kind: str, sink: str, bootstrap: str, folder: Path, options: argparse.Namespace) -> list[float]:
    sides = []
    for tables in (TOUCHED, options.tables):
        topic = f"{kind}{tables}"
        create(bootstrap, topic, partitions=PARTITIONS)
        file = folder / f"{topic}.yaml"
        file.write_text(_PIPELINE.format(bootstrap=bootstrap, topic=topic, sink=sink.format(topic=topic)))
        side = Side(topic, tables, bootstrap, file)
        side.send(tables * PARTITIONS, tables)
        side.run(options.size)
        sides.append(side)
    print(f"{kind:<10}{f'{TOUCHED} tables, s':>15}{f'{options.tables:,} tables, s':>18}{'ratio':>7}")
    ratios = []
    for number in range(options.rounds):
        took = {}
        for side in sides[:: -1 if number % 2 else 1]:
            side.send(options.batches * options.size, TOUCHED)
            took[side.tables] = median(side.run(options.size))
        few, many = took[TOUCHED], took[options.tables]
        ratios.append(many / few)
        print(f"{number + 1:<10}{few:>15.2f}{many:>18.2f}{ratios[-1]:>7.2f}", flush=True)
    print(f"{kind}, median: {median(ratios):.2f}\n", flush=True)
    return ratios


if __name__ == "__main__":
    main()
