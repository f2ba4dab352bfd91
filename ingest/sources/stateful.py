"""A source with a state: what the checkpoint keeps for it beside positions, and what passes between its two sides.

A log of a database is such a source: its tasks need the schemas that were valid at each position, and only they see the
statements that change these. Topics and files need none of this: `stateful` of their coordinator and reader is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    """What a sink does with rows that come again, and what the pipeline says of changes of tables."""

    keyed: bool = True
    """True if it keeps one row per key, so that rows may be read again."""
    once: bool = False
    """True if it never has rows of an attempt that was not committed."""
    empties: bool = True
    """False if the pipeline leaves `truncate.table` out."""
    refuses: bool = False
    """True if each change of a table's schema is to stop the run (`schema.change.behavior: exception`)."""
    parts: bool = False
    """True if of a row it writes the columns that came, and leaves the others as they are."""


@dataclass(frozen=True, slots=True)
class LogLook:
    """What a reader takes to read one place of a log, wherever the pipeline stands."""

    split: Split
    position: int
    assigned: Any
    shared: Any


class StatefulCoordinator(Protocol):
    """The driver's side of a source with a state, beside what each coordinator has. Raises IngestError only."""

    def state(self) -> SourceState:
        """Return the state as of now."""

    def restore(self, state: SourceState) -> None:
        """Take over the state of the batch that is planned next, or again; it comes before `start`."""

    def assign(self, ranges: Mapping[Split, tuple[int, int]]) -> Any:
        """Return what the task of these ranges gets: a function of the state and the ranges. It is small."""

    def shared(self) -> Any:
        """Return what all tasks get. It is the same object until it changes, and is sent only then."""

    def learn(self, notes: Sequence[Any]) -> None:
        """Take into the state what readers have noted, in the order of their tasks."""

    def new_schemas(self) -> list[tuple[TableId, TableSchema]]:
        """Return schemas that are new since the last call: tables have them before their next row."""

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return what is said of tables in words, where that is new since the last call, and the pipeline wants it."""

    def writes(self, habits: SinkHabits) -> None:
        """Take what the sink does with rows, and the pipeline with changes of tables; it comes before `start`."""

    def emptied(self) -> list[TableId]:
        """Return the source tables that were emptied since the last call: the sink is to have no rows of them.

        Their rows so far are before that, and none of those that come later is written yet.
        """

    begun_anew: bool
    """True if `start` has given up the place at which changes were read: what was planned there means nothing."""

    def begin_anew(self, *, where_lost: bool) -> None:
        """Give up the place at which changes are read, and begin where they end now. It comes before `start`.

        `where_lost`: only if changes are not there any more. Tables that are not read again then lack some.
        """

    def read_again(self, tables: Sequence[TableId] | None) -> list[TableId]:
        """Let the rows of tables, or of all that there are, be read once more, beside their changes; returns them.

        They replace those of the sink.
        """

    def replaced(self) -> list[TableId]:
        """Return the source tables whose rows were all read again: the sink is to have no others of them.

        They are returned until `have_replaced` is called.
        """

    def have_replaced(self, table: TableId) -> None:
        """Know that the sink has no other rows of a table."""

    def empty_first(self, table: TableId) -> None:
        """Count a table whose rows are read again among those that were emptied."""

    def mark(self, table: TableId, why: str) -> None:
        """Know that the sink's rows of a table may differ from the source's until it is read again."""

    def keys(self, table: TableId, names: Sequence[str]) -> Iterator[list[Change]] | str:
        """Return a delete of each key that a table has, of these columns, at a state not older than what was read.

        A text says why there are none; it is empty where they can be had when more is read.
        """

    def weight(self, split: Split) -> float:
        """Return how many records a position of a split stands for, on average: batches are sized by that."""

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
    """The options of a source whose records are no messages: what a dead letter of one is, and how it is read again."""

    def as_letter(self, assigned: Any, shared: Any, split: Split, record: Record, place: Any) -> Record:
        """Return the record that a dead letter is of.

        `assigned`, `shared`: what the task got. `place`: what the chunk of the record says of its place.
        """

    def letter_rows(self) -> Any:
        """Return what makes a record of the source of a dead letter again, by its method `of`."""
