"""A dry run: what a run of a pipeline would do, written nowhere.

In: a pipeline, and where its checkpoint would be. Out: a `Preview`, and the error that the run would end with. It is
main street itself, in this process, over a sample of the records that wait: so whatever refuses a run refuses this.
The checkpoint is read only; the source and the sink are asked; Spark starts only where a transform has expressions, or
the checkpoint is on one of Hadoop's file systems.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.checkpoint.storage import HadoopStorage, LocalStorage, Overlay
from ingest.driver.sample_schemas import observe_chunks
from ingest.errors import DirtyData, IngestError, NoPrimaryKey
from ingest.model import types
from ingest.model.reject import head
from ingest.model.table import selector, show
from ingest.observe.events import OptionChanged, RunEnded, SchemaChanged, Warned
from ingest.schema.evolve import Schemas, reroute
from ingest.schema.routes import rule_of
from ingest.spark.session import Session
from ingest.task import worker
from ingest.testing.in_memory_run import Inline, InProcess
from ingest.testing.sampling import LookingCollector, LookingSink, SampledSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from ingest.checkpoint.storage import Storage
    from ingest.config.pipeline import Pipeline
    from ingest.driver.start import Settings
    from ingest.model.schema import SchemaChange, TableSchema
    from ingest.model.table import TableId
    from ingest.observe.events import Event


@dataclass(frozen=True, slots=True)
class TablePreview:
    """A source table, and what becomes of it."""

    table: str
    rule: str | None
    """The transform that changes its rows."""
    known: bool
    """Whether the checkpoint knows it already."""
    sink_tables: list[str]
    columns: list[dict[str, Any]]
    """Name, type, whether it may be null."""
    primary_key: list[str]


@dataclass(slots=True)
class Preview:
    """What a run would do."""

    pipeline: str
    checkpoint: str | None
    """The checkpoint that it would go on from; None where there is none yet."""
    guarantee: str
    splits: int
    waiting: int
    """Records that are there and not read yet."""
    looked_at: int
    """Those of them that this is about; where none is waiting, and there is no checkpoint, the newest ones instead."""
    tables: list[TablePreview] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """Schema changes of the sink's tables."""
    withheld: list[str] = field(default_factory=list)
    """Changes that the sink is not to see."""
    new_topics: list[str] = field(default_factory=list)
    rejects: list[dict[str, Any]] = field(default_factory=list)
    """Records that could not go on, by stage and code: how many, and the first of them."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Records that stand for no row, by reason."""
    without_key: list[str] = field(default_factory=list)
    """Tables that the sink cannot take because they have no primary key, and why."""
    refused: list[str] = field(default_factory=list)
    """Other tables that the run would stop at, and why."""
    unmatched: list[str] = field(default_factory=list)
    """Entries of the file that match none of the tables, or none that an earlier entry leaves to them."""
    options: list[str] = field(default_factory=list)
    """Options that say something else than at the last run."""
    warnings: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    """What the run would end with: exit code, message, hint."""


def preview(
    pipeline: Pipeline, settings: Settings, tell: Callable[[str], None] = lambda _: None
) -> tuple[Preview, IngestError | None]:
    """Run without a trace: what it would do, and the error that it would end with, if the sample shows one.

    `tell` gets to know at once what is said before everything is connected: that a broker does not answer yet.

    Raises IngestError where a run would end before it read anything.
    """
    with ExitStack() as resources:
        staged = _Stage(pipeline, settings, resources, tell)
        run = ended = staged.run()
        if isinstance(run.error, DirtyData):
            # It stops at a reject; what else there is to know shows when it goes on
            run = staged.run(tolerant=True)
        return run.tell(ended.error)


class _Stage:
    """What the dry runs of a pipeline share: one sample, one connection to everything."""

    def __init__(
        self, pipeline: Pipeline, settings: Settings, resources: ExitStack, tell: Callable[[str], None]
    ) -> None:
        self.pipeline, self.settings, self._resources, self._tell = pipeline, settings, resources, tell
        self.connected = False
        self.warnings: dict[str, None] = {}
        name = pipeline.pipeline.name
        self.source = SampledSource(pipeline.source, name, self.warn)
        resources.callback(self.source.end)
        self.sink = LookingSink(pipeline.sink, name, self.warn)
        resources.callback(self.sink.end)
        self._session: Session | None = None

    def warn(self, text: str) -> None:
        self.warnings[text] = None
        if not self.connected:
            self._tell(text)

    def session(self) -> Session:
        """Spark, where it is needed after all."""
        if self._session is None:
            folder = self._resources.enter_context(tempfile.TemporaryDirectory())
            log = Path(folder) / "spark.log"
            self._session = Session("ingest plan", "local[1]", self.settings.conf, lock=None, log=log)
            self._resources.callback(self._session.stop)
        return self._session

    def run(self, *, tolerant: bool = False) -> _DryRun:
        """Run to the end; raises IngestError for what ends a run before it reads anything."""
        self.source.tolerated = 1 << 62 if tolerant else self.pipeline.source.tolerated
        collector = LookingCollector(self.pipeline.pipeline.collector, self.source.sample)
        options = self.pipeline.pipeline.model_copy(update={"collector": collector, "batch_interval": 0.0})
        staged = self.pipeline.model_copy(update={"source": self.source, "sink": self.sink, "pipeline": options})
        run = _DryRun(self, staged, collector)
        try:
            run.run()
        except IngestError as exc:
            if not run.prepared:
                raise
            run.error = exc
        finally:
            run.resources.close()
            worker.discard()
        return run


class _Peer(InProcess):
    """What main street needs of Spark, and what it asks of it."""

    def __init__(self, stage: _Stage) -> None:
        self._stage = stage

    @property
    def speculates(self) -> bool:
        return self._stage.settings.conf.get("spark.speculation", "").lower() == "true"

    @property
    def hadoop(self) -> tuple[Any, Any]:
        return self._stage.session().hadoop


class _DryRun(Inline):
    """One run over the sample."""

    def __init__(self, stage: _Stage, staged: Pipeline, collector: LookingCollector) -> None:
        self.stage, self.collector = stage, collector
        self.stored = Schemas()
        self.happened: list[Event] = []
        self.withheld_events: dict[SchemaChange, None] = {}
        self.error: IngestError | None = None
        self.ended = RunEnded(staged.pipeline.name)
        super().__init__(staged, replace(stage.settings, once=True), self.observe, self.ended, 1000)

    def observe(self, event: Event) -> None:
        self.happened.append(event)

    def storage(self) -> Storage:
        where = self.settings.checkpoint
        if self.remote:
            return Overlay(HadoopStorage(where, *self.session.hadoop, make=False))
        return Overlay(LocalStorage(Path(where), lock=False))

    def start_spark(self, connecting: Any) -> Any:  # noqa: ANN401
        super().start_spark(connecting)
        peer: Any = _Peer(self.stage)
        self.refuse_speculation(peer)
        return peer

    def spark_sql(self) -> SparkSession:
        return self.stage.session().sql()

    def describe(self) -> dict[str, str]:
        return self.stage.pipeline.describe()

    def connect(self) -> None:
        super().connect()
        self.stage.connected = True
        self.known = self.checkpoint.where if self.resumed else None

    def take_schemas(self) -> None:
        self.stored = self.checkpoint.schemas(self.rules)
        super().take_schemas()

    def withhold(self, event: SchemaChange) -> None:
        self.withheld_events[event] = None

    # -- telling -----------------------------------------------------------------------------------------------------

    def tell(self, error: IngestError | None) -> tuple[Preview, IngestError | None]:
        """What was found, and what the run would end with; `error` is what it ended with over the sample's start."""
        without_key, refused = self.refusals()
        error = error or next(iter([*without_key.values(), *refused.values()]), None)
        sample = self.stage.source.sample
        for event in self.happened:
            if isinstance(event, Warned):
                self.stage.warn(event.text)
        if sample.old and sample.looked_at and error is not None:
            self.stage.warn(
                f"nothing is waiting, but a run that met records like the newest would end with exit code "
                f"{error.exit_code}: {error}"
            )
            error = None
        known = reroute(self.stored, self.rules, self.policy, self.inference.initial, self.shape)
        withheld = [*known.withheld, *(event for event in self.withheld_events if event not in known.withheld)]
        sinks = self.schemas.sinks
        found = Preview(
            self.stage.pipeline.pipeline.name,
            self.known,
            str(getattr(self.pipeline.sink, "guarantee", "at-least-once")),
            len(sample.starts),
            sample.waiting,
            sample.looked_at,
            [
                self.table_of(table, source.targets, sinks, known=table in self.stored.sources)
                for table, source in sorted(self.schemas.sources.items())
            ],
            [f"{event.table}> {event.change}" for event in self.happened if isinstance(event, SchemaChanged)],
            [f"{show(event.table)}> {event}" for event in withheld],
            sorted(self.sink.missing(sinks)),
            [*self.rejects()],
            dict(self.ended.skipped),
            [_said(exc) for exc in without_key.values()],
            [_said(exc) for exc in refused.values()],
            self.unmatched(),
            [f"{e.option}: {e.before} -> {e.now}" for e in self.happened if isinstance(e, OptionChanged)],
            [*self.stage.warnings],
            None if error is None else {"exit_code": error.exit_code, "message": error.message, "hint": error.hint},
        )
        return found, error

    def refusals(self) -> tuple[dict[TableId, IngestError], dict[TableId, IngestError]]:
        """Take what the rest of the sample shows; the tables that the run would stop at: without a key, and others."""
        without_key: dict[TableId, IngestError] = {}
        refused: dict[TableId, IngestError] = {}
        chunks = self.stage.source.sample.to_come()
        for table, schema in sorted(observe_chunks(self.pipeline.source, chunks, self.inference).items()):
            try:
                self.evolve([(table, schema)])
            except IngestError as exc:
                (without_key if isinstance(exc, NoPrimaryKey) else refused)[table] = exc
        return without_key, refused

    def rejects(self) -> Iterable[dict[str, Any]]:
        ignored = self.pipeline.source.format.ignore_parse_errors
        for (stage, code), of_code in sorted(self.collector.found.items(), key=lambda item: -item[1].count):
            first = of_code.example
            yield {
                "stage": stage, "code": code, "count": of_code.count,
                "counted": not (ignored and stage == "decode"),
                "example": {
                    "topic": first.topic, "partition": first.partition, "offset": first.offset,
                    "message": first.message, "table": show(first.table) if first.table else None,
                    "record": head(first.value),
                },
            }  # fmt: skip

    def unmatched(self) -> list[str]:
        """Entries of the file that do nothing for the tables that there are."""
        tables, pipeline = [*self.schemas.sources], self.stage.pipeline
        if not tables:
            return []
        routes = [(f"route[{i}]", r.source_table) for i, r in enumerate(pipeline.route)]
        keys = [(f"transform[{i}]", t.source_table) for i, t in enumerate(pipeline.transform)]
        out = _idle(routes, tables, first_match=self.rules.first_match) + _idle(keys, tables, first_match=True)
        topics = getattr(pipeline.sink, "mapped", ())
        return out + _idle([*topics], [*self.schemas.sinks], first_match=True)

    def table_of(
        self, table: TableId, targets: Iterable[TableId], sinks: Mapping[TableId, TableSchema], *, known: bool
    ) -> TablePreview:
        rule = rule_of(self.rules.transforms, table)
        names = list(targets)
        schema = sinks[names[0]]
        return TablePreview(
            show(table), None if rule is None else rule.place, known, [show(name) for name in names],
            [{"name": c.name, "type": types.name(c.type), "nullable": c.nullable} for c in schema.columns],
            list(schema.primary_key),
        )  # fmt: skip


def _idle(entries: Sequence[tuple[str, str]], tables: Sequence[TableId], *, first_match: bool) -> list[str]:
    """Those of these entries, each with its selector, that match none of the tables; or none that is left to them."""
    out, left = [], set(tables)
    for place, text in entries:
        matched = {table for table in tables if selector(text).match(table) is not None}
        if not matched:
            out.append(f"{place} ({text}) matches none of these tables")
        elif first_match and not matched & left:
            out.append(f"{place} ({text}) matches only tables that an entry before it takes")
        left -= matched
    return out


def _said(exc: IngestError) -> str:
    """An error in one line."""
    return exc.message.split("\n", 1)[0]
