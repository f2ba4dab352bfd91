"""What tasks note for the coordinator: how far the log was read, statements that they met, marks of chunks.

A commit keeps such notes with the progress, so that they are short: brokers take 4,096 bytes for all of it. Rules:
docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.sources.mysql.log_model import LogPlace, PartOfTransaction  # noqa: TC001  (msgspec reads the annotations)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    """The notes of consecutive chunks of a lane whose marks are in one file, as short as they can be."""

    lane: int
    position: int
    """Of the first one."""
    file: str
    low_file: str
    numbers: list[int] = []
    """Of each chunk: its offset less that of the one before it, its rows, and its offset less `low`."""


class StatementNote(msgspec.Struct, frozen=True):
    """A statement that a task has met, before which it ended."""

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
    """Names, bases and times of the files that it entered."""
    gtids: str = ""
    """Transactions that it has read up to the place."""
    statement: StatementNote | None = None
    invalid: dict[str, int] = {}
    """For each column: the number of texts with bytes that are no characters."""
    inside: PartOfTransaction | None = None
    """How much was read of the transaction that begins at the place, where its end was not seen."""
    used: list[int] | None = None
    """Of the entries that were asked for: those by which rows were decoded; None where nobody knows."""
    time: int = 0
    """When the event was logged that it has read last, in seconds since 1970; 0 where it has read none."""
    parents: list[tuple[str, str, str | None, int]] = []
    """Changes of rows that others refer to by foreign keys: database, table, column, position (`cascades.py`)."""


class TaskNotes(msgspec.Struct, frozen=True):
    """What the coordinator is to learn of a task."""

    log: LogNote | None = None
    chunks: list[ChunkNote] = []
    changed: bool = False
    """True if a chunk was not read because its table is not as the history has it."""
    packed: list[PackedChunks] = []
    """More chunks, as a commit has them."""

    @property
    def all_chunks(self) -> list[ChunkNote]:
        """The chunks, however they are noted."""
        return [*self.chunks, *unpacked(self.packed)]


def packed(chunks: Iterable[ChunkNote]) -> list[PackedChunks]:
    """Return notes of chunks as a commit keeps them."""
    out: list[PackedChunks] = []
    before = 0
    for one in sorted(chunks, key=lambda one: (one.lane, one.position)):
        last = out[-1] if out else None
        if last is None or (last.lane, last.position + len(last.numbers) // 3, last.file, last.low_file) != (
            one.lane,
            one.position,
            one.file,
            one.low_file,
        ):
            last, before = PackedChunks(one.lane, one.position, one.file, one.low_file, []), 0
            out.append(last)
        last.numbers.extend((one.offset - before, one.rows, one.offset - one.low))
        before = one.offset
    return out


def unpacked(found: Iterable[PackedChunks]) -> Iterator[ChunkNote]:
    """Yield the notes that `packed` had."""
    for one in found:
        offset = 0
        for at in range(0, len(one.numbers), 3):
            offset += one.numbers[at]
            rows, low = one.numbers[at + 1], offset - one.numbers[at + 2]
            yield ChunkNote(one.lane, one.position + at // 3, one.file, offset, rows, one.low_file, low)


def kept(log: LogNote | None, chunks: Sequence[ChunkNote]) -> Any:
    """Return what a commit keeps of a task; None for nothing."""
    of_chunks = packed(chunks)
    if log is not None and size_of(log) + size_of(of_chunks) > MOST_BYTES:
        log = None
    return msgspec.to_builtins(TaskNotes(log, packed=of_chunks)) if log is not None or of_chunks else None


def size_of(note: Any) -> int:
    """Return how many bytes a note takes in a commit."""
    return len(msgspec.json.encode(note))
