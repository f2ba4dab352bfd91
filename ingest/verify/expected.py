"""The rows that a sink should have: what its pipeline makes of the source's records, written nowhere.

It is main street itself, in this process, over ranges of the source: decode, transforms, routes, the sink's schemas and
the sink's encoder. In: positions. Out: the keys and values of records, as the sink's writer would get them.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ingest.checkpoint.checkpoint import Progress
from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.driver.backlog import Backlog
from ingest.driver.context import RunContext
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, make_parts
from ingest.driver.startup import PipelineStartup, Start, begin_existing
from ingest.errors import SchemaChangeRefused
from ingest.observe.events import RunEnded, Warned
from ingest.sinks.sink import PlainWriter
from ingest.sources.backfill import BackfillCoordinator, BackfillSource
from ingest.task import worker
from ingest.testing.discarding_sink import DiscardingCoordinator
from ingest.testing.in_memory import InMemorySink
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop
from ingest.testing.sample_run import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.component.options import AnyOptions
    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import Settings
    from ingest.driver.run_parts import RunParts
    from ingest.driver.startup import Startup
    from ingest.encode.upsert_encoder import Destination
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.observe.events import Event
    from ingest.sinks import SinkCoordinator
    from ingest.spark.session import Session

    Receiver: TypeAlias = Callable[[int, Destination, list[tuple[bytes, bytes | None]]], None]
    """Whoever gets keys and values of records of one destination, in their order, and the number of their split."""

_AT_ONCE = 5_000
"""Records that are handed on together."""


@dataclass(frozen=True)
class ExpectedSource(BackfillSource):
    """The pipeline's source, over ranges: what it rejects is no row, and what was before a row does not count."""

    upserts = False  # no rows are looked up: only the last one of a key counts
    tolerated = ALL  # the pipeline has counted them

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> RangesCoordinator:
        """Return the driver's side."""
        return RangesCoordinator(self.source.coordinator(pipeline, warn), warn)


class RangesCoordinator(BackfillCoordinator):
    """The driver's side: the pipeline's splits, between positions."""

    def ranges(
        self, starts: Mapping[Split, int] | None, ends: Mapping[Split, int], ids: Mapping[str, str]
    ) -> dict[Split, int]:
        """Read between these positions, or from the beginning; returns where each split begins. Raise IngestError."""
        first = self.bound(ends, ids)
        return first if starts is None else {split: max(at, starts.get(split, at)) for split, at in first.items()}


class Readings:
    """Runs of a pipeline over its source that are written nowhere: who gets the records, and who is warned."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        sink: AnyOptions,
        tell: Callable[[str], None],
        session: Callable[[], Session],
    ) -> None:
        """`sink`: by whose encoder rows become records. `tell` gets each warning once.

        `session` starts Spark where it is needed, or returns the one that was started.
        """
        self.pipeline = pipeline
        self._settings = replace(settings, once=True)
        self._sink = sink
        self._tell = tell
        self._session = session
        self._told: set[str] = set()

    def read(
        self,
        source: AnyOptions,
        startup_of: Callable[[RunContext, RunParts, RunCounters], Startup],
        pacing: Pacing,
        writer: Callable[[], HandingOn],
    ) -> tuple[RunEnded, RunParts, Start]:
        """Run once, from where a startup says; returns what the run leaves. Raise IngestError."""
        context = RunContext(self.pipeline, self._settings, self._saw)
        with ExitStack() as resources:
            writing = self.pipeline.sink.coordinator(context.name, self.warn)
            resources.callback(writing.close)
            sink = _ExpectedSink(self._sink, LookingCoordinator(writing, self.warn), writer)
            runner = InProcessRunner(lambda: self._session().hadoop)
            engine = InProcessEngine(runner, lambda: self._session().sql())
            quiet = Listeners(lambda _: None, lambda *_: None)
            parts = make_parts(context, self.pipeline.rules, Endpoints(source, sink, None), engine, NoStop(), quiet)
            parts = replace(parts, pacing=pacing)
            summary = RunEnded(context.name)
            counters = RunCounters(summary, self.pipeline.pipeline.max_tables)
            startup = startup_of(context, parts, counters)
            try:
                with (
                    CheckpointAccess(CheckpointLocation(self._settings.checkpoint, read_only=True)) as access,
                    started(context, parts, startup, access, counters) as (start, driver),
                ):
                    driver.run()
            finally:
                worker.forget()  # another reading has the same number
        return summary, parts, start

    def _saw(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warn(event.text)

    def warn(self, text: str) -> None:
        """Tell a warning, if it was not told yet."""
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


class ExpectedRows:
    """The records that a pipeline makes of topics, or files, between positions."""

    def __init__(self, readings: Readings, tables: Iterable[TableId]) -> None:
        """`tables`: source tables."""
        self._readings = readings
        self._source = ExpectedSource(readings.pipeline.source, frozenset(tables))
        self._splits: dict[Split, int] = {}
        self.incomplete: list[str] = []
        """Splits whose beginning is not there any more, so that the source does not know all rows."""

    def read(self, starts: Mapping[Split, int] | None, ends: Mapping[Split, int], take: Receiver) -> RunEnded:
        """Hand on the records of changes between positions, or from the beginning. Raise IngestError."""
        first: dict[Split, int] = {}

        def startup_of(context: RunContext, parts: RunParts, counters: RunCounters) -> RangeStartup:
            return RangeStartup(context, parts, counters, starts, ends, first)

        def number(split: Split) -> int:
            return self._splits.setdefault(split, len(self._splits))

        pacing = OneSplit(0.0, self._source.rate_limit, None)
        summary, _, _ = self._readings.read(self._source, startup_of, pacing, lambda: HandingOn(number, take))
        if starts is None:
            lost = {split for split in ends if self._source.reads(split) and first.get(split, 1) > 0}
            self.incomplete = [f"{name}[{p}]" for name, p in sorted(lost)]
        return summary


@dataclass(frozen=True, slots=True)
class _ExpectedSink(InMemorySink):
    """A sink by whose encoder rows become records, which go elsewhere; the real one is asked about its tables."""

    def unregistered(self) -> _ExpectedSink:
        """Return this sink: no schema registry is asked."""
        return self

    def prefix(self, pipeline: str) -> str | None:
        """Return None: nothing is committed."""
        return None

    @property
    def parallelism(self) -> int:
        """One: states of a key keep their order."""
        return 1


class LookingCoordinator(DiscardingCoordinator):
    """The driver's side of a sink that gets nothing: it says what the real one has, and stops at no table of it."""

    def __init__(self, real: SinkCoordinator, warn: Callable[[str], None]) -> None:
        super().__init__(real)
        self.places = None  # what is not there shows when it is read
        self._warn = warn

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Ask by which types tables keep numbers; a table that a run would stop at is compared as it is."""
        for table, schema in schemas.items():
            try:
                self.undeclared({table: schema})
            except SchemaChangeRefused as exc:
                self._warn(f"a run would stop here: {exc.message}")


class OneSplit(Pacing):
    """The pace of a run that reads one split after the other, so that it is known which one a record is of."""

    def ranges(
        self, positions: Mapping[Split, int], ends: Mapping[Split, int], shards: Mapping[Split, int]
    ) -> dict[Split, tuple[int, int]]:
        """Return the range of the first split that has something left."""
        left = next(split for split in sorted(positions) if positions[split] < ends.get(split, 0))
        return super().ranges({left: positions[left]}, {left: ends[left]}, {left: shards[left]})


class RangeStartup:
    """The start of a reading between positions, under the pipeline's checkpoint, of which nothing is changed."""

    def __init__(
        self,
        context: RunContext,
        parts: RunParts,
        counters: RunCounters,
        starts: Mapping[Split, int] | None,
        ends: Mapping[Split, int],
        first: dict[Split, int],
    ) -> None:
        """Connect to nothing yet. `first` gets the positions where reading begins."""
        self._parts = parts
        self._starts, self._ends, self._first = starts, ends, first
        self._pipeline = PipelineStartup(context, parts, counters)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and begin at the starts. Raise IngestError."""
        begin_existing(checkpoint, "verify")
        self._pipeline.identify(checkpoint)
        main, _ = self._pipeline.resume(checkpoint)
        source: Any = self._parts.endpoints.source
        coordinator: Any = self._parts.source
        ends = {split: at for split, at in self._ends.items() if source.reads(split)}
        progress = Progress()
        progress.positions = coordinator.ranges(self._starts, ends, main.ids)
        self._first.update(progress.positions)
        progress.ids = dict(coordinator.ids)
        checkpoint.batches = "verify"
        tables, schemas = self._pipeline.schemas(checkpoint, same_cluster=False)
        known = schemas.take_over()
        backlog = Backlog(progress, coordinator.ends(progress.positions), drain=True)
        return Start(checkpoint, source, backlog, tables, schemas, known, resumed=True)


class HandingOn(PlainWriter):
    """A task's side of a sink, which hands on what is committed."""

    def __init__(self, number: Callable[[Split], int], take: Receiver) -> None:
        """`number`: returns the number of a split."""
        self._number = number
        self._take = take
        self._waiting: list[tuple[Any, bytes, bytes | None]] = []

    def write(self, records: Sequence[Any]) -> None:
        """Keep records until the commit."""
        self._waiting += [(to, key, None if value is None else bytes(value)) for to, key, value in records]

    def commit(self, positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Hand them on, by destination."""
        by_destination: dict[int, tuple[object, list[tuple[bytes, bytes | None]]]] = {}
        for to, key, value in self._waiting:
            by_destination.setdefault(id(to), (to, []))[1].append((key or b"", value))
        self._waiting = []
        for split in positions:
            number = self._number(split)
            for to, records in by_destination.values():
                for at in range(0, len(records), _AT_ONCE):
                    self._take(number, to, records[at : at + _AT_ONCE])
            break  # a batch has one

    def abort(self) -> None:
        """Forget what was not committed."""
        self._waiting = []
