"""One sample of a pipeline's records, over which it is run without a trace, as often as somebody wants to know more."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation, ExportedLocation
from ingest.driver.context import RunContext, Settings, Stop
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.startup import PipelineStartup, Start
from ingest.errors import IngestError
from ingest.observe.events import Event, Observer, RunEnded
from ingest.spark.session import Session
from ingest.task import worker
from ingest.testing.discarding_sink import CountingCollector, DiscardingCoordinator, DiscardingWriter
from ingest.testing.in_memory import InMemorySink, InMemorySource
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop
from ingest.testing.sampling import SampledCoordinator, SampledReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from ingest.config.pipeline import Pipeline
    from ingest.driver.schemas import SchemaRules
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import SchemaChange
    from ingest.sinks import Sink, Writer
    from ingest.sources import Source


ALL: Final = 1 << 62
"""More rejects than a sample can have."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A dry run that is over."""

    start: Start
    rules: SchemaRules
    collector: CountingCollector
    summary: RunEnded
    happened: list[Event]
    withheld: dict[SchemaChange, str]
    """Changes that the sink is not to see, each with the reason."""
    error: IngestError | None
    """The error that it ended with; None after a success."""


class SampleRun:
    """The common parts of a pipeline's dry runs: one sample, one connection to everything."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        source: Source,
        sink: Sink,
        resources: ExitStack,
        tell: Callable[[str], None],
    ) -> None:
        """`resources` closes what is connected, `tell` gets warnings until then."""
        name = pipeline.pipeline.name
        self.pipeline = pipeline
        self.options = source
        self.warnings: dict[str, None] = {}
        self._tell = tell
        self._connected = False
        self._settings = replace(settings, once=True)
        reading = source.coordinator(name, self.warn)
        resources.callback(reading.close)
        self.source = SampledCoordinator(source, reading, name)
        writing = sink.coordinator(name, self.warn)
        resources.callback(writing.close)
        self.sink = DiscardingCoordinator(writing)
        self._sink = sink
        self._session = session_on_demand(settings, resources)

    def warn(self, text: str) -> None:
        """Keep a warning, each text once. Before everything is connected, pass it on at once as well."""
        self.warnings[text] = None
        if not self._connected:
            self._tell(text)

    def run(self, tolerated: int) -> DryRun:
        """Run over the sample to its end, or until more records are rejected than are tolerated.

        Raises IngestError for what ends a run before it reads anything.
        """
        return self.drive(
            tolerated, DiscardingWriter, Pacing(0.0, None, self._sink.capabilities.most_per_batch), NoStop(), _ignore
        )

    def drive(
        self, tolerated: int, writers: Callable[[], Writer], pacing: Pacing, stop: Stop, observe: Observer
    ) -> DryRun:
        """Run over the sample with this pacing until it ends or is stopped. `writers` makes the writer of a task.

        Raises IngestError for what ends a run before it reads anything.
        """
        happened: list[Event] = []
        withheld: dict[SchemaChange, str] = {}

        def saw(event: Event) -> None:
            happened.append(event)
            observe(event)

        context = RunContext(self.pipeline, self._settings, saw)
        collector = CountingCollector(self.pipeline.pipeline.collector, self.source.sample)
        listeners = Listeners(_ignore, withheld.__setitem__)
        endpoints = Endpoints(self._sampled(tolerated), InMemorySink(self._sink, self.sink, writers), collector)
        parts = make_parts(context, self.pipeline.rules, endpoints, self._engine(context), stop, listeners)
        parts = replace(parts, pacing=pacing)
        summary = RunEnded(context.name)
        counters = RunCounters(summary, self.pipeline.pipeline.max_tables)
        error = None
        try:
            with (
                CheckpointAccess(self._location()) as access,
                started(context, parts, PipelineStartup(context, parts, counters), access, counters) as (start, driver),
            ):
                self._connected = True
                try:
                    driver.run()
                except IngestError as exc:
                    error = exc
        finally:
            worker.forget()  # a dry run that follows has the same number
        return DryRun(start, parts.rules, collector, summary, happened, withheld, error)

    def _location(self) -> CheckpointLocation | ExportedLocation:
        export = self._settings.progress
        if export is not None:
            return ExportedLocation(export)
        return CheckpointLocation(self._settings.checkpoint, read_only=True)

    def _sampled(self, tolerated: int) -> InMemorySource:
        """Return the pipeline's source with the sample. Rows before upserts are not looked up: nothing is written."""
        sample = self.source.sample
        return InMemorySource(
            self.options,
            self.source,
            lambda: SampledReader(sample),
            tolerated,
            replace(self.options.capabilities, upserts=False),
            rate_limit=None,
        )

    def _engine(self, context: RunContext) -> InProcessEngine:
        speculates = self._settings.conf.get("spark.speculation", "").lower() == "true"
        runner = InProcessRunner(lambda: self._session().hadoop, speculates=speculates)
        return InProcessEngine(runner, lambda: self._session().sql(), context.prefix)


def session_on_demand(settings: Settings, resources: ExitStack) -> Callable[[], Session]:
    """Return a function that starts Spark at its first call, and returns the same session afterwards."""

    @cache
    def session() -> Session:
        folder = resources.enter_context(tempfile.TemporaryDirectory())
        log = Path(folder) / "spark.log"
        started_session = Session("ingest plan", "local[1]", settings.conf, lock=None, log=log)
        resources.callback(started_session.stop)
        return started_session

    return session


def _ignore(_what: RejectedRecord | Event) -> None:
    """Do nothing: rejects are counted by the collector, and events are kept."""
