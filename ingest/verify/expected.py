"""The rows that a sink should have: what its pipeline makes of the source's records, written nowhere.

A reading is a run of the pipeline in this process, without a sink: it decodes, transforms, routes and encodes under the
pipeline's checkpoint, of which nothing is changed. In: positions. Out: keys and values of records, as the sink's writer
would get them.

- `ExpectedRows` reads topics and files over ranges.
- `SnapshotRows` reads a database: its tables anew, chunk by chunk, and then the log up to where the server is.

Rules: docs/spec/verify.md#databases-as-sources.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ingest.checkpoint.checkpoint import Checkpoint, Progress
from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.driver.backlog import Backlog
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.pacing import Pacing
from ingest.driver.run import started
from ingest.driver.run_parts import Endpoints, Listeners, RunParts, make_parts
from ingest.driver.startup import PipelineStartup, Start, begin_existing
from ingest.errors import ConfigError, SchemaChangeRefused
from ingest.model.table import TableId, show
from ingest.observe.events import Event, RunEnded, Warned
from ingest.sinks.sink import PlainWriter
from ingest.sources.backfill import BackfillCoordinator, BackfillSource
from ingest.sources.stateful import SourceState
from ingest.task import worker
from ingest.testing.discarding_sink import DiscardingCoordinator
from ingest.testing.in_memory import InMemorySink
from ingest.testing.in_process import InProcessEngine, InProcessRunner, NoStop
from ingest.testing.sample_run import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.component.options import AnyOptions
    from ingest.config.pipeline import Pipeline
    from ingest.encode.upsert_encoder import Destination
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.sinks import SinkCoordinator
    from ingest.spark.session import Session

    Receiver: TypeAlias = Callable[[int, Destination, list[tuple[bytes, bytes | None]]], None]
    """Function that gets keys and values of records of one destination, in their order, and their split's number."""
    Begin: TypeAlias = Callable[[Any, Checkpoint, Progress], dict[Split, int]]
    """Function that returns where a reading begins: of the source's coordinator, and the pipeline's progress."""

_AT_ONCE: Final = 5_000
"""Records that are handed on together."""
_PLAIN: Final = re.compile(r"\w+\.\w+", re.ASCII)
_MAX_SELECTOR: Final = 5_000
"""Characters of a selector, at most: of more tables all are read."""


@dataclass(frozen=True)
class ExpectedSource(BackfillSource):
    """The pipeline's source, read between positions. Rejects are left out, and rows before changes not looked up."""

    upserts = False  # no rows are looked up: only the last one of a key counts
    tolerated = ALL  # the pipeline has counted them

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> RangesCoordinator:
        """Return a coordinator of the ranges to read."""
        return RangesCoordinator(self.source.coordinator(pipeline, warn), warn)


class RangesCoordinator(BackfillCoordinator):
    """The coordinator of the pipeline's splits between positions."""

    def ranges(
        self, starts: Mapping[Split, int] | None, ends: Mapping[Split, int], ids: Mapping[str, str]
    ) -> dict[Split, int]:
        """Set the positions to read up to. Return where each split starts: at `starts`, or at its first record.

        Raise IngestError.
        """
        first = self.bound(ends, ids)
        return first if starts is None else {split: max(at, starts.get(split, at)) for split, at in first.items()}


class Readings:
    """Runs a pipeline over its source without writing: a receiver gets the records, `tell` the warnings."""

    def __init__(
        self,
        pipeline: Pipeline,
        settings: Settings,
        sink: AnyOptions,
        tell: Callable[[str], None],
        session: Callable[[], Session],
    ) -> None:
        """`sink`: the options whose encoder makes records of rows. `tell` gets each warning once.

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
        begin: Begin,
        take: Receiver,
        number: Callable[[Split], int] = lambda _: 0,
        learned: dict[TableId, TableSchema] | None = None,
    ) -> tuple[RunEnded, RunParts, Start]:
        """Run once from the positions that `begin` returns. Return the run's summary, parts and start.

        Raise IngestError.

        `number`: returns the number of a split. The schemas that the source has of its tables are added to `learned`.
        """
        context = RunContext(self.pipeline, self._settings, self._saw)
        with ExitStack() as resources:
            writing = self.pipeline.sink.coordinator(context.name, self.warn)
            resources.callback(writing.close)
            stand_in = StandInCoordinator(writing, self.warn)
            sink = _ExpectedSink(self._sink, stand_in, lambda: ForwardingWriter(number, take))
            runner = InProcessRunner(lambda: self._session().hadoop)
            engine = InProcessEngine(runner, lambda: self._session().sql())
            quiet = Listeners(lambda _: None, lambda *_: None)
            parts = make_parts(context, self.pipeline.rules, Endpoints(source, sink, None), engine, NoStop(), quiet)
            parts = replace(parts, pacing=OneSplitPacing(0.0, source.rate_limit, None))
            summary = RunEnded(context.name)
            counters = RunCounters(summary, self.pipeline.pipeline.max_tables)
            startup = ReadingStartup(context, parts, counters, begin, {} if learned is None else learned)
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
        """Pass on a warning, each text once."""
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
        """Pass the records of changes between positions to `take`. Raise IngestError.

        `starts`: None reads from the beginning of each split.
        """
        first: dict[Split, int] = {}

        def begin(coordinator: RangesCoordinator, _: Checkpoint, main: Progress) -> dict[Split, int]:
            wanted = {split: at for split, at in ends.items() if self._source.reads(split)}
            first.update(coordinator.ranges(starts, wanted, main.ids))
            return first

        def number(split: Split) -> int:
            return self._splits.setdefault(split, len(self._splits))

        summary, _, _ = self._readings.read(self._source, begin, take, number)
        if starts is None:
            lost = {split for split in ends if self._source.reads(split) and first.get(split, 1) > 0}
            self.incomplete = [f"{name}[{p}]" for name, p in sorted(lost)]
        return summary


@dataclass(frozen=True, slots=True)
class _ExpectedSink(InMemorySink):
    """A sink that encodes records as the real one does, and passes them to the comparison."""

    def unregistered(self) -> _ExpectedSink:
        """Return this sink: no schema registry is asked."""
        return self

    def prefix(self, pipeline: str) -> str | None:
        """Return None: nothing is committed."""
        return None

    @property
    def parallelism(self) -> int:
        """Return 1: states of a key keep their order."""
        return 1


class StandInCoordinator(DiscardingCoordinator):
    """The coordinator of the sink of expected rows: answers as the real one does, and refuses no table."""

    def __init__(self, real: SinkCoordinator, warn: Callable[[str], None]) -> None:
        super().__init__(real)
        self.places = None  # what is not there shows when it is read
        self._warn = warn

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Ask the real sink with which types its tables store numbers.

        A schema at which a run would stop is a warning: its table is compared as it is.
        """
        for table, schema in schemas.items():
            try:
                self.undeclared({table: schema})
            except SchemaChangeRefused as exc:
                self._warn(f"a run would stop here: {exc.message}")


class OneSplitPacing(Pacing):
    """Pacing that reads one split after the other, so that each record's split is known."""

    def ranges(
        self, positions: Mapping[Split, int], ends: Mapping[Split, int], shards: Mapping[Split, int]
    ) -> dict[Split, tuple[int, int]]:
        """Return the range of the first split with unread records."""
        left = next(split for split in sorted(positions) if positions[split] < ends.get(split, 0))
        return super().ranges({left: positions[left]}, {left: ends[left]}, {left: shards[left]})


class ReadingStartup:
    """The start of a reading run, on the pipeline's checkpoint, which stays unchanged."""

    def __init__(
        self,
        context: RunContext,
        parts: RunParts,
        counters: RunCounters,
        begin: Begin,
        learned: dict[TableId, TableSchema],
    ) -> None:
        self._parts = parts
        self._begin = begin
        self._learned = learned
        self._pipeline = PipelineStartup(context, parts, counters)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and begin. Raise IngestError."""
        begin_existing(checkpoint, "verify")
        self._pipeline.identify(checkpoint)
        main, _ = self._pipeline.resume(checkpoint)
        coordinator = self._parts.source
        progress = Progress()
        progress.positions = self._begin(coordinator, checkpoint, main)
        progress.ids = dict(coordinator.ids)
        checkpoint.batches = "verify"
        tables, schemas = self._pipeline.schemas(checkpoint, same_cluster=False)
        stored = schemas.take_over()
        source_state = self._pipeline.memory
        backlog = Backlog(progress, coordinator.ends(progress.positions), drain=True, fixed=source_state.fixed)
        if new := source_state.new_schemas():
            self._learned.update(new)
            schemas.evolve(new)
        return Start(checkpoint, self._parts.endpoints.source, backlog, tables, schemas, stored, resumed=True)


class ForwardingWriter(PlainWriter):
    """A writer that passes committed records on to the comparison."""

    def __init__(self, number: Callable[[Split], int], take: Receiver) -> None:
        """`number`: returns the number of a split."""
        self._number = number
        self._take = take
        self._pending: list[tuple[Any, bytes, bytes | None]] = []

    def write(self, records: Sequence[Any]) -> None:
        """Keep records until the commit."""
        self._pending += [(to, key, None if value is None else bytes(value)) for to, key, value in records]

    def commit(self, positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Pass the records since the last commit to the comparison, by destination."""
        by_destination: dict[int, tuple[object, list[tuple[bytes, bytes | None]]]] = {}
        for to, key, value in self._pending:
            by_destination.setdefault(id(to), (to, []))[1].append((key or b"", value))
        self._pending = []
        for split in positions:
            number = self._number(split)
            for to, records in by_destination.values():
                for at in range(0, len(records), _AT_ONCE):
                    self._take(number, to, records[at : at + _AT_ONCE])
            break  # a batch has one

    def abort(self) -> None:
        """Discard the records since the last commit."""
        self._pending = []


@dataclass(frozen=True, slots=True)
class Reached:
    """The positions at which a reading of the source ended, for the next reading."""

    positions: dict[Split, int]
    state: SourceState


class SnapshotRows:
    """The records that a pipeline makes of the tables of a database."""

    incomplete: tuple[str, ...] = ()

    def __init__(self, readings: Readings, tables: Iterable[TableId]) -> None:
        """`tables`: those that are compared."""
        self._readings = readings
        self._tables = selector_of(tables)
        self._reached: Reached | None = None
        self.schemas: dict[TableId, TableSchema] = {}
        """The tables at the source, as they are now."""

    @property
    def positions(self) -> dict[Split, int]:
        """The positions of the log that were reached."""
        assert self._reached is not None
        return {split: at for split, at in self._reached.positions.items() if split == self.log}

    log: Split = ("binlog", 0)
    """The split of the log. Those of the snapshot are this reading's own."""

    def read(self, take: Receiver) -> RunEnded:
        """Pass the records of all rows to `take`, or those of changes since the last reading. Raise IngestError."""
        summary, self._reached = self._run(self._reached, take, again=True)
        return summary

    def changes(self, take: Receiver) -> RunEnded:
        """Pass the records of the changes that the pipeline has not read yet to `take`. Raise IngestError."""
        return self._run(None, take, again=False)[0]

    def _run(self, reached: Reached | None, take: Receiver, *, again: bool) -> tuple[RunEnded, Reached]:
        source = _beside(self._readings.pipeline.source, self._tables, again=again)

        def begin(coordinator: Any, checkpoint: Checkpoint, main: Progress) -> dict[Split, int]:
            if reached is not None:
                coordinator.restore(reached.state)
                return dict(coordinator.start(reached.positions, {}, checkpoint.id, None))
            if main.source_state is None:
                raise ConfigError("the checkpoint does not say where the log is read", "let the pipeline run first")
            coordinator.restore(SourceState(main.source_state, checkpoint.documents()))
            return dict(coordinator.start({} if again else main.positions, {}, checkpoint.id, None))

        # Of a key the changes of the log follow its row, whichever split they are of
        summary, parts, start = self._readings.read(source, begin, take, learned=self.schemas)
        coordinator: Any = parts.source
        return summary, Reached(dict(start.backlog.positions), coordinator.state())


def selector_of(tables: Iterable[TableId]) -> str | None:
    """Return a selector that matches exactly these tables; None where a name has special characters."""
    names = sorted(map(show, tables))
    plain = all(_PLAIN.fullmatch(name) for name in names) and sum(map(len, names)) <= _MAX_SELECTOR
    return ",".join(names) if plain else None


def _beside(source: AnyOptions, tables: str | None, *, again: bool) -> AnyOptions:
    """Return a source's options for a reading beside the pipeline's run. `again`: it begins with all rows."""
    # A server ends the connection of whoever reads its log under the number of another one
    update: dict[str, Any] = {
        "server_id": str(source.lane_id()),
        "format": type(source.format)(),
        "ignore_errors": True,
        "max_errors": -1,
    }
    if tables is not None:
        update["tables"] = tables
    return source.model_copy(update=update | ({"startup_mode": "initial"} if again else {}))


def unread(state: Any) -> list[str]:
    """Return the tables of which a source's state says that not all rows are read yet."""
    tables = state.get("snapshots", ()) if isinstance(state, dict) else ()
    return [show(tuple(t["name"])) for t in tables if t["rest"] or any(mark is None for _, mark in t["pieces"])]
