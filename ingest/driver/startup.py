"""The start of a run: everything that needs Kafka and the checkpoint, and nothing that needs Spark's tasks.

In: an open checkpoint. Out: a `Start`. What is asked, announced and stored comes in this order for a reason: a sink is
acquired before it is asked how far a batch came, that is stored before positions are made of it, and where a pipeline
starts is stored before its first batch is planned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from ingest.checkpoint.lives import note_start
from ingest.driver.backlog import Backlog
from ingest.driver.key_partitions import KeyPartitions
from ingest.driver.places import remedy
from ingest.driver.recovery import Recovery
from ingest.driver.sample_schemas import sample_schemas
from ingest.driver.schemas import SchemaStore
from ingest.driver.sink_tables import SinkTables
from ingest.driver.source_state import SourceMemory
from ingest.errors import ConfigError
from ingest.observe.events import OptionChanged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.deadletter.collector import Collector
    from ingest.driver.context import RunContext
    from ingest.driver.counters import Counters
    from ingest.driver.parts import RunParts
    from ingest.model.record import Split
    from ingest.model.table import TableId
    from ingest.schema.evolve import Schemas
    from ingest.sources import Source


@dataclass(frozen=True, slots=True)
class Start:
    """The result of a start-up: what it agreed on with the checkpoint, the source and the sink."""

    checkpoint: Checkpoint
    source: Source
    """The source that tasks read with."""
    backlog: Backlog
    tables: SinkTables
    schemas: SchemaStore
    stored: Schemas
    """The schemas as the checkpoint had them."""
    unfinished: Batch | None = None
    """A batch that was planned by an earlier run and is still to be done."""
    resumed: bool = False
    """True if the pipeline has run before."""


class Startup(Protocol):
    """Connects a run."""

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and agree with the checkpoint where to start; raises IngestError."""


class PipelineStartup:
    """The start of an ordinary run."""

    def __init__(
        self,
        context: RunContext,
        parts: RunParts,
        counters: Counters,
        before_reading: Callable[[SinkTables, SchemaStore], None] | None = None,
    ) -> None:
        """Connect to nothing yet. `before_reading`: what is done before the source is asked what there is to read."""
        self._context = context
        self._parts = parts
        self._counters = counters
        self._before_reading = before_reading
        self._recovery = Recovery(context, parts.sink)
        self.memory = SourceMemory(parts.source)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and agree with the checkpoint where to start; raises IngestError."""
        parts, source = self._parts, self._parts.source
        self._begin(checkpoint)
        where = self.identify(checkpoint)
        parts.sink.acquire(checkpoint.id, checkpoint.run)
        progress, unfinished = self.recover(checkpoint)
        resumed = bool(progress.positions) or unfinished is not None
        unfinished = self._position(checkpoint, progress, unfinished)
        if unfinished is not None and self.memory.begun_anew:
            progress.batch, unfinished = unfinished.number, None
        self.prepare_collector(where)
        tables, schemas = self.schemas(checkpoint, same_cluster=where[0] == where[1])
        stored = schemas.take_over()
        if progress.batch:
            schemas.places.settle(schemas.schemas.sources)
        else:
            schemas.places.have_all(schemas.schemas.sources)
        schemas.places.tell_unfinished()
        if self._before_reading is not None:
            self._before_reading(tables, schemas)
        ends = source.ends(progress.positions)
        once, memory = self._context.settings.once, self.memory
        backlog = Backlog(
            progress, ends, drain=once, fixed=memory.fixed, standing=memory.standing, needed=memory.needed
        )
        if known := self.memory.new_schemas():
            schemas.evolve(known)
        schemas.comment(self.memory.comments())
        self._sample(schemas, backlog)
        if resumed or parts.sides.source.sample_size:
            schemas.tell_unmatched()  # otherwise when all that is there was read
        marks = parts.sink.marks()
        if (not resumed and progress.positions) or marks != progress.marks or self._before_reading is not None:
            # Where this pipeline starts is decided once, whatever becomes of its first batch. What somebody did to
            # tables is said once
            progress.marks, progress.source_state = marks, self.memory.value(checkpoint)
            checkpoint.done(progress, {})
        return Start(checkpoint, parts.sides.source, backlog, tables, schemas, stored, unfinished, resumed)

    def _begin(self, checkpoint: Checkpoint) -> None:
        """Take the next run's number, and show which options changed: files change while checkpoints stay."""
        now = self._context.pipeline.describe()
        stored: Mapping[str, Any] = checkpoint.begin(now)
        before = {option: text for option, text in stored.items() if text != "None"}  # so older versions said "not set"
        note_start(checkpoint, "run --once" if self._context.settings.once else "run")
        for option in sorted({*before, *now}) if before else ():
            if _written(before.get(option)) != _written(now.get(option)):
                self._context.observer(OptionChanged(option, before.get(option), now.get(option)))

    def identify(self, checkpoint: Checkpoint) -> tuple[str, str]:
        """Connect both sides, and see that the checkpoint is of this pipeline; returns who they are."""
        source, sink = self._parts.source, self._parts.sink
        read_from, write_to = source.connect(), sink.connect()
        checkpoint.bind({"source": source.fingerprint(read_from), "sink": sink.fingerprint(write_to)})
        return read_from, write_to

    def recover(self, checkpoint: Checkpoint) -> tuple[Progress, Batch | None]:
        """Return the progress, and the batch to do again: none where the sink knows how far that one came."""
        progress, unfinished = self.resume(checkpoint)
        if self._recovery.recover(checkpoint, progress, unfinished):
            unfinished = None
            self.memory.restore(checkpoint, progress, None, self._recovery.notes)
            progress.source_state = self.memory.value(checkpoint)
            checkpoint.done(progress, {})
        else:
            self.memory.restore(checkpoint, progress, unfinished, ())
        return progress, unfinished

    def resume(self, checkpoint: Checkpoint) -> tuple[Progress, Batch | None]:
        """Return the pipeline's progress and its unfinished batch; the sink learns what is kept of its tables."""
        progress, unfinished = checkpoint.progress()
        self._parts.sink.resume(checkpoint.id, progress.marks, lambda table: self._remedy(checkpoint, table))
        return progress, unfinished

    def _remedy(self, checkpoint: Checkpoint, table: TableId | None) -> str:
        """Return what reads the rows of a sink table again."""
        found = checkpoint.schemas(self._parts.rules.rules).sources
        return remedy(self._context.pipeline, sorted(one for one, of in found.items() if table in of.targets))

    def _position(self, checkpoint: Checkpoint, progress: Progress, unfinished: Batch | None) -> Batch | None:
        """Fill in where each split starts; returns the batch to do again, as far as its ranges are still there."""
        source, from_time = self._parts.source, self._context.settings.from_time
        stored, ids = progress.positions, progress.ids
        if unfinished is not None and not stored:
            # The very first batch was planned and not finished: its ranges say where the pipeline starts
            stored = {split: start for split, (start, _) in unfinished.ranges.items()}
            ids = dict(unfinished.ids)
        if stored and from_time is not None and not self._context.begun_before:
            self._context.warn(
                "--from-timestamp has no effect: the checkpoint says where to go on (ingest checkpoint reset)"
            )
        progress.positions = source.start(stored, ids, checkpoint.id, from_time)
        progress.ids = dict(source.ids)
        return None if unfinished is None else still_there(unfinished, progress.positions)

    def prepare_collector(self, where: tuple[str, str]) -> None:
        """Make the topic of dead letters, where the pipeline has one. `where`: see `identify`. Raises ConfigError."""
        collector = self._parts.sides.collector
        if collector is not None and collector.type == "kafka":
            self._prepare_letters(collector, where[0])

    def schemas(self, checkpoint: Checkpoint, *, same_cluster: bool) -> tuple[SinkTables, SchemaStore]:
        """Return the sink's tables and the schemas, which nobody has taken over yet.

        `same_cluster`: whether the source could read what the sink writes.
        """
        context, parts = self._context, self._parts
        keys = KeyPartitions(context, parts.sink, checkpoint)
        tables = SinkTables(parts.sink, parts.source, context.observer, keys, same_cluster=same_cluster)
        return tables, SchemaStore(
            context, parts.rules, tables, checkpoint, self._counters, parts.listeners.on_withheld
        )  # fmt: skip

    def _prepare_letters(self, collector: Collector, read_from: str) -> None:
        """Make the topic of dead letters; raises ConfigError where the pipeline would read it."""
        name = self._context.name
        sink = {} if collector.properties else self._context.pipeline.sink.client(name)
        written_to = collector.prepare(sink, name, self._context.warn)
        topic = collector.topic or ""
        if written_to == read_from and self._parts.source.reads(topic):
            msg = f"the pipeline reads its own dead letters: topic {topic} is one of its source's"
            raise ConfigError(msg, "change pipeline.dirty-data.collector.topic, or source.topic or topic-pattern")

    def _sample(self, schemas: SchemaStore, backlog: Backlog) -> None:
        """Learn tables from the newest records, before the very first batch."""
        source, rules = self._parts.sides.source, self._parts.rules
        if not schemas.schemas.sources and source.sample_size:
            extent = self._parts.source.extent(backlog.ends)
            seen = sample_schemas(source, self._context.name, extent, rules)
            schemas.evolve(sorted(seen.tables.items()), seen.widening)


def _written(value: object) -> object:
    """Return an option's value as a file has it: checkpoints of earlier versions have it as Python does."""
    return {"True": "true", "False": "false", "None": None}.get(str(value), value)


def begin_existing(checkpoint: Checkpoint, kind: str) -> None:
    """Begin a run of its own under a pipeline's checkpoint, as a replay is. Raise ConfigError where there is none.

    `kind`: the command, for people.
    """
    if not checkpoint.exists:
        msg = f"there is no checkpoint at {checkpoint.where}: this pipeline never ran"
        raise ConfigError(msg, "give its --checkpoint, if it has another one")
    checkpoint.begin()
    note_start(checkpoint, kind)


def still_there(batch: Batch, positions: Mapping[Split, int]) -> Batch | None:
    """Return a planned batch, with those ranges that still begin at the positions; None where there is none.

    `scan.on-data-loss` may have moved positions.
    """
    ranges = {s: (start, end) for s, (start, end) in batch.ranges.items() if positions.get(s) == start}
    return replace(batch, ranges=ranges) if ranges else None
