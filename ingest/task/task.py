"""What driver and workers send each other: a task with what it needs to know; its progress, counters and telemetry.

A sink keeps counters with what was written: whoever resumes a task goes on counting from there. Where tables are many,
theirs are left out of that: rejects never are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from ingest.encode.coercer import OTHERS as OTHER_COLUMNS
from ingest.encode.upsert_encoder import bytes_of
from ingest.model.cache import count_up
from ingest.model.change import Change, Decoded, Kind, Reject, Skip
from ingest.model.record import Record, Split, bytes_in, size_of
from ingest.model.table import MAX_ID, TableId, show

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from pyspark.core.broadcast import Broadcast

    from ingest.deadletter.collector import Collector
    from ingest.encode.upsert_encoder import Record as Written
    from ingest.errors import IngestError
    from ingest.model.commit import ClientReport
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import TableSchema
    from ingest.paths import SharedMark
    from ingest.schema.evolve import Schemas, SourceTable
    from ingest.schema.infer import Inference
    from ingest.schema.routes import Rules
    from ingest.sinks import Sink
    from ingest.sources import Source

MAX_COUNTER_BYTES: Final = 1000
MIN_TABLE_BYTES: Final = len('[["t"],0,0,0,0],')
"""Bytes that a table takes at least: the text of many tables need not be tried."""
OTHERS: Final = ("(other tables)",)
"""The name under which rejects of tables beyond the limit are counted together."""
UNREPRESENTABLE: Final = "delete-without-key"
"""The reason for skipping deletes that the sink's format cannot express."""
FILTERED: Final = "filter"
"""The reason for skipping changes that a transform's filter does not let pass."""
_Key = TypeVar("_Key")


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
class TableCounters:
    """Numbers of one table's changes and rejects."""

    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rejected: int = 0


@dataclass(slots=True)
class Counters:
    """Numbers of what became of records, of a task or of a run."""

    read: int = 0
    rejected: int = 0
    """Rejects that count against the tolerance."""
    tables: dict[TableId, TableCounters] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    """By reason: records that stand for no row, and changes that no row came of."""
    withheld: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: values that the sink's table was not to have."""
    cut: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: times that were taken without what is finer than a microsecond."""
    unread: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: values of rows before a change that are not known, as they cannot be read."""
    rounded: dict[tuple[TableId, str], int] = field(default_factory=dict)
    """By table and column: numbers that no binary number is, and that became the nearest one."""
    reject_codes: dict[tuple[str, str], int] = field(default_factory=dict)
    """By stage and code: rejects, those included that do not count or that stopped the task."""
    lost_deliveries: int = 0
    """Records that the sink's cluster did not take, which only the guarantee `none` goes on after."""

    def skip(self, reason: str, count: int) -> None:
        """Count records that stand for no row."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def change(self, table: TableId, kind: Kind, count: int) -> None:
        """Count changes of a table that are done."""
        counts = self.tables.setdefault(table, TableCounters())
        if kind is Kind.INSERT:
            counts.inserted += count
        elif kind is Kind.UPDATE:
            counts.updated += count
        else:
            counts.deleted += count

    def add(self, more: Counters, max_tables: int) -> None:
        """Add other counters, by at most `max_tables` tables."""
        self.read += more.read
        self.rejected += more.rejected
        self.lost_deliveries += more.lost_deliveries
        merge_counts(self.tables, more.tables, max_tables)
        add_counts(self.skipped, more.skipped)
        add_counts(self.cut, more.cut)
        add_counts(self.reject_codes, more.reject_codes)
        by_column = (self.withheld, more.withheld), (self.unread, more.unread), (self.rounded, more.rounded)
        for total, counts in by_column:
            for (table, column), count in counts.items():
                count_up(total, (table, column), count, (table, OTHER_COLUMNS))

    def copy(self) -> Counters:
        """Return a copy that does not change with these."""
        copied = replace(self, tables={table: replace(counts) for table, counts in self.tables.items()})
        for name in ("skipped", "withheld", "cut", "unread", "rounded", "reject_codes"):
            setattr(copied, name, dict(getattr(self, name)))
        return copied

    def restore(self, before: Counters) -> None:
        """Let these be what they were when `before` was copied."""
        copied = before.copy()
        for one in fields(self):
            setattr(self, one.name, getattr(copied, one.name))

    def text(self, note: Any = None) -> bytes:
        """Return the JSON text that a sink keeps, of at most `MAX_COUNTER_BYTES` beside the note.

        `note`: what a source with a state keeps with the progress (`sources/stateful.py`).
        """
        few = self.tables if len(self.tables) <= MAX_COUNTER_BYTES // MIN_TABLE_BYTES else {}
        tables = [[list(t), c.inserted, c.updated, c.deleted, c.rejected] for t, c in few.items()]
        kept = {"read": self.read, "rejected": self.rejected, "tables": tables}
        more = {} if note is None else {"note": note}
        text = orjson.dumps(kept | more)
        return text if len(text) <= MAX_COUNTER_BYTES else orjson.dumps(kept | {"tables": []} | more)

    @classmethod
    def read_from(cls, text: bytes) -> tuple[Counters, Any]:
        """Return the counters that a sink kept, and the source's note; zeros and None where it kept nothing."""
        if not text:
            return cls(), None
        found = orjson.loads(text)
        tables = {tuple(t): TableCounters(0, i, u, d, r) for t, i, u, d, r in found["tables"]}
        return cls(found["read"], found["rejected"], tables), found.get("note")

    def by_name(self) -> dict[str, TableCounters]:
        """Return the counters of tables by the names that these are shown under: two tables may have one."""
        named: dict[TableId, TableCounters] = {}
        for table, counters in self.tables.items():
            merge_counts(named, {(show(table),): counters}, len(self.tables))
        return {name: counters for (name,), counters in named.items()}


def counters_for(counts: dict[TableId, TableCounters], table: TableId, most: int) -> TableCounters:
    """Return the counters of a table, among at most `most` tables: rejects may name any."""
    found = counts.get(table)
    if found is None:
        few = len(counts) < most and len(show(table)) <= MAX_ID
        found = counts.setdefault(table if few else OTHERS, TableCounters())
    return found


def add_counts(to: dict[_Key, int], counts: Mapping[_Key, int]) -> None:
    """Add counters to others."""
    for key, count in counts.items():
        to[key] = to.get(key, 0) + count


def merge_counts(into: dict[TableId, TableCounters], more: Mapping[TableId, TableCounters], most: int) -> None:
    """Add up counters by table, of at most `most` tables."""
    for table, counts in more.items():
        total = counters_for(into, table, most)
        total.inserted += counts.inserted
        total.updated += counts.updated
        total.deleted += counts.deleted
        total.rejected += counts.rejected
        total.read = total.inserted + total.updated + total.deleted + total.rejected


@dataclass(slots=True)
class Telemetry:
    """Measurements of a task. What is read or sent again counts again: it is what passed, not what came of it."""

    bytes_in: int = 0
    """Bytes of the keys and values that were read."""
    records_out: int = 0
    """Records that were given to the sink's writer."""
    bytes_out: int = 0
    """Bytes of their keys and values."""
    newest_ms: int | None = None
    """The time of the record that was read last, in milliseconds since 1970; None where records have no times."""
    fetch_lag_s: float | None = None
    """How old that record was when it was read, in seconds."""
    emit_lag_s: float | None = None
    """How old the last one was when what came of it was acknowledged, in seconds."""
    send_s: float = 0.0
    """How long the sink took to acknowledge what was sent last, in seconds."""
    table_bytes: dict[TableId, list[int]] = field(default_factory=dict)
    """By source table: bytes of the messages that have its rows, and of the records that came of these rows."""
    reports: list[ClientReport] = field(default_factory=list)
    """Reports of the clients of source and sink."""
    seconds: float = 0.0
    cpu_s: float = 0.0
    rss_kib: int = 0
    """The most memory that the worker ever had, in KiB."""
    first_ack: float | None = None
    """The time when the first record was acknowledged, in seconds since the epoch."""
    ended: float = 0.0
    """The time of the end, in seconds since the epoch."""

    def read(self, records: Sequence[Record]) -> None:
        """Count records of one split that came just now."""
        self.bytes_in += size_of(records)
        kind, millis = records[-1].timestamp()
        if kind:
            self.newest_ms, self.fetch_lag_s = millis, time.time() - millis / 1000

    def sent(self, records: Sequence[Written]) -> None:
        """Count records that the sink's writer gets, whether it takes them or not."""
        self.records_out += len(records)
        size = getattr(records, "size", None)
        if size is None:
            size = bytes_of(records)
        self.bytes_out += size

    def of_table(self, table: TableId, read: int, made: int) -> None:
        """Count bytes of messages that have a table's rows, and of records that came of such rows."""
        both = self.table_bytes.setdefault(table, [0, 0])
        both[0] += read
        both[1] += made

    def decoded(self, messages: Sequence[Record], changes: Sequence[Decoded], known: Container[TableId]) -> None:
        """Count messages of known tables by table. A message of several rows counts for the table of its first row."""
        for message, change in zip(messages, changes, strict=True):
            table = None if isinstance(change, Skip) else change.table if isinstance(change, Reject) else _first(change)
            if table is not None and table in known:
                self.of_table(table, bytes_in(message), 0)

    def acknowledged(self, seconds: float) -> None:
        """Note that all that was sent is acknowledged, which took so many seconds."""
        self.send_s = seconds
        if self.newest_ms is not None:
            self.emit_lag_s = time.time() - self.newest_ms / 1000

    def add(self, read: Telemetry) -> None:
        """Add what the read half of the task has measured."""
        self.bytes_in += read.bytes_in
        for table, (size, made) in read.table_bytes.items():
            self.of_table(table, size, made)
        self.newest_ms, self.fetch_lag_s = read.newest_ms, read.fetch_lag_s
        self.cpu_s += read.cpu_s
        self.reports += read.reports


def _first(rows: Change | list[Change]) -> TableId | None:
    change = rows if isinstance(rows, Change) else rows[0] if rows else None
    return None if change is None else change.table


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
