"""The state of a source in a run: restored at the start, stored with plans and progress, sent to tasks in part.

Most sources have none, and then all of this does nothing. See `sources/stateful.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest.sources.stateful import SourceState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
    from ingest.model.change import Change
    from ingest.model.record import Split
    from ingest.model.schema import TableComments, TableSchema
    from ingest.model.standing import Standing
    from ingest.model.table import TableId
    from ingest.sources import SourceCoordinator


class SourceMemory:
    """The state of one run's source, if it has one."""

    def __init__(self, source: SourceCoordinator) -> None:
        self._keeper = source.stateful

    def restore(self, checkpoint: Checkpoint, progress: Progress, batch: Batch | None, notes: Sequence[Any]) -> None:
        """Let the source take over its state, with what the sink kept of a batch whose end no driver saw.

        `batch`: the one to do again, or None. Raises IngestError.
        """
        if self._keeper is None:
            return
        value = progress.source_state if batch is None else batch.source_state
        if value is not None:
            self._keeper.restore(SourceState(value, checkpoint.documents()))
            self._keeper.learn(notes)

    def value(self, checkpoint: Checkpoint) -> Any:
        """Return the state as plans and progress have it, once its other parts are stored; None where there is none.

        Raises IngestError.
        """
        if self._keeper is None:
            return None
        state = self._keeper.state()
        checkpoint.keep_documents(state.documents)
        return state.value

    def learn(self, notes: Sequence[Any]) -> None:
        """Take into the state what tasks, in their order, have noted. Raise IngestError."""
        if self._keeper is not None and notes:
            self._keeper.learn(notes)

    def new_schemas(self) -> list[tuple[TableId, TableSchema]]:
        """Return schemas that the source knows of before there is a row; raises IngestError."""
        return [] if self._keeper is None else self._keeper.new_schemas()

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return comments of source tables that are new since the last call."""
        return [] if self._keeper is None else self._keeper.comments()

    def emptied(self) -> list[TableId]:
        """Return the source tables that were emptied since the last call; raises IngestError."""
        return [] if self._keeper is None else self._keeper.emptied()

    @property
    def begun_anew(self) -> bool:
        """True if the source has given up its place: what was planned there means nothing."""
        return self._keeper is not None and self._keeper.begun_anew

    @property
    def has_state(self) -> bool:
        """True if the source has a state."""
        return self._keeper is not None

    def read_again(self, tables: Sequence[TableId] | None) -> list[TableId]:
        """Let the source read the rows of tables, or of all, once more; returns them. Raise ConfigError."""
        assert self._keeper is not None, "only a source with a state has rows"
        return self._keeper.read_again(tables)

    def replaced(self) -> list[TableId]:
        """Return the source tables whose rows were all read again; raises IngestError."""
        return [] if self._keeper is None else self._keeper.replaced()

    def have_replaced(self, table: TableId) -> None:
        """Note that the sink has no other rows of a table."""
        if self._keeper is not None:
            self._keeper.have_replaced(table)

    def empty_first(self, table: TableId) -> None:
        """Count a table whose rows are read again among those that were emptied."""
        if self._keeper is not None:
            self._keeper.empty_first(table)

    def mark(self, table: TableId, why: str) -> None:
        """Note that the sink's rows of a table may differ until it is read again."""
        if self._keeper is not None:
            self._keeper.mark(table, why)

    def keys(self, table: TableId, names: Sequence[str]) -> Iterator[list[Change]] | str:
        """Return a delete of each key that a table has now, or why there are none. Raise IngestError."""
        return "" if self._keeper is None else self._keeper.keys(table, names)

    def weights(self, splits: Mapping[Split, object]) -> dict[Split, float] | None:
        """Return how many records a position of each split stands for; None where positions count records."""
        return None if self._keeper is None else {split: self._keeper.weight(split) for split in splits}

    def standing(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Standing | None:
        """Return where the reading of a database stands; None where positions count records."""
        return None if self._keeper is None else self._keeper.standing(positions, ends)

    def fixed(self, ends: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends at which `--once` ends: those of splits that it does not read to wherever they end."""
        return {split: end for split, end in ends.items() if self._keeper is None or not self._keeper.grows(split)}

    def needed(self) -> Mapping[Split, int]:
        """Return how far splits are read at least, even past the end of a run with `--once`."""
        return {} if self._keeper is None else self._keeper.needed()

    def hurries(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> bool:
        """Return whether rows of tables wait to be read, which are planned a few at a time, or what they wait for."""
        if self._keeper is None:
            return False
        grown = any(end > positions.get(split, end) for split, end in ends.items() if self._keeper.grows(split))
        return grown or any(at > positions.get(split, at) for split, at in self._keeper.needed().items())
