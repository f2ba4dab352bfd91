"""Sends dead letters back through their pipeline, under the pipeline's checkpoint.

    replays/N.note         which letters, and where reading began: written before anything else
    replays/N/             plans and progress of that replay, as of any run

In: a pipeline whose dirty data goes to Kafka, and a selection. Out: a summary. What is rejected again is a new letter.
A letter was replayed when the progress of an earlier replay that selected it had passed it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.inspect import opened
from ingest.deadletter.browse import letters as selected
from ingest.deadletter.browse import tally
from ingest.deadletter.letter import Replayed, Selection
from ingest.deadletter.source import LetterSource
from ingest.driver.backlog import Backlog
from ingest.driver.context import RunContext, Settings, with_files
from ingest.driver.ledger import RunCounters
from ingest.driver.run import prepared, spark_parts, started, stop_signal, summarised, with_checkpoint
from ingest.driver.startup import PipelineStartup, Recovery, Start, begin_existing
from ingest.errors import ConfigError
from ingest.kafka.connection import KafkaConnection
from ingest.observe.events import Observer, RunEnded, Warned

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.config.pipeline import Pipeline
    from ingest.driver.run_parts import RunParts

_FOLDER = "replays"


def replay(pipeline: Pipeline, settings: Settings, observer: Observer, selection: Selection) -> RunEnded:
    """Replay the selected dead letters that no earlier replay has sent back. Raise IngestError."""
    context = RunContext(pipeline, settings, observer)
    summary = RunEnded(f"{context.name} (replay)")
    with summarised(summary, observer), with_checkpoint(context) as access, prepared(context, access.lock) as engine:
        letters = dead_letters_of(context.pipeline, selection)
        parts = spark_parts(context, letters, engine, stop_signal(context))
        counters = RunCounters(summary, pipeline.pipeline.max_tables)
        startup = ReplayStartup(context, parts, counters, letters)
        with started(context, parts, startup, access, counters) as (_, driver):
            driver.run()
    return summary


def plan_replay(
    pipeline: Pipeline, settings: Settings, observer: Observer, selection: Selection
) -> list[dict[str, Any]]:
    """Count what `replay` would send back, by table, code and topic; writes nothing. Raises IngestError."""

    def warn(text: str) -> None:
        observer(Warned(text))

    source = dead_letters_of(with_files(pipeline, settings.conf, warn), selection)
    with opened(settings.checkpoint, settings.conf, write=False) as checkpoint:
        earlier, _ = replays(checkpoint, lambda *_: False)
    return tally(selected(replace(source, earlier=tuple(earlier)), warn))


class ReplayStartup:
    """The start of a replay: from the topic of dead letters, with progress of its own."""

    def __init__(self, context: RunContext, parts: RunParts, counters: RunCounters, letters: LetterSource) -> None:
        self._context = context
        self._parts = parts
        self._counters = counters
        self._letters = letters
        self._recovery = Recovery(context, parts.sink)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect source and sink, and start after the ranges of earlier replays. Raise IngestError."""
        begin_existing(checkpoint, "replay")
        source, sink = self._parts.source, self._parts.sink
        source.connect()
        sink.connect()
        self._recovery.acquire(checkpoint)
        pipeline = PipelineStartup(self._context, self._parts, self._counters)
        pipeline.resume(checkpoint)
        earlier, number = replays(checkpoint, lambda *of: self._recovery.recover(checkpoint, *of))
        positions = source.start({}, {}, checkpoint.id, None)
        letters = replace(self._letters, earlier=tuple(earlier))
        note = {"selection": letters.selection.to_json(), "starts": [[t, p, at] for (t, p), at in positions.items()]}
        checkpoint.storage.write(f"{_FOLDER}/{number}.note", orjson.dumps(note))
        checkpoint.batches = f"{_FOLDER}/{number}"
        progress = Progress()
        self._recovery.recover(checkpoint, progress, None)
        progress.positions = positions
        progress.ids = dict(source.ids)
        tables, schemas = pipeline.schemas(checkpoint, same_cluster=False)
        stored = schemas.take_over()
        backlog = Backlog(progress, source.ends(positions), drain=True)
        return Start(checkpoint, letters, backlog, tables, schemas, stored)


def replays(checkpoint: Checkpoint, recover: Callable[[Progress, Batch | None], bool]) -> tuple[list[Replayed], int]:
    """Return the selections and ranges of earlier replays, and the number of the next one. Raise CheckpointError.

    `recover` adds to a replay's progress what it wrote of a batch whose end it did not see, where the sink knows that.
    """
    out = []
    numbers = [int(n.removesuffix(".note")) for n in checkpoint.storage.names(_FOLDER) if n.endswith(".note")]
    for number in sorted(numbers):
        try:
            note: dict[str, Any] = orjson.loads(checkpoint.storage.read(f"{_FOLDER}/{number}.note") or b"")
            checkpoint.batches = f"{_FOLDER}/{number}"
            progress, unfinished = checkpoint.progress()
            if unfinished is not None and recover(progress, unfinished):
                checkpoint.done(progress, {})
            reached = progress.positions
            starts = {(topic, p): at for topic, p, at in note["starts"]}
            ranges = {split: (at, reached.get(split, at)) for split, at in starts.items()}
            out.append(Replayed(Selection.from_json(note["selection"]), ranges))
        except (ValueError, KeyError, TypeError) as exc:
            raise checkpoint.damaged(f"{_FOLDER}/{number}.note", exc) from exc
    return out, max(numbers, default=0) + 1


def dead_letters_of(pipeline: Pipeline, selection: Selection) -> LetterSource:
    """Return the source that reads the pipeline's dead letters. Raise ConfigError where it collects none."""
    collector = pipeline.pipeline.collector
    if collector is None or collector.topic is None:
        msg = "this pipeline has no topic of dead letters (pipeline.dirty-data.collector, type: kafka)"
        raise ConfigError(msg, "rejects of this pipeline are in its log only")
    name = pipeline.pipeline.name
    cluster = collector if collector.properties else pipeline.sink
    assert isinstance(cluster, KafkaConnection)  # the file was refused otherwise
    conf = {**cluster.connection(), "group.id": f"ingest.{name}.replay"}
    conf.pop("auto.offset.reset", None)
    return LetterSource(pipeline.source, collector.topic, conf, name, selection)
