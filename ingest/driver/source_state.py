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
    """The source's state in a run, and its storage in the checkpoint; empty calls for a source without a state."""

    def __init__(self, source: SourceCoordinator) -> None:
        self._keeper = source.stateful

    def restore(self, checkpoint: Checkpoint, progress: Progress, batch: Batch | None, notes: Sequence[Any]) -> None:
        """Restore the source's state, and apply the notes that the sink kept of a batch that no driver saw end.

        `batch`: the one to do again, or None. Raises IngestError.
        """
        if self._keeper is None:
            return
        value = progress.source_state if batch is None else batch.source_state
        if value is not None:
            self._keeper.restore(SourceState(value, checkpoint.documents()))
            self._keeper.learn(notes)

    def value(self, checkpoint: Checkpoint) -> Any:
        """Store the state's documents, and return its value for plans and progress; None without a state.

        Raises IngestError.
        """
        if self._keeper is None:
            return None
        state = self._keeper.state()
        checkpoint.keep_documents(state.documents)
        return state.value

    def learn(self, notes: Sequence[Any]) -> None:
        """Apply the notes of tasks to the source's state, in order. Raise IngestError."""
        if self._keeper is not None and notes:
            self._keeper.learn(notes)

    def new_schemas(self) -> list[tuple[TableId, TableSchema]]:
        """Return new table schemas that the source knows before any row arrives. Raise IngestError."""
        return [] if self._keeper is None else self._keeper.new_schemas()

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return comments of source tables that are new since the last call."""
        return [] if self._keeper is None else self._keeper.comments()

    def emptied(self) -> list[TableId]:
        """Return the source tables that were emptied since the last call; raises IngestError."""
        return [] if self._keeper is None else self._keeper.emptied()

    @property
    def begun_anew(self) -> bool:
        """True if the source has started over at another position: earlier plans are void."""
        return self._keeper is not None and self._keeper.begun_anew

    @property
    def has_state(self) -> bool:
        """True if the source has a state."""
        return self._keeper is not None

    def read_again(self, tables: Sequence[TableId] | None) -> list[TableId]:
        """Start a backfill of tables in the source; None: of all. Return the tables. Raise ConfigError."""
        assert self._keeper is not None, "only a source with a state has rows"
        return self._keeper.read_again(tables)

    def replaced(self) -> list[TableId]:
        """Return the source tables whose rows were all read again; raises IngestError."""
        return [] if self._keeper is None else self._keeper.replaced()

    def have_replaced(self, table: TableId) -> None:
        """Record that the sink has only rows of a table that were read again."""
        if self._keeper is not None:
            self._keeper.have_replaced(table)

    def empty_first(self, table: TableId) -> None:
        """Record that a table's rows in the sink are to be deleted before they are read again."""
        if self._keeper is not None:
            self._keeper.empty_first(table)

    def mark(self, table: TableId, why: str) -> None:
        """Mark a table: its rows in the sink may differ from the source until it is read again."""
        if self._keeper is not None:
            self._keeper.mark(table, why)

    def keys(self, table: TableId, names: Sequence[str]) -> Iterator[list[Change]] | str:
        """Return deletes of all keys that a source table has now, or the reason why not. Raise IngestError."""
        return "" if self._keeper is None else self._keeper.keys(table, names)

    def weights(self, splits: Mapping[Split, object]) -> dict[Split, float] | None:
        """Return the records per position of each split; None where a position is one record."""
        return None if self._keeper is None else {split: self._keeper.weight(split) for split in splits}

    def standing(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Standing | None:
        """Return the reading position and lag of a database source; None where a position is one record."""
        return None if self._keeper is None else self._keeper.standing(positions, ends)

    def fixed(self, ends: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends at which `--once` ends: those of splits that it does not read to wherever they end."""
        return {split: end for split, end in ends.items() if self._keeper is None or not self._keeper.grows(split)}

    def needed(self) -> Mapping[Split, int]:
        """Return how far splits are read at least, even past the end of a run with `--once`."""
        return {} if self._keeper is None else self._keeper.needed()

    def hurries(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> bool:
        """Return whether a snapshot, or the part of the log that it waits for, is still to be read."""
        if self._keeper is None:
            return False
        grown = any(end > positions.get(split, end) for split, end in ends.items() if self._keeper.grows(split))
        return grown or any(at > positions.get(split, at) for split, at in self._keeper.needed().items())
