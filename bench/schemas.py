"""Formats, many tables, and schemas that change: each against what it is to be compared with, in one run.

`python bench/schemas.py [--messages N] [--rounds R]`; a part of `make bench`. See README.md here.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import TYPE_CHECKING

import messages
from messages import Load
from setting import own_broker
from throughput import PARTITIONS, create, drop, pipeline, raw

if TYPE_CHECKING:
    from pathlib import Path

    from throughput import Result

KEYS = "transform:\n  - {source-table: '\\.*', primary-keys: id}\n"
FORMATS = {
    "debezium": ("", ""),
    "schema envelope": ("  debezium-json.schema-include: true\n", ""),
    "json": ("  value.format: json\n", KEYS),
    "canal AUTO": ("  value.format: canal-json\n", ""),
    "canal SQL_TYPE": ("  value.format: canal-json\n  canal-json.infer-schema.strategy: SQL_TYPE\n", ""),
}
SINKS = {
    "upserts": {},
    "upserts as CSV": {"sink": "  key.format: csv\n  value.format: csv\n"},
    "without keys": {"sink": "  value.fields-include: EXCEPT_KEY\n"},
    "kafka, debezium": {"kind": "kafka", "sink": "  key.format: json\n  partition.strategy: hash-by-key\n"},
}


def main() -> None:
    """Measure, and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--messages", type=int, default=800_000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--only", choices=["formats", "sinks", "tables", "columns", "late"])
    options = arguments.parse_args()
    parts = {"formats": formats, "sinks": sinks, "tables": tables, "columns": columns, "late": late}
    for name, part in parts.items():
        if options.only in {None, name}:
            with own_broker() as (bootstrap, folder):
                part(bootstrap, folder, options.messages, options.rounds + (name == "late"))


def run(
    bootstrap: str, topic: str, name: str, folder: Path, more: str = "", source: str = "", table: str = "<>"
) -> Result:
    """One run of the pipeline; its topics are gone afterwards."""
    result = pipeline(bootstrap, topic, name, folder, more=more, source=source, table=table)
    drop(bootstrap, name)
    return result


def formats(bootstrap: str, folder: Path, count: int, rounds: int) -> None:
    """Each format against the raw copy of its own topic."""
    print("\nformat           bytes  raw k/s  raw MB/s  ingest k/s  ingest MB/s  ratio   µs   raw µs")
    for form in ("debezium", "schema", "json", "canal"):
        create(bootstrap, form)
        messages.write(bootstrap, form, count, PARTITIONS, load=Load(form, drift=form in {"debezium", "canal"}))
    for name, (source, more) in FORMATS.items():
        topic = name.split()[0]
        a, b = [], []
        for i in range(rounds):
            create(bootstrap, "raw")
            a.append(raw(bootstrap, topic, "raw"))
            drop(bootstrap, "raw")
            b.append(run(bootstrap, topic, f"run{topic}{i}{len(source)}", folder, more, source))
        size = a[0].bytes / a[0].messages
        rate_a, rate_b = median(r.rate for r in a), median(r.rate for r in b)
        ratio = median(y.rate / x.rate for x, y in zip(a, b, strict=True))
        cpu = f"{median(r.cpu_us for r in b):6.2f} {median(r.cpu_us for r in a):6.2f}"
        print(
            f"{name:<15}{size:>7.0f}{rate_a / 1e3:>9.1f}{rate_a * size / 1e6:>10.1f}{rate_b / 1e3:>12.1f}"
            f"{rate_b * size / 1e6:>13.1f}{ratio:>7.2f} {cpu}",
            flush=True,
        )


def sinks(bootstrap: str, folder: Path, count: int, rounds: int) -> None:
    """Each form of records against plain upserts, interleaved."""
    create(bootstrap, "changes")
    messages.write(bootstrap, "changes", count, PARTITIONS, load=Load(drift=False))
    done: dict[str, list[Result]] = {name: [] for name in SINKS}
    for i in range(rounds):
        for j, (name, options) in enumerate(SINKS.items()):
            done[name].append(pipeline(bootstrap, "changes", f"sink{i}{j}", folder, **options))
            drop(bootstrap, f"sink{i}{j}")
    for name, results in done.items():
        ratio = median(r.rate / plain.rate for r, plain in zip(results, done["upserts"], strict=True))
        rate, cpu = (median(values) for values in zip(*((r.rate, r.cpu_us) for r in results), strict=True))
        print(f"{name:<16}{rate / 1e3:>7.1f} k/s, ratio {ratio:.2f}, {cpu:.2f} µs", flush=True)


def against(bootstrap: str, folder: Path, rounds: int, topics: tuple[str, str], what: str) -> float:
    """The second topic's throughput against the first's, all tables into one sink topic, interleaved."""
    ratios = []
    for i in range(rounds):
        a, b = (run(bootstrap, topic, f"{''.join(topics)}.{topic}{i}", folder, table="all") for topic in topics)
        ratios.append(b.rate / a.rate)
        print(f"{what}: {a.rate / 1e3:.1f} and {b.rate / 1e3:.1f} k/s, ratio {ratios[-1]:.2f}", flush=True)
    print(f"{what}, median of {rounds}: {median(ratios):.2f}")
    return median(ratios)


def tables(bootstrap: str, folder: Path, count: int, rounds: int) -> None:
    """1,000 and 10,000 tables in one topic against 3."""
    for number in (3, 1000, 10_000):
        create(bootstrap, f"tables{number}")
        messages.write(bootstrap, f"tables{number}", count, PARTITIONS, load=Load(tables=number, drift=False))
    against(bootstrap, folder, rounds, ("tables3", "tables1000"), "1,000 tables against 3")
    against(bootstrap, folder, 1, ("tables3", "tables10000"), "10,000 tables against 3")


def columns(bootstrap: str, folder: Path, count: int, rounds: int) -> None:
    """About one new column a second, against the same rows without."""
    create(bootstrap, "plain", "growing")
    messages.write(bootstrap, "plain", count, PARTITIONS, load=Load(drift=False))
    every = max(1, int(run(bootstrap, "plain", "pace", folder, table="all").rate) // 10_000) * 10_000
    messages.write(bootstrap, "growing", count, PARTITIONS, load=Load(drift=False, column_every=every))
    against(bootstrap, folder, rounds, ("plain", "growing"), f"a new column every {every:,} messages")


def late(bootstrap: str, folder: Path, count: int, rounds: int) -> None:
    """100 tables that appear at once in the middle, against none."""
    create(bootstrap, "few", "late")
    messages.write(bootstrap, "few", count, PARTITIONS, load=Load(drift=False))
    messages.write(bootstrap, "late", count, PARTITIONS, load=Load(drift=False, late_tables=100))
    costs = []
    for i in range(rounds):
        # The one that comes second finds another broker: they take turns
        order = ("few", "late")[:: -1 if i % 2 else 1]
        done = {topic: run(bootstrap, topic, f"{topic}{i}", folder, table="all") for topic in order}
        a, b = done["few"], done["late"]
        costs.append(b.messages / b.rate - a.messages / a.rate)
        print(f"100 tables at once: {a.messages / a.rate:.2f} s and {b.messages / b.rate:.2f} s", flush=True)
    print(f"100 tables at once cost, median of {rounds}: {median(costs):.2f} s")


if __name__ == "__main__":
    main()
