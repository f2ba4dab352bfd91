"""The result of a task: how far it came, what it counted, and what it measured. The driver merges those of a batch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.encode.upsert_encoder import bytes_of
from ingest.model.change import Change, Reject, Skip
from ingest.model.record import bytes_in, size_of
from ingest.task.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.errors import IngestError
    from ingest.model.change import Decoded
    from ingest.model.commit import ClientReport
    from ingest.model.record import Record, Split
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.task.assignment import Task


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
        """Count messages by table, of those that are `known`: a message of several rows for the table of the first."""
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
