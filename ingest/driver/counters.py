"""Counters of a run's tasks: by table, by reason, by column. They end up in the closing summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.model.cache import MAX_COUNTED
from ingest.model.table import show
from ingest.observe.events import TableSummary
from ingest.task.counters import Counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.model.standing import Standing
    from ingest.model.table import TableId
    from ingest.observe.events import RunEnded
    from ingest.task.result import TaskResult


class RunCounters:
    """The counters of one run. What names they have comes from messages, so each kind has a limit."""

    def __init__(self, summary: RunEnded, max_tables: int) -> None:
        """`summary`: what the run ends with, filled in meanwhile."""
        self.summary = summary
        self.total = Counters()
        self.commit_s = 0.0
        """How long the driver took to add the last batch to the sink's tables, in seconds."""
        self.most_tables = MAX_COUNTED + max_tables
        """Tables that are counted one by one."""

    def add(self, result: TaskResult) -> None:
        """Add what one task counted."""
        self.summary.records += result.counters.read
        self.summary.rejected += result.counters.rejected + result.progress.stopped_by_reject
        self.total.add(result.counters, self.most_tables)

    def add_schema_changes(self, table: TableId, count: int) -> None:
        """Add to the number of schema changes of a table."""
        self._line(show(table)).schema_changes += count

    def by_table(self) -> dict[str, list[int]]:
        """Return inserts, updates, deletes and rejects of each table, as a checkpoint keeps them."""
        named = self.total.by_name().items()
        return {name: [c.inserted, c.updated, c.deleted, c.rejected] for name, c in named}

    def summarise(self, left: Mapping[str, int] | None, standing: Standing | None = None) -> None:
        """Fill in the closing summary. `left`: records that were not read, by topic; of a database it is `standing`."""
        for name, counts in self.total.by_name().items():
            line = self._line(name)
            line.read, line.inserted, line.updated = counts.read, counts.inserted, counts.updated
            line.deleted, line.rejected = counts.deleted, counts.rejected
        self.summary.left, self.summary.standing = left, standing
        self.summary.skipped = self.total.skipped
        self.summary.withheld = _by_name(self.total.withheld)
        self.summary.cut = _by_name(self.total.cut)
        self.summary.unread = _by_name(self.total.unread)
        self.summary.rounded = _by_name(self.total.rounded)

    def _line(self, name: str) -> TableSummary:
        return self.summary.tables.setdefault(name, TableSummary())


def _by_name(counts: Mapping[tuple[TableId, str], int]) -> dict[str, int]:
    return {f"{show(table)}.{column}": count for (table, column), count in counts.items()}
