"""Packets of the log to events, and where the log stands. The reference.

Native code has the same (native/log_decoder.pyx), and handles the kinds of events that are many by itself: tables,
rows, beginnings and ends of transactions. What `next` returns is for the caller to handle.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Final

from ingest.sources.mysql import events
from ingest.sources.mysql.events import EventHeader, FormatDescription, Gtid
from ingest.sources.mysql.log_model import NO_END, NumberedTransactions
from ingest.sources.mysql.log_records import PendingRecords
from ingest.sources.mysql.replication import Packets

if TYPE_CHECKING:
    from ingest.sources.mysql.native.row_image import RowPlan
    from ingest.sources.mysql.table_maps import ParentWatch

CLOSED: Final = -1
_MADE_FOR_READERS: Final = frozenset({events.FORMAT_DESCRIPTION, events.ROTATE, *events.SKIPPED})
"""Kinds of events that a server may make for a reader, without a place."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the binary log, without its checksum."""

    header: EventHeader
    data: bytes
    start: int
    """Where it begins in its file; that of the last one for an event that is in none."""
    end: int

    @property
    def filed(self) -> bool:
        """True if the event is stored in the log file; false for an artificial event made for the reader."""
        return self.end > self.start


@dataclass(frozen=True, slots=True)
class GtidRun:
    """Transactions with consecutive numbers that ended."""

    source: str
    """A server's UUID (MySQL), with a tag perhaps, or domain-server (MariaDB)."""
    first: int
    last: int


def read_event(data: bytes, description: FormatDescription, offset: int) -> tuple[Event, FormatDescription | None]:
    """Return the event of a packet, in a file read up to `offset`, and a format description's content.

    Raise BadEvent.
    """
    header = events.read_header(data)
    described = None
    if header.kind == events.FORMAT_DESCRIPTION:
        described = events.read_format(data)
    elif header.kind == events.ROTATE and header.flags & events.ARTIFICIAL:
        data = events.without_checksum(data)
    elif description.checksums:
        data = events.verify(data)
    end = _end_of(header, offset)
    return Event(header, data, end - header.size if end > offset else offset, end), described


def _end_of(header: EventHeader, offset: int) -> int:
    """Return an event's end offset in 64 bits, from the 32 bits of its header; `offset` for an event in no file."""
    if header.flags & events.ARTIFICIAL or header.kind in {events.HEARTBEAT, events.HEARTBEAT_V2}:
        return offset
    if not header.end:  # MariaDB from 11.4 on writes none within transactions
        return offset if header.kind in _MADE_FOR_READERS else offset + header.size
    end = offset & ~0xFFFFFFFF | header.end
    return end + (1 << 32) if end < offset else end


class LogDecoder:
    """Decoder of the binary log: its position, open transaction and records.

    Offsets are 64-bit ones in the current file.
    """

    def __init__(self) -> None:
        self.records = PendingRecords()
        self.runs: list[GtidRun] = []
        """The transactions that ended."""
        self.plain = False
        """True if native code may handle events by itself: none is compared, none is passed over."""
        self.opened = CLOSED
        """Where the open transaction began; CLOSED where none is open."""
        self.gtid: Gtid | None = None
        """The GTID of the open transaction."""
        self._numbered: list[tuple[int, int, Gtid]] = []
        """The same transactions as `runs`: where each begins and ends, as positions."""
        self.asks = False
        """True if the caller decides by its GTID whether a transaction is read."""
        self.time = 0
        """When the event was logged that was read last, in seconds since 1970."""
        self.bound = 0
        """The position at which or behind which a transaction ends that is the last."""
        self.watched: dict[int, ParentWatch] = {}
        """By the ids of tables: what looks at rows that others refer to."""
        self.reset(0, 0)

    def reset(self, base: int, offset: int) -> None:
        """Stand at a place of a file, of whose events nothing is known. Pending records of the open transaction go."""
        self._packets = Packets()
        self.description = FormatDescription("", b"", checksums=False)
        self.records.drop(self.records.ended)
        self.plain = False
        self.abandon()
        self.enter(base, offset)

    def enter(self, base: int, offset: int) -> None:
        """Go on in another file."""
        self.base, self.offset = base, offset
        self.ended, self.last, self.last_crc = offset, offset, 0

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes that came."""
        self._packets.feed(data)

    def next(self) -> bytes | None:
        """Return the next packet that is for the caller; None where bytes are needed, or records are enough."""
        return self._packets.next()

    def event(self, data: bytes) -> Event:
        """Return the event of a packet, and go on to its end. Raise BadEvent."""
        event, described = read_event(data, self.description, self.offset)
        self.description = described or self.description
        self.offset = event.end
        if event.filed:
            self.time = event.header.time
        return event

    def begin_at(self, start: int, gtid: Gtid | None, begun: bool) -> None:
        """Open a transaction, or continue it at the statement that begins it."""
        if self.opened == CLOSED:
            self.opened = start
            self.savepoints: dict[bytes, int] = {}
            """By name: the number of pending records where it was set."""
            self.given = False
            """True if records of the open transaction were already passed on."""
            self.held = False
            """True if records of the open transaction are held back until its end."""
            self.skipped = False
            """True if nothing of the open transaction is read."""
            self.unheld = False
            """True if the records of the open transaction were dropped, because they are too many to be kept."""
        self.gtid, self.begun = gtid or self.gtid, begun

    def end_with(self, event: Event) -> None:
        """Close the open transaction at its last event, and release its pending records for writing."""
        self.records.end()
        self.ended, self.last, self.last_crc = event.end, event.start, zlib.crc32(event.data)
        if self.gtid is not None:
            self._count(self.gtid)
            self._numbered.append((self.base + self.opened, self.base + event.end, self.gtid))
        self.abandon()

    def pass_over(self, event: Event) -> None:
        """Move the position past an event between two transactions."""
        self.ended, self.last, self.last_crc = event.end, event.start, zlib.crc32(event.data)

    def abandon(self) -> None:
        """Reset the state of the open transaction."""
        self.opened, self.gtid = CLOSED, None
        self.begun = False
        """True if the open transaction goes on until something ends it."""
        self.given = self.held = self.unheld = self.skipped = False
        self.savepoints = {}

    def begin_runs(self) -> None:
        """Clear the list of GTIDs of ended transactions."""
        self.runs, self._numbered = [], []

    def numbered(self, first: int, last: int) -> NumberedTransactions:
        """Return the GTIDs of the transactions at positions from `first` to `last`, the open one included."""
        found = [one for one in self._numbered if one[1] > first and one[0] <= last]
        if self.opened != CLOSED and self.gtid is not None:
            found.append((self.base + self.opened, NO_END, self.gtid))
        sources = [*dict.fromkeys(gtid.source for _, _, gtid in found)]
        places = (pack("=qqQq", begin, end, one.number, sources.index(one.source)) for begin, end, one in found)
        return NumberedTransactions(b"".join(places), sources)

    def _count(self, gtid: Gtid) -> None:
        """Add a GTID to the runs of ended transactions."""
        if self.runs and self.runs[-1].source == gtid.source and self.runs[-1].last + 1 == gtid.number:
            self.runs[-1] = GtidRun(gtid.source, self.runs[-1].first, gtid.number)
        else:
            self.runs.append(GtidRun(gtid.source, gtid.number, gtid.number))

    def learn(self, table: int, _plan: RowPlan | bytes | None, watch: ParentWatch | None = None) -> None:
        """Keep a table's plan for native code, and the watch on its rows that foreign keys of other tables need."""
        self.watched.pop(table, None)
        if watch is not None:
            self.watched[table] = watch

    def plan(self, _table: int) -> RowPlan | bytes | None:
        """Return native code's plan of a table: None in the reference."""
        return None

    known = 0
    """The number of ids that native code knows."""

    def rows_of(self, _data: bytes, _position: int) -> bool:
        """Add the records of a row event natively.

        Return False where the reference has to decode the event, as here.
        """
        return False

    def forget(self) -> None:
        """Clear the cached plans of tables, which a statement may have changed."""
        self.watched.clear()
