"""A pipeline run in this process on given records: no Kafka, the same main street and the same task.

Spark starts only where a transform has expressions, and has nothing but them to do.

In: a pipeline, records. Out: what would have been written, rejected, skipped and changed. What tests of pipelines use,
ours and the users' (`ingest test`).
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.checkpoint.location import CheckpointAccess, MemoryLocation
from ingest.component.files import Files
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.schemas import warn_withheld
from ingest.driver.startup import PipelineStartup, Start
from ingest.errors import ConfigError, IngestError, InternalError
from ingest.observe.events import Event, Observer, Printed, RunEnded, SchemaChanged, TableSummary, Warned
from ingest.schema.evolve import Schemas
from ingest.spark.session import Session
from ingest.task import changelog, worker
from ingest.testing.capturing import Captured, CapturingCollector, capturing_sink
from ingest.testing.in_memory import MemoryRecord, in_memory
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from ingest.config.pipeline import Pipeline
    from ingest.model.record import Split
    from ingest.model.reject import RejectedRecord


@dataclass(slots=True)
class InMemoryRun:
    """The result of a run on records. Everything is in the order in which it happened."""

    records: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    """Topic, key, value of what a sink in Kafka would get; for a file sink the file stands for the topic."""
    lines: list[str] = field(default_factory=list)
    """Lines that the sink showed."""
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """Index of the record, stage and code."""
    letters: list[tuple[str, bytes | None, bytes | None, dict[str, str]]] = field(default_factory=list)
    """Dead letters: topic, key, value, our headers."""
    skipped: dict[str, int] = field(default_factory=dict)
    withheld: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    rounded: dict[str, int] = field(default_factory=dict)
    tables: dict[str, TableSummary] = field(default_factory=dict)
    """The counters of each table."""
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: Schemas | None = None
    error: IngestError | None = None
    """The error that the run ended with; None after a success."""


def run_in_memory(pipeline: Pipeline, records: Sequence[MemoryRecord], *, look_ahead: int = 1) -> InMemoryRun:
    """Run a pipeline on records until they are drained. Raises nothing for what a pipeline or a record holds.

    `look_ahead`: how many records a task looks at when one does not fit its table's schema, that one included.
    """
    captured = Captured()
    out = InMemoryRun(captured.records, letters=captured.letters)

    def observe(event: Event) -> None:
        match event:
            case SchemaChanged():
                out.changes.append(f"{event.table}> {event.change}")
            case Printed():
                out.lines += event.lines
            case Warned():
                out.warnings.append(event.text)
            case _:
                return

    formats = pipeline.source.with_files_of_formats(Files("source", _no_fetch, lambda text: observe(Warned(text))))
    source = in_memory(formats, by_split(records))
    options = pipeline.pipeline
    sink = capturing_sink(pipeline.sink, captured, options.name, lambda text: observe(Warned(text)))
    collector = None if options.collector is None else CapturingCollector(options.collector, captured)
    ran = run_in_process(pipeline, Endpoints(source, sink, collector), observe, look_ahead=look_ahead - 1)
    by_place = {(r.topic_name, r.partition_number, r.position): r.index for r in records}
    out.rejects = [(by_place[r.topic, r.partition, r.offset], r.stage, r.code) for r in ran.rejects]
    out.skipped, out.withheld, out.cut = dict(ran.summary.skipped), dict(ran.summary.withheld), dict(ran.summary.cut)
    out.unread = dict(ran.summary.unread)
    out.rounded = dict(ran.summary.rounded)
    out.tables = ran.summary.tables
    out.schemas, out.error = ran.schemas, ran.error
    return out


def by_split(records: Sequence[MemoryRecord]) -> dict[Split, list[MemoryRecord]]:
    """Return the records of each split, which get their positions by it."""
    out: dict[Split, list[MemoryRecord]] = {}
    for record in records:
        of_split = out.setdefault((record.topic_name, record.partition_number), [])
        record.position = len(of_split)
        of_split.append(record)
    return out


@dataclass(slots=True)
class InProcessRun:
    """A run in this process that is over."""

    summary: RunEnded
    rejects: list[RejectedRecord] = field(default_factory=list)
    schemas: Schemas = field(default_factory=Schemas)
    error: IngestError | None = None
    """The error that it ended with; None after a success."""


def run_in_process(pipeline: Pipeline, endpoints: Endpoints, observer: Observer, *, look_ahead: int) -> InProcessRun:
    """Run a pipeline with these endpoints until its source is drained. Its checkpoint is in memory.

    `look_ahead`: how many records a task looks at behind one that does not fit its table's schema. Raises ConfigError
    where the pipeline cannot be run at all.
    """
    out = InProcessRun(RunEnded(pipeline.pipeline.name))
    context = RunContext(pipeline, Settings("memory", Path("memory"), once=True), observer)
    engine = InProcessEngine(InProcessRunner(_no_java), shared_spark)
    listeners = Listeners(out.rejects.append, warn_withheld(context))
    parts = make_parts(context, pipeline.rules, endpoints, engine, NoStop(), listeners, look_ahead)
    counters = RunCounters(out.summary, pipeline.pipeline.max_tables)
    start: Start | None = None
    try:
        with (
            CheckpointAccess(MemoryLocation()) as access,
            started(context, parts, PipelineStartup(context, parts, counters), access, counters) as (start, driver),
        ):
            driver.run()
    except IngestError as exc:
        out.error = exc
    finally:
        worker.discard()
        if start is not None:
            out.schemas = start.schemas.schemas
            shutil.rmtree(changelog.folder(start.checkpoint.scope), ignore_errors=True)
    return out


def _no_fetch(place: str) -> bytes:
    raise ConfigError(f"a test reads no file from {place}", "give a local file, by a variable of the pipeline")


def _no_java() -> tuple[Any, Any]:
    raise InternalError("a run in memory needs no file system")


@cache
def shared_spark() -> SparkSession:
    """Return Spark SQL for all runs in this process."""
    folder = tempfile.mkdtemp(prefix="ingest-test-")
    session = Session("ingest test", "local[1]", {}, lock=None, log=Path(folder) / "spark.log")

    def end() -> None:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return session.sql()
