"""What a task is told, and what it says in the end: all that travels between the driver and the workers in a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ingest.task.tally import Counts, counts_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.core.broadcast import Broadcast

    from ingest.errors import IngestError
    from ingest.kafka.admin import Split
    from ingest.model.client_report import ClientReport
    from ingest.model.reject import Reject
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import Schemas
    from ingest.task.worker import Delta, Setup

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Task:
    """What one shard has to do in one batch."""

    batch: int
    planned: int
    """The run that planned the batch."""
    shard: int
    ranges: dict[Split, tuple[int, int]]
    ids: dict[str, str]
    """Of the topics: one that was made again has another."""
    tolerated: int
    seconds: float
    """When to end, wherever it is."""
    last: str
    """The worker that wrote this shard last, in this run."""
    setup: Broadcast[Setup]
    base: Broadcast[Schemas]
    base_version: int
    deltas: tuple[Delta, ...]


@dataclass(slots=True)
class Outcome:
    """What a task did. Positions are those up to which everything is written and acknowledged."""

    shard: int
    positions: dict[Split, int]
    read: int = 0
    counts: dict[TableId, Counts] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    rejected: int = 0
    """Those that count against the tolerance."""
    stopped_by_reject: bool = False
    observed: dict[TableId, TableSchema] = field(default_factory=dict)
    drifted: bool = False
    """Whether it stopped at a record that did not fit its table's schema."""
    failure: IngestError | None = None
    withheld: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: values that the sink's table was not to have."""
    cut: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: times that were taken without what is finer than a microsecond."""
    delivered: list[Any] = field(default_factory=list)
    """What the sink wants the driver to get."""
    lost_deliveries: int = 0
    """Records that the sink's cluster did not take, which only the guarantee `none` goes on after."""
    reports: list[ClientReport] = field(default_factory=list)
    """What the clients of source and sink have told of themselves."""
    seconds: float = 0.0
    cpu_s: float = 0.0
    rss_kib: int = 0
    first_ack: float | None = None
    """When the first record was acknowledged, in seconds since the epoch."""
    worker: str = ""
    """Which worker it was."""
    ended: float = 0.0
    """When, in seconds since the epoch."""
    pid: int = 0


def add_counts(to: dict[_Key, int], counts: Mapping[_Key, int]) -> None:
    """Add counters to others."""
    for key, count in counts.items():
        to[key] = to.get(key, 0) + count


def merge_counts(into: dict[TableId, Counts], more: Mapping[TableId, Counts], most: int) -> None:
    """Add up counters by table, of at most so many tables."""
    for table, counts in more.items():
        total = counts_for(into, table, most)
        total.inserted += counts.inserted
        total.updated += counts.updated
        total.deleted += counts.deleted
        total.rejected += counts.rejected
        total.read = total.inserted + total.updated + total.deleted + total.rejected
