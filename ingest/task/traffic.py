"""The traffic of a task: bytes and records that came and went, and how old the newest of them were."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.encode.upsert_encoder import bytes_of
from ingest.model.change import Reject, Skip
from ingest.model.record import bytes_in, size_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.change import Change, Decoded
    from ingest.model.record import Record
    from ingest.model.table import TableId


@dataclass(slots=True)
class Traffic:
    """Sums over a task. What is read or sent again counts again: it is what passed, not what came of it."""

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

    def add(self, other: Traffic) -> None:
        """Add what another half of the task has read."""
        self.bytes_in += other.bytes_in
        for table, (read, made) in other.table_bytes.items():
            self.of_table(table, read, made)
        self.newest_ms, self.fetch_lag_s = other.newest_ms, other.fetch_lag_s


def _first(rows: Change | list[Change]) -> TableId | None:
    change = rows if isinstance(rows, tuple) else rows[0] if rows else None
    return None if change is None else change[0]
