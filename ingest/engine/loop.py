"""Main street: plan, run, merge, evolve, store, again.

The driver owns the batches and Spark runs them; decisions/ says why. In: a pipeline. Out: a summary. Everything that
can go wrong is an IngestError with what to do about it.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ingest.engine import planner
from ingest.engine.checkpoint import Batch, Checkpoint, Progress
from ingest.engine.prefetch import first_look
from ingest.engine.session import Session, Stop
from ingest.engine.storage import HadoopStorage, LocalStorage, is_remote
from ingest.engine.task import Counts, Task, merge_counts, run_tasks
from ingest.engine.worker import Delta, Setup
from ingest.errors import ConfigError, DataLoss, DirtyData, IngestError, InternalError, Unavailable
from ingest.flow.evolve import Schemas, evolve, reroute
from ingest.model.schema import CreateTable, changes
from ingest.model.table import show
from ingest.observe.events import (
    BatchDone,
    OptionChanged,
    Rejected,
    RunEnded,
    RunStarted,
    SchemaChanged,
    TableSummary,
    Warned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from ingest.engine.storage import Storage
    from ingest.engine.task import Outcome
    from ingest.kafka.admin import Split
    from ingest.model.reject import Reject
    from ingest.model.table import TableId
    from ingest.observe.events import Observer
    from ingest.spec.pipeline import Pipeline

POLL_S: Final = 0.05
"""How often an idle driver looks for new records, in seconds."""
PATIENCE_S: Final = 300.0
"""How long a running pipeline waits for a broker that went away, in seconds."""
CHECK_S: Final = 30.0
"""How often the driver looks whether what is to be read next is still there, in seconds. Tasks notice it, too."""
MAX_DELTAS: Final = 50
"""Versions that travel with each task before everything is broadcast anew."""


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
    from_time: int | None = None
    """Where to start where the checkpoint does not say, in milliseconds since 1970."""


def run(pipeline: Pipeline, settings: Settings, observer: Observer) -> RunEnded:
    """Run a pipeline until it is drained (`once`), told to stop, or failed; raises IngestError."""
    summary = RunEnded(pipeline.pipeline.name)
    started = time.monotonic()
    run_ = _Run(pipeline, settings, observer, summary)
    try:
        run_.run()
    except IngestError as exc:
        summary.stopped = str(exc)
        raise
    finally:
        run_.resources.close()
        summary.seconds = time.monotonic() - started
        observer(summary)
    return summary


class _Run:
    """The state of one run."""

    def __init__(self, pipeline: Pipeline, settings: Settings, observer: Observer, summary: RunEnded) -> None:
        self.pipeline, self.settings, self.observer, self.summary = pipeline, settings, observer, summary
        self.remote = is_remote(settings.checkpoint)
        self.resources = ExitStack()
        if not self.remote:
            self.open(LocalStorage(Path(settings.checkpoint)))
        self.rules = pipeline.rules
        self.source = pipeline.source.control(pipeline.pipeline.name, self.warn)
        self.sink = pipeline.sink.control(pipeline.pipeline.name, self.warn)
        self.stop = Stop()
        # Set by `connect` and `prepare`
        self.progress = Progress()
        self.unfinished: Batch | None = None
        self.targets: dict[Split, int] = {}
        """With --once: where to end."""
        self.schemas = Schemas()
        self.resumed = False
        self.same_cluster = False
        self.shards = 1
        self.batch_started = 0.0
        self.deltas: list[Delta] = []
        self.budget = planner.Budget()
        self.rate = planner.Rate(pipeline.source.rate_limit)
        self.counts: dict[TableId, Counts] = {}
        self.skipped: dict[str, int] = {}
        self.warned: set[str] = set()
        self.stalled = 0.0
        self.checked = 0.0
        """When it was last seen that what is to be read next is still there."""
        self.ends: Mapping[Split, int] = {}
        """Where the splits ended when the last batch was planned."""

    def warn(self, text: str) -> None:
        """Say something that stops nothing."""
        self.observer(Warned(text))

    # -- main street -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for text in self.pipeline.warnings:
            self.warn(text)
        with ThreadPoolExecutor(1) as threads:
            # A local checkpoint is opened, and Kafka asked, while Java starts; another one is reached through Java
            connecting = None if self.remote else threads.submit(self.connect)
            with self.stop.installed():
                self.session = self.start_spark(connecting)
            try:
                with self.stop.installed():  # again: Spark takes Ctrl-C for itself when it starts
                    self.connect() if connecting is None else connecting.result()
                    self.prepare()
                    while (batch := self.next_batch()) is not None:
                        self.finish(batch, self.session.run(run_tasks, self.tasks(batch)))
            finally:
                self.session.stop()
                self.source.close()
                self.sink.close()
                self.summarise()

    def next_batch(self) -> Batch | None:
        """The batch that a crash left, or one of the records that are there now; None when it is time to end."""
        if self.unfinished is not None:
            batch, self.unfinished = self.unfinished, None
            return batch
        try:
            while not self.stop.asked:
                self.progress.positions.update(self.patiently(lambda: self.source.discover(self.progress.positions)))
                ends = self.targets or self.patiently(lambda: self.source.ends(self.progress.positions))
                self.ends = ends
                if any(end > self.progress.positions[split] for split, end in ends.items()):
                    if self.rate.ready():
                        return self.plan(ends)
                    time.sleep(POLL_S)
                    continue
                if self.settings.once or self.source.finished(self.progress.positions):
                    self.summary.stopped = "drained"
                    return None
                self.source.keep(self.progress.positions)
                time.sleep(POLL_S)
        except Unavailable:
            if not self.stop.asked:  # told to stop while the broker is away: there is no batch in hand
                raise
        self.summary.stopped = "signal"
        return None

    def plan(self, ends: Mapping[Split, int]) -> Batch:
        """Decide what the next batch reads, and store that before anything starts."""
        progress = self.progress
        wait = self.batch_started + self.pipeline.pipeline.batch_interval - time.monotonic()
        while wait > 0 and not self.stop.asked:
            time.sleep(min(wait, POLL_S))
            wait -= POLL_S
        late = time.monotonic() - self.checked > CHECK_S
        if late or any(end < progress.positions[split] for split, end in ends.items()):
            progress.positions.update(self.patiently(lambda: self.source.check(progress.positions)))
            self.checked = time.monotonic()
        progress.shards = planner.assign(progress.positions, progress.shards, self.shards)
        ranges = planner.ranges(progress.positions, ends, progress.shards, self.budget.records)
        ranges = planner.limit(ranges, self.rate.available())
        batch = Batch(progress.batch + 1, self.checkpoint.run, self.source.ids, ranges, self.schemas.version)
        self.checkpoint.plan(batch)
        return batch

    def tasks(self, batch: Batch) -> list[Task]:
        """One task for each shard that has ranges."""
        self.batch_started = time.monotonic()
        by_shard: dict[int, dict[Split, tuple[int, int]]] = {}
        for split, span in batch.ranges.items():
            by_shard.setdefault(self.progress.shards.get(split, 0), {})[split] = span
        tolerated = max(0, self.pipeline.source.tolerated - self.progress.errors)
        base, version, deltas = self.base, self.base_version, tuple(self.deltas)
        return [
            Task(batch.number, shard, spans, tolerated, planner.DEADLINE_S, self.setup, base, version, deltas)
            for shard, spans in sorted(by_shard.items())
        ]

    def finish(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Merge what the tasks did, evolve the schemas, store the progress."""
        progress = self.progress
        before = dict(progress.positions)
        for outcome in outcomes:
            progress.positions.update(outcome.positions)
            progress.errors += outcome.rejected
            self.summary.rejected += outcome.rejected
            merge_counts(self.counts, outcome.counts)
            for reason, count in outcome.skipped.items():
                self.skipped[reason] = self.skipped.get(reason, 0) + count
        lost = sum(outcome.lost_deliveries for outcome in outcomes)
        if lost:
            self.warn(
                f"batch {batch.number}: {lost} records were lost on their way to the sink (sink.delivery-guarantee)"
            )
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        changed = False
        if not failures:
            changed = self.evolve(pair for outcome in outcomes for pair in sorted(outcome.observed.items()))
        progress.batch, progress.ids = batch.number, dict(batch.ids)
        counts = {show(table): [c.inserted, c.updated, c.deleted, c.rejected] for table, c in self.counts.items()}
        self.checkpoint.done(progress, counts)
        self.report(batch, outcomes)
        rejects = [reject for outcome in outcomes for reject in outcome.rejects]
        if any(outcome.stopped_by_reject for outcome in outcomes) or progress.errors > self.pipeline.source.tolerated:
            raise self.too_dirty(rejects)
        if failures:
            self.survive(failures[0])
            return
        self.watch(before, outcomes, changed=changed)
        self.source.commit(progress.positions)

    def survive(self, failure: IngestError) -> None:
        """Go on after lost records where `scan.on-data-loss` says so; raises the failure otherwise."""
        if not isinstance(failure, DataLoss):
            raise failure
        before = dict(self.progress.positions)
        self.progress.positions.update(self.source.check(before))
        if self.progress.positions == before:
            raise failure

    def evolve(self, observed: Iterable[tuple[TableId, Any]]) -> bool:
        """Apply what the tasks saw: first to the sink, then to the store. Both may be repeated after a crash."""
        options = self.pipeline.pipeline
        evolution = evolve(self.schemas, observed, self.rules, behavior=options.behavior, max_tables=options.max_tables)
        if evolution.schemas.version == self.schemas.version:
            return False
        self.prepare_sink(event.table for event in evolution.events if isinstance(event, CreateTable))
        self.checkpoint.store(evolution)
        for event in evolution.events:
            self.observer(SchemaChanged(show(event.table), str(event)))
        for table, source in evolution.sources.items():
            known = self.schemas.sources.get(table)
            count = len([*changes(table, None if known is None else known.schema, source.schema)])
            self.table(show(table)).schema_changes += count
        self.schemas = evolution.schemas
        self.deltas.append(Delta(self.schemas.version, evolution.sources, evolution.sinks))
        if len(self.deltas) > MAX_DELTAS:
            self.rebase()
        return True

    def prepare_sink(self, tables: Iterable[TableId]) -> None:
        """Make the sink ready for tables; raises ConfigError where the pipeline would read what it writes."""
        wanted = list(tables)
        if self.same_cluster:
            for topic in self.sink.topics(wanted):
                if topic in self.source.ids or self.source.options.chooses(topic):
                    msg = f"the pipeline reads what it writes: topic {topic} is one of its source's and of its sink's"
                    raise ConfigError(msg, "route its tables to other topics, or change source.topic or topic-pattern")
        self.sink.prepare(wanted)

    # -- starting ----------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Everything that needs Kafka and the checkpoint only."""
        if self.remote:
            self.open(HadoopStorage(self.settings.checkpoint, *self.session.hadoop))
        self.tell_changes(self.checkpoint.begin(self.pipeline.describe()))
        read_from, write_to = self.source.connect(), self.sink.connect()
        self.same_cluster = read_from == write_to
        fingerprint = {"source": self.source.fingerprint(read_from), "sink": self.sink.fingerprint(write_to)}
        self.checkpoint.bind(fingerprint)
        self.progress, self.unfinished = self.checkpoint.progress()
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
        rerouted = reroute(self.checkpoint.schemas(self.rules), self.rules)
        self.prepare_sink(rerouted.schemas.sinks)
        if rerouted.sinks:
            self.checkpoint.store(rerouted)
        self.schemas = rerouted.schemas
        self.ends = self.source.ends(self.progress.positions)
        self.targets = self.ends if self.settings.once else {}
        if not self.schemas.sources and self.pipeline.source.prefetch:
            options = self.pipeline.pipeline
            extent = self.source.extent(self.ends)
            seen = first_look(self.pipeline.source, options.name, extent, self.rules, options.max_columns)
            self.evolve(sorted(seen.items()))
        if not self.resumed and self.progress.positions:
            # Where this pipeline starts is decided once, whatever becomes of its first batch
            self.checkpoint.done(self.progress, {})

    def still_there(self, batch: Batch) -> Batch | None:
        """A planned batch, where its ranges still begin at the positions; `scan.on-data-loss` may have moved them."""
        positions = self.progress.positions
        ranges = {s: (start, end) for s, (start, end) in batch.ranges.items() if positions.get(s) == start}
        return Batch(batch.number, batch.run, batch.ids, ranges, batch.schema_version) if ranges else None

    def start_spark(self, connecting: Future[None] | None) -> Session:
        """Java and Spark; when the other half of the start fails first, its error is the one to show."""
        settings = self.settings
        name = f"ingest {self.pipeline.pipeline.name}"
        lock = None if self.remote else self.checkpoint.storage.lock
        try:
            return Session(name, settings.master, settings.conf, lock=lock, log=settings.logs / "spark.log")
        except IngestError:
            other = None if connecting is None else connecting.exception()
            if isinstance(other, IngestError):
                raise other from None
            raise

    def tell_changes(self, before: Mapping[str, Any]) -> None:
        """Show which options changed since the last run: files change while checkpoints stay."""
        now = self.pipeline.describe()
        for option in sorted({*before, *now}) if before else ():
            if before.get(option) != now.get(option):
                self.observer(OptionChanged(option, before.get(option), now.get(option)))

    def prepare(self) -> None:
        """What needs both halves of the start."""
        options = self.pipeline.pipeline
        shards = self.progress.shards
        self.shards = max(shards.values()) + 1 if shards else options.parallelism or self.session.slots
        if not shards or options.parallelism:
            self.shards = options.parallelism or self.shards
        self.progress.shards = planner.assign(self.progress.positions, shards, self.shards)
        self.setup = self.session.broadcast(
            Setup(
                self.checkpoint.id, self.checkpoint.run, options.name, self.pipeline.source, self.pipeline.sink,
                options.max_tables, options.max_columns,
            )
        )  # fmt: skip
        self.rebase()
        lag = self.lag()
        self.observer(
            RunStarted(
                options.name, self.checkpoint.run, self.checkpoint.where, len(self.progress.positions),
                self.resumed, lag,
            )
        )  # fmt: skip

    def rebase(self) -> None:
        """Send all schemas to the workers; from here on only what changes travels."""
        self.base = self.session.broadcast(self.schemas)
        self.base_version = self.schemas.version
        self.deltas = []

    # -- watching ----------------------------------------------------------------------------------------------------

    def patiently(self, ask: Callable[[], dict[Split, int]]) -> dict[Split, int]:
        """Ask Kafka something; a broker that is away for a while is waited for."""
        since = time.monotonic()
        while True:
            try:
                return ask()
            except Unavailable as exc:
                if self.stop.asked or time.monotonic() - since > PATIENCE_S:
                    raise
                self.warn_once(f"{exc.message}; waiting")
                time.sleep(1)

    def warn_once(self, text: str) -> None:
        """A warning that would repeat itself."""
        if text not in self.warned and len(self.warned) < 1000:
            self.warned.add(text)
            self.warn(text)

    def watch(self, before: Mapping[Split, int], outcomes: list[Outcome], *, changed: bool) -> None:
        """See that the run gets on: a batch without progress is a broker that is away, or a bug of ours."""
        if changed or any(self.progress.positions[s] != at for s, at in before.items()):
            self.stalled = 0.0
            return
        if any(outcome.observed for outcome in outcomes):
            tables = {show(table) for outcome in outcomes for table in outcome.observed}
            names = ", ".join(sorted(tables)[:5])
            msg = f"a batch came to nothing: the schemas of {names} take their rows, and yet do not"
            raise InternalError(msg, "please report this with a message of that table")
        self.stalled = self.stalled or time.monotonic()
        if time.monotonic() - self.stalled > PATIENCE_S:
            msg = f"nothing could be read for {PATIENCE_S:.0f} s though there are records"
            raise Unavailable(msg, "see whether every partition of the source has a leader")
        self.warn_once("there are records, but none could be read; trying on")

    def lag(self) -> int:
        """Records that are waiting, as far as the last look at the ends says."""
        ends = self.targets or self.ends
        return sum(max(0, end - self.progress.positions.get(split, 0)) for split, end in ends.items())

    def report(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Tell the observer, and size the next batch."""
        read = sum(outcome.read for outcome in outcomes)
        seconds = time.monotonic() - self.batch_started
        self.summary.batches += 1
        self.summary.records += read
        self.rate.take(read)
        self.budget.learn(max(o.read for o in outcomes), max(o.seconds for o in outcomes))
        acks = [outcome.first_ack for outcome in outcomes if outcome.first_ack is not None]
        for reason in sorted(self.skipped):
            if reason not in {"tombstone", "parse-error", "header-filter"}:
                self.warn_once(f"messages that are no rows are skipped and counted: {reason}")
        for reject in (r for o in outcomes for r in o.rejects):
            self.observer(Rejected(show(reject.table) if reject.table else "", str(reject)))
        self.observer(
            BatchDone(
                batch=batch.number,
                records=read,
                seconds=seconds,
                lag=self.lag(),
                rejected=sum(o.rejected for o in outcomes),
                cpu_s=sum(o.cpu_s for o in outcomes),
                worker_rss_kib=max(o.rss_kib for o in outcomes),
                first_ack=min(acks, default=None),
            )
        )

    def open(self, storage: Storage) -> None:
        """Open the checkpoint; it is given back when the run is over."""
        self.resources.callback(storage.close)
        self.checkpoint = Checkpoint(storage)

    def too_dirty(self, rejects: list[Reject]) -> DirtyData:
        """The error that more rejects than tolerated end a run with."""
        source = self.pipeline.source
        first = f": {rejects[-1]}" if rejects else ""
        if not source.ignore_errors:
            hint = "correct it at its source, or count such records and go on with ingestion.ignore-errors: true"
            return DirtyData(f"a record was rejected{first}", hint)
        limit = f"ingestion.error-tolerance.max-count: {source.max_errors}"
        hint = "nothing is lost: with a larger max-count the run goes on where it stopped"
        return DirtyData(f"more records were rejected than tolerated ({limit}), the last one{first}", hint)

    def table(self, name: str) -> TableSummary:
        """A table's line of the summary."""
        return self.summary.tables.setdefault(name, TableSummary())

    def summarise(self) -> None:
        """Fill in the closing summary."""
        for table, counts in self.counts.items():
            line = self.table(show(table))
            line.read, line.inserted, line.updated = counts.read, counts.inserted, counts.updated
            line.deleted, line.rejected = counts.deleted, counts.rejected
        self.summary.skipped = self.skipped
