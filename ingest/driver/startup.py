"""The start of a run: everything that needs Kafka and the checkpoint, and nothing that needs Spark's tasks.

In: an open checkpoint. Out: a `Start`. What is asked, announced and stored comes in this order for a reason: a sink is
acquired before it is asked how far a batch came, that is stored before positions are made of it, and where a pipeline
starts is stored before its first batch is planned. The newest records are sampled before that, so that tables are known
by then: what cannot be taken of them is passed over, and is a reject, or an error, when its turn comes. Rules:
docs/spec/sources.md#the-first-look.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ingest.checkpoint.run_status import note_start
from ingest.driver.backlog import Backlog
from ingest.driver.schemas import SchemaRules, SchemaStore
from ingest.driver.sink_tables import KeyPartitions, SinkTables, remedy
from ingest.driver.source_state import SourceMemory
from ingest.errors import ConfigError, IngestError
from ingest.formats.metadata_columns import MetadataColumns
from ingest.model.change import Change
from ingest.model.numbers import Numbers
from ingest.model.reject import RowError
from ingest.observe.events import OptionChanged
from ingest.schema.evolve import Schemas, all_fit, unchanged
from ingest.schema.infer import Inference, observe, reasons_of
from ingest.task.encoding import ChunkDecoder
from ingest.task.task import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.deadletter.collector import Collector
    from ingest.driver.context import RunContext
    from ingest.driver.ledger import RunCounters
    from ingest.driver.run_parts import RunParts
    from ingest.model.record import Chunk, Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks import SinkCoordinator
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
        counters: RunCounters,
        before_reading: Callable[[SinkTables, SchemaStore], None] | None = None,
    ) -> None:
        """`before_reading`: what is done before the source is asked what there is to read."""
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
        self._recovery.acquire(checkpoint)
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
        if resumed or parts.endpoints.source.sample_size:
            schemas.tell_unmatched()  # otherwise when all that is there was read
        marks = tables.marks()
        if (not resumed and progress.positions) or marks != progress.marks or self._before_reading is not None:
            # Where this pipeline starts is decided once, whatever becomes of its first batch. What somebody did to
            # tables is said once
            progress.marks, progress.source_state = marks, self.memory.value(checkpoint)
            checkpoint.done(progress, {})
        return Start(checkpoint, parts.endpoints.source, backlog, tables, schemas, stored, unfinished, resumed)

    def _begin(self, checkpoint: Checkpoint) -> None:
        """Take the next run's number, and show which options changed: files change while checkpoints stay."""
        now = self._context.pipeline.describe()
        before: Mapping[str, str] = checkpoint.begin(now)
        note_start(checkpoint, "run --once" if self._context.settings.once else "run")
        for option in sorted({*before, *now}) if before else ():
            if before.get(option) != now.get(option):
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
        if (batches := self._parts.sink.batches) is not None:
            batches.resume(checkpoint.id, progress.marks, lambda table: self._remedy(checkpoint, table))
        return progress, unfinished

    def _remedy(self, checkpoint: Checkpoint, table: TableId | None) -> str:
        """Return what reads the rows of a sink table again."""
        sources = checkpoint.schemas(self._parts.rules.rules).sources
        return remedy(
            self._context.pipeline, sorted(name for name, source in sources.items() if table in source.targets)
        )

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
        collector = self._parts.endpoints.collector
        if collector is not None and collector.type == "kafka":
            self._prepare_letters(collector, where[0])

    def schemas(self, checkpoint: Checkpoint, *, same_cluster: bool) -> tuple[SinkTables, SchemaStore]:
        """Return the sink's tables and the schemas, which nobody has taken over yet.

        `same_cluster`: whether the source could read what the sink writes.
        """
        context, parts = self._context, self._parts
        keys = KeyPartitions(context, parts.sink, checkpoint)
        tables = SinkTables(parts.sink, parts.source, context.observer, keys, same_cluster=same_cluster)
        withheld = parts.listeners.on_withheld
        return tables, SchemaStore(context, parts.rules, tables, checkpoint, self._counters, withheld)

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
        source, rules = self._parts.endpoints.source, self._parts.rules
        if not schemas.schemas.sources and source.sample_size:
            extent = self._parts.source.extent(backlog.ends)
            seen = sample_schemas(source, self._context.name, extent, rules)
            schemas.evolve(sorted(seen.tables.items()), seen.widening)


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


class Recovery:
    """Asks the sink about batches in doubt."""

    def __init__(self, context: RunContext, sink: SinkCoordinator) -> None:
        self._context = context
        self._sink = sink
        self.notes: list[Any] = []
        """What the sink kept for a source with a state, of the batch that was recovered last."""

    def acquire(self, checkpoint: Checkpoint) -> None:
        """Become the only run that writes, where the sink sees to that. Raise IngestError."""
        if (owner := self._sink.transactions) is not None:
            owner.acquire(checkpoint.id, checkpoint.run)

    def recover(self, checkpoint: Checkpoint, progress: Progress, batch: Batch | None) -> bool:
        """Add to the progress how far the sink was written in a batch; returns whether the sink knows that.

        `batch` is the one that was planned and not finished, None where there is none. In any case nothing of an older
        run is committed after this. Raises IngestError.
        """
        self.notes = []
        prefix = self._context.prefix
        if batch is not None and self._carry_out(checkpoint, progress, batch.number):
            return True
        if batch is not None and batch.prefix != prefix:
            self._see_prefix(batch, prefix)
        recovered = batch if batch is not None and batch.prefix == prefix else None
        starts = (
            {}
            if recovered is None
            else {
                shard: {split: start for split, (start, _) in ranges.items()}
                for shard, ranges in recovered.by_shard().items()
            }
        )
        number = progress.batch if batch is None else batch.number
        planned, age_s = (0, 0.0) if recovered is None else (recovered.run, time.time() - recovered.time / 1000)
        owner = self._sink.transactions
        written = {} if owner is None else owner.recover_in_doubt(checkpoint.scope, number, planned, starts, age_s)
        if recovered is None or prefix is None:
            return False
        progress.batch = recovered.number
        progress.ids, progress.source_state = dict(recovered.ids), recovered.source_state
        for resumed in written.values():
            progress.positions.update(resumed.positions)
            counters, note = Counters.read_from(resumed.metadata)
            progress.errors += counters.rejected
            self.notes += [] if note is None else [note]
        return True

    def _carry_out(self, checkpoint: Checkpoint, progress: Progress, number: int) -> bool:
        """Add to the sink's tables what was decided of a batch; returns whether anything was. Raise IngestError."""
        decided, batches = checkpoint.decided(number), self._sink.batches
        if decided is None or batches is None:
            return False
        reached, additions = decided
        batches.add(checkpoint.scope, number, additions)
        progress.batch, progress.ids, progress.shards = number, reached.ids, reached.shards
        progress.positions, progress.errors = reached.positions, reached.errors
        progress.marks, progress.source_state = batches.marks(), reached.source_state
        return True

    def _see_prefix(self, batch: Batch, prefix: str | None) -> None:
        """Refuse a batch in doubt under another prefix than now: its outcome is unknown. Raises ConfigError."""
        if batch.prefix is None:
            return
        if prefix is not None:
            msg = f"batch {batch.number} was begun under sink.transactional-id-prefix {batch.prefix}, now {prefix}"
            raise ConfigError(msg, "run it once as it was, with --once; then change the prefix")
        self._context.warn(
            f"batch {batch.number} was begun exactly-once and is finished without: all of it is written again"
        )


SAMPLE_S: Final = 5.0
"""The time to read, at most, in seconds: a start shall not wait for a slow partition."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What records show of tables."""

    tables: dict[TableId, TableSchema] = field(default_factory=dict)
    widening: dict[tuple[TableId, str], bytes] = field(default_factory=dict)
    """By table and column: values that gave them their types."""


def sample_schemas(source: Source, pipeline: str, ends: Mapping[Split, tuple[int, int]], rules: SchemaRules) -> Sampled:
    """Return what the newest records of each split show; `ends`: the first offset and the end of each."""
    count = source.sample_size
    ranges = {split: (max(first, end - count), end) for split, (first, end) in ends.items() if end > first}
    if not count or not ranges:
        return Sampled()
    reader = source.reader(pipeline)
    chunks: list[Chunk] = []
    deadline = time.monotonic() + SAMPLE_S
    reading = reader.read(ranges)
    try:
        for chunk in reading:
            if chunk is not None:
                chunks.append(chunk)
            if time.monotonic() > deadline:
                break
    except IngestError:
        return Sampled()  # the first batch will meet it, too, and knows what to do about it
    finally:
        reading.close()
        reader.close()
    # In a fixed order, whichever broker answered first: the columns' order comes from it
    chunks.sort(key=lambda chunk: chunk.split)
    sampled = observe_chunks(source, chunks, rules.inference, Schemas())
    return replace(sampled, tables=_possible(sampled.tables, rules))


def observe_chunks(source: Source, chunks: Iterable[Chunk], inference: Inference, known: Schemas) -> Sampled:
    """Return what some records show of tables beside what is known; what cannot be taken is passed over."""
    sampled = Sampled()
    seen = sampled.tables
    wanted = source.wanted
    decoder = ChunkDecoder(source, MetadataColumns(source.extra) if source.extra else None)
    for chunk in chunks:
        messages = [m for m in chunk.messages if wanted is None or wanted(m.headers())]
        for decoded in decoder.decode(chunk.split, chunk.topic, messages):
            if not isinstance(decoded, (Change, list)):
                continue
            for change in decoded if isinstance(decoded, list) else [decoded]:
                table = change.table
                source_table = known.sources.get(table)
                before = seen.get(table) or (None if source_table is None else source_table.schema)
                declared = table in inference.initial and before is None and inference.static
                # A delete may show only some of a row
                if change.after is None or declared:
                    continue
                stored = known.number_types(table) if inference.numbers is Numbers.STORED else {}
                fixed = inference.static and source_table is not None
                try:
                    keys = () if source_table is None else source_table.key_columns
                    seen[table] = observe(change, inference, before, stored, fixed=fixed, key_columns=keys)
                    reasons = reasons_of(change, before, seen[table], inference)
                except RowError:
                    continue
                for name, value in reasons.items():
                    sampled.widening.setdefault((table, name), value)
    return sampled


def _possible(seen: Mapping[TableId, TableSchema], rules: SchemaRules) -> dict[TableId, TableSchema]:
    """Return those tables that can be taken: others may never be read, as old messages are looked at, too."""
    unshaped = replace(rules, shape=unchanged, unfit=all_fit)
    out = {}
    for table, schema in seen.items():
        if rules.inference.keyed and not schema.primary_key and not rules.rules.primary_key(table):
            continue  # its rows lack their keys
        try:
            unshaped.evolve(Schemas(), [(table, schema)])
        except ConfigError:
            continue
        out[table] = schema
    return out
