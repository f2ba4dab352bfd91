"""What a Python worker keeps between tasks: clients, schemas, compiled plans.

Clients do not survive a fork, and workers are forked: everything here is made in the worker, on first use.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ingest.encode.plans import Plans
from ingest.encode.transform import FeedPlan
from ingest.formats.columns import Columns
from ingest.kafka.connection import KafkaConnection
from ingest.model import types
from ingest.model.schema import Column, TableSchema
from ingest.native.native import ABSENT, BUILT, NativeEncoders, TargetTable, writes
from ingest.schema.evolve import Schemas, SourceTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.core.broadcast import Broadcast

    from ingest.deadletter.collector import DirtyDataCollector
    from ingest.deadletter.letter import DeadLetters
    from ingest.encode.plan import Plan
    from ingest.encode.transform import Programs
    from ingest.model.table import TableId
    from ingest.native.row_encoder import RowEncoder
    from ingest.schema.infer import Inference
    from ingest.schema.routes import Rules
    from ingest.sinks import Sink, Writer
    from ingest.sources import Reader, Source


_TRIAL: Final = ("trial",)
_ROW: Final = TableSchema((Column("id", types.BIGINT, nullable=False), Column("text", types.STRING)), ("id",))
"""A table as plain as can be: where Python makes even its records, it makes all."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same for a whole run."""

    scope: str
    """Whose progress it is: the checkpoint's, or that of a replay."""
    run: int
    pipeline: str
    source: Source
    sink: Sink
    collector: DirtyDataCollector | None
    inference: Inference
    max_tables: int
    rules: Rules
    changelog: bool = False
    """Whether inserts are to be told from updates, by the rows of upsert topics."""
    look_ahead: int = 1000
    """Where looking ahead after a drift has brought nothing new for so many records, it ends."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What one version of the schemas changed."""

    version: int
    sources: dict[TableId, SourceTable]
    sinks: dict[TableId, TableSchema]


def by_the_book(setup: Setup) -> list[str]:
    """Return why no message of a run is taken apart in C in this worker; nothing where most are."""
    source, why = setup.source, [] if BUILT else [ABSENT]
    extra = source.extra
    if extra:
        options = [("key.format", extra.key), ("key.fields-prefix", extra.key_prefix)]
        options += [("value.fields-prefix", extra.value_prefix), ("metadata.list", extra.metadata)]
        why.append(f"columns that are not in the value ({', '.join(name for name, given in options if given)})")
    if setup.changelog:
        why.append("rows of upsert topics are looked up, for a sink that tells inserts from updates")
    if source.format.form is None:
        why.append("the options of the source's format ask for more than C knows")
    return why


def in_python(setup: Setup) -> list[str]:
    """Return why records of a run pass through Python in this worker; nothing: C has them from one client to the other.

    It is what can be told before there are records. What a single record or table has beyond the common case is done by
    Python in any pipeline.
    """
    why, source, sink = by_the_book(setup), setup.source, setup.sink
    if not isinstance(source, KafkaConnection):
        why.append("records are not read from Kafka")
    elif source.wanted is not None:
        why.append("every record's headers are looked at (scan.header-filter)")
    plan = sink.plan(_TRIAL, SourceTable(_ROW, (_TRIAL,), key_from_message=True), _TRIAL, _ROW, setup.inference)
    if BUILT and not writes(plan):
        why.append("the sink's records are made by Python, by its options")
    if not isinstance(sink, KafkaConnection):
        why.append("records are not written to Kafka")
    elif getattr(sink, "buffered", False):
        why.append("records are held back by their keys (sink.buffer-flush.max-rows)")
    if BUILT and (isinstance(source, KafkaConnection) or isinstance(sink, KafkaConnection)):
        from ingest.kafka.handle import unusable  # noqa: PLC0415  (the client is slow to import)

        if why_not := unusable():
            why.append(why_not)
    if setup.rules.change_rows and setup.inference.static:
        why.append("schema.inference.strategy: static, with a transform")
    return why


def ask(setups: Iterable[Broadcast[Setup]]) -> Iterator[list[str]]:
    """Answer for this worker, as Spark maps over a partition."""
    for setup in setups:
        yield in_python(setup.value)


class State:
    """One run's things in this worker."""

    def __init__(self, setup: Setup) -> None:
        """Make nothing yet."""
        self.setup = setup
        self.token = uuid.uuid4().hex
        """Which worker this is, for the driver."""
        self.plans = Plans(setup.sink.plan, setup.inference)
        settled = replace(setup.inference, reading=replace(setup.inference.reading, settled=True))
        self.results = Plans(setup.sink.plan, settled)
        """The plans of tables whose rows a transform has changed."""
        self.answers: dict[TableId, tuple[Plan, Programs, RowEncoder | None]] = {}
        """How C writes their rows, and what that was made of."""
        self.columns = Columns(setup.source.extra) if setup.source.extra else None
        self.lanes = self._fast(None)
        """The fast way of messages that have nothing special, where there is one."""
        self.heads = TargetTable()
        """Where records go that pass expressions by."""
        self.programs: Programs | None = None
        """Where rows go to Spark from here: what becomes of them there."""
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._letters: DeadLetters | None = None

    def feed(self, programs: Programs, *, images: bool) -> None:
        """Let rows that a transform changes go to Spark from here on, by these programs."""
        if self.programs is not programs:
            self.programs = programs
            inference, upserts = self.setup.inference, self.setup.source.upserts and not self.setup.changelog
            self.plans.feed = lambda table, source: FeedPlan(
                programs, table, source, inference, images=images, upserts=upserts
            )
            self.plans.renew(self.schemas, None)
            self.renew_heads()

    def renew_heads(self) -> None:
        """Number the places of records anew that pass expressions by."""
        if self.lanes is not None:
            self.lanes.settle()
        self.heads = TargetTable()
        self.lanes = self._fast(self.heads)

    def _fast(self, heads: TargetTable | None) -> NativeEncoders | None:
        """The way of messages in C, where it is there and nothing has to be added to what they say."""
        return None if by_the_book(self.setup) else NativeEncoders(self.setup.source.format, self.plans, heads)

    @property
    def schemas(self) -> Schemas:
        """The schemas that this task works with."""
        return self.plans.schemas

    def reader(self) -> Reader:
        """The worker's reader."""
        if self._reader is None:
            self._reader = self.setup.source.reader(self.setup.pipeline)
        return self._reader

    def writer(self) -> Writer:
        """The worker's writer."""
        if self._writer is None:
            self._writer = self.setup.sink.writer(self.setup.pipeline, self.setup.run)
        return self._writer

    def letters(self) -> DeadLetters | None:
        """Where rejects go; None where they go nowhere from here."""
        collector = self.setup.collector
        if self._letters is None and collector is not None:
            self._letters = collector.letters(self.setup.pipeline, self.writer())
        return self._letters

    def update(self, base: Broadcast[Schemas], base_version: int, deltas: Sequence[Delta]) -> None:
        """Bring the schemas to the version of the task; plans of tables that changed are made anew."""
        target = deltas[-1].version if deltas else base_version
        if not base_version <= self.schemas.version <= target:
            self._renew(base.value, None)
        for delta in deltas:
            old = self.schemas
            if delta.version > old.version:
                sources, sinks = {**old.sources, **delta.sources}, {**old.sinks, **delta.sinks}
                self._renew(Schemas(delta.version, sources, sinks), {*delta.sources, *delta.sinks})

    def _renew(self, schemas: Schemas, changed: set[TableId] | None) -> None:
        self.plans.renew(schemas, changed)
        self.results.renew(schemas, changed)

    def discard(self) -> None:
        """Let go of the clients: what failed may have left them in any state."""
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.abort()
        self._reader = self._writer = self._letters = None


_state: State | None = None


def state(setup: Setup, base: Broadcast[Schemas], base_version: int, deltas: Sequence[Delta]) -> State:
    """This worker's state for a run, at the task's version of the schemas."""
    global _state  # noqa: PLW0603  (a worker is one process with one state)
    if _state is None or (_state.setup.scope, _state.setup.run) != (setup.scope, setup.run):
        discard()
        _state = State(setup)
    _state.update(base, base_version, deltas)
    return _state


def discard() -> None:
    """Let go of the clients of this worker."""
    if _state is not None:
        _state.discard()


def rss_kib() -> int:
    """The most memory that this worker ever had, in KiB; 0 where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0
