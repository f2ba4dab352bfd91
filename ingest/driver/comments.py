"""What a source says of its tables in words, given on to the sink tables that have their rows.

Apart from schemas: no row depends on it, and what a table lost by being written again is given once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.model.table import show
from ingest.observe.events import Warned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.model.schema import TableComments
    from ingest.model.table import TableId
    from ingest.observe.events import Observer
    from ingest.schema.evolve import Schemas
    from ingest.sinks import SinkCoordinator


class CommentKeeper:
    """The comments of one run's tables."""

    def __init__(self, sink: SinkCoordinator, observer: Observer) -> None:
        """Know no comment yet."""
        self._sink = sink
        self._observer = observer
        self._known: dict[TableId, TableComments] = {}
        self._changed: set[TableId] = set()
        """Source tables that have changed since comments were given on."""
        self._told: set[str] = set()

    def changed(self, tables: Iterable[TableId]) -> None:
        """Know that tables have changed: the sink's may have been written again, without comments."""
        self._changed.update(tables)

    def give(self, comments: Iterable[tuple[TableId, TableComments]], schemas: Schemas) -> None:
        """Let sink tables have the comments of their source tables, where these or the tables have changed.

        One with rows of several source tables has none. Raise IngestError.
        """
        new = dict(comments)
        self._known |= new
        wanted, self._changed = {*new, *self._changed} & self._known.keys(), set()
        for table in sorted(wanted):
            source, what = schemas.sources.get(table), self._known[table]
            for target in () if source is None else source.targets:
                shared = any(target in one.targets for name, one in schemas.sources.items() if name != table)
                schema = schemas.sinks.get(target)
                if schema is None or (what.table is None and not what.columns):
                    continue
                if shared or not self._sink.comment(target, schema, what):
                    self._tell(target, "rows of other tables are there, too" if shared else "the sink keeps none")

    def _tell(self, target: TableId, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            text = f"comments of {show(target)} and its columns are left out: {why} (said once)"
            self._observer(Warned(text))
