"""The sink's tables, and what the sink shows of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest.driver.comments import CommentKeeper
from ingest.errors import ConfigError
from ingest.observe.events import Printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ingest.driver.key_partitions import KeyPartitions
    from ingest.model.layout import TableLayout
    from ingest.model.schema import SchemaChange, StoredTypes, TableSchema
    from ingest.model.table import TableId
    from ingest.observe.events import Observer
    from ingest.sinks import SinkCoordinator
    from ingest.sources import SourceCoordinator


class SinkTables:
    """The sink, as far as its tables go."""

    def __init__(
        self,
        sink: SinkCoordinator,
        source: SourceCoordinator,
        observer: Observer,
        keys: KeyPartitions,
        *,
        same_cluster: bool,
    ) -> None:
        """`same_cluster`: whether the source could read what the sink writes."""
        self.keys = keys
        self.comments = CommentKeeper(sink, observer)
        self._sink = sink
        self._source = source
        self._observer = observer
        self._same_cluster = same_cluster

    def prepare(self, tables: Iterable[TableId]) -> None:
        """Make the sink ready for tables; raises ConfigError where the pipeline would read what it writes."""
        wanted = list(tables)
        if self._same_cluster:
            for topic in self._sink.topics(wanted):
                if self._source.reads(topic):
                    msg = f"the pipeline reads what it writes: topic {topic} is one of its source's and of its sink's"
                    raise ConfigError(msg, "route its tables to other topics, or change source.topic or topic-pattern")
        self._sink.prepare(wanted)
        self.keys.take(wanted)

    def vanished(self, tables: Iterable[TableId]) -> set[str]:
        """Return what is not there of tables that were written before; raises TopicMissing where it may not be made."""
        return self._sink.vanished(tables)

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Tell the sink how tables are laid out that it makes."""
        self._sink.arrange(layouts)

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> StoredTypes:
        """Tell the sink the schemas of tables, before rows of them are written; raises IngestError.

        Returns by which types its tables keep numbers, where these are others.
        """
        self._sink.declare(schemas)
        return self._sink.stored

    def additions(self, delivered: Sequence[Any]) -> list[Any] | None:
        """Return what a batch adds to tables, where the driver adds it."""
        return self._sink.additions(delivered)

    def add(self, scope: str, batch: int, additions: list[Any]) -> Mapping[str, int]:
        """Add to tables what a batch adds, where they do not have it yet; raises IngestError.

        Returns, by reason, how many changes were left out.
        """
        return self._sink.add(scope, batch, additions)

    def empty(self, table: TableId) -> bool:
        """Delete all rows of a table; returns False where the sink cannot. Raise IngestError."""
        return self._sink.empty(table, self.keys.counts)

    def keep_only(self, table: TableId, schema: TableSchema, keys: Iterator[Sequence[bytes]]) -> int | None:
        """Delete all rows of a table but those of these keys; returns how many, None where the sink cannot.

        Raise IngestError.
        """
        return self._sink.keep_only(table, schema, keys)

    def marks(self) -> list[Any]:
        """Return what the checkpoint is to keep of the tables that were written to."""
        return self._sink.marks()

    def show_changes(self, events: Iterable[SchemaChange]) -> None:
        """Show lines for schema changes, where the sink has any."""
        self._show(self._sink.changed(events))

    def show_rows(self, delivered: Iterable[Any]) -> None:
        """Show lines for what a task delivered, where the sink has any."""
        self._show(self._sink.lines(delivered))

    def _show(self, lines: list[str]) -> None:
        if lines:
            self._observer(Printed(self._sink.stream, tuple(lines)))
