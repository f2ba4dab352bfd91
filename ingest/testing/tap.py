"""A look at records one by one: each as it is, and what a run would make of it.

In: a pipeline, and where its checkpoint would be. Out: a `Tapped` for each record of a sample. It is a run in this
process whose batches have one record each, so whatever comes out between two records came of the first of them.
Nothing is written anywhere, as in a dry run.
"""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ingest.driver.context import Settings, with_files
from ingest.driver.pacing import Pacing
from ingest.model.record import Record, Split, offset_of
from ingest.observe.events import Event, SchemaChanged
from ingest.testing.capturing import Captured, CapturingWriter
from ingest.testing.in_process import NoStop
from ingest.testing.sample_run import ALL, SampleRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.errors import IngestError
    from ingest.model.reject import RejectedRecord
    from ingest.model.table import Selector, TableId
    from ingest.task.task import TaskResult
    from ingest.testing.sampling import Sample


@dataclass(slots=True)
class Tapped:
    """A record, and its outcome: rows, rejects, reasons of skipping, schema changes."""

    split: Split
    record: Record
    tables: dict[TableId, None] = field(default_factory=dict)
    """The source tables that its changes are of."""
    rows: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    """Topic or table, key and value of each record that the sink would get; no value is a deletion."""
    rejects: list[RejectedRecord] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Reasons why it, or one of its changes, has no row."""
    schema_changes: list[str] = field(default_factory=list)
    """Changes of schemas that it causes, with the name of the table."""
    value: bytes | None = None
    """The value as people read it."""
    place: str = ""
    """Its place where that is no offset of a topic: one in a database's log."""


class Looked(NamedTuple):
    """The summary of a tap."""

    records: int
    """How many records were looked at."""
    old: bool
    """True if no record was waiting, and those that were read already are shown."""
    error: IngestError | None
    """The error that the run ended with; None where there was none."""


def tap(
    pipeline: Pipeline,
    settings: Settings,
    show: Callable[[Tapped], None],
    most: int,
    tables: Selector | None = None,
    tell: Callable[[str], None] = lambda _: None,
    at: tuple[Split, int] | None = None,
) -> Looked:
    """Show records until `most` are shown, or the sample has no more.

    `tables`: only records with changes of these source tables. `at`: only the record at this offset. `tell` gets
    warnings. Raises IngestError where a run would end before it read anything.
    """
    pipeline = with_files(pipeline, settings.conf, tell)
    with ExitStack() as resources:
        sample_run = SampleRun(pipeline, settings, pipeline.source, pipeline.sink, resources, tell)
        return tap_sample(sample_run, show, most, tables, at)


def tap_sample(
    sample_run: SampleRun,
    show: Callable[[Tapped], None],
    most: int,
    tables: Selector | None = None,
    at: tuple[Split, int] | None = None,
) -> Looked:
    """Show records of a sample, which is taken now if it was not yet, as `tap` does."""
    sample_run.source.older, sample_run.source.only = True, at
    taps = Taps(sample_run.source.sample, show, most, tables)
    run = sample_run.drive(ALL, lambda: CapturingWriter(taps.captured), taps, taps, taps.observe)
    return Looked(taps.looked_at, sample_run.source.sample.old, None if taps.asked else run.error)


class Taps(Pacing, NoStop):
    """The pacing of a tapped run: a batch has one record, and the run stops when enough records are shown."""

    def __init__(self, sample: Sample, show: Callable[[Tapped], None], most: int, tables: Selector | None) -> None:
        super().__init__(0.0, None, 1)
        self.captured = Captured()
        self.asked = False
        """True if enough records are shown."""
        self._sample, self._show, self._left, self._tables = sample, show, most, tables
        self._tapped: Tapped | None = None
        self._waiting: dict[Split, deque[Record]] = {}
        """The records of each split that were not looked at."""
        self._looked_at: dict[Split, int] = {}

    @property
    def looked_at(self) -> int:
        """How many records were looked at."""
        return sum(self._looked_at.values())

    def ranges(
        self, positions: Mapping[Split, int], ends: Mapping[Split, int], _shards: Mapping[Split, int]
    ) -> dict[Split, tuple[int, int]]:
        """Return the range up to the end of one record; where no record is left, all that is left."""
        if self._tapped is None:
            self._tapped = self._record(positions)
        if self._tapped is None:
            return {split: (at, ends[split]) for split, at in positions.items() if at < ends.get(split, at)}
        split = self._tapped.split
        return {split: (positions[split], offset_of(self._tapped.record) + 1)}

    def learn(self, results: Sequence[TaskResult]) -> float:
        """Add the outcome of a batch to the record. Show the record once the position is behind it.

        A task that stops at a new schema does not pass the record: it comes again in the next batch.
        """
        tapped = self._tapped
        if tapped is not None:
            for result in results:
                tapped.tables.update(dict.fromkeys(result.counters.tables))
                tapped.rejects += result.progress.rejects
                tapped.skipped += result.counters.skipped
            at = offset_of(tapped.record)
            if any(result.progress.positions.get(tapped.split, at) > at for result in results):
                self._done(tapped)
        return super().learn(results)

    def observe(self, event: Event) -> None:
        """Add the schema changes that the record causes."""
        if self._tapped is not None and isinstance(event, SchemaChanged):
            self._tapped.schema_changes.append(f"{event.table}: {event.change}")

    def _record(self, positions: Mapping[Split, int]) -> Tapped | None:
        """Return the next record of the split of which the fewest were looked at; None where there is none."""
        if not self._waiting:
            sample = self._sample
            for chunk in sample.between({split: (at, sample.stops[split]) for split, at in sample.starts.items()}):
                self._waiting.setdefault(chunk.split, deque()).extend(chunk.messages)
        left = [split for split, records in self._waiting.items() if records and split in positions]
        if not left:
            return None
        split = min(left, key=lambda candidate: (self._looked_at.get(candidate, 0), candidate))
        self._looked_at[split] = self._looked_at.get(split, 0) + 1
        record = self._waiting[split].popleft()
        value, place = self._sample.shown(split, record)
        return Tapped(split, record, value=value, place=place)

    def _done(self, tapped: Tapped) -> None:
        tapped.rows, self.captured.records = self.captured.records, []
        self._tapped = None
        tables = [*tapped.tables, *(reject.table for reject in tapped.rejects if reject.table is not None)]
        if self._tables is None or any(self._tables.match(table) is not None for table in tables):
            self._left -= 1
            self.asked = not self._left
            self._show(tapped)
