"""Formats, many tables, and schemas that change: each against what it is to be compared with, in one run.

`python bench/schemas.py [--messages N] [--rounds R]`; a part of `make bench`. See README.md here.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, TypeAlias

import messages
from messages import Load
from setting import options_of, own_broker, save
from throughput import PARTITIONS, create, drop, pipeline, raw

if TYPE_CHECKING:
    from pathlib import Path

    from throughput import Result

Figures: TypeAlias = dict[str, list[float]]
"""What was measured, by what it is."""
KEYS = "transform:\n  - {source-table: '\\.*', primary-keys: id}\n"
FORMATS = {
    "debezium": ("", ""),
    "schema envelope": ("  debezium-json.schema-include: true\n", ""),
    "json": ("  value.format: json\n", KEYS),
    "canal AUTO": ("  value.format: canal-json\n", ""),
    "maxwell": ("  value.format: maxwell-json\n", ""),
    "csv": (f"  value.format: csv\n  scan.value.initial-schemas.ddls: '{messages.CSV_TABLE}'\n", ""),
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
    arguments = options_of(messages=800_000, rounds=2)
    arguments.add_argument("--only", choices=["formats", "sinks", "tables", "columns", "late"])
    options = arguments.parse_args()
    parts = {"formats": formats, "sinks": sinks, "tables": tables, "columns": columns, "late": late}
    for name, part in parts.items():
        if options.only in {None, name}:
            with own_broker() as (bootstrap, folder):
                found = part(bootstrap, folder, options.messages, options.rounds + (name == "late"))
                save(options, "schemas", found, messages=options.messages)


def run(
    bootstrap: str, topic: str, name: str, folder: Path, more: str = "", source: str = "", table: str = "<>"
) -> Result:
    """One run of the pipeline; its topics are gone afterwards."""
    result = pipeline(bootstrap, topic, name, folder, more=more, source=source, table=table)
    drop(bootstrap, name)
    return result


def formats(bootstrap: str, folder: Path, count: int, rounds: int) -> Figures:
    """Each format against the raw copy of its own topic, and some against the first one's messages a second."""
    found: Figures = {}
    rates: list[float] = []
    print("\nformat           bytes  raw k/s  raw MB/s  ingest k/s  ingest MB/s  ratio   µs   raw µs")
    for form in ("debezium", "schema", "json", "canal", "maxwell", "csv"):
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
        ratios = [y.rate / x.rate for x, y in zip(a, b, strict=True)]
        found[f"{name}, throughput by that of its raw copy"] = ratios
        rates = rates or [r.rate for r in b]
        if name in {"maxwell", "csv"}:
            found[f"{name}, throughput by debezium"] = [r.rate / first for r, first in zip(b, rates, strict=True)]
        cpu = f"{median(r.cpu_us for r in b):6.2f} {median(r.cpu_us for r in a):6.2f}"
        print(
            f"{name:<15}{size:>7.0f}{rate_a / 1e3:>9.1f}{rate_a * size / 1e6:>10.1f}{rate_b / 1e3:>12.1f}"
            f"{rate_b * size / 1e6:>13.1f}{median(ratios):>7.2f} {cpu}",
            flush=True,
        )
    return found


def sinks(bootstrap: str, folder: Path, count: int, rounds: int) -> Figures:
    """Each form of records against plain upserts, interleaved."""
    found: Figures = {}
    create(bootstrap, "changes")
    messages.write(bootstrap, "changes", count, PARTITIONS, load=Load(drift=False))
    done: dict[str, list[Result]] = {name: [] for name in SINKS}
    for i in range(rounds):
        for j, (name, options) in enumerate(SINKS.items()):
            done[name].append(pipeline(bootstrap, "changes", f"sink{i}{j}", folder, **options))
            drop(bootstrap, f"sink{i}{j}")
    for name, results in done.items():
        ratios = [r.rate / plain.rate for r, plain in zip(results, done["upserts"], strict=True)]
        if name != "upserts":
            found[f"{name}, throughput by plain upserts"] = ratios
        rate, cpu = (median(values) for values in zip(*((r.rate, r.cpu_us) for r in results), strict=True))
        print(f"{name:<16}{rate / 1e3:>7.1f} k/s, ratio {median(ratios):.2f}, {cpu:.2f} µs", flush=True)
    return found


def against(bootstrap: str, folder: Path, rounds: int, topics: tuple[str, str], what: str) -> list[float]:
    """The second topic's throughput against the first's, all tables into one sink topic, interleaved."""
    ratios = []
    for i in range(rounds):
        a, b = (run(bootstrap, topic, f"{''.join(topics)}.{topic}{i}", folder, table="all") for topic in topics)
        ratios.append(b.rate / a.rate)
        print(f"{what}: {a.rate / 1e3:.1f} and {b.rate / 1e3:.1f} k/s, ratio {ratios[-1]:.2f}", flush=True)
    print(f"{what}, median of {rounds}: {median(ratios):.2f}")
    return ratios


def tables(bootstrap: str, folder: Path, count: int, rounds: int) -> Figures:
    """1,000 and 10,000 tables in one topic against 3."""
    for number in (3, 1000, 10_000):
        create(bootstrap, f"tables{number}")
        messages.write(bootstrap, f"tables{number}", count, PARTITIONS, load=Load(tables=number, drift=False))
    thousand = against(bootstrap, folder, rounds, ("tables3", "tables1000"), "1,000 tables against 3")
    more = against(bootstrap, folder, 1, ("tables3", "tables10000"), "10,000 tables against 3")
    return {"1,000 tables by 3, throughput": thousand, "10,000 tables by 3, throughput": more}


def columns(bootstrap: str, folder: Path, count: int, rounds: int) -> Figures:
    """About one new column a second, against the same rows without."""
    create(bootstrap, "plain", "growing")
    messages.write(bootstrap, "plain", count, PARTITIONS, load=Load(drift=False))
    every = max(1, int(run(bootstrap, "plain", "pace", folder, table="all").rate) // 10_000) * 10_000
    messages.write(bootstrap, "growing", count, PARTITIONS, load=Load(drift=False, column_every=every))
    ratios = against(bootstrap, folder, rounds, ("plain", "growing"), f"a new column every {every:,} messages")
    return {"a new column about each second by none, throughput": ratios}


def late(bootstrap: str, folder: Path, count: int, rounds: int) -> Figures:
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
    return {"100 tables at once, s": costs}


if __name__ == "__main__":
    main()
