"""What driver and workers send each other: a task with what it needs to know, and the result of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.task.counters import Counters, Telemetry

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

    from ingest.deadletter.collector import Collector
    from ingest.errors import IngestError
    from ingest.model.record import Split
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.paths import SharedMark
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.schema.infer import Inference
    from ingest.schema.routes import Rules
    from ingest.sinks import Sink
    from ingest.sources import Source


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings that stay the same for a whole run."""

    scope: str
    """The owner of the progress: the checkpoint, or a replay of it."""
    run: int
    pipeline: str
    source: Source
    sink: Sink
    collector: Collector | None
    inference: Inference
    max_tables: int
    rules: Rules
    changelog: bool = False
    """True if inserts are to be told from updates, by the rows of upsert topics."""
    look_ahead: int = 1000
    """Looking ahead after a drift ends when this many records have brought nothing new."""
    marks: tuple[SharedMark, ...] = ()
    """What the driver has left in directories for executors to look for; nothing where all tasks run beside it."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The tables that one version of the schemas changed."""

    version: int
    sources: dict[TableId, SourceTable]
    sinks: dict[TableId, TableSchema]


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a task gets of the state of a source (`sources/stateful.py`)."""

    own: Any
    """The part that is for the task's ranges."""
    shared: Broadcast[Any]
    """The part that all tasks get."""


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one shard in one batch."""

    batch: int
    planned: int
    """The run that planned the batch."""
    shard: int
    ranges: dict[Split, tuple[int, int]]
    ids: dict[str, str]
    """Ids of the topics by their names: a topic that was made again has another id."""
    tolerated: int
    """The number of rejects that the task may pass."""
    seconds: float
    """After how many seconds the task ends, wherever it is."""
    last: str
    """The worker that wrote this shard last, in this run."""
    setup: Broadcast[Setup]
    base: Broadcast[Schemas]
    base_version: int
    deltas: tuple[Delta, ...]
    apart: dict[Split, int] = field(default_factory=dict)
    """Positions up to which each chunk is to be committed by itself, as the sink has refused records before them."""
    waits: bool = False
    """True if records that the sink refuses, and may take once the batch's other tasks have committed, are to wait."""
    partitions: Broadcast[dict[str, int]] | None = None
    """By topic of the sink: over how many partitions keys are hashed; None where they are over none."""
    assigned: Assigned | None = None
    """What it gets of the state of the source; None where that has none."""

    @property
    def ends(self) -> dict[Split, int]:
        """The positions where the ranges end."""
        return {split: end for split, (_, end) in self.ranges.items()}


@dataclass(slots=True)
class TaskProgress:
    """How far a task came, why it ended there, and what the driver has to act on."""

    positions: dict[Split, int]
    """Positions up to which everything is written and acknowledged."""
    failure: IngestError | None = None
    rejects: list[RejectedRecord] = field(default_factory=list)
    """The first rejects in full; `Counters` counts all."""
    stopped_by_reject: bool = False
    observed: dict[TableId, TableSchema] = field(default_factory=dict)
    """The schemas of tables that are new, or changed, by the records that the task saw."""
    widening: dict[tuple[TableId, str], bytes] = field(default_factory=dict)
    """By table and column: the first value that gave a known column another type, cut short."""
    drifted: bool = False
    """True if it stopped at a record that did not fit its table's schema."""
    refused_before: dict[Split, int] = field(default_factory=dict)
    """Positions before which the sink has refused records, where the task ended at its last commit for that."""
    waited: bool = False
    """True if it ended at a record that the sink may take once the batch's other tasks have committed."""
    delivered: list[Any] = field(default_factory=list)
    """Values that the sink's writer has for the driver."""
    notes: list[Any] = field(default_factory=list)
    """What the source's coordinator is to learn of it, where the source has a state."""


@dataclass(slots=True)
class TaskResult:
    """The result of a task. It is complete also where a stage fails."""

    shard: int
    progress: TaskProgress
    counters: Counters = field(default_factory=Counters)
    telemetry: Telemetry = field(default_factory=Telemetry)
    worker: str = ""
    """The name of the worker."""

    @classmethod
    def begun(cls, task: Task) -> TaskResult:
        """Return the result of a task that has done nothing yet."""
        return cls(task.shard, TaskProgress({split: start for split, (start, _) in task.ranges.items()}))
