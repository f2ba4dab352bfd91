"""A source with a state: what the checkpoint stores for it beside positions, and what its two sides exchange.

The log of a database is such a source: its tasks need the schemas that were valid at each position, and only they read
the statements that change these. Topics and files have no state: `stateful` of their coordinator and reader is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ingest.model.change import Change
from ingest.model.record import Record, Split
from ingest.model.schema import TableComments, TableSchema
from ingest.model.standing import Standing
from ingest.model.table import TableId


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source. All of it is JSON."""

    value: Any
    """The part that is stored with each plan and with each batch's progress: small."""
    documents: Mapping[str, Any]
    """The parts that are stored once under their names, which `value` refers to: a name has one content for ever."""


@dataclass(frozen=True, slots=True)
class SinkHabits:
    """What the sink does with rows that are written again, and what the pipeline says of changes of tables."""

    keyed: bool = True
    """True if it keeps one row per key, so that rows may be read again."""
    once: bool = False
    """True if it never has rows of an attempt that was not committed."""
    empties: bool = True
    """False if the pipeline leaves `truncate.table` out."""
    refuses: bool = False
    """True if each change of a table's schema is to stop the run (`schema.change.behavior: exception`)."""
    parts: bool = False
    """True if it writes only the columns that a row has, and leaves the table's other columns as they are."""


@dataclass(frozen=True, slots=True)
class LogLook:
    """What a reader needs to read one place of a log, independent of the pipeline's position."""

    split: Split
    position: int
    assigned: Any
    shared: Any


class StatefulCoordinator(Protocol):
    """The driver's side of a source with a state, beside what each coordinator has. Raises IngestError only."""

    def state(self) -> SourceState:
        """Return the state as of now."""

    def restore(self, state: SourceState) -> None:
        """Load the stored state from which the next batch is planned, or planned again. Called before `start`."""

    def assign(self, ranges: Mapping[Split, tuple[int, int]]) -> Any:
        """Return the small part of the state that the task of these ranges needs. It depends on nothing else."""

    def shared(self) -> Any:
        """Return the part of the state that all tasks need. It is sent only when it is another object than before."""

    def learn(self, notes: Sequence[Any]) -> None:
        """Add the notes of readers to the state, in the order of their tasks."""

    def new_schemas(self) -> list[tuple[TableId, TableSchema]]:
        """Return schemas that are new since the last call: tables have them before their next row."""

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return the comments of tables that changed since the last call, if the pipeline copies comments."""

    def writes(self, habits: SinkHabits) -> None:
        """Set what the sink does with rows, and the pipeline with changes of tables. Called before `start`."""

    def emptied(self) -> list[TableId]:
        """Return the source tables that were emptied since the last call: the sink has to delete their rows.

        Rows from before that are written by now, and no later row is.
        """

    begun_anew: bool
    """True if `start` has given up the place at which changes were read: what was planned there means nothing."""

    def begin_anew(self, *, where_lost: bool) -> None:
        """Drop the position in the log, and start at the log's present end. Called before `start`.

        `where_lost`: only if the log no longer has the position. Tables that are not read again then lack changes.
        """

    def read_again(self, tables: Sequence[TableId] | None) -> list[TableId]:
        """Plan a new snapshot of these tables (None: of all), beside their changes. Return the tables.

        Its rows replace those of the sink.
        """

    def replaced(self) -> list[TableId]:
        """Return the source tables whose new snapshot is complete: the sink has to delete all other rows of them.

        They are returned until `have_replaced` is called.
        """

    def have_replaced(self, table: TableId) -> None:
        """Note that the sink has deleted all other rows of a table."""

    def empty_first(self, table: TableId) -> None:
        """Count a table whose rows are read again among those that were emptied."""

    def mark(self, table: TableId, why: str) -> None:
        """Note that the sink's rows of a table may differ from the source's until it is read again, and why."""

    def keys(self, table: TableId, names: Sequence[str]) -> Iterator[list[Change]] | str:
        """Return a delete of each key that a table has, of these columns, at a state not older than what was read.

        A text says why there are none; it is empty where they can be had when more is read.
        """

    def weight(self, split: Split) -> float:
        """Return the average number of records per position of a split, by which batches are sized."""

    def standing(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Standing | None:
        """Return where reading stands at these positions, for people; None before it is known where it starts.

        It may be called in another thread.
        """

    def look(self, file: str | None, offset: int) -> LogLook | None:
        """Return how one place of the log is read; None where no such file was. `file`: None for a position of it."""

    def grows(self, split: Split) -> bool:
        """Return whether `--once` reads a split to wherever it ends, and not to where it ended at the start."""

    def needed(self) -> Mapping[Split, int]:
        """Return how far splits are read at least, wherever `--once` was to end them: what was begun needs it."""


class StatefulReader(Protocol):
    """What the reader of a source with a state has in addition to `Reader`: what the coordinator and the sink keep."""

    def take(self, assigned: Any, shared: Any) -> None:
        """Take over the coordinator's state for a task, before `read`. Drop the notes of the task before."""

    def commit_note(self, positions: Mapping[Split, int]) -> Any:
        """Return a note that the sink stores with a commit of these positions: short, as JSON; None for no note."""

    def resume(self, note: Any) -> None:
        """Take over the note that the sink stored with the last commit of an earlier attempt at this task."""

    def notes(self, positions: Mapping[Split, int]) -> list[Any]:
        """Return the notes for the coordinator of a task that ended at these positions."""


class RowLetters(Protocol):
    """Records of a source that are no messages: what a dead letter of one is, and how it is read again."""

    def as_letter(self, assigned: Any, shared: Any, split: Split, record: Record, place: Any) -> Record:
        """Return the record that a dead letter is of.

        `assigned`, `shared`: what the task got. `place`: what the chunk of the record says of its place.
        """

    def of(self, letter: Any) -> Any:
        """Return a dead letter as a record of the source again."""
