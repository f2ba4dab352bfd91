"""Main street: plan, run, merge, evolve, store, again.

The driver owns the batches and Spark runs them (docs/adr/2026-11-21-driver-owns-the-batches.md). In: a pipeline. Out:
a summary. Everything that can go wrong is an IngestError with what to do about it.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.checkpoint import Batch
from ingest.driver import planner
from ingest.driver.start import Starting
from ingest.encode.conform import OTHERS
from ingest.errors import DataLoss, DirtyData, IngestError, InternalError, Unavailable
from ingest.model.cache import MAX_COUNTED, count_up
from ingest.model.reject import head
from ingest.model.table import show
from ingest.observe.events import BatchDone, DirtyRecord, Rejected, RunEnded
from ingest.task.assignment import Task, add_counts, merge_counts
from ingest.task.output import FILTERED, UNSAID
from ingest.task.task import run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.config.pipeline import Pipeline
    from ingest.driver.start import Settings
    from ingest.kafka.admin import Split
    from ingest.model.reject import Reject
    from ingest.observe.events import Observer
    from ingest.task.assignment import Outcome

POLL_S: Final = 0.05
"""How often an idle driver looks for new records, in seconds."""
PATIENCE_S: Final = 300.0
"""How long a running pipeline waits for a broker that went away, in seconds."""
LIFE_S: Final = 1.0
"""How often a run that gets on touches the file that says so, in seconds."""
UNEXPLAINED: Final = 3
"""Losses in a row that a look at the cluster does not confirm, before the run ends with them."""
CHECK_S: Final = 30.0
"""How often the driver looks whether what is to be read next is still there, in seconds. Tasks notice it, too."""


def run(pipeline: Pipeline, settings: Settings, observer: Observer) -> RunEnded:
    """Run a pipeline until it is drained (`once`), told to stop, or failed; raises IngestError."""
    return carry_out(Loop, pipeline, settings, observer, RunEnded(pipeline.pipeline.name))


def carry_out(
    kind: type[Loop], pipeline: Pipeline, settings: Settings, observer: Observer, summary: RunEnded
) -> RunEnded:
    """Run, and tell how it went, however it went; raises IngestError."""
    started = time.monotonic()
    try:
        loop = kind(pipeline, settings, observer, summary)
        try:
            loop.run()
        finally:
            loop.resources.close()
    except BaseException as exc:
        summary.exit_code = exc.exit_code if isinstance(exc, IngestError) else 1
        summary.stopped = str(exc) if isinstance(exc, IngestError) else f"{type(exc).__name__}: {exc}"
        raise
    finally:
        summary.seconds = time.monotonic() - started
        observer(summary)
    return summary


class Loop(Starting):
    """One run, from its first batch on."""

    unexplained = 0
    """Losses in a row that were reported, and of which nothing was to be seen."""

    # -- main street -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until it is drained, told to stop, or failed; raises IngestError."""
        for text in self.pipeline.warnings:
            self.warn(text)
        with ThreadPoolExecutor(1) as threads, self.stop.installed():
            # A local checkpoint is opened, and Kafka asked, while Java starts; another one is reached through Java
            connecting = None if self.remote else threads.submit(self.connect)
            self.session = self.start_spark(connecting)
            self.stop.listen()  # again: Spark takes Ctrl-C for itself when it starts
            try:
                self.connect() if connecting is None else connecting.result()
                self.prepare()
                while (batch := self.next_batch()) is not None:
                    self.finish(batch, self.work(self.tasks(batch)))
                self.look_at_ends()
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
                self.show_life()
                try:
                    new = self.patiently(lambda: self.source.discover(self.progress.positions))
                    self.progress.positions.update(new)
                    now = self.patiently(lambda: self.source.ends(self.progress.positions))
                except DataLoss as exc:
                    self.survive(exc)
                    continue
                ends = self.targets or now
                self.ends = ends
                if any(end > self.progress.positions[split] for split, end in ends.items()):
                    if self.rate.ready():
                        if self.doubtful(ends) and self.recheck():
                            continue
                        return self.plan(ends)
                    time.sleep(POLL_S)
                    continue
                self.tell_unmatched()
                if self.settings.once or self.source.finished(self.progress.positions):
                    self.summary.stopped = "drained"
                    return None
                self.source.keep(self.progress.positions)
                time.sleep(POLL_S)
        except Unavailable:
            if not self.stop.asked:  # told to stop while the broker is away: there is no batch in hand
                raise
            self.away = True
        self.summary.stopped = "signal"
        return None

    def plan(self, ends: Mapping[Split, int]) -> Batch:
        """Decide what the next batch reads, and store that before anything starts."""
        progress = self.progress
        wait = self.batch_started + self.pipeline.pipeline.batch_interval - time.monotonic()
        while wait > 0 and not self.stop.asked:
            time.sleep(min(wait, POLL_S))
            wait -= POLL_S
        progress.shards = planner.assign(progress.positions, progress.shards, self.shards)
        ranges = planner.ranges(progress.positions, ends, progress.shards, self.budget.records)
        ranges = planner.limit(ranges, self.rate.available())
        batch = Batch(
            progress.batch + 1, self.checkpoint.run, self.source.ids, ranges, self.schemas.version, progress.shards,
            self.pipeline.sink.prefix(self.pipeline.pipeline.name), int(time.time() * 1000),
        )  # fmt: skip
        self.checkpoint.plan(batch)
        return batch

    def tasks(self, batch: Batch) -> list[Task]:
        """One task for each shard that has ranges."""
        self.batch_started = time.monotonic()
        # Spark gives the first task to the worker that has been idle longest: so shards keep theirs, and its producer
        by_shard = dict(sorted(batch.by_shard().items(), key=lambda item: self.idle.get(item[0], math.inf)))
        self.sink.mark(batch.number, max(by_shard) + 1)
        tolerated = max(0, self.pipeline.source.tolerated - self.progress.errors)
        base, version, deltas = self.base, self.base_version, tuple(self.deltas)
        return [
            Task(
                batch.number,
                batch.run,
                shard,
                spans,
                {topic: batch.ids.get(topic, "") for topic, _ in spans},
                tolerated,
                planner.DEADLINE_S,
                self.writers.get(shard, ""),
                self.setup,
                base,
                version,
                deltas,
            )
            for shard, spans in by_shard.items()
        ]

    def work(self, tasks: list[Task]) -> list[Outcome]:
        """Let Spark do them: with Spark SQL where a transform changes rows of tables that are known."""
        if self.stages is not None and self.stages.needed(self.schemas):
            return self.stages.run(tasks, self.schemas)
        return self.session.run(run_tasks, tasks)

    def finish(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Merge what the tasks did, evolve the schemas, store the progress."""
        self.show_life()
        progress = self.progress
        before = dict(progress.positions)
        self.writers = {outcome.shard: outcome.worker for outcome in outcomes}
        self.idle.update({outcome.shard: outcome.ended for outcome in outcomes})
        self.summary.batches += 1
        for outcome in outcomes:
            progress.positions.update(outcome.positions)
            progress.errors += outcome.rejected
            self.summary.records += outcome.read
            self.summary.rejected += outcome.rejected + outcome.stopped_by_reject
            merge_counts(self.counts, outcome.counts, MAX_COUNTED + self.policy.max_tables)
            add_counts(self.skipped, outcome.skipped)
            for column, count in outcome.withheld.items():
                count_up(self.withheld, column, count, (column[0], OTHERS))
            add_counts(self.cut, outcome.cut)
            self.show(self.sink.lines(outcome.delivered))
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

    def look_at_ends(self) -> None:
        """See where the splits end now: what is left, and what came while a run drained what was there."""
        if not self.away:
            with suppress(IngestError):  # then it is said what was left at the last look
                self.ends, self.targets = self.source.ends(self.progress.positions), {}

    def survive(self, failure: IngestError) -> None:
        """Go on after lost records where `scan.on-data-loss` says so; raises the failure otherwise."""
        if not isinstance(failure, DataLoss):
            raise failure
        if self.recheck():
            self.unexplained = 0
            return
        # A client may know of a topic's end, or of a new one of its name, a moment before others do
        self.unexplained += 1
        if self.unexplained > UNEXPLAINED:
            raise failure
        time.sleep(1)

    def doubtful(self, ends: Mapping[Split, int]) -> bool:
        """Tell whether to see if what is read next is still there: now and then, and where a split got shorter."""
        late = time.monotonic() - self.checked > CHECK_S
        return late or any(end < self.progress.positions[split] for split, end in ends.items())

    def recheck(self) -> bool:
        """See whether what is to be read next is there, and go by what is; whether anything is other than it was.

        Raises DataLoss where `scan.on-data-loss` does not say how to go on.
        """
        before, ids = self.progress.positions, dict(self.source.ids)
        now = self.patiently(lambda: self.source.check(before))
        self.checked = time.monotonic()
        other = {split: at for split, at in now.items() if ids.get(split[0]) != self.source.ids.get(split[0])}
        self.progress.positions = now
        if self.targets:
            kept = {split: end for split, end in self.targets.items() if split in now and split not in other}
            self.targets = {**kept, **(self.source.ends(other) if other else {})}
        return now != before or bool(other)

    # -- watching ----------------------------------------------------------------------------------------------------

    def show_life(self) -> None:
        """Touch the file that a probe looks at, now and then."""
        now = time.monotonic()
        if self.settings.alive is not None and now - self.lived > LIFE_S:
            self.lived = now
            with suppress(OSError):  # whoever watches will notice
                self.settings.alive.touch()

    def patiently(self, ask: Callable[[], dict[Split, int]]) -> dict[Split, int]:
        """Ask Kafka something; a broker that is away for a while is waited for."""
        since = time.monotonic()
        while True:
            try:
                return ask()
            except Unavailable as exc:
                if self.stop.asked or time.monotonic() - since > PATIENCE_S:
                    raise
                self.show_life()
                self.warn_once(f"{exc.message}; waiting")
                time.sleep(1)

    def watch(self, before: Mapping[Split, int], outcomes: list[Outcome], *, changed: bool) -> None:
        """See that the run gets on: a batch without progress is a broker that is away, or a bug of ours."""
        if changed or any(self.progress.positions[s] != at for s, at in before.items()):
            self.stalled, self.unexplained = 0.0, 0
            return
        stuck = [split for outcome in outcomes if outcome.drifted for split in outcome.positions]
        if stuck:
            places = ", ".join(f"{topic}[{p}] at offset {self.progress.positions[topic, p]}" for topic, p in stuck[:5])
            msg = f"a batch came to nothing: a schema takes a row and yet does not; at one of {places}"
            raise InternalError(msg, "please report this with the message")
        self.stalled = self.stalled or time.monotonic()
        self.checked = 0.0
        if time.monotonic() - self.stalled > PATIENCE_S:
            msg = f"nothing could be read for {PATIENCE_S:.0f} s though there are records"
            raise Unavailable(msg, "see whether every partition of the source has a leader")
        self.warn_once("there are records, but none could be read; trying on")

    def report(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """Tell the observer, and size the next batch."""
        read = sum(outcome.read for outcome in outcomes)
        seconds = time.monotonic() - self.batch_started
        self.rate.take(read)
        self.budget.learn(max(o.read for o in outcomes), max(o.seconds for o in outcomes))
        acks = [outcome.first_ack for outcome in outcomes if outcome.first_ack is not None]
        for reason in sorted(self.skipped):
            if reason == UNSAID:
                self.warn_once("deletes are left out and counted: the sink's format cannot say them without key.format")
            elif reason not in {
                "tombstone",
                "parse-error",
                "header-filter",
                "not-included",
                "not-selected",
                FILTERED,
            }:
                self.warn_once(f"messages that are no rows are skipped and counted: {reason}")
        for table, column in sorted(self.withheld):
            self.warn_once(f"table {show(table)}: values of column {column!r} are left out of the sink, and counted")
        for table, column in sorted(self.cut):
            why = "is cut where expressions or Debezium's types need it, and counted"
            self.warn_once(f"table {show(table)}: what is finer than a microsecond in column {column!r} {why}")
        collector = self.pipeline.pipeline.collector
        logged = collector is not None and collector.type == "logger"
        for reject in (r for o in outcomes for r in o.rejects):
            self.observer(
                dirty(reject) if logged else Rejected(show(reject.table) if reject.table else "", str(reject))
            )
        self.observer(
            BatchDone(
                batch=batch.number,
                records=read,
                seconds=seconds,
                lag=self.lag(),
                rejected=sum(o.rejected + o.stopped_by_reject for o in outcomes),
                cpu_s=sum(o.cpu_s for o in outcomes),
                worker_rss_kib=max(o.rss_kib for o in outcomes),
                first_ack=min(acks, default=None),
            )
        )

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

    def summarise(self) -> None:
        """Fill in the closing summary."""
        for table, counts in self.counts.items():
            line = self.table(show(table))
            line.read, line.inserted, line.updated = counts.read, counts.inserted, counts.updated
            line.deleted, line.rejected = counts.deleted, counts.rejected
        if self.prepared:
            left: dict[str, int] = {}
            for (topic, _), number in self.waiting().items():
                left[topic] = left.get(topic, 0) + number
            self.summary.left = {topic: number for topic, number in sorted(left.items()) if number}
        self.summary.skipped = self.skipped
        self.summary.withheld = {f"{show(table)}.{column}": count for (table, column), count in self.withheld.items()}
        self.summary.cut = {f"{show(table)}.{column}": count for (table, column), count in self.cut.items()}


def dirty(reject: Reject) -> DirtyRecord:
    """A reject as the logger of dirty data has it."""
    return DirtyRecord(
        reject.topic, reject.partition, reject.offset, reject.stage, reject.code, reject.message,
        show(reject.table) if reject.table else "", head(reject.key), head(reject.value), passed=reject.passed,
    )  # fmt: skip
