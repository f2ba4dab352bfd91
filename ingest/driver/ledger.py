"""The ledger of a run: what the tasks of a batch did becomes progress and counters, which are stored.

Counters are by table, by reason, by column. They end up in the closing summary.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.model.cache import MAX_COUNTED
from ingest.model.table import TableId, show
from ingest.observe.events import RunEnded, TableSummary
from ingest.task.task import Counters, TaskResult, add_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.driver.context import RunContext
    from ingest.driver.sink_tables import SinkTables
    from ingest.driver.source_state import SourceMemory
    from ingest.errors import IngestError
    from ingest.model.record import Split
    from ingest.model.schema import TableComments, TableSchema
    from ingest.model.standing import Standing


@dataclass(frozen=True, slots=True)
class Merged:
    """The results of a batch beside its progress."""

    before: Mapping[Split, int]
    """The positions before it."""
    observed: Sequence[tuple[TableId, TableSchema]]
    """Schemas that its tasks saw; none where one of the tasks failed."""
    failure: IngestError | None
    """The error of the first task that failed; None where none did."""
    widening: Mapping[tuple[TableId, str], bytes] = field(default_factory=dict)
    """By table and column: a value that gave a known column another type."""
    learnt: bool = False
    """True if the source has learned something: the next batch goes on by that."""


class Ledger:
    """The progress and the counters of one run."""

    def __init__(
        self,
        context: RunContext,
        checkpoint: Checkpoint,
        progress: Progress,
        counters: RunCounters,
        tables: SinkTables,
        memory: SourceMemory,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        """`settle` lets rows leave the sink that the source does not have any more."""
        self._memory = memory
        self._context = context
        self._checkpoint = checkpoint
        self._progress = progress
        self._counters = counters
        self._tables = tables
        self._settle = settle

    def merge(self, batch: Batch, results: Sequence[TaskResult]) -> Merged:
        """Add what the tasks of a batch did, and show what they delivered; returns what is left to act on."""
        progress, before = self._progress, dict(self._progress.positions)
        self._counters.summary.batches += 1
        for result in results:
            progress.positions.update(result.progress.positions)
            progress.errors += result.counters.rejected
            self._counters.add(result)
            self._tables.show_rows(result.progress.delivered)
        notes = [note for result in results for note in result.progress.notes]
        self._memory.learn(notes)
        progress.batch, progress.ids = batch.number, dict(batch.ids)
        progress.source_state = self._memory.value(self._checkpoint)
        lost = sum(result.counters.lost_deliveries for result in results)
        if lost:
            self._context.warn(
                f"batch {batch.number}: {lost} records were lost on their way to the sink (sink.delivery-guarantee)"
            )
        reached = [result.progress for result in results]
        failure = next((one.failure for one in reached if one.failure is not None), None)
        known = self._memory.new_schemas()  # they come first: a row may be of what a statement before it has made
        observed = [] if failure else [pair for one in reached for pair in sorted(one.observed.items())]
        widening = {} if failure else {key: value for one in reached for key, value in one.widening.items()}
        return Merged(before, [*known, *observed], failure, widening, learnt=bool(notes))

    def commit(self, results: Sequence[TaskResult]) -> None:
        """Add to the sink's tables what tasks delivered for that, where the driver does so. Raise IngestError.

        What is added is stored first, once and for all. So a crash at any moment leaves either a batch that nothing was
        added of, which is run again, or one that is to be added to the tables that do not have it yet.
        """
        additions = self._tables.additions([one for result in results for one in result.progress.delivered])
        began = time.monotonic()
        if additions is not None:
            self._checkpoint.decide(self._progress, additions)
            left_out = self._tables.add(self._checkpoint.scope, self._progress.batch, additions)
            add_counts(self._counters.total.skipped, left_out)
        self._counters.commit_s = 0.0 if additions is None else time.monotonic() - began

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return what the source says of tables, where that is new."""
        return self._memory.comments()

    def settle(self) -> None:
        """Delete rows from the sink that the source did not have after the last batch. Raise IngestError."""
        self._settle()

    def keep(self, waiting: int | None, standing: Standing | None) -> None:
        """Store what the source has learned since the last batch, if anything; raises CheckpointError.

        `waiting`: the backlog in records. `standing`: that of a database.
        """
        value = self._memory.value(self._checkpoint)
        if value is not None and self._progress.batch and value != self._progress.source_state:
            self._progress.source_state = value
            lag = None if standing is None else standing.lag()
            self._checkpoint.done(self._progress, self._counters.by_table(), waiting, lag)

    def store(self, waiting: int | None = None, standing: Standing | None = None) -> None:
        """Store progress and backlog; raises CheckpointError."""
        self._progress.marks = self._tables.marks()
        self._progress.source_state = self._memory.value(self._checkpoint)  # without what was due after the batch
        lag = None if standing is None else standing.lag()
        self._checkpoint.done(self._progress, self._counters.by_table(), waiting, lag)


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
