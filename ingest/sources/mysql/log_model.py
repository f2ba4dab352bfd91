"""What a reader of the log works with: places, files, statements, chunks, and what it has to ask."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ingest.sources.mysql.gtids import is_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.cascades import Referenced
    from ingest.sources.mysql.events import Query
    from ingest.sources.mysql.types import Table


NO_END: Final = (1 << 63) - 1
"""The end of a transaction whose end was not read."""


class LogPlace(msgspec.Struct, array_like=True, frozen=True):
    """The end of a transaction in the log, or the beginning of a file (offset 4)."""

    file: str
    offset: int
    base: int
    """The position of the file's first byte."""
    last: int | None = None
    """Where the event begins that ends there, if it is to be looked at before anything is read."""
    last_crc: int = 0
    """The CRC32 of that event's bytes, without its checksum."""

    @property
    def position(self) -> int:
        """The position of the place."""
        return self.base + self.offset


@dataclass(frozen=True, slots=True)
class NumberedTransactions:
    """The transactions with GTIDs to which consecutive records belong."""

    places: bytes
    """For each, in order, four numbers of eight bytes: the position where it begins, the one where it ends, its number,
    and which of the sources it is of."""
    sources: Sequence[str]
    """Sources as GTIDs name them: a server's UUID (MySQL), with a tag perhaps, or domain-server (MariaDB)."""

    def gtid(self, position: int) -> str:
        """Return the GTID of the record at a position, as the server writes it; empty where it has none."""
        numbers = memoryview(self.places).cast("Q")
        at = bisect_right(range(len(numbers) // 4), position, key=lambda index: numbers[4 * index]) - 1
        if at < 0:
            return ""
        _, end, number, source = numbers[4 * at : 4 * at + 4]
        name = self.sources[source]
        return f"{name}{'-' if is_pair(name) else ':'}{number}" if position < end else ""


class PartOfTransaction(msgspec.Struct, array_like=True, frozen=True):
    """The first records of a transaction."""

    source: str
    number: int
    """Source and number of its GTID."""
    records: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log that was entered. The description is its first event."""

    name: str
    base: int
    server_id: int
    time: int
    """When its first event was written, in seconds since 1970."""
    version: str
    """The server's version that wrote it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the log that is no part of the protocol of transactions."""

    position: int
    end: int
    query: Query
    time: int
    """Seconds since 1970."""
    changes_rows: bool
    """True if it changes rows of tables, which the log then does not have."""


class LogTables(Protocol):
    """What a reader has to know of tables and statements; all by position."""

    partial: bool
    """True if rows after an update may lack columns."""

    def read(self, database: str, name: str, position: int, /) -> tuple[int, Table] | None:
        """Return the entry of the history of schemas that a table has at a position; None if it is not read."""

    def referenced(self, database: str, name: str, position: int, /) -> Referenced | None:
        """Return what of a table others depend on at a position; None if nothing."""

    def answered(self, position: int) -> bool:
        """Tell whether the history of schemas has the result of the statement at a position."""

    def matters(self, statement: Statement) -> bool:
        """Tell whether a statement may touch a table that is read."""


NO_TRANSACTIONS: Final = NumberedTransactions(b"", ())


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Consecutive records of the log."""

    messages: Sequence[Record]
    position: int
    """The position behind them."""
    inside: PartOfTransaction | None = None
    """What of the open transaction was given on with them and before; None where none is open, or it has no GTID."""
    transactions: NumberedTransactions = NO_TRANSACTIONS
    """Those that they are of."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An XA transaction whose rows are in the log, and of which it is not known yet what becomes of it."""

    xid: str
    place: LogPlace
    """Where it begins."""
