"""Packets of the log to events, and where the log stands. The reference.

Native code has the same (native/log_decoder.pyx), and handles the kinds of events that are many by itself: tables,
rows, beginnings and ends of transactions. What `next` returns is for the caller to handle.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from ingest.sources.mysql import events
from ingest.sources.mysql.events import BadEvent, FormatDescription, Gtid, Header
from ingest.sources.mysql.log_records import PendingRecords
from ingest.sources.mysql.replication import Packets

CLOSED: Final = -1
_MADE_FOR_READERS: Final = frozenset({events.FORMAT_DESCRIPTION, events.ROTATE, *events.SKIPPED})
"""Kinds of events that a server may make for a reader, without a place."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, without its checksum."""

    header: Header
    data: bytes
    start: int
    """Where it begins in its file; that of the last one for an event that is in none."""
    end: int

    @property
    def filed(self) -> bool:
        """True if it is in the file, and was not made for the reader."""
        return self.end > self.start


@dataclass(frozen=True, slots=True)
class GtidRun:
    """Transactions with consecutive numbers that ended."""

    source: str
    """A server's UUID (MySQL), with a tag perhaps, or domain-server (MariaDB)."""
    first: int
    last: int


class LogDecoder:
    """Where a log stands, and what comes of it. Offsets are those in the current file, and have 64 bits."""

    def __init__(self) -> None:
        """Stand nowhere."""
        self.records = PendingRecords()
        self.runs: list[GtidRun] = []
        """The transactions that ended."""
        self.reset(0, 0)

    def reset(self, base: int, offset: int) -> None:
        """Stand at a place of a file, of whose events nothing is known. Pending records of the open transaction go."""
        self._packets = Packets()
        self.description = FormatDescription("", b"", checksums=False)
        self.base, self.offset = base, offset
        self.records.drop(self.records.ended)
        self.opened = CLOSED
        """Where the open transaction began; CLOSED where none is open."""
        self.begun = False
        """True if the open transaction goes on until something ends it."""
        self.gtid: Gtid | None = None
        """The GTID of the open transaction."""
        self.ended, self.last, self.last_crc = offset, offset, 0
        """Where the last transaction ended, and where the event begins that ended it, with the CRC32 of its bytes."""

    def enter(self, base: int, offset: int) -> None:
        """Go on in another file."""
        self.base, self.offset = base, offset
        self.ended, self.last, self.last_crc = offset, offset, 0

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes that came."""
        self._packets.feed(data)

    def next(self) -> bytes | None:
        """Return the next packet that is for the caller; None where more bytes are needed."""
        return self._packets.next()

    def event(self, data: bytes) -> Event:
        """Return the event of a packet, and go on to its end. Raise BadEvent."""
        header = events.read_header(data)
        if header.kind == events.FORMAT_DESCRIPTION:
            self.description = events.read_format(data)
        elif header.kind == events.ROTATE and header.flags & events.ARTIFICIAL:
            data = events.without_checksum(data)
        elif self.description.checksums:
            data = events.verify(data)
        start, end = self.offset, self.place(header)
        if end > self.offset:
            start, self.offset = end - header.size, end
        return Event(header, data, start, end)

    def place(self, header: Header) -> int:
        """Return where an event ends, in 64 bits: its header has the lowest 32. For one in no file, where it stands."""
        if header.flags & events.ARTIFICIAL or header.kind in {events.HEARTBEAT, events.HEARTBEAT_V2}:
            return self.offset
        if not header.end:  # MariaDB from 11.4 on writes none within transactions
            return self.offset if header.kind in _MADE_FOR_READERS else self.offset + header.size
        end = self.offset & ~0xFFFFFFFF | header.end
        if end < self.offset:
            end += 1 << 32
        return end

    def begin(self, start: int, gtid: Gtid | None, *, begun: bool) -> None:
        """Note that a transaction begins."""
        if self.opened == CLOSED:
            self.opened = start
        self.gtid, self.begun = gtid or self.gtid, begun

    def end(self, event: Event) -> None:
        """Note that the open transaction ends with an event, and that its pending records count."""
        self.records.end()
        self.ended, self.last, self.last_crc = event.end, event.start, zlib.crc32(event.data)
        if self.gtid is not None:
            self._count(self.gtid)
        self.opened, self.begun, self.gtid = CLOSED, False, None

    def _count(self, gtid: Gtid) -> None:
        """Add a transaction to those that ended."""
        if self.runs and self.runs[-1].source == gtid.source and self.runs[-1].last + 1 == gtid.number:
            self.runs[-1] = GtidRun(gtid.source, self.runs[-1].first, gtid.number)
        else:
            self.runs.append(GtidRun(gtid.source, gtid.number, gtid.number))

    def forget(self) -> None:
        """Forget what is known of tables: a statement may have changed them."""


__all__ = ["CLOSED", "BadEvent", "Event", "GtidRun", "LogDecoder"]
