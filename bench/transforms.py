"""What transforms cost: rules for one table in ten against none, 500 tables with a rule each against 3, and planning.

`python bench/transforms.py [--messages N] [--rounds R] [--only PART]`, part of `make bench-peers`. See README.md here.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import messages
from messages import Load
from setting import options_of, own_broker, save
from throughput import PARTITIONS, create, drop, pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from throughput import Result

    from ingest.spark.session import Session

_MANY = 500
_BATCHES = 20


def rule(i: int) -> tuple[str, str]:
    """The projection and the filter of a table: each has other texts, columns and types."""
    made = f"UPPER(status) || '-{i}' AS status, amount * {i + 1} AS amount{i % 7}, quantity + {i} AS q{i % 5}"
    return rf"\*, {made}", f"quantity >= {-i}"


def rules(tables: int) -> str:
    """A rule of its own for each table."""
    quoted = ((i, *(text.replace("'", "''") for text in rule(i))) for i in range(tables))
    return "transform:\n" + "".join(
        f"  - {{source-table: inventory.t{i}, projection: '{made}', filter: '{passes}'}}\n"
        for i, made, passes in quoted
    )


def run(bootstrap: str, topic: str, name: str, folder: Path, more: str) -> Result:
    """One run; its topics are gone afterwards."""
    result = pipeline(bootstrap, topic, name, folder, more=more, table="all" if "500" in name else "<>")
    drop(bootstrap, name)
    return result


def tenth(bootstrap: str, folder: Path, count: int, rounds: int) -> tuple[str, list[float]]:
    """Ten tables, one of which has a rule, against the same pipeline without."""
    create(bootstrap, "ten")
    messages.write(bootstrap, "ten", count, PARTITIONS, load=Load(tables=10, drift=False))
    ratios = []
    for i in range(rounds):
        # The one that comes second finds another broker: they take turns
        order = [("plain", ""), ("ruled", rules(1))][:: -1 if i % 2 else 1]
        done = {name: run(bootstrap, "ten", f"ten{name}{i}", folder, more) for name, more in order}
        ratios.append(done["ruled"].rate / done["plain"].rate)
        print(
            f"one table in ten has a rule: {done['plain'].rate / 1e3:.1f} without and {done['ruled'].rate / 1e3:.1f} "
            f"k/s with, ratio {ratios[-1]:.2f}; {done['plain'].cpu_us:.1f} and {done['ruled'].cpu_us:.1f} µs",
            flush=True,
        )
    print(f"one table in ten has a rule, median of {rounds}: {median(ratios):.2f}")
    return "one table in ten has a rule, throughput by none", ratios


def many(bootstrap: str, folder: Path, count: int, rounds: int) -> tuple[str, list[float]]:
    """500 tables with 500 rules against 3 with 3, all into one topic."""
    for number in (3, _MANY):
        create(bootstrap, f"ruled{number}")
        messages.write(bootstrap, f"ruled{number}", count, PARTITIONS, load=Load(tables=number, drift=False))
    ratios = []
    for i in range(rounds):
        order = (3, _MANY)[:: -1 if i % 2 else 1]
        done = {n: run(bootstrap, f"ruled{n}", f"many500x{n}x{i}", folder, rules(n)) for n in order}
        ratios.append(done[_MANY].rate / done[3].rate)
        print(
            f"500 tables with 500 rules against 3 with 3: {done[3].rate / 1e3:.1f} and {done[_MANY].rate / 1e3:.1f} "
            f"k/s, ratio {ratios[-1]:.2f}; {done[3].cpu_us:.1f} and {done[_MANY].cpu_us:.1f} µs",
            flush=True,
        )
    print(f"500 tables with 500 rules against 3 with 3, median of {rounds}: {median(ratios):.2f}")
    return "500 tables with 500 rules by 3 with 3, throughput", ratios


def plans() -> dict[str, list[float]]:
    """Measure what a batch without rows takes, and what a changed schema does, with 3 and with 500 rules."""
    from ingest.spark.session import Session

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "spark.log"
        session = Session("bench", "local[2]", {}, lock=None, log=log, sql=True)
        try:
            found = {number: _plan(session, number) for number in (3, _MANY)}
        finally:
            session.stop()
    out = {f"a batch without rows, {number} rules, ms": [s * 1e3 for s in took] for number, (took, _) in found.items()}
    return {**out, f"a changed table, {_MANY} rules, s": found[_MANY][1]}


def _plan(session: Session, number: int) -> tuple[list[float], list[float]]:
    """Return the seconds that batches without rows took, and those that changed tables took more."""
    from ingest.expressions.clauses import condition, projection
    from ingest.model import types
    from ingest.model.schema import Column, TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.routes import TransformRule
    from ingest.transform.compiler import TransformCompiler

    schema = TableSchema(
        (
            Column("id", types.BIGINT, nullable=False), Column("status", types.STRING), Column("amount", types.DOUBLE),
            Column("quantity", types.BIGINT),
        ),
        ("id",),
    )  # fmt: skip
    texts = [rule(i) for i in range(number)]
    made = [
        TransformRule(i, f"inventory.t{i}", projection(columns), condition(passes))
        for i, (columns, passes) in enumerate(texts)
    ]
    compiler = TransformCompiler(made, "UTC", session.sql)
    schemas = {("inventory", f"t{i}"): schema for i in range(number)}

    def compiled() -> dict[tuple[str, ...], SourceTable]:
        shaped = {table: compiler.shape(table, s) for table, s in schemas.items()}
        return {
            table: SourceTable(schemas[table], (table,), key_from_message=True, output=one and one.schema)
            for table, one in shaped.items()
        }

    started = time.perf_counter()
    frame = compiler.frame(compiler.transforms(compiled()), 2, _nothing(), _counted)
    session.run_frame(frame, "")
    first = time.perf_counter() - started
    took = []
    for _ in range(_BATCHES):
        started = time.perf_counter()
        session.run_frame(frame, "")
        took.append(time.perf_counter() - started)
    changes = []
    for i in range(3):
        schemas["inventory", "t1"] = TableSchema((*schema.columns, Column(f"new{i}", types.STRING)), ("id",))
        started = time.perf_counter()
        frame = compiler.frame(compiler.transforms(compiled()), 2, _nothing(), _counted)
        session.run_frame(frame, "")
        changes.append(time.perf_counter() - started - median(took))
    print(
        f"{number} rules: all compiled and the first batch {first:.1f} s, a batch without rows "
        f"{median(took) * 1e3:.0f} ms, a changed table {median(changes):.2f} s more",
        flush=True,
    )
    return took, changes


def _nothing() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return iter(())

    return stage


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"outcome": pa.array([str(rows).encode()], pa.binary())})


def main() -> None:
    """Measure, and print."""
    arguments = options_of(messages=1_500_000, rounds=2)
    arguments.add_argument("--only", choices=["tenth", "many", "plans"])
    options = arguments.parse_args()
    if options.only in {None, "plans"}:
        save(options, "transforms", plans())
    for name, part in {"tenth": tenth, "many": many}.items():
        if options.only in {None, name}:
            with own_broker() as (bootstrap, folder):
                what, ratios = part(bootstrap, folder, options.messages, options.rounds)
                save(options, "transforms", {what: ratios}, messages=options.messages)


if __name__ == "__main__":
    main()
