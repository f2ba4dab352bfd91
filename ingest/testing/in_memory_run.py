"""A pipeline run in this process on given records: no Kafka, the same main street and the same task.

Spark starts only where a transform has expressions, and has nothing but them to do.

In: a pipeline, records. Out: what would have been written, rejected, skipped and changed. What tests of pipelines use,
ours and the users' (`ingest test`).
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ingest.driver.loop import Loop
from ingest.driver.start import Settings
from ingest.errors import IngestError
from ingest.observe.events import Event, Printed, RunEnded, SchemaChanged, Warned
from ingest.spark.session import Session
from ingest.task import changelog, worker
from ingest.testing.capturing import GivenSource, KeptLetters, KeptSink

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from ingest.config.pipeline import Pipeline
    from ingest.kafka.admin import Split
    from ingest.model.record import Headers
    from ingest.observe.events import Observer
    from ingest.schema.evolve import Schemas
    from ingest.transform.compiler import Compiler


@dataclass(slots=True)
class MemoryRecord:
    """A record that a test gives. `index` is its number among all of them."""

    index: int
    topic_name: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    partition_number: int = 0
    position: int = 0
    millis: int | None = None
    sent: Headers = field(default_factory=list)

    def key(self) -> bytes | None:
        """The key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """The value's bytes."""
        return self.value_bytes

    def topic(self) -> str:
        """The topic."""
        return self.topic_name

    def partition(self) -> int:
        """The partition."""
        return self.partition_number

    def offset(self) -> int:
        """The position in the partition."""
        return self.position

    def timestamp(self) -> tuple[int, int]:
        """When it was made."""
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> Headers:
        """Names and values."""
        return self.sent

    def leader_epoch(self) -> int:
        """The first."""
        return 0


@dataclass(slots=True)
class Rehearsed:
    """What became of the records. Everything in the order in which it happened."""

    records: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    """Topic, key, value of what a sink in Kafka would get; for a file sink the file stands for the topic."""
    lines: list[str] = field(default_factory=list)
    """What the sink showed."""
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """Index of the record, stage and code."""
    letters: list[tuple[str, bytes | None, bytes | None, dict[str, str]]] = field(default_factory=list)
    """Dead letters: topic, key, value, our headers."""
    skipped: dict[str, int] = field(default_factory=dict)
    withheld: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: Schemas | None = None
    error: IngestError | None = None
    """What the run ended with, if not with success."""


def rehearse(pipeline: Pipeline, records: Sequence[MemoryRecord], *, look_ahead: int = 1) -> Rehearsed:
    """Run a pipeline on records until they are drained. Raises nothing for what a pipeline or a record holds.

    `look_ahead`: how many records a task looks at when one does not fit its table's schema, that one included.
    """
    out = Rehearsed()
    by_split: dict[Split, list[MemoryRecord]] = {}
    for record in records:
        of_split = by_split.setdefault((record.topic_name, record.partition_number), [])
        record.position = len(of_split)
        of_split.append(record)
    source, sink = GivenSource(pipeline.source, by_split), KeptSink(pipeline.sink, out)
    options = pipeline.pipeline
    if options.collector is not None:
        options = options.model_copy(update={"collector": KeptLetters(options.collector, out)})
    staged = pipeline.model_copy(update={"source": source, "sink": sink, "pipeline": options})
    by_place = {(r.topic_name, r.partition_number, r.position): r.index for r in records}

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

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(folder, Path(folder) / "logs", once=True)
        summary = RunEnded(options.name)
        run = Inline(staged, settings, observe, summary, look_ahead - 1)
        try:
            run.run()
        except IngestError as exc:
            out.error = exc
        finally:
            run.resources.close()
            worker.discard()
            shutil.rmtree(changelog.folder(run.checkpoint.scope), ignore_errors=True)
    out.rejects = [(by_place[r.topic, r.partition, r.offset], r.stage, r.code) for r in run.rejected]
    out.skipped, out.withheld, out.cut = dict(summary.skipped), dict(summary.withheld), dict(summary.cut)
    out.schemas = run.schemas
    return out


class _Value(NamedTuple):
    """A broadcast that goes nowhere."""

    value: Any


class InProcess:
    """What main street needs of Spark."""

    slots = 1

    def broadcast(self, value: Any) -> _Value:  # noqa: ANN401  (anything)
        """Keep a value."""
        return _Value(value)

    def run(self, function: Callable[[Iterable[Any]], Iterator[Any]], tasks: Sequence[Any]) -> list[Any]:
        """Do one task after the other."""
        return [outcome for task in tasks for outcome in function([task])]

    def stop(self) -> None:
        """Nothing runs."""
        return


@cache
def _spark() -> SparkSession:
    """Spark SQL for all rehearsals in this process."""
    folder = tempfile.mkdtemp(prefix="ingest-test-")
    session = Session("ingest test", "local[1]", {}, lock=None, log=Path(folder) / "spark.log")

    def end() -> None:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return session.sql()


class NoStop:
    """Nobody stops it."""

    asked = False

    @contextmanager
    def installed(self) -> Generator[None]:
        """Listen to nobody."""
        yield

    def listen(self) -> None:
        """Listen to nobody."""


class Inline(Loop):
    """Main street without Spark."""

    def ask_workers(self) -> list[str]:
        """Ask nobody."""
        return []

    def __init__(
        self, pipeline: Pipeline, settings: Settings, observer: Observer, summary: RunEnded, look_ahead: int
    ) -> None:
        """`look_ahead`: how many records a task looks at behind one that does not fit."""
        super().__init__(pipeline, settings, observer, summary)
        self.stop = NoStop()  # type: ignore[assignment]
        self.look_ahead = look_ahead
        self.rejected: list[Any] = []

    def start_spark(self, connecting: Any) -> Any:  # noqa: ANN401
        """Wait for the other half of the start; raises its error."""
        if connecting is not None and (error := connecting.exception()) is not None:
            raise error
        return InProcess()

    def spark_sql(self) -> SparkSession:
        """Return the Spark SQL that all rehearsals share."""
        return _spark()

    def make_stages(self, compiler: Compiler) -> Any:  # noqa: ANN401  (it plays the part of `Stages`)
        """Return what runs both stages of a transform in this process."""
        from ingest.driver.transforms import InlineStages  # noqa: PLC0415  (most tests need no Spark SQL)

        return InlineStages(compiler)

    def report(self, batch: Any, outcomes: Any) -> None:  # noqa: ANN401
        """Keep the rejects, too."""
        self.rejected += [reject for outcome in outcomes for reject in outcome.rejects]
        super().report(batch, outcomes)
