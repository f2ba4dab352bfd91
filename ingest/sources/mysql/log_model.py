"""Nouns of a server's log: files and positions, places, statements, transactions, chunks.

A position counts bytes over all files: the base of a file plus the offset in it. `LogFiles` knows the files by their
numbers, whose they are, and whether a log is still the same one. Nothing here talks to a server.
Rules: docs/spec/mysql.md#positions.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from ingest.errors import ConfigError, DataLoss
from ingest.sources.mysql.gtids import is_pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.cascades import Referenced
    from ingest.sources.mysql.events import Query
    from ingest.sources.mysql.types import Table

FIRST: Final = 4
"""The offset of a file's first event, behind its four magic bytes."""
FORMER: Final = 8
"""Files before the one that is read, that are kept."""
WAYS: Final = (
    "`ingest backfill FILE --all` goes on from the log's end, and reads all tables again; `ingest verify FILE` shows "
    "which rows differ"
)
"""What a person can do where changes are lost."""


class ServerIdentity(msgspec.Struct, frozen=True):
    """Which server a log is of. A clone may have the same: the log's own marks tell them apart."""

    server_id: int
    uuid: str | None = None
    """Of MySQL; None on MariaDB, and on servers that have none."""
    domain: int | None = None
    """The domain of MariaDB's GTIDs."""

    @property
    def name(self) -> str:
        """The server's name in messages."""
        if self.uuid is not None:
            return f"server {self.uuid}"
        return f"server id {self.server_id}" + (f", domain {self.domain}" if self.domain is not None else "")

    def is_same(self, other: ServerIdentity) -> bool:
        """Return whether two identities are one server: MySQL's by UUID, as its server id may be changed."""
        if self.uuid is not None or other.uuid is not None:
            return self.uuid == other.uuid
        return self == other


class KnownFile(msgspec.Struct, frozen=True):
    """A file of a log."""

    name: str
    base: int
    size: int
    """The largest size of the file that was seen, in bytes."""
    server: int = 0
    """The number of the server's identity in `LogFiles`."""
    first_time: int | None = None
    """Seconds since 1970 in the header of its first event; None where it was not read."""

    @property
    def end(self) -> int:
        """The position after the last byte of the file that was seen."""
        return self.base + self.size


class LogName(NamedTuple):
    """The name of a log file: a text that may hold dots, and a number that counts."""

    stem: str
    number: int


def log_name(name: str) -> LogName:
    """Return the parts of a log file's name. Raise ConfigError where it has no number."""
    stem, dot, digits = name.rpartition(".")
    if not dot or not (digits.isascii() and digits.isdigit()):
        msg = f"{name!r} is no name of a log file"
        raise ConfigError(msg, "SHOW BINARY LOGS lists them; each ends with a dot and a number")
    return LogName(stem, int(digits))


class LogFiles(msgspec.Struct, frozen=True):
    """The files of the logs that a pipeline reads, in the order of their bases, and whose they are."""

    servers: tuple[ServerIdentity, ...]
    files: tuple[KnownFile, ...] = ()

    @property
    def identity(self) -> ServerIdentity:
        """The server that is read now."""
        return self.servers[-1]

    @property
    def end(self) -> int:
        """The position after all that was seen."""
        return self.files[-1].end if self.files else 0

    def file(self, name: str) -> KnownFile | None:
        """Return a file of the server that is read now."""
        server = len(self.servers) - 1
        return next((file for file in reversed(self.files) if file.name == name and file.server == server), None)

    def position(self, name: str, offset: int) -> int:
        """Return the position of an offset in a file of the server that is read now. Raise ConfigError."""
        file = self.file(name)
        if file is None:
            msg = f"the log file {name} is none of {self.identity.name}"
            raise ConfigError(msg, "SHOW BINARY LOGS lists those that are there")
        return file.base + max(offset, FIRST)

    def place(self, position: int) -> tuple[KnownFile, int]:
        """Return the file in which a position lies, and the offset there. Raise DataLoss before the first file."""
        at = bisect_right(self.files, position, key=lambda file: file.base) - 1
        if at < 0:
            raise DataLoss(f"position {position} lies before each log file that is known", WAYS)
        file = self.files[at]
        # Behind what was seen of a file that has a next one there is nothing: the next one goes on
        if at + 1 < len(self.files) and position >= file.end:
            file = self.files[at + 1]
            return file, FIRST
        return file, max(position - file.base, FIRST)

    def shown(self, position: int) -> str:
        """Return a position for messages: `binlog.000004:1234`."""
        if not self.files or position < self.files[0].base:
            return f"position {position}"
        file, offset = self.place(position)
        return f"{file.name}:{offset}"

    def reached(self, name: str, offset: int) -> LogFiles | None:
        """Return the files with the last one grown to this offset; None if its name is not that of the last file."""
        last = self.files[-1] if self.files else None
        if last is None or (last.name, last.server) != (name, len(self.servers) - 1):
            return None
        if offset <= last.size:
            return self
        return msgspec.structs.replace(self, files=(*self.files[:-1], msgspec.structs.replace(last, size=offset)))

    def grown(self, listing: Sequence[tuple[str, int]], first: str | None = None) -> LogFiles:
        """Return the files updated from SHOW BINARY LOGS: larger sizes, and files after the last one.

        `listing`: names and sizes in the server's order. `first`: the first file that counts where none is known yet.
        Raise DataLoss where the last file that is known is not listed.
        """
        server = len(self.servers) - 1
        own = [file for file in self.files if file.server == server]
        names = [name for name, _ in listing]
        if own:
            last = own[-1].name
            if last not in names:
                raise self.missing(last, names)
            start = names.index(last)
        else:
            start = names.index(first) if first in names else 0
        sizes = dict(listing)
        files = [
            msgspec.structs.replace(file, size=max(file.size, sizes.get(file.name, 0)))
            if file.server == server
            else file
            for file in self.files
        ]
        for name in names[start + (1 if own else 0) :]:
            files.append(KnownFile(name, files[-1].end if files else 0, sizes[name], server))
        return msgspec.structs.replace(self, files=tuple(files))

    def moved(self, identity: ServerIdentity) -> LogFiles:
        """Return the files with another server added. Its own files, none known yet, get bases above all others."""
        return msgspec.structs.replace(self, servers=(*self.servers, identity))

    def timed(self, name: str, first_time: int) -> LogFiles:
        """Return the files with the time of one file's first event filled in."""
        server = len(self.servers) - 1
        files = tuple(
            msgspec.structs.replace(file, first_time=first_time)
            if file.name == name and file.server == server and file.first_time is None
            else file
            for file in self.files
        )
        return msgspec.structs.replace(self, files=files)

    def pruned(self, position: int) -> LogFiles:
        """Return the files from a position on, with a few earlier ones.

        Those are for people who look at places that were read.
        """
        first = bisect_right(self.files, position, key=lambda file: file.base) - 1 - FORMER
        if first <= 0:
            return self
        kept = self.files[first:]
        gone = kept[0].server
        renamed = tuple(msgspec.structs.replace(file, server=file.server - gone) for file in kept) if gone else kept
        return LogFiles(self.servers[gone:], renamed)

    def missing(self, name: str, names: Iterable[str]) -> DataLoss:
        """Return the DataLoss for a file that the server no longer lists."""
        listed_names = list(names)
        gone = log_name(name)
        numbers = [found.number for found in map(log_name, listed_names) if found.stem == gone.stem]
        if numbers and min(numbers) > gone.number:
            msg = f"the log file {name}, which was not read to its end, is purged: the first is {listed_names[0]}"
            return DataLoss(msg, f"{WAYS}; keep the log for longer (binlog_expire_logs_seconds, expire_logs_days)")
        listed = f"it has {listed_names[0]} to {listed_names[-1]}" if listed_names else "it has none"
        msg = f"{self.identity.name} has no log file {name}: {listed}"
        return DataLoss(msg, f"its log is another one than before (RESET MASTER, a restored server): {WAYS}")


def check_listing(files: LogFiles, position: int, listing: Sequence[tuple[str, int]]) -> tuple[KnownFile, int]:
    """Return the place of a position in the server's log as it is now. Raise DataLoss where it is gone."""
    file, offset = files.place(position)
    sizes = dict(listing)
    if file.name not in sizes:
        raise files.missing(file.name, sizes)
    if offset > sizes[file.name]:
        msg = f"{file.name} has {sizes[file.name]} bytes, and was read up to {offset}"
        hint = (
            "the log is another one than before (RESET MASTER, a clone), or its end was lost in a crash of the server"
        )
        raise DataLoss(msg, f"{hint}: {WAYS}")
    return file, offset


def compare_first(file: KnownFile, first_time: int) -> None:
    """Raise DataLoss where the first event of a file is of another time than when it was read."""
    if file.first_time is not None and file.first_time != first_time:
        msg = (
            f"{file.name} begins at another time ({first_time}) than the file of this name that was read "
            f"({file.first_time})"
        )
        raise DataLoss(msg, f"the log is another one than before (RESET MASTER, a clone, a restored server): {WAYS}")


def compare_last(where: str, crc: int, event: bytes | None) -> None:
    """Raise DataLoss where the event that ends at a position is not the one that was read; None: there is none.

    `where`: the position for messages. `crc`: CRC32 of the event that was read, without its checksum, as `event` is.
    """
    if event is None or zlib.crc32(event) != crc:
        msg = f"the event that ends at {where} is not the one that was read there"
        raise DataLoss(msg, f"the log is another one than before (RESET MASTER, a clone, a restored server): {WAYS}")


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
    """The definitions of tables, and which statements matter, by position: the questions of a log reader."""

    partial: bool
    """True if rows after an update may lack columns."""

    def read(self, database: str, name: str, position: int, /) -> tuple[int, Table] | None:
        """Return a table's entry in the history of schemas at a position; None if the table is not read."""

    def referenced(self, database: str, name: str, position: int, /) -> Referenced | None:
        """Return the changes of a table that foreign keys of other tables react to, at a position; None without any."""

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
    """The position after the last record."""
    inside: PartOfTransaction | None = None
    """The part of the open transaction read so far, this chunk included; None where none is open, or it has no GTID."""
    transactions: NumberedTransactions = NO_TRANSACTIONS
    """The GTIDs of the records' transactions."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An XA transaction in the log that is prepared, and neither committed nor rolled back yet."""

    xid: str
    place: LogPlace
    """Where it begins."""
