"""A topic into tables of lakes, beside the same topic into upsert-kafka, in turn.

Two topics: one whose messages are all inserts of new rows, and one of inserts, updates and deletes of 200,000 keys a
table, with drift. Prints steady throughput of each, ratios pair by pair, CPU of the workers, and what the driver's
commits of tables took. See README.md here.
"""

from __future__ import annotations

import shutil
from statistics import median
from typing import TYPE_CHECKING, Final

import messages
import throughput
from confluent_kafka import Producer
from setting import options_of, own_broker, save

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_PIPELINE: Final = """\
source:
  type: kafka
  properties.bootstrap.servers: {bootstrap}
  topic: {topic}
  scan.startup.mode: earliest-offset
sink:
  type: {kind}
  {option}: {lake}
"""
_KINDS: Final = {"iceberg": "catalog.properties.warehouse", "delta": "warehouse"}
"""The sinks, and the option of each that names its directory."""
_ROW: Final = (
    '{"before":null,"after":{"id":%d,"customer_id":%d,"status":"PAID","amount":%.2f,"quantity":%d,"sku":"S%d",'
    '"note":"customer asked for gift wrap, delivery before noon","created_at":%d,"updated_at":%d,"active":true,'
    '"address":"%d Main Street, Springfield"},"source":{"version":"2.7.0.Final","connector":"mysql","name":"shop",'
    '"ts_ms":1700000000000,"snapshot":"false","db":"inventory","sequence":null,"table":"orders","server_id":223344},'
    '"op":"c","ts_ms":1700000000000,"transaction":null}'
)


def write_inserts(bootstrap: str, topic: str, count: int) -> None:
    """Write inserts of new rows of one table."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 1_000_000, "compression.type": "lz4",
        "queue.buffering.max.messages": 500_000,
    })  # fmt: skip
    for n in range(count):
        row = _ROW % (n, n % 9973, n % 100_000 / 100, n % 19, n, 1_700_000_000 + n, 1_700_000_000 + 2 * n, n % 999)
        while True:
            try:
                producer.produce(topic, row, b'{"id":%d}' % n, partition=n % throughput.PARTITIONS)
            except BufferError:
                producer.poll(0.1)
            else:
                break
        if not n % 1000:
            producer.poll(0)
    producer.flush()


def main() -> None:
    """Measure, and print."""
    parser = options_of(messages=2_000_000, rounds=3)
    parser.add_argument("--kinds", default=",".join(_KINDS), help="sinks that are measured: iceberg,delta")
    options = parser.parse_args()
    with own_broker() as (bootstrap, folder):
        throughput.create(bootstrap, "inserts", "changes")
        write_inserts(bootstrap, "inserts", options.messages)
        messages.write(bootstrap, "changes", options.messages, throughput.PARTITIONS)
        print(f"{options.messages:,} messages, {throughput.PARTITIONS} partitions, {throughput.SLOTS} task slots\n")
        for topic in ("inserts", "changes"):
            _compare(bootstrap, folder, topic, options)


def _compare(bootstrap: str, folder: Path, topic: str, options: argparse.Namespace) -> None:
    kinds = options.kinds.split(",")
    print(f"{topic:<20}{'k/s':>8}{'ratio':>7}{'µs':>8}{'s':>8}{'ratio':>7}")
    ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        a = throughput.pipeline(bootstrap, topic, f"{topic}-up{number}", folder)
        throughput.drop(bootstrap, f"{topic}-up{number}")
        print(f"{number + 1:<4}{'upsert-kafka':<16}{a.rate / 1e3:>8.1f}{'':>7}{a.cpu_us:>8.2f}{a.wall:>8.1f}")
        for kind in kinds:
            lake = folder / f"{kind}-{topic}{number}"
            file = folder / f"{topic}-{kind}{number}.yaml"
            file.write_text(
                _PIPELINE.format(bootstrap=bootstrap, topic=topic, kind=kind, option=_KINDS[kind], lake=lake)
            )
            b = throughput.measured(file)
            shutil.rmtree(lake)
            ratios[kind].append(b.rate / a.rate)
            times[kind].append(b.wall / a.wall)
            print(
                f"{'':<4}{kind:<16}{b.rate / 1e3:>8.1f}{b.rate / a.rate:>7.2f}{b.cpu_us:>8.2f}{b.wall:>8.1f}"
                f"{b.wall / a.wall:>7.2f}",
                flush=True,
            )
    found = {}
    for kind in kinds:
        steady, whole = median(ratios[kind]), median(times[kind])
        print(f"{kind} by upsert-kafka, {topic}, median: {steady:.2f} (whole runs {whole:.2f})")
        found[f"{kind} by upsert-kafka, {topic}, steady"] = ratios[kind]
        found[f"{kind} by upsert-kafka, {topic}, whole run"] = times[kind]
    print()
    save(options, "lake", found, messages=options.messages)


if __name__ == "__main__":
    main()
