"""Counters of a task: by table, those that a sink commits together with what was written, and those of the encoders.

Whoever resumes a task goes on counting from what was committed. Where tables are many, their counters are left out of
that: rejects never are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from ingest.encode.coercer import OTHERS as OTHER_COLUMNS
from ingest.model.cache import count_up
from ingest.model.table import MAX_ID, show

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.encode.encoder_cache import EncoderCache
    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.model.table import TableId
    from ingest.native.native import NativeEncoders
    from ingest.task.assignment import TaskResult

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
class CommitMetadata:
    """Counters that a sink commits with the progress of a task."""

    read: int = 0
    rejected: int = 0
    """Rejects that count against the tolerance."""
    tables: dict[TableId, TableCounters] = field(default_factory=dict)
    note: Any = None
    """What a source with a state keeps with the progress (`sources/stateful.py`); None where there is nothing."""

    def text(self) -> bytes:
        """Return the JSON text that a sink keeps, of at most `MAX_BYTES` beside the note of a source."""
        few = self.tables if len(self.tables) <= MAX_BYTES // MIN_TABLE_BYTES else {}
        tables = [[list(t), c.inserted, c.updated, c.deleted, c.rejected] for t, c in few.items()]
        note = {} if self.note is None else {"note": self.note}
        text = orjson.dumps({"read": self.read, "rejected": self.rejected, "tables": tables, **note})
        if len(text) > MAX_BYTES:
            text = orjson.dumps({"read": self.read, "rejected": self.rejected, "tables": [], **note})
        return text

    @staticmethod
    def read_from(text: bytes) -> CommitMetadata:
        """Return the counters that a sink kept; all are zero where it kept nothing."""
        if not text:
            return CommitMetadata()
        found = orjson.loads(text)
        tables = {tuple(t): TableCounters(0, i, u, d, r) for t, i, u, d, r in found["tables"]}
        return CommitMetadata(found["read"], found["rejected"], tables, found.get("note"))


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


def by_name(counts: Mapping[TableId, TableCounters]) -> dict[str, TableCounters]:
    """Return counters by the names that tables are shown under: two tables may have one."""
    named: dict[TableId, TableCounters] = {}
    for table, counters in counts.items():
        merge_counts(named, {(show(table),): counters}, len(counts))
    return {name: counters for (name,), counters in named.items()}


class EncoderCounters:
    """The counters that the encoders of tables keep while they encode, on their way into a task's result."""

    def __init__(self, cache: EncoderCache, native: NativeEncoders | None, result: TaskResult) -> None:
        """`native`: the native encoders that count for these encoders, if there are any."""
        self._cache = cache
        self._native = native
        self._result = result

    def collect(self) -> None:
        """Move the counters of all encoders into the result."""
        if self._native is not None:
            self._native.settle()
        for encoder in self._cache.compiled.values():
            self._collect(encoder)

    def _collect(self, encoder: TableEncoder) -> None:
        result = self._result
        if encoder.bytes_in or encoder.bytes_out:
            result.traffic.of_table(encoder.table, encoder.bytes_in, encoder.bytes_out)
            encoder.bytes_in = encoder.bytes_out = 0
        if encoder.inserted or encoder.updated or encoder.deleted:
            counts = result.counts.setdefault(encoder.table, TableCounters())
            counts.inserted += encoder.inserted
            counts.updated += encoder.updated
            counts.deleted += encoder.deleted
            encoder.inserted = encoder.updated = encoder.deleted = 0
        if encoder.unrepresentable:
            result.skip(UNREPRESENTABLE, encoder.unrepresentable)
            encoder.unrepresentable = 0
        cut = encoder.cut
        add_counts(result.cut, {(encoder.table, column): count for column, count in cut.items()})
        cut.clear()
        by_column = (
            (encoder.withheld, result.withheld), (encoder.unread, result.unread), (encoder.rounded, result.rounded),
        )  # fmt: skip
        for found, of_columns in by_column:
            for column, number in found.items():
                count_up(of_columns, (encoder.table, column), number, (encoder.table, OTHER_COLUMNS))
            found.clear()
