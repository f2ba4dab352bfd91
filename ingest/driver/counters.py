"""Counters of a run's tasks: by table, by reason, by column. They end up in the closing summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.encode.coercer import OTHERS
from ingest.model.cache import MAX_COUNTED, count_up
from ingest.model.table import show
from ingest.observe.events import TableSummary
from ingest.task.counters import add_counts, by_name, merge_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.standing import Standing
    from ingest.model.table import TableId
    from ingest.observe.events import RunEnded
    from ingest.task.assignment import TaskResult
    from ingest.task.counters import TableCounters


class Counters:
    """The counters of one run. What names they have comes from messages, so each kind has a limit."""

    def __init__(self, summary: RunEnded, max_tables: int) -> None:
        """Count nothing yet."""
        self.summary = summary
        self.skipped: dict[str, int] = {}
        """Records that stand for no row, by reason."""
        self.withheld: dict[tuple[TableId, str], int] = {}
        """Values that the sink's table was not to have, by table and column."""
        self.cut: dict[tuple[TableId, str], int] = {}
        """Times that were taken without what is finer than a microsecond, by table and column."""
        self.unread: dict[tuple[TableId, str], int] = {}
        """Values of rows before a change that could not be read, by table and column."""
        self.rounded: dict[tuple[TableId, str], int] = {}
        """Numbers that no binary number is, and that became the nearest one, by table and column."""
        self.commit_s = 0.0
        """How long the driver took to add the last batch to the sink's tables, in seconds."""
        self._tables: dict[TableId, TableCounters] = {}
        self.most_tables = MAX_COUNTED + max_tables
        """Tables that are counted one by one."""

    def add(self, result: TaskResult) -> None:
        """Add what one task counted."""
        self.summary.records += result.read
        self.summary.rejected += result.rejected + result.stopped_by_reject
        merge_counts(self._tables, result.counts, self.most_tables)
        add_counts(self.skipped, result.skipped)
        for found, counts in ((result.withheld, self.withheld), (result.rounded, self.rounded)):
            for column, count in found.items():
                count_up(counts, column, count, (column[0], OTHERS))
        add_counts(self.cut, result.cut)
        for column, count in result.unread.items():
            count_up(self.unread, column, count, (column[0], OTHERS))

    def add_schema_changes(self, table: TableId, count: int) -> None:
        """Add to the number of schema changes of a table."""
        self._line(show(table)).schema_changes += count

    def by_table(self) -> dict[str, list[int]]:
        """Return inserts, updates, deletes and rejects of each table, as a checkpoint keeps them."""
        named = by_name(self._tables)
        return {name: [c.inserted, c.updated, c.deleted, c.rejected] for name, c in named.items()}

    def summarise(self, left: Mapping[str, int] | None, standing: Standing | None = None) -> None:
        """Fill in the closing summary. `left`: records that were not read, by topic; of a database it is `standing`."""
        for name, counts in by_name(self._tables).items():
            line = self._line(name)
            line.read, line.inserted, line.updated = counts.read, counts.inserted, counts.updated
            line.deleted, line.rejected = counts.deleted, counts.rejected
        self.summary.left, self.summary.standing = left, standing
        self.summary.skipped = self.skipped
        self.summary.withheld = _by_name(self.withheld)
        self.summary.cut = _by_name(self.cut)
        self.summary.unread = _by_name(self.unread)
        self.summary.rounded = _by_name(self.rounded)

    def _line(self, name: str) -> TableSummary:
        return self.summary.tables.setdefault(name, TableSummary())


def _by_name(counts: Mapping[tuple[TableId, str], int]) -> dict[str, int]:
    return {f"{show(table)}.{column}": count for (table, column), count in counts.items()}
