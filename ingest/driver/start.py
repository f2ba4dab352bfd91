"""How a run gets going: everything that it needs, connected, checked and agreed with its checkpoint.

In: a pipeline and how to run it. Out: the state that main street (`loop.py`) works on.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.old_keys import old_keys
from ingest.checkpoint.storage import HadoopStorage, LocalStorage, is_remote
from ingest.driver import planner
from ingest.driver.sample_schemas import first_look
from ingest.errors import ConfigError, IngestError
from ingest.model.schema import CreateTable, changes
from ingest.model.table import show
from ingest.observe.events import (
    OptionChanged,
    Printed,
    RunEnded,
    RunStarted,
    SchemaChanged,
    Stopping,
    TableSummary,
    Warned,
)
from ingest.schema.evolve import Policy, Schemas, evolve, reroute, unchanged
from ingest.schema.infer import unmatched
from ingest.spark.session import Session, Stop
from ingest.task import worker
from ingest.task.tally import Tally
from ingest.task.worker import Delta, Setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from ingest.checkpoint.storage import Storage
    from ingest.config.pipeline import Pipeline
    from ingest.deadletter.collector import DirtyDataCollector
    from ingest.driver.transforms import Stages
    from ingest.kafka.admin import Split
    from ingest.model.schema import SchemaChange
    from ingest.model.table import TableId
    from ingest.observe.events import Observer
    from ingest.schema.evolve import Evolution, Shape
    from ingest.task.tally import Counts
    from ingest.transform.compiler import Compiler

MAX_ASKED = 8
"""Workers that are asked at the start what they do in C."""
MAX_DELTAS = 50
"""Versions that travel with each task before everything is broadcast anew."""
MAX_DELTA_TABLES = 200
"""Tables in them, for the same reason: a broadcast travels once, a task's own luggage each time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run, as the command line says."""

    checkpoint: str
    """A local directory, or a URI that Hadoop's file systems understand."""
    logs: Path
    """Where Spark's log goes."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    alive: Path | None = None
    """A file to touch every few seconds, for whoever watches over the run."""
    from_time: int | None = None
    """Where to start where the checkpoint does not say, in milliseconds since 1970."""


class Starting:
    """The state of one run, and how it comes about."""

    told_unmatched = False
    """Whether the options were compared with the tables."""
    stalled = 0.0
    lived = 0.0
    """When the file that says that the run gets on was touched."""
    checked = 0.0
    """When it was last seen that what is to be read next is still there."""

    def __init__(self, pipeline: Pipeline, settings: Settings, observer: Observer, summary: RunEnded) -> None:
        """Open the checkpoint, if it is a local one; connect to nothing yet. Raises IngestError."""
        if settings.from_time is not None and (why := pipeline.source.no_start_time):
            msg = f"--from-timestamp is not possible: {why}"
            raise ConfigError(msg, "leave it out")
        self.pipeline, self.settings, self.observer, self.summary = pipeline, settings, observer, summary
        self.remote = is_remote(settings.checkpoint)
        self.resources = ExitStack()
        if not self.remote:
            self.open(self.storage())
        self.rules = pipeline.rules
        self.started: Future[Session] = Future()
        """Spark, for those who need it before main street has it."""
        self.compiler = self.make_compiler()
        self.shape: Shape = unchanged if self.compiler is None else self.compiler.shape
        self.stages: Stages | None = None
        self.policy = Policy(
            pipeline.pipeline.behavior, frozenset(pipeline.sink.include), frozenset(pipeline.sink.exclude),
            pipeline.pipeline.max_tables, pipeline.sink.needs_key,
        )  # fmt: skip
        self.inference = pipeline.source.inference(pipeline.pipeline.max_columns)
        self.source = pipeline.source.coordinator(pipeline.pipeline.name, self.warn)
        self.sink = pipeline.sink.coordinator(pipeline.pipeline.name, self.warn)
        self.stop = Stop(lambda name, now: observer(Stopping(name, now)))
        self.session: Session
        self.look_ahead = 1000
        # Set by `connect` and `prepare`
        self.progress = Progress()
        self.unfinished: Batch | None = None
        self.targets: Mapping[Split, int] = {}
        """With --once: where to end."""
        self.schemas = Schemas()
        self.resumed = False
        self.same_cluster = False
        self.shards = 1
        self.writers: dict[int, str] = {}
        """Which worker wrote each shard last."""
        self.idle: dict[int, float] = {}
        """Since when the worker of each shard has been idle, in seconds since the epoch."""
        self.batch_started = 0.0
        self.deltas: list[Delta] = []
        self.prepared = False
        """Whether schemas can be sent to workers."""
        self.budget = planner.Budget(most=pipeline.sink.most_per_batch)
        self.rate = planner.Rate(pipeline.source.rate_limit)
        self.counts: dict[TableId, Counts] = {}
        self.skipped: dict[str, int] = {}
        self.withheld: dict[tuple[TableId, str], int] = {}
        self.cut: dict[tuple[TableId, str], int] = {}
        self.warned: set[str] = set()
        self.away = False
        """Whether the broker did not answer when the run was told to stop."""
        self.ends: Mapping[Split, int] = {}
        """Where the splits ended when the last batch was planned."""

    def storage(self) -> Storage:
        """Open the place where the checkpoint is; a remote one is reached through Java, which has to run by then."""
        if self.remote:
            return HadoopStorage(self.settings.checkpoint, *self.session.hadoop)
        return LocalStorage(Path(self.settings.checkpoint))

    def open(self, storage: Storage) -> None:
        """Open the checkpoint; it is given back when the run is over."""
        self.resources.callback(storage.close)
        self.checkpoint = Checkpoint(storage)

    # -- starting ----------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Everything that needs Kafka and the checkpoint only."""
        if self.remote:
            self.open(self.storage())
        self.tell_changes(self.checkpoint.begin(self.describe()))
        read_from, write_to = self.source.connect(), self.sink.connect()
        self.same_cluster = read_from == write_to
        fingerprint = {"source": self.source.fingerprint(read_from), "sink": self.sink.fingerprint(write_to)}
        self.checkpoint.bind(fingerprint)
        self.sink.acquire(self.checkpoint.id, self.checkpoint.run)
        self.progress, self.unfinished = self.checkpoint.progress()
        if self.settle(self.progress, self.unfinished):
            self.unfinished = None
            self.checkpoint.done(self.progress, {})
        self.resumed = bool(self.progress.positions) or self.unfinished is not None
        stored, ids = self.progress.positions, self.progress.ids
        if self.unfinished is not None and not stored:
            # The very first batch was planned and not finished: its ranges say where the pipeline starts
            stored = {split: start for split, (start, _) in self.unfinished.ranges.items()}
            ids = dict(self.unfinished.ids)
        if stored and self.settings.from_time is not None:
            self.warn("--from-timestamp has no effect: the checkpoint says where to go on (ingest checkpoint reset)")
        self.progress.positions = self.source.start(stored, ids, self.checkpoint.id, self.settings.from_time)
        self.progress.ids = dict(self.source.ids)
        if self.unfinished is not None:
            self.unfinished = self.still_there(self.unfinished)
        if self.pipeline.pipeline.collector is not None and self.pipeline.pipeline.collector.type == "kafka":
            self.prepare_letters(self.pipeline.pipeline.collector, read_from)
        self.take_schemas()
        self.ends = self.source.ends(self.progress.positions)
        self.targets = self.ends if self.settings.once else {}
        if not self.schemas.sources and self.pipeline.source.prefetch:
            name = self.pipeline.pipeline.name
            extent = self.source.extent(self.ends)
            seen = first_look(self.pipeline.source, name, extent, self.rules, self.policy, self.inference)
            self.evolve(sorted(seen.items()))
        if self.resumed or self.pipeline.source.prefetch:
            self.tell_unmatched()  # otherwise when all that is there was read
        if not self.resumed and self.progress.positions:
            # Where this pipeline starts is decided once, whatever becomes of its first batch
            self.checkpoint.done(self.progress, {})

    def settle(self, progress: Progress, batch: Batch | None) -> bool:
        """Ask a sink with transactions how far a batch was written whose end no driver saw; whether it knows.

        What is known becomes the progress. In any case nothing of an older run is committed after this.
        """
        name = self.pipeline.pipeline.name
        prefix = self.pipeline.sink.prefix(name)
        if batch is not None and batch.prefix is not None and batch.prefix != prefix:
            if prefix is not None:
                msg = f"batch {batch.number} was begun under sink.transactional-id-prefix {batch.prefix}, now {prefix}"
                raise ConfigError(msg, "run it once as it was, with --once; then change the prefix")
            self.warn(
                f"batch {batch.number} was begun exactly-once and is finished without: all of it is written again"
            )
        known = batch if batch is not None and batch.prefix == prefix else None
        starts = {} if known is None else {
            shard: {split: start for split, (start, _) in ranges.items()} for shard, ranges in known.by_shard().items()
        }  # fmt: skip
        number = progress.batch if batch is None else batch.number
        planned, age_s = (0, 0.0) if known is None else (known.run, time.time() - known.time / 1000)
        found = self.sink.recover_in_doubt(self.checkpoint.scope, number, planned, starts, age_s)
        if known is None or prefix is None:
            return False
        progress.batch = known.number
        progress.ids = dict(known.ids)
        for resumed in found.values():
            progress.positions.update(resumed.positions)
            progress.errors += Tally.read_from(resumed.tally).rejected
        return True

    def prepare_letters(self, collector: DirtyDataCollector, read_from: str) -> None:
        """Make the topic of dead letters; raises ConfigError where the pipeline would read it."""
        name = self.pipeline.pipeline.name
        sink = {} if collector.properties else self.pipeline.sink.client(name)
        written_to = collector.prepare(sink, name, self.warn)
        topic = collector.topic or ""
        if written_to == read_from and self.source.reads(topic):
            msg = f"the pipeline reads its own dead letters: topic {topic} is one of its source's"
            raise ConfigError(msg, "change pipeline.dirty-data.collector.topic, or source.topic or topic-pattern")

    def still_there(self, batch: Batch) -> Batch | None:
        """A planned batch, where its ranges still begin at the positions; `scan.on-data-loss` may have moved them."""
        positions = self.progress.positions
        ranges = {s: (start, end) for s, (start, end) in batch.ranges.items() if positions.get(s) == start}
        return replace(batch, ranges=ranges) if ranges else None

    def start_spark(self, connecting: Future[None] | None) -> Session:
        """Java and Spark; when the other half of the start fails first, its error is the one to show."""
        settings = self.settings
        name = f"ingest {self.pipeline.pipeline.name}"
        lock = None if self.remote else self.checkpoint.storage.lock
        try:
            log = settings.logs / "spark.log"
            sql = self.rules.change_rows
            session = Session(name, settings.master, settings.conf, lock=lock, log=log, sql=sql)
            self.refuse_speculation(session)
            self.started.set_result(session)
            return session  # noqa: TRY300  (its own errors are meant as well)
        except BaseException as exc:
            self.started.set_exception(exc)
            other = None if connecting is None or not isinstance(exc, IngestError) else connecting.exception()
            if isinstance(other, IngestError):
                raise other from None
            raise

    def refuse_speculation(self, session: Session) -> None:
        """Stop where Spark would run a task twice at a time, and the guarantee is exactly-once; raises ConfigError."""
        if session.speculates and self.pipeline.sink.prefix(self.pipeline.pipeline.name) is not None:
            session.stop()
            msg = "spark.speculation starts a task twice at a time, and exactly-once lets only one of them write"
            raise ConfigError(msg, "leave spark.speculation out, or choose another sink.delivery-guarantee")

    def make_compiler(self) -> Compiler | None:
        """What makes programs of the rules that change rows; None where none does."""
        if not self.rules.change_rows:
            return None
        from ingest.transform.compiler import Compiler  # noqa: PLC0415  (most pipelines need no Spark SQL)

        return Compiler(
            self.rules.transforms, self.pipeline.pipeline.local_time_zone, self.spark_sql, self.pipeline.functions
        )

    def make_stages(self, compiler: Compiler) -> Stages:
        """What runs batches through Spark SQL."""
        from ingest.driver.transforms import Stages  # noqa: PLC0415  (as above)

        return Stages(self.session, compiler, self.shards)

    def spark_sql(self) -> SparkSession:
        """Spark SQL, as soon as there is one; raises IngestError where there will be none."""
        return self.started.result().sql()

    def describe(self) -> dict[str, str]:
        """The options that are set, as a checkpoint keeps them."""
        return self.pipeline.describe()

    def tell_changes(self, before: Mapping[str, Any]) -> None:
        """Show which options changed since the last run: files change while checkpoints stay."""
        now = self.describe()
        for option in sorted({*before, *now}) if before else ():
            if before.get(option) != now.get(option):
                self.observer(OptionChanged(option, before.get(option), now.get(option)))

    def prepare(self) -> None:
        """What needs both halves of the start."""
        options = self.pipeline.pipeline
        shards = self.progress.shards
        self.shards = options.parallelism or (max(shards.values()) + 1 if shards else self.session.slots)
        self.shards = min(self.shards, self.pipeline.sink.parallelism or self.shards)
        self.progress.shards = planner.assign(self.progress.positions, shards, self.shards)
        self.setup = self.session.broadcast(
            Setup(
                self.checkpoint.scope, self.checkpoint.run, options.name, self.pipeline.source, self.pipeline.sink,
                options.collector, self.inference, options.max_tables, self.rules,
                self.pipeline.source.upserts and self.pipeline.sink.changelog, self.look_ahead,
            )
        )  # fmt: skip
        if self.compiler is not None:
            self.stages = self.make_stages(self.compiler)
        self.prepared = True
        self.rebase()
        lag, in_python = self.lag(), self.ask_workers()
        self.observer(
            RunStarted(
                options.name, self.checkpoint.run, self.checkpoint.where, len(self.progress.positions),
                self.resumed, lag, not in_python, tuple(in_python),
            )
        )  # fmt: skip

    def ask_workers(self) -> list[str]:
        """Return why records pass through Python, as the workers say: they may be other machines than the driver's."""
        many = 1 if self.settings.master.startswith("local") else min(self.session.slots, MAX_ASKED)
        answers = self.session.run(worker.ask, [self.setup] * many)
        why = dict.fromkeys(reason for answer in answers for reason in answer)
        several = [show(table) for table, source in self.schemas.sources.items() if len(source.targets) > 1]
        if several:
            why[f"rows that go to several sink tables ({len(several)} tables, {several[0]} the first)"] = None
        return list(why)

    def rebase(self) -> None:
        """Send all schemas to the workers; from here on only what changes travels."""
        self.base = self.session.broadcast(self.schemas)
        self.base_version = self.schemas.version
        self.deltas = []

    # -- schemas -----------------------------------------------------------------------------------------------------

    def evolve(self, observed: Iterable[tuple[TableId, Any]]) -> bool:
        """Apply what the tasks saw: first to the sink, then to the store. Both may be repeated after a crash."""
        evolution = evolve(self.schemas, observed, self.rules, self.policy, self.inference.initial, self.shape)
        for withheld in evolution.withheld:
            self.withhold(withheld)
        if evolution.schemas.version == self.schemas.version:
            return False
        self.apply(evolution)
        for table, source in evolution.sources.items():
            known = self.schemas.sources.get(table)
            count = len([*changes(table, None if known is None else known.schema, source.schema)])
            self.table(show(table)).schema_changes += count
        self.schemas = evolution.schemas
        self.deltas.append(Delta(self.schemas.version, evolution.sources, evolution.sinks))
        tables = sum(len(delta.sources) + len(delta.sinks) for delta in self.deltas)
        if self.prepared and (len(self.deltas) > MAX_DELTAS or tables > MAX_DELTA_TABLES):
            self.rebase()
        return True

    def tell_unmatched(self) -> None:
        """Warn, once there are tables, of what the options declare for others."""
        if not self.told_unmatched and self.schemas.sources:
            self.told_unmatched = True
            for text in unmatched(self.inference, {t: found.schema for t, found in self.schemas.sources.items()}):
                self.warn(text)

    def withhold(self, event: SchemaChange) -> None:
        """Tell that the sink is not to see a change."""
        self.warn_once(f"table {show(event.table)}: {event} is withheld from the sink, as the pipeline says")

    def take_schemas(self) -> None:
        """Take the checkpoint's schemas over, with the targets that the rules give the tables now."""
        stored = self.checkpoint.schemas(self.rules)
        self.tell_old_keys()
        rerouted = reroute(stored, self.rules, self.policy, self.inference.initial, self.shape)
        known = rerouted.schemas.sinks.items()
        self.prepare_sink(table for table, schema in known if self.policy.allows(CreateTable(table, schema)))
        if rerouted.sinks:
            self.apply(rerouted)
        self.schemas = rerouted.schemas

    def tell_old_keys(self) -> None:
        """Say once that rows may be under other keys than those that are written from now on."""
        if not self.checkpoint.has_old_keys:
            return
        if self.pipeline.sink.writes_keys and not self.inference.reading.as_string:
            for text in old_keys(self.checkpoint):
                self.warn(text)
        self.checkpoint.forget_old_keys()

    def apply(self, evolution: Evolution) -> None:
        """Let the sink take a version of the schemas, then store it."""
        self.prepare_sink(event.table for event in evolution.events if isinstance(event, CreateTable))
        self.checkpoint.store(evolution)
        for event in evolution.events:
            self.observer(SchemaChanged(show(event.table), str(event)))
        self.show(self.sink.changed(evolution.events))

    def show(self, lines: list[str]) -> None:
        """What the sink wants people to see."""
        if lines:
            self.observer(Printed(self.sink.stream, tuple(lines)))

    def prepare_sink(self, tables: Iterable[TableId]) -> None:
        """Make the sink ready for tables; raises ConfigError where the pipeline would read what it writes."""
        wanted = list(tables)
        if self.same_cluster:
            for topic in self.sink.topics(wanted):
                if self.source.reads(topic):
                    msg = f"the pipeline reads what it writes: topic {topic} is one of its source's and of its sink's"
                    raise ConfigError(msg, "route its tables to other topics, or change source.topic or topic-pattern")
        self.sink.prepare(wanted)

    # -- telling -----------------------------------------------------------------------------------------------------

    def lag(self) -> int:
        """Records that are waiting, as far as the last look at the ends says."""
        return sum(self.waiting().values())

    def waiting(self) -> dict[Split, int]:
        """Return how many records each split has that are to be read, as far as the last look at the ends says."""
        ends, positions = self.targets or self.ends, self.progress.positions
        return {split: max(0, end - positions.get(split, 0)) for split, end in ends.items()}

    def warn(self, text: str) -> None:
        """Say something that stops nothing."""
        self.observer(Warned(text))

    def warn_once(self, text: str) -> None:
        """A warning that would repeat itself."""
        if text not in self.warned and len(self.warned) < 1000:
            self.warned.add(text)
            self.warn(text)

    def table(self, name: str) -> TableSummary:
        """A table's line of the summary."""
        return self.summary.tables.setdefault(name, TableSummary())
