"""Counters of a task: those of its tables, reasons and columns, and those that encoders keep until they are collected.

A sink keeps the first of them with what was written: whoever resumes a task goes on counting from there. Where tables
are many, their counters are left out of that: rejects never are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from ingest.encode.coercer import OTHERS as OTHER_COLUMNS
from ingest.model.cache import count_up
from ingest.model.change import Kind
from ingest.model.table import MAX_ID, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.encode.encode import EncoderCache
    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.model.table import TableId
    from ingest.native.native import NativeEncoders
    from ingest.task.result import TaskResult

MAX_BYTES: Final = 1000
MIN_TABLE_BYTES: Final = len('[["t"],0,0,0,0],')
"""Bytes that a table takes at least: the text of many tables need not be tried."""
OTHERS: Final = ("(other tables)",)
"""Tables of rejects, past those that are counted one by one."""
UNREPRESENTABLE: Final = "delete-without-key"
"""The reason for skipping deletes that the sink's format cannot express."""
FILTERED: Final = "filter"
"""The reason for skipping changes that a transform's filter does not let pass."""
_Key = TypeVar("_Key")


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
        """Return the JSON text that a sink keeps, of at most `MAX_BYTES` beside the note.

        `note`: what a source with a state keeps with the progress (`sources/stateful.py`).
        """
        few = self.tables if len(self.tables) <= MAX_BYTES // MIN_TABLE_BYTES else {}
        tables = [[list(t), c.inserted, c.updated, c.deleted, c.rejected] for t, c in few.items()]
        kept = {"read": self.read, "rejected": self.rejected, "tables": tables}
        more = {} if note is None else {"note": note}
        text = orjson.dumps(kept | more)
        return text if len(text) <= MAX_BYTES else orjson.dumps(kept | {"tables": []} | more)

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


class EncoderCounters:
    """The counters that the encoders of tables keep while they encode, on their way into a task's result."""

    def __init__(self, cache: EncoderCache, native: NativeEncoders | None, result: TaskResult) -> None:
        """`native`: the native encoders that count for these encoders, if there are any."""
        self._cache = cache
        self._native = native
        self._counters, self._telemetry = result.counters, result.telemetry

    def collect(self) -> None:
        """Move the counters of all encoders into the result."""
        if self._native is not None:
            self._native.settle()
        for encoder in self._cache.compiled.values():
            self._collect(encoder)

    def _collect(self, encoder: TableEncoder) -> None:
        counters, table = self._counters, encoder.table
        if encoder.bytes_in or encoder.bytes_out:
            self._telemetry.of_table(table, encoder.bytes_in, encoder.bytes_out)
            encoder.bytes_in = encoder.bytes_out = 0
        if encoder.inserted or encoder.updated or encoder.deleted:
            counts = counters.tables.setdefault(table, TableCounters())
            counts.inserted += encoder.inserted
            counts.updated += encoder.updated
            counts.deleted += encoder.deleted
            encoder.inserted = encoder.updated = encoder.deleted = 0
        if encoder.unrepresentable:
            counters.skip(UNREPRESENTABLE, encoder.unrepresentable)
            encoder.unrepresentable = 0
        cut = encoder.cut
        add_counts(counters.cut, {(table, column): count for column, count in cut.items()})
        cut.clear()
        by_column = (
            (encoder.withheld, counters.withheld),
            (encoder.unread, counters.unread),
            (encoder.rounded, counters.rounded),
        )
        for counted, total in by_column:
            for column, number in counted.items():
                count_up(total, (table, column), number, (table, OTHER_COLUMNS))
            counted.clear()
