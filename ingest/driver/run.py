"""Starts runs, puts their parts together, and ends them: `run` is what `ingest run` calls.

In: a pipeline, how to run it, who is told. Out: a summary. Everything that can go wrong is an IngestError with what to
do about it.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation
from ingest.checkpoint.run_status import RunEnd, note_end, note_failed_start, now_ms
from ingest.config.redaction import SEEN, mask
from ingest.driver.availability import Outages, Retries, SideWatch, askers_of
from ingest.driver.backlog import WaitingNotes
from ingest.driver.batch_checks import BatchChecks, DataLossCheck, ErrorBudget
from ingest.driver.context import RunContext, Settings, Stop, StopSignal, read_files
from ingest.driver.dispatcher import Dispatcher, SchemaBroadcast
from ingest.driver.driver import Driver
from ingest.driver.engine import SparkEngine, TaskRunner, seen_by_all
from ingest.driver.ledger import Ledger, RunCounters
from ingest.driver.pacing import assign_shards, shard_count
from ingest.driver.planner import BacklogWait, Planner, SplitWatch
from ingest.driver.replacement import BackfillRequests, TableReplacement
from ingest.driver.reports import Reports, tell_rejects
from ingest.driver.run_parts import Endpoints, Listeners, RunParts, make_parts
from ingest.driver.schemas import warn_withheld
from ingest.driver.source_state import SourceMemory
from ingest.driver.startup import PipelineStartup, Start, Startup
from ingest.errors import ConfigError, IngestError, InternalError, Unavailable
from ingest.model.text import reason_of
from ingest.observe.events import Observer, RunEnded, Stopping
from ingest.packages import failed_import
from ingest.task.task import Setup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.config.pipeline import Pipeline
    from ingest.sources import Source


def run(pipeline: Pipeline, settings: Settings, observer: Observer) -> RunEnded:
    """Run a pipeline until it is drained (`once`), told to stop, or failed; raises IngestError."""
    context = RunContext(pipeline, settings, observer)
    summary = RunEnded(context.name)
    with summarised(summary, observer), with_checkpoint(context) as access, prepared(context, access.lock) as engine:
        stop = stop_signal(context)
        counters = RunCounters(summary, pipeline.pipeline.max_tables)
        outages = Outages(context, stop, lambda: engine.lives)
        while True:
            parts = spark_parts(context, context.pipeline.source, engine, stop)
            startup = PipelineStartup(context, parts, counters)
            try:
                with started(context, parts, startup, access, counters, outages) as (_, driver):
                    driver.run()
            except Unavailable:
                if not outages.over:
                    raise
            else:
                return summary


@contextmanager
def summarised(summary: RunEnded, observer: Observer) -> Iterator[None]:
    """Tell the observer how a run went, however it went."""
    began = time.monotonic()
    try:
        yield
    except BaseException as exc:
        error, kind = _meaning(exc)
        summary.exit_code, summary.code = kind.exit_code, kind.code
        summary.stopped = f"{type(exc).__name__}: {reason_of(exc)}" if error is None else str(error)
        if error is None or error is exc:
            raise
        raise error from exc
    finally:
        summary.seconds = time.monotonic() - began
        observer(summary)


def _meaning(exc: BaseException) -> tuple[IngestError | None, type[IngestError]]:
    """Return the error that ended a run, None for a bug; and what kind of error that is."""
    error = exc if isinstance(exc, IngestError) else failed_import(exc)
    return error, InternalError if error is None else type(error)


@contextmanager
def with_checkpoint(context: RunContext) -> Iterator[CheckpointAccess]:
    """Yield the checkpoint of a run, which keeps the error of one that ends before it has a number; raises IngestError.

    Where Java has to run before it can be opened, that begins when it is open (`_noted`).
    """
    with (
        CheckpointAccess(CheckpointLocation(context.settings.checkpoint)) as access,
        _noted(context, access, RunEnded(context.name), starting=True),
    ):
        context.pipeline.require_packages()
        _refuse_start_time(context)
        yield access


@contextmanager
def _noted(
    context: RunContext, access: CheckpointAccess, summary: RunEnded, *, starting: bool = False
) -> Iterator[None]:
    """Leave in the checkpoint how the run ended, for `ingest status`; a run that is killed leaves nothing.

    Without a number it leaves its error only. `starting`: that is all that is left, whatever becomes of the run.
    """

    def note(exit_code: int = 0, code: str = "", message: str = "") -> None:
        checkpoint = access.early if starting else access.checkpoint
        if checkpoint is None or (starting and checkpoint.run):
            return
        waiting = None if summary.left is None else sum(summary.left.values())
        lag = None if summary.standing is None else summary.standing.lag()
        end = RunEnd(now_ms(), exit_code, code, message, waiting, lag)
        with suppress(IngestError):  # it is for people: how the run went is what counts
            if checkpoint.run:
                note_end(checkpoint, end)
            elif exit_code:
                note_failed_start(checkpoint.storage, end)

    try:
        yield
    except Exception as exc:
        error, kind = _meaning(exc)
        text = type(exc).__name__ if error is None else error.message  # a bug's text may hold values of messages
        note(kind.exit_code, kind.code, mask(text, context.pipeline.secrets | SEEN))
        raise
    else:
        note()


def _refuse_start_time(context: RunContext) -> None:
    """Raise ConfigError where `--from-timestamp` means nothing to the source."""
    if context.settings.from_time is not None and (why := context.pipeline.source.capabilities.no_start_time):
        raise ConfigError(f"--from-timestamp is not possible: {why}", "leave it out")


@contextmanager
def prepared(context: RunContext, lock: int | None) -> Iterator[SparkEngine]:
    """Yield the engine of a run, whose pipeline then holds what is in its files; raises IngestError.

    Java starts here, before anything connects, where a file is on one of Hadoop's file systems, or executors have to
    look for directories; otherwise later, beside the connection to Kafka. `lock`: a descriptor for child processes to
    hold.
    """
    engine = SparkEngine(context, sql=context.pipeline.rules.change_rows)
    try:
        context.pipeline = read_files(context.pipeline, lambda: engine.start(lock).hadoop, context.warn)
        with seen_by_all(context, engine, lock):
            yield engine
    finally:
        engine.stop()


def stop_signal(context: RunContext) -> StopSignal:
    """Return what hears the signals that end a run."""
    return StopSignal(lambda name, now: context.observer(Stopping(name, now)))


def spark_parts(context: RunContext, source: Source, engine: SparkEngine, stop: Stop) -> RunParts:
    """Return the parts of a run on Spark, with the pipeline's own sink; connects to nothing yet. Raises ConfigError."""
    pipeline, sink = context.pipeline, context.pipeline.sink
    if sink.capabilities.names_code:
        sink = sink.packed(pipeline.folder)
    return make_parts(
        context,
        pipeline.rules,
        Endpoints(source, sink, pipeline.pipeline.collector),
        engine,
        stop,
        Listeners(tell_rejects(context), warn_withheld(context)),
    )


@contextmanager
def started(
    context: RunContext,
    parts: RunParts,
    startup: Startup,
    access: CheckpointAccess,
    counters: RunCounters,
    outages: Outages | None = None,
) -> Iterator[tuple[Start, Driver]]:
    """Start a run, and end it with the block; raises IngestError.

    A local checkpoint is opened, and Kafka asked, while Java starts; another checkpoint is reached through Java.
    `outages`: waits where a side goes away, at the start or in the block, before the error leaves.
    """
    start: Start | None = None
    tell: Observer = context.observer
    for text in context.pipeline.warnings:
        context.warn(text)
    early = access.early
    ending, nothing = _noted(context, access, counters.summary), nullcontext()
    with ThreadPoolExecutor(1) as threads, parts.stop.installed(), nothing if early is None else ending:
        askers = askers_of(parts, lambda: {} if start is None else start.backlog.positions, context.clock.now)
        watch = SideWatch(
            askers,
            lambda: None if start is None else start.backlog,
            context.liveness,
            lambda event: tell(event),  # noqa: PLW0108  (it is another one when the start is over)
            context.clock.now,
        )
        connecting = None if early is None else threads.submit(startup.connect, early)
        try:
            with watch.watching():
                runner = _start_engine(parts, access.lock, connecting)
                parts.stop.listen()  # again: Spark takes Ctrl-C for itself when it starts
                with ending if early is None else nothing:  # Java, by which the checkpoint is reached, is there yet
                    try:
                        start = (
                            startup.connect(access.open(runner.hadoop)) if connecting is None else connecting.result()
                        )
                        tell = WaitingNotes(start.checkpoint, context.observer)
                        yield start, assemble(context, parts, start, runner, counters)
                    except Unavailable as exc:
                        if outages is not None:
                            outages.wait(exc, watch, counters.summary.records)
                        raise
        finally:
            parts.source.close()
            parts.sink.close()


def _start_engine(parts: RunParts, lock: int | None, connecting: Future[Start] | None) -> TaskRunner:
    """Start the engine; when the other half of the start fails first, its error is the one to show."""
    try:
        return parts.engine.start(lock)
    except IngestError:
        other = None if connecting is None else connecting.exception()
        if isinstance(other, IngestError):
            raise other from None
        raise


def assemble(context: RunContext, parts: RunParts, start: Start, runner: TaskRunner, counters: RunCounters) -> Driver:
    """Put main street together, once everything is connected; sends to the workers what stays the same for the run."""
    pipeline, settings = context.pipeline, context.settings
    source, sink, stop, pacing = parts.source, parts.sink, parts.stop, parts.pacing
    backlog, schemas, progress = start.backlog, start.schemas, start.backlog.progress
    shards = shard_count(progress.shards, pipeline.pipeline.parallelism, runner.slots, pipeline.sink.parallelism)
    progress.shards = assign_shards(progress.positions, progress.shards, shards)
    setup = runner.broadcast(setup_of(context, parts, start))
    transforms = None if parts.compiler is None else parts.engine.transforms(parts.compiler, shards)
    broadcast = SchemaBroadcast(runner, schemas, source)
    liveness, memory = context.liveness, SourceMemory(source)
    retries = Retries(context, stop, liveness)

    def announce(batch: int, tasks: int) -> None:
        if (owner := sink.transactions) is not None:
            # Nothing of the batch is written yet, so this can be said again until the sink is back
            retries.until_answered(lambda: owner.begin_batch(batch, tasks))

    data_loss = DataLossCheck(source, backlog, retries)
    replacement = TableReplacement(context, parts, memory, start.tables, schemas, start.checkpoint)
    ledger = Ledger(context, start.checkpoint, progress, counters, start.tables, memory, replacement.carry_out)
    requests = BackfillRequests(
        context, start.checkpoint, replacement, lambda: ledger.store(backlog.lag(), backlog.standing())
    )
    splits = SplitWatch(source, backlog, data_loss, retries, requests.look)
    backlog_wait = BacklogWait(splits, backlog, pacing, schemas, stop, liveness, counters.summary, once=settings.once)
    errors = ErrorBudget(context, progress, start.source.tolerated, lambda: not schemas.schemas.sources)
    return Driver(
        planner=Planner(context, start, source, backlog_wait, pacing, stop, shards, memory),
        dispatcher=Dispatcher(runner, transforms, setup, broadcast, announce, errors, pacing),
        ledger=ledger,
        schemas=schemas,
        broadcast=broadcast,
        checks=BatchChecks(context, backlog, errors, data_loss),
        splits=splits,
        pacing=pacing,
        reports=Reports(context, start, counters, parts.listeners.on_reject, lambda: parts.engine.ask(setup)),
        liveness=liveness,
    )


def setup_of(context: RunContext, parts: RunParts, start: Start) -> Setup:
    """Return what workers get once for the whole run."""
    options, checkpoint = context.pipeline.pipeline, start.checkpoint
    return Setup(
        scope=checkpoint.scope,
        run=checkpoint.run,
        pipeline=context.name,
        source=start.source,
        sink=parts.endpoints.sink,
        collector=parts.endpoints.collector,
        inference=parts.rules.inference,
        max_tables=options.max_tables,
        rules=parts.rules.rules,
        changelog=start.source.capabilities.upserts and parts.endpoints.sink.capabilities.changelog,
        look_ahead=parts.look_ahead,
        marks=context.marks,
    )
