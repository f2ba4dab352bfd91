"""Pipelines that run in this process, from a file into a real sink, and the comparison of what they have written."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.config.diagnostics import render
from ingest.config.loader import load_text
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.startup import PipelineStartup
from ingest.observe.events import RunEnded
from ingest.task import worker
from ingest.testing.in_memory_run import shared_spark
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop
from ingest.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ingest.verify.rows import TableVerdict
    from ingest.verify.verification import Verdict


class FilePipeline:
    """A pipeline from lines of files to a sink."""

    def __init__(
        self, folder: Path, sink: Mapping[str, Any], source: Mapping[str, Any] | None = None, **sections: Any
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.sink, self.source = dict(sink), dict(source or {})
        """`source`: options of the source, one of files where it has no type."""
        files = {"type": "file", "path": str(folder / "*.in"), "file.envelope": True}
        given: dict[str, Any] = {} if source is not None and "type" in source else files
        given |= source or {"value.format": "debezium-json"}
        if given["type"] != "mysql":
            given.setdefault("scan.max.pre.fetch.records", 0)
        self.text = json.dumps({
            "pipeline": {"name": "p"}, "source": given,
            "sink": dict(sink), **sections,
        })  # fmt: skip
        loaded = load_text("pipeline.yaml", self.text, "p")
        assert loaded.pipeline is not None, render(loaded.diagnostics)
        self.pipeline = loaded.pipeline
        self.settings = Settings(str(self.checkpoint), folder / "logs", once=True)

    def add(self, *records: tuple[Any, Any], file: str = "shop") -> None:
        """Add lines with keys and values."""
        with (self.folder / f"{file}.in").open("a") as lines:
            lines.writelines(json.dumps({"key": key, "value": value}) + "\n" for key, value in records)

    def change(self, op: str, before: Any, after: Any, table: str = "orders", file: str = "shop") -> None:
        """Add a change as Debezium tells it."""
        row = before if after is None else after
        value = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}
        self.add(({"id": row["id"]}, value), file=file)

    def run(self) -> None:
        """Run until the files are drained; raises what ends the run."""
        context = RunContext(self.pipeline, self.settings, lambda _: None)
        engine = InProcessEngine(InProcessRunner(lambda: (None, None)), shared_spark)
        endpoints = Endpoints(self.pipeline.source, self.pipeline.sink, None)
        parts = make_parts(
            context, self.pipeline.rules, endpoints, engine, NoStop(), Listeners(lambda _: None, lambda *_: None)
        )
        counters = RunCounters(RunEnded("p"), 1000)
        try:
            with (
                CheckpointAccess(CheckpointLocation(str(self.checkpoint))) as access,
                started(context, parts, PipelineStartup(context, parts, counters), access, counters) as (_, driver),
            ):
                driver.run()
        finally:
            worker.forget()

    def verify(self, *tables: str, limit: int = 20) -> Verdict:
        """Compare the sink with the files."""
        spark: Any = SimpleNamespace(sql=shared_spark)
        return Verification(self.pipeline, self.settings, limit=limit, session=lambda: spark).run(tables)


def found(report: Verdict) -> dict[str, int]:
    """The counts of differences that are not zero, of all tables."""
    out: dict[str, int] = {}
    for table in report.tables:
        for kind, count in found_in(table).items():
            out[kind] = out.get(kind, 0) + count
    return out


def found_in(table: TableVerdict) -> dict[str, int]:
    """The counts of differences of a table that are not zero."""
    counts = {kind: getattr(table.counts, kind) for kind in ("missing", "extra", "other", "duplicate")}
    return {kind: count for kind, count in counts.items() if count}


def change_orders(pipeline: FilePipeline) -> None:
    """Changes of a table: two rows that stay, one that goes, one that gets another key, one that comes back."""
    rows = {i: {"id": i, "name": f"n{i}", "v": i} for i in range(1, 6)}
    for one in rows.values():
        pipeline.change("c", None, one)
    pipeline.change("u", rows[1], {**rows[1], "name": "later", "v": 11})
    pipeline.change("d", rows[2], None)
    pipeline.change("u", rows[3], {**rows[3], "id": 30})
    pipeline.change("d", rows[4], None)
    pipeline.change("c", None, {**rows[4], "v": 12})
