"""How far the reading of a database has come: its log is counted in bytes, its tables in rows, nothing in records.

Sources whose positions count something else than records say it so; it passes from the source's coordinator through
events to whoever shows it. Rules: docs/spec/mysql.md#schemas (H104).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class TableProgress:
    """A table whose rows are being read."""

    read: int
    """Rows that were read."""
    rows: int
    """All of its rows: an estimate until they are read, and never fewer than were."""
    chunks_read: int
    chunks: int
    """The estimated number of all chunks of the table."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the reading of a database stands."""

    file: str
    """The log's file that is read."""
    offset: int
    """The offset in that file up to which it is read."""
    lag_bytes: int
    """The backlog in the log, in bytes."""
    read_time: int = 0
    """When the event was logged that was read last, in seconds since 1970; 0 where none was."""
    lag_s: float = 0.0
    """The lag behind the log, in seconds: 0 without a backlog."""
    tables: Mapping[str, TableProgress] = field(default_factory=dict)
    """The tables whose rows are being read."""
    tables_done: int = 0
    """Tables of this snapshot whose rows were read."""
    rows_done: int = 0
    """The number of rows of those tables."""
    seconds_left: float | None = None
    """How long it takes to read the rest of the rows at the speed of the last minute; None where that is not known."""
    marked: Mapping[str, str] = field(default_factory=dict)
    """Tables whose rows in the sink may differ, each with what changed them."""

    @property
    def rows_read(self) -> int:
        """Rows of this snapshot that were read."""
        return self.rows_done + sum(table.read for table in self.tables.values())

    @property
    def rows_left(self) -> int:
        """The rows of tables that are still to be read: an estimate."""
        return sum(table.rows - table.read for table in self.tables.values())

    def with_times(self, lag_s: float, seconds_left: float | None) -> Standing:
        """Return the standing with its times set: the lag behind the log, and the rest of the snapshot, in seconds."""
        return replace(self, lag_s=lag_s, seconds_left=seconds_left)

    @property
    def waits(self) -> bool:
        """True if the log or a snapshot has unread rows."""
        return bool(self.lag_bytes or self.tables)

    def to_json(self) -> dict[str, Any]:
        """Return the standing as plain values."""
        return {**asdict(self), "rows_read": self.rows_read, "rows_left": self.rows_left}

    def lag(self) -> dict[str, Any]:
        """Return the lag in plain values, as a checkpoint keeps it for people."""
        return {
            "bytes": self.lag_bytes,
            "seconds": round(self.lag_s, 1),
            "tables": len(self.tables),
            "rows": self.rows_left,
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left, 1),
        }
