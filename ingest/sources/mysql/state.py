"""The state that the MySQL source keeps in a checkpoint beside positions, and the notes by which tasks update it.

`State` says where the log is read and how far tables are read; the history of schemas has documents of its own
(`history.py`). A task gets a `MySqlAssignment`. Its `TaskNotes` tell how far it has read the log, which statements it
met, and marks of chunks. A commit keeps them with its progress, so they are short: brokers take 4,096 bytes for all of
it. All are JSON by msgspec.
Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.model.standing import Standing, TableProgress
from ingest.model.table import show, table_in
from ingest.sources.mysql.log_model import LogFiles, LogPlace, PartOfTransaction, ServerIdentity
from ingest.sources.mysql.types import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.sources.mysql.chunks import Bound

LOG = ("binlog", 0)
"""The split of the log."""
SNAPSHOT = "snapshot"
"""The first part of the splits of the snapshot; the second is the lane's number."""
LANES = 8
"""Lanes of the snapshot: so many tasks read rows at once, at most."""


class Piece(msgspec.Struct, array_like=True):
    """Rows of a table whose key is above the piece before, and not above `upper`."""

    upper: tuple[str, ...] | None
    """None: up to the last row."""
    mark: int | None = None
    """The position of the log whose state the sink has of them; None: they are not read yet."""


class LaneChunk(msgspec.Struct, array_like=True, frozen=True):
    """A chunk at its position in a lane."""

    position: int
    name: TableName
    lower: tuple[str, ...] | None
    upper: tuple[str, ...] | None
    stale: bool = False
    """True if its table is read from the first row on once more: the chunk is passed over."""


class TableSnapshot(msgspec.Struct):
    """A table whose rows are read, or of which the log has not passed all marks yet."""

    name: TableName
    pieces: list[Piece] = []
    """In the order of the key: those that are read, then those that are planned, then one of the rest."""
    rest: bool = True
    """True if the last piece has not been cut into chunks yet."""
    again: bool = False
    """True if the sink has rows of it already: then all changes in the log are written as well (H70)."""
    replaces: bool = False
    """True if the sink is to have no other rows of it: the driver deletes those when all are read (H94)."""
    chunks: int = 0
    """Chunks that are read."""
    rows: int = 0
    """The server's estimate of the table's rows."""
    rows_read: int = 0
    low: int | None = None
    """All that happened up to there is in the rows that are read, also what the log does not have."""
    chunk_rows: int = 0
    """Rows of one of its chunks; 0 until it is cut."""
    began: int = 0
    """Where the log ended when it was taken in: what the log has of it before that is in the rows, and left out."""

    @property
    def after(self) -> Bound | None:
        """The bound above which the rest begins."""
        return self.pieces[-1].upper if self.pieces else None

    @property
    def read(self) -> bool:
        """True if all of its rows are read."""
        return not self.rest and all(piece.mark is not None for piece in self.pieces)

    def regions(self) -> Iterator[tuple[Bound | None, int | None]]:
        """Yield upper bounds and marks of all pieces, the rest included."""
        for piece in self.pieces:
            yield piece.upper, piece.mark
        if self.rest:
            yield None, None

    def mark(self, upper: Bound | None, at: int, rows: int = 0, low: int | None = None) -> None:
        """Record that a chunk was read: its mark, its number of rows, and the position up to which none is missing."""
        low = at if low is None else low
        self.low = low if self.low is None else min(self.low, low)
        at = max(at, self.began)
        for piece in self.pieces:
            if piece.upper == upper:
                if piece.mark is None:
                    self.chunks += 1
                    self.rows_read += rows
                piece.mark = at

    @property
    def progress(self) -> TableProgress:
        """The numbers of rows and chunks of the table that were read, and the estimated totals."""
        unread = sum(piece.mark is None for piece in self.pieces)
        cut = unread * self.chunk_rows
        left = max(self.rows - self.rows_read, unread)
        left = max(left, cut + 1) if self.rest else min(left, cut)
        more = max(1, -(-(left - cut) // self.chunk_rows)) if self.rest and self.chunk_rows else int(self.rest)
        return TableProgress(self.rows_read, self.rows_read + left, self.chunks, self.chunks + unread + more)

    def shrink(self, log: int) -> None:
        """Put neighbours together whose marks the log has passed, or that are alike: so the state stays small."""
        out: list[Piece] = []
        for piece in self.pieces:
            before = out[-1] if out else None
            if before is None or before.mark is None or piece.mark is None:
                out.append(piece)
            elif before.mark == piece.mark or max(before.mark, piece.mark) <= log:
                out[-1] = Piece(piece.upper, max(before.mark, piece.mark))
            else:
                out.append(piece)
        self.pieces = out


class Dependent(msgspec.Struct):
    """A table whose rows a foreign key changes with rows of another table, without row events (`cascades.py`)."""

    name: TableName
    low: int | None = None
    """The sink has of its rows all that happened up to there; None where that is not known."""
    position: int = -1
    """Where in the log its rows changed so last."""
    why: str = ""
    after: int = 0
    """Seconds since 1970 before which it is not read again for this reason."""


class AppliedStatement(msgspec.Struct, array_like=True, frozen=True):
    """A table as parsed from a DDL statement of the log, until its columns are compared with the server's."""

    name: TableName
    entry: int
    """The id of its entry in the history."""
    statement: str
    """The statement's beginning, for people."""
    used: bool = False
    """True if rows of the log may have been decoded by it, or by one before it that was not compared either."""


class State(msgspec.Struct):
    """The source's whole state in a checkpoint."""

    files: LogFiles
    place: LogPlace
    """The last place at or before the position of the log."""
    snapshots: list[TableSnapshot] = []
    lanes: list[list[LaneChunk]] = []
    """For each lane: chunks that are planned and not read yet."""
    planned: list[int] = []
    """For each lane: the position after the last chunk that was planned."""
    documents: list[str] = []
    """Names of the documents that have the history of schemas."""
    answers: list[int] = []
    """Positions of statements whose effect the history has, as far as they may be read again."""
    marked: dict[str, str] = {}
    """Tables whose rows in the sink may differ from the database's, each with what changed them."""
    dependents: list[Dependent] = []
    """Tables whose rows change with those of others."""
    emptied: list[TableName] = []
    """Tables that were emptied behind the last row that was written, and that the driver has not emptied yet."""
    used_answers: list[str] = []
    """Names of the documents with answers (`ddl.py`) that have been used."""
    needed: int = 0
    """Where the log ended when a chunk found its table changed: it is read up to there in any case."""
    applied: list[AppliedStatement] = []
    """Tables that statements have changed since the log's end was reached last, in order."""
    next_entry: int = 1
    gtids: str = ""
    """Transactions that were read up to `place`, and those before them."""
    inside: PartOfTransaction | None = None
    """How much was read of the transaction that begins at `place`; None where that is none, or not known."""
    left_out: PartOfTransaction | None = None
    """The part of a transaction of this server's log that was read of a former server."""
    skip: str = ""
    """Transactions of this server's log behind `place` that were read of a former server."""
    read_time: int = 0
    """When the event was logged that was read last, in seconds since 1970; 0 where none was."""
    tables_done: int = 0
    """Tables of this snapshot that are read, and not among `snapshots` any more."""
    rows_done: int = 0
    """Their rows."""

    def snapshot(self, name: TableName) -> TableSnapshot | None:
        """Return a table's snapshot; None once all rows were read and the log has passed the chunks' marks."""
        return next((table for table in self.snapshots if table.name == name), None)

    def standing(self, position: int, end: int) -> Standing:
        """Return where reading stands at a position of the log, which ends at another; no times but the log's own."""
        file, offset = "", position
        if self.files.files and position >= self.files.files[0].base:
            known, offset = self.files.place(position)
            file = known.name
        done = [snapshot for snapshot in self.snapshots if snapshot.read]
        return Standing(
            file,
            offset,
            max(0, end - position),
            self.read_time,
            tables={
                show(table_in(*snapshot.name)): snapshot.progress for snapshot in self.snapshots if not snapshot.read
            },
            tables_done=self.tables_done + len(done),
            rows_done=self.rows_done + sum(snapshot.rows_read for snapshot in done),
            marked=dict(self.marked),
        )

    def to_json(self) -> Any:
        """Return the state as plain values for JSON."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, value: Any) -> State:
        """Return the state from the values that `to_json` returned. Raise msgspec.ValidationError."""
        return msgspec.convert(value, cls)


class TableRegions(msgspec.Struct, array_like=True, frozen=True):
    """A table in snapshot, for the reader of the log."""

    name: TableName
    key: tuple[str, ...]
    """The columns that it is split by."""
    pieces: tuple[tuple[tuple[str, ...] | None, int | None], ...]
    """Upper bounds and marks, in the order of the key."""


class AssignedChunk(msgspec.Struct, array_like=True, frozen=True):
    """A chunk that a task reads."""

    lane: int
    position: int
    entry: int
    """The id of the table's entry in the history; 0: the table is gone, and the chunk is passed over."""
    key: tuple[str, ...]
    lower: tuple[str, ...] | None
    upper: tuple[str, ...] | None


class MySqlAssignment(msgspec.Struct, frozen=True):
    """The part of the source's state that the driver sends to one task."""

    place: LogPlace | None = None
    """Where reading the log begins: at or before the range; None where the task reads no log."""
    bases: dict[str, int] = {}
    """The bases of log files, by their names."""
    regions: list[TableRegions] = []
    """The tables in snapshot, for the task that reads the log."""
    chunks: list[AssignedChunk] = []
    """Chunks to read."""
    skip: str = ""
    """Transactions that are left out, as they were read of another server."""
    left_out: PartOfTransaction | None = None
    """What is left out of a transaction, as it was read of another server."""
    began: int | None = None
    """When the file of `place` was begun, in seconds since 1970; None where that is not known."""
    server: ServerIdentity | None = None
    """The server that positions are of."""
    applied: list[int] = []
    """Entries of the history that were not compared with the server's tables yet."""
    partial: bool = False
    """True if the sink writes only the columns that came, so that rows after an update may lack some."""


MOST_BYTES: Final = 2700
"""Bytes that a commit has for the notes of a task. What is longer of the log is left out: it is read once more from its
last place."""
CHUNK_BYTES: Final = 2000
"""Bytes of them for chunks: a task ends before it reads more."""


class ChunkNote(msgspec.Struct, array_like=True, frozen=True):
    """The mark of a chunk that was read."""

    lane: int
    position: int
    file: str
    """Empty: the table is gone."""
    offset: int
    rows: int = 0
    """Rows that it had."""
    low_file: str = ""
    low: int = 0
    """A place at or before the mark, up to which nothing is missing in the rows, also what the log does not have."""


class PackedChunks(msgspec.Struct, array_like=True, frozen=True):
    """The notes of consecutive chunks of a lane whose marks are in one log file, packed into few bytes."""

    lane: int
    position: int
    """The position of the first chunk."""
    file: str
    low_file: str
    numbers: list[int] = []
    """Three per chunk: its offset less the previous chunk's offset, its number of rows, and its offset less `low`."""


class StatementNote(msgspec.Struct, frozen=True):
    """A statement of the log at which a task stopped reading, so that the driver applies it to the schemas first."""

    position: int
    end: int
    database: str
    text: str
    sql_mode: int
    time: int


class LogNote(msgspec.Struct, frozen=True):
    """How far a task has read the log."""

    place: LogPlace
    files: list[tuple[str, int, int]] = []
    """Names, bases and times of the log files that the task began to read."""
    gtids: str = ""
    """The GTIDs of the transactions that the task has read up to the place."""
    statement: StatementNote | None = None
    invalid: dict[str, int] = {}
    """For each column: the number of texts with bytes that are no characters."""
    inside: PartOfTransaction | None = None
    """How much was read of the transaction that begins at the place, where its end was not seen."""
    used: list[int] | None = None
    """Of the entries that were asked for: those by which rows were decoded; None where nobody knows."""
    time: int = 0
    """The time of the last event that the task has read, in seconds since 1970; 0 if it has read none."""
    parents: list[tuple[str, str, str | None, int]] = []
    """Changes of rows that others refer to by foreign keys: database, table, column, position (`cascades.py`)."""


class TaskNotes(msgspec.Struct, frozen=True):
    """The notes that a task returns to the source's coordinator in the driver."""

    log: LogNote | None = None
    chunks: list[ChunkNote] = []
    changed: bool = False
    """True if a chunk was not read because its table is not as the history has it."""
    packed: list[PackedChunks] = []
    """More chunks, as a commit has them."""

    @property
    def all_chunks(self) -> list[ChunkNote]:
        """The notes of all chunks, packed or not."""
        return [*self.chunks, *unpacked_chunks(self.packed)]


def packed_chunks(chunks: Iterable[ChunkNote]) -> list[PackedChunks]:
    """Return the notes of chunks, packed for storage in a commit."""
    out: list[PackedChunks] = []
    before = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.lane, chunk.position)):
        last = out[-1] if out else None
        if last is None or (last.lane, last.position + len(last.numbers) // 3, last.file, last.low_file) != (
            chunk.lane,
            chunk.position,
            chunk.file,
            chunk.low_file,
        ):
            last, before = PackedChunks(chunk.lane, chunk.position, chunk.file, chunk.low_file, []), 0
            out.append(last)
        last.numbers.extend((chunk.offset - before, chunk.rows, chunk.offset - chunk.low))
        before = chunk.offset
    return out


def unpacked_chunks(found: Iterable[PackedChunks]) -> Iterator[ChunkNote]:
    """Yield the notes of chunks that `packed_chunks` has packed."""
    for notes in found:
        offset = 0
        for at in range(0, len(notes.numbers), 3):
            offset += notes.numbers[at]
            rows, low = notes.numbers[at + 1], offset - notes.numbers[at + 2]
            yield ChunkNote(notes.lane, notes.position + at // 3, notes.file, offset, rows, notes.low_file, low)


def commit_note_of(log: LogNote | None, chunks: Sequence[ChunkNote]) -> Any:
    """Return the note that the sink stores with a task's commit; None where there is nothing to store."""
    of_chunks = packed_chunks(chunks)
    if log is not None and note_size(log) + note_size(of_chunks) > MOST_BYTES:
        log = None
    return msgspec.to_builtins(TaskNotes(log, packed=of_chunks)) if log is not None or of_chunks else None


def note_size(note: Any) -> int:
    """Return how many bytes a note takes in a commit."""
    return len(msgspec.json.encode(note))
