"""Events of the binary log, built byte by byte as a server writes them, and a stream that serves them."""

from __future__ import annotations

import zlib
from struct import pack
from typing import TYPE_CHECKING, Any

from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.server import MySqlServer
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.sources.mysql.log_model import LogTables

POST_HEADERS = bytes([
    56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 95, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0,
    18, 52, 0, 10, 40, 0,
])  # fmt: skip
"""Of MySQL 8."""
START = 4
"""Where the first event of a file is."""


class Log:
    """A file of the log in the making."""

    def __init__(self, version: str = "8.0.36", *, checksums: bool = True, offset: int = START) -> None:
        """`offset`: where the first event after the description is; then that is made for the reader."""
        self.checksums = checksums
        self.events: list[bytes] = []
        self.offset = offset
        body = pack("<H", 4) + version.encode().ljust(50, b"\0") + pack("<I", 0) + bytes([19]) + POST_HEADERS
        self.add(15, body + bytes([int(checksums)]), checksum=True, filed=offset == START)

    def add(
        self, kind: int, body: bytes, *, flags: int = 0, end: int | None = None, server: int = 1,
        checksum: bool | None = None, filed: bool = True,
    ) -> bytes:  # fmt: skip
        """Add an event; return its bytes without the checksum."""
        sums = self.checksums if checksum is None else checksum
        size = 19 + len(body) + 4 * sums
        if filed:
            self.offset += size
        place = (self.offset if filed else 0) if end is None else end
        event = pack("<IBIIIH", 1_700_000_000, kind, server, size, place & 0xFFFFFFFF, flags) + body
        self.events.append(event + pack("<I", zlib.crc32(event)) if sums else event)
        return event

    def query(self, text: bytes, database: str = "shop", status: bytes = b"", *, error: int = 0) -> None:
        name = database.encode()
        self.add(2, pack("<IIBHH", 1, 0, len(name), error, len(status)) + status + name + b"\0" + text)

    def gtid(self, number: int, uuid: bytes = bytes(range(16))) -> None:
        self.add(33, b"\0" + uuid + pack("<q", number))

    def table_map(
        self, table: int, name: str, types: bytes, metadata: bytes, more: bytes = b"", database: str = "shop"
    ) -> bytes:
        db, text = database.encode(), name.encode()
        body = table.to_bytes(6, "little") + b"\1\0" + bytes([len(db)]) + db + b"\0" + bytes([len(text)]) + text + b"\0"
        body += packed(len(types)) + types + packed(len(metadata)) + metadata + b"\xff" * ((len(types) + 7) // 8) + more
        return self.add(19, body)

    def rows(
        self, kind: int, table: int, columns: int, body: bytes, present: Sequence[bytes] = (), *, flags: int = 1
    ) -> bytes:  # fmt: skip
        full = b"\xff" * ((columns + 7) // 8)
        bitmaps = present or [full] * (2 if kind in {24, 31, 39} else 1)
        extra = pack("<H", 2) if kind in {30, 31, 32, 39} else b""
        start = table.to_bytes(6, "little") + pack("<H", flags) + extra + packed(columns)
        return self.add(kind, start + b"".join(bitmaps) + body)

    def xid(self) -> None:
        self.add(16, pack("<Q", 7))

    def transaction(self, *parts: Any) -> None:
        """BEGIN, what the parts do, and the end."""
        self.query(b"BEGIN")
        for part in parts:
            part()
        self.xid()

    @property
    def packets(self) -> bytes:
        """All events, as the network has them."""
        return b"".join(framed(b"\0" + event) for event in self.events)


def packed(number: int) -> bytes:
    """A number of variable length."""
    return (
        bytes([number])
        if number < 251
        else b"\xfc" + pack("<H", number)
        if number < 1 << 16
        else b"\xfd" + pack("<I", number)[:3]
    )


def framed(packet: bytes) -> bytes:
    """A packet with its header; one of 16 MiB goes on in the next."""
    out, at = b"", 0
    while True:
        part = packet[at : at + 0xFFFFFF]
        out += pack("<I", len(part))[:3] + b"\0" + part
        at += len(part)
        if len(part) < 0xFFFFFF:
            return out


class Stream:
    """Serves bytes as `LogStream` does, in pieces."""

    def __init__(self, data: bytes, piece: int = 1 << 16) -> None:
        self.data, self.piece, self.at = data, piece, 0

    def start(self, file: str, offset: int) -> None:
        self.asked = file, offset

    def read(self) -> memoryview:
        assert self.at < len(self.data), "more is asked for than the log has"
        found = self.data[self.at : self.at + self.piece]
        self.at += self.piece
        return memoryview(found)

    def close(self) -> None:
        pass


def read_bytes(
    data: bytes, bound: int, tables: LogTables, *, native: bool, piece: int = 1 << 16, start: LogPlace | None = None,
    after: int = 0, excluded: Any = None, **options: Any,
) -> tuple[list[tuple[bytes, int, int]], LogReader]:  # fmt: skip
    """Records (value, position, milliseconds) of a log in memory, and the reader."""
    server = MySqlServer("127.0.0.1", 1, "nobody", None)
    stream: Any = Stream(data, piece)
    reader = LogReader(server, 1, tables, native=native, open_stream=lambda: stream, **options)
    out: list[tuple[bytes, int, int]] = []
    for chunk in reader.read(start or LogPlace("binlog.000001", START, 0), bound, after, excluded=excluded):
        records: Iterable[Any] = chunk.messages if chunk is not None else ()
        out += [(record.value(), record.offset(), record.timestamp()[1]) for record in records]
    return out, reader


def table(name: str, *columns: Column, engine: str = "InnoDB") -> Table:
    return Table("shop", name, columns, engine=engine)
