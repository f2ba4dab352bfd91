"""A pipeline's sink, the sides of which are others than its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.model.numbers import Numbers
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks import Sink, SinkCoordinator, Writer


@dataclass(frozen=True, slots=True)
class InMemorySink:
    """The options of a pipeline's sink: rows become the same records, which go elsewhere."""

    options: Sink
    side: SinkCoordinator
    """The driver's side."""
    writers: Callable[[], Writer]
    """Makes a task's side."""

    @property
    def needs_key(self) -> bool:
        """True if only tables with a primary key can be written."""
        return self.options.needs_key

    @property
    def writes_keys(self) -> bool:
        """True if records are found again by their key."""
        return self.options.writes_keys

    @property
    def rest_s(self) -> float:
        """The time in seconds between two batches that begin when all was read: none."""
        return 0.0

    @property
    def infinite_times(self) -> bool:
        """True if the sink's times have `infinity` and `-infinity`."""
        return self.options.infinite_times

    @property
    def most_per_batch(self) -> int | None:
        """Records of a shard in one batch, where the sink cannot take any number."""
        return self.options.most_per_batch

    @property
    def parallelism(self) -> int | None:
        """The number of tasks that write at once, at most."""
        return self.options.parallelism

    @property
    def numbers(self) -> Numbers:
        """What becomes of a number that no binary number is."""
        return self.options.numbers

    @property
    def changelog(self) -> bool:
        """True if an insert is written otherwise than an update, or the row before a change is shown."""
        return self.options.changelog

    @property
    def supersedes(self) -> bool:
        """True if a row that comes again takes the place of the one that is there."""
        return self.options.supersedes

    @property
    def writes_parts(self) -> bool:
        """True if of a row it writes the columns that came, and leaves the others as they are."""
        return self.options.writes_parts

    def prefix(self, pipeline: str) -> str | None:
        """Return the beginning of the names of its transactions; None where it has none."""
        return self.options.prefix(pipeline)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TableEncoder:
        """Return how rows of a source table are written; raises RowError for a table that cannot be."""
        return self.options.unregistered().encoder(table, source, target, sink, inference)

    def unregistered(self) -> InMemorySink:
        """Return this sink: no schema registry is asked."""
        return self

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> SinkCoordinator:
        """Return the driver's side."""
        return self.side

    def writer(self, _pipeline: str, _run: int) -> Writer:
        """Return a task's side."""
        return self.writers()
