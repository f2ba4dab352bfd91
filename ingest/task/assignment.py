"""The values that the driver sends to workers: a task, and what it needs to know. `result.py` has what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

    from ingest.deadletter.collector import Collector
    from ingest.model.record import Split
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
