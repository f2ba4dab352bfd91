"""Events of the binary log: bytes of an event to what it says. The reference: one event at a time, slow and obvious.

The layouts are those of MySQL's `libbinlogevents` and of MariaDB's "Replication Protocol" pages. An event is given
without the byte that the network puts before it. What does not have the form that its kind demands raises `BadEvent`.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import Struct
from types import ModuleType
from typing import Final

from ingest.errors import ProgramMissing

HEADER_BYTES: Final = 19
MAGIC: Final = b"\xfebin"
"""The first bytes of a log file."""

QUERY, STOP, ROTATE, INTVAR, LOAD, RAND, USER_VAR, FORMAT_DESCRIPTION, XID = 2, 3, 4, 5, 6, 13, 14, 15, 16
CREATE_FILE, APPEND_BLOCK, EXEC_LOAD, DELETE_FILE, NEW_LOAD = 8, 9, 10, 11, 12
BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP = 17, 18, 19
WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1 = 23, 24, 25
INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY = 26, 27, 28, 29
WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS = 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE = 33, 34, 35, 36, 37
XA_PREPARE, PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED = 38, 39, 40, 41, 42
ANNOTATE_ROWS, BINLOG_CHECKPOINT, MARIADB_GTID, MARIADB_GTID_LIST, START_ENCRYPTION = 160, 161, 162, 163, 164
QUERY_COMPRESSED, WRITE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED_V1 = 165, 166, 167, 168
WRITE_ROWS_COMPRESSED, UPDATE_ROWS_COMPRESSED, DELETE_ROWS_COMPRESSED = 169, 170, 171

INSERTS: Final = frozenset({WRITE_ROWS_V1, WRITE_ROWS, WRITE_ROWS_COMPRESSED_V1, WRITE_ROWS_COMPRESSED})
UPDATES: Final = frozenset(
    {UPDATE_ROWS_V1, UPDATE_ROWS, PARTIAL_UPDATE_ROWS, UPDATE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED}
)
DELETES: Final = frozenset({DELETE_ROWS_V1, DELETE_ROWS, DELETE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED})
ROWS: Final = INSERTS | UPDATES | DELETES
SKIPPED: Final = frozenset({
    STOP, IGNORABLE, ROWS_QUERY, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE, ANNOTATE_ROWS, BINLOG_CHECKPOINT,
    MARIADB_GTID_LIST,
})  # fmt: skip
"""Kinds that are known to change no row and to say nothing that a reader needs."""
STATEMENT_DATA: Final = frozenset(
    {INTVAR, RAND, USER_VAR, LOAD, CREATE_FILE, APPEND_BLOCK, EXEC_LOAD, DELETE_FILE, NEW_LOAD, BEGIN_LOAD_QUERY}
)
"""Kinds that belong to the statement that follows them: its variables, and the data that it loads."""

ARTIFICIAL: Final = 0x20
"""Flag of events that the server makes for a reader; they are not in the file."""
IGNORABLE_FLAG: Final = 0x80
MAX_UNPACKED: Final = 1 << 32
"""Bytes that a compressed event may have when it is not compressed, at most."""

_HEADER: Final = Struct("<IBIIIH")


class BadEvent(ValueError):
    """An event that does not have the form of its kind: it is damaged, or of a server that is not known."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The header of an event."""

    time: int
    """Seconds since 1970."""
    kind: int
    server_id: int
    size: int
    """Bytes of the event with its header and its checksum."""
    end: int
    """The lowest 32 bits of where it ends in its file; 0 where it is in none."""
    flags: int


def read_header(event: bytes) -> EventHeader:
    """Return the header of an event. Raise BadEvent where its size is not that of the event."""
    if len(event) < HEADER_BYTES:
        raise BadEvent(f"an event of {len(event)} bytes")
    found = EventHeader(*_HEADER.unpack_from(event))
    if found.size != len(event):
        raise BadEvent(f"an event of {len(event)} bytes whose header says {found.size}")
    return found


def verify(event: bytes) -> bytes:
    """Return an event without its checksum (CRC32). Raise BadEvent where that is not the event's."""
    if len(event) < HEADER_BYTES + 4:
        raise BadEvent(f"an event of {len(event)} bytes has no checksum")
    said = int.from_bytes(event[-4:], "little")
    if zlib.crc32(event[:-4]) != said:
        raise BadEvent(f"the checksum of an event is {said:#010x}, and its bytes have {zlib.crc32(event[:-4]):#010x}")
    return event[:-4]


def without_checksum(event: bytes) -> bytes:
    """Return an event without its checksum, where it ends with the right one.

    Events that are made for the reader at the beginning of a file may have one or not, whatever the file has.
    """
    return event[:-4] if zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little") else event


class Cursor:
    """Reads bytes from left to right. Raises BadEvent at their end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self.at + count
        if count < 0 or end > len(self.data):
            raise BadEvent(f"it ends after {len(self.data)} bytes, and {end} are needed")
        found = self.data[self.at : end]
        self.at = end
        return found

    def number(self, size: int) -> int:
        """Return an unsigned number of `size` bytes, the lowest first."""
        return int.from_bytes(self.take(size), "little")

    def packed(self) -> int:
        """Return a number of variable length, as the protocol counts columns."""
        first = self.number(1)
        if first < 251:
            return first
        if first in {252, 253, 254}:
            return self.number({252: 2, 253: 3, 254: 8}[first])
        raise BadEvent(f"byte {first} begins no length")

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        return self.take(len(self.data) - self.at)

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return len(self.data) - self.at


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """How the events of a file are written."""

    version: str
    """The server's version."""
    lengths: bytes
    """For each kind from 1 on: bytes between the header and the body."""
    checksums: bool
    """True if events end with a CRC32."""

    def length(self, kind: int, default: int) -> int:
        """Return the bytes between the header and the body of a kind."""
        return self.lengths[kind - 1] if kind <= len(self.lengths) else default


def read_format(event: bytes) -> FormatDescription:
    """Decode a FORMAT_DESCRIPTION event, given with its checksum. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    if cursor.number(2) != 4:
        raise BadEvent("the log is older than that of MySQL 5.0")
    version = cursor.take(50).split(b"\0", 1)[0].decode("latin-1")
    cursor.take(4)
    if cursor.number(1) != HEADER_BYTES:
        raise BadEvent("the headers of its events are not of 19 bytes")
    lengths = cursor.rest()
    if _has_algorithm(version):
        # The description itself always has room for a checksum, behind the algorithm
        if len(lengths) < 5:
            raise BadEvent("a format description without the algorithm of checksums")
        algorithm, lengths = lengths[-5], lengths[:-5]
        if algorithm not in {0, 1, 255}:
            raise BadEvent(f"checksums of the algorithm {algorithm}, which is not known")
        if algorithm == 1:
            verify(event)
        return FormatDescription(version, lengths, algorithm == 1)
    return FormatDescription(version, lengths, checksums=False)


def _has_algorithm(version: str) -> bool:
    """Tell whether a server says which checksums events have: MySQL from 5.6.1 on, MariaDB from 5.3 on."""
    numbers = [int("".join(filter(str.isdigit, part)) or 0) for part in version.partition("-")[0].split(".")[:3]]
    return numbers >= ([5, 3, 0] if "mariadb" in version.lower() else [5, 6, 1])


def read_rotate(event: bytes) -> tuple[str, int]:
    """Decode a ROTATE event: the name of the next log file, and the offset in it."""
    cursor = Cursor(event, HEADER_BYTES)
    at = cursor.number(8)
    return cursor.rest().decode("utf-8", "surrogateescape"), at


@dataclass(frozen=True, slots=True)
class Query:
    """A statement of the log, with the settings of its session that decide how it is parsed."""

    text: bytes
    database: str
    sql_mode: int
    charset: int | None
    """The id of the client's collation; None where the event does not say."""
    error: int
    """The number of the error with which the statement ended; 0 where it did well."""


_STATUS_SIZES: Final = {
    0: 4,
    1: 8,
    3: 4,
    4: 6,
    7: 2,
    8: 2,
    9: 8,
    10: 4,
    13: 3,
    14: 0,
    16: 1,
    17: 8,
    18: 2,
    19: 1,
    20: 1,
}
"""Bytes of the variables of a statement that have a fixed length, by their code."""


def read_query(event: bytes, kind: int, lengths: FormatDescription) -> Query:
    """Return the statement of a query event, compressed or not. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    fixed = Cursor(cursor.take(max(lengths.length(QUERY if kind == QUERY_COMPRESSED else kind, 13), 11)))
    fixed.take(8)
    database_size, failed = fixed.number(1), fixed.number(2)
    status = cursor.take(fixed.number(2) if fixed.left >= 2 else 0)
    database = cursor.take(database_size).decode("utf-8", "surrogateescape")
    cursor.take(1)
    text = cursor.rest()
    if kind == QUERY_COMPRESSED:
        text = unpack_mariadb(text)
    return Query(text, database, *_status(status), failed)


def _status(status: bytes) -> tuple[int, int | None]:
    """Return sql_mode and the client's collation. Unknown codes end the list."""
    cursor = Cursor(status)
    mode, charset = 0, None
    try:
        while cursor.left:
            code = cursor.number(1)
            if code == 1:
                mode = cursor.number(8)
            elif code == 4:
                charset = cursor.number(2)
                cursor.take(4)
            elif code == 2:
                cursor.take(cursor.number(1) + 1)
            elif code in {5, 6}:
                cursor.take(cursor.number(1))
            elif code == 11:
                cursor.take(cursor.number(1))
                cursor.take(cursor.number(1))
            elif code == 12:
                count = cursor.number(1)
                for _ in range(0 if count == 254 else count):  # 254: more than the event names
                    while cursor.number(1):
                        pass
            elif code in _STATUS_SIZES:
                cursor.take(_STATUS_SIZES[code])
            else:
                break  # of a newer server: those that are needed come first
    except BadEvent:
        pass
    return mode, charset


def unpack_mariadb(data: bytes) -> bytes:
    """Decompress MariaDB's format: one byte with the algorithm and the length's size, the length, zlib's bytes."""
    cursor = Cursor(data)
    first = cursor.number(1)
    if not first & 0x80 or (first >> 4) & 7:
        raise BadEvent(f"byte {first:#04x} begins no compressed body")
    size = int.from_bytes(cursor.take(first & 7), "big")
    if size > MAX_UNPACKED:
        raise BadEvent(f"a compressed body of {size} bytes")
    try:
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(cursor.rest(), size + 1)
    except zlib.error as exc:
        raise BadEvent(f"a compressed body that cannot be unpacked: {exc}") from exc
    if len(body) != size or not unpacker.eof:
        raise BadEvent(f"a compressed body of another length than the {size} bytes that it says")
    return body


def unpack_column(data: bytes) -> bytes:
    """Return the value of a column that MariaDB compressed (`COMPRESSED`). Raise BadEvent.

    `data`: one byte with the algorithm and the length's size, the length, zlib's bytes.
    """
    if not data:
        return data
    first = data[0]
    if first >> 4 == 0:
        return data[1:]
    if first >> 4 != 8:
        raise BadEvent(f"byte {first:#04x} begins no value of a compressed column")
    cursor = Cursor(data, 1)
    size = int.from_bytes(cursor.take(first & 7), "big")
    try:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS if first & 8 else zlib.MAX_WBITS)
        value = unpacker.decompress(cursor.rest(), size + 1)
    except zlib.error as exc:
        raise BadEvent(f"a value of a compressed column that cannot be unpacked: {exc}") from exc
    if len(value) != size:
        raise BadEvent(f"a value of a compressed column of another length than the {size} bytes that it says")
    return value


@dataclass(frozen=True, slots=True)
class Gtid:
    """Where a transaction has its number: `source` is a server's UUID, or MariaDB's domain-server."""

    source: str
    number: int
    flags: int = 0
    more_flags: int = 0

    @property
    def undecided(self) -> bool:
        """True for an ALTER in two phases that begins or is given up: one that is carried out comes once more."""
        return bool(self.more_flags & (2 | 8))

    @property
    def standalone(self) -> bool:
        """True if the next statement is all of it, and nothing ends it (MariaDB)."""
        return bool(self.flags & 1)


def read_gtid(event: bytes, server_id: int, kind: int) -> Gtid | None:
    """Return the GTID of an event; None for an anonymous one. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    if kind == MARIADB_GTID:
        number, domain, flags = cursor.number(8), cursor.number(4), cursor.number(1)
        cursor.take(8 if flags & 2 and cursor.left >= 8 else 0)  # of a group commit
        more = cursor.number(1) if flags & 32 and cursor.left else 0  # of DDL
        return Gtid(f"{domain}-{server_id}", number, flags, more)
    if kind == GTID_TAGGED:
        return _tagged(cursor)
    cursor.take(1)
    source, number = uuid_text(cursor.take(16)), cursor.number(8)
    return Gtid(source, number) if kind == GTID else None


def uuid_text(data: bytes) -> str:
    """Return the text of 16 bytes as those of a UUID."""
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _variable(cursor: Cursor) -> int:
    """Return a number of MySQL's serialization: as many ones as there are more bytes end the first one."""
    first = cursor.number(1)
    ones = 0
    while ones < 8 and first >> ones & 1:
        ones += 1
    if ones == 8:
        return cursor.number(8)
    return (first | cursor.number(ones) << 8) >> (ones + 1)


def _tagged(cursor: Cursor) -> Gtid:
    """Return the GTID of MySQL 8.4's event with tags: fields with numbers, of which the first four are needed."""
    for _ in range(3):  # version, size, the last field that must be known
        _variable(cursor)
    source, number, tag = "", 0, ""
    for wanted in range(4):
        if _variable(cursor) != wanted:
            raise BadEvent("a GTID event whose fields are not in their order")
        if wanted == 0:
            _variable(cursor)
        elif wanted == 1:
            source = uuid_text(bytes(_variable(cursor) & 0xFF for _ in range(16)))
        elif wanted == 2:
            signed = _variable(cursor)  # with the sign in the lowest bit
            number = signed >> 1
        else:
            tag = cursor.take(_variable(cursor)).decode("ascii", "replace")
    return Gtid(f"{source}:{tag}" if tag else source, number)


@dataclass(frozen=True, slots=True)
class Payload:
    """A transaction that is compressed as a whole (MySQL from 8.0.20 on)."""

    compressed: bytes
    zstd: bool
    size: int
    """Bytes that it has when it is not compressed."""


def read_payload(event: bytes) -> Payload:
    """Return the content of a TRANSACTION_PAYLOAD event, still compressed if it is. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    kind, size, length = 255, 0, 0
    while True:
        what = cursor.packed()
        if what == 0:
            break
        value = Cursor(cursor.take(cursor.packed()))
        if what == 1:
            length = value.packed()
        elif what == 2:
            kind = value.packed()
        elif what == 3:
            size = value.packed()
    body = cursor.rest()
    if kind not in {0, 255} or length != len(body) or size > MAX_UNPACKED:
        msg = f"a compressed transaction of the kind {kind}, of {len(body)} bytes for {length}, and {size} unpacked"
        raise BadEvent(msg)
    return Payload(body, kind == 0, size)


def _zstandard() -> ModuleType:
    """Return the package that unpacks zstd, which only such logs need. Raise ProgramMissing."""
    try:
        import zstandard  # noqa: PLC0415  (few logs need it, and it may be missing)
    except ImportError as exc:
        msg = "the log has compressed transactions, which need the package zstandard"
        raise ProgramMissing(msg, "pip install 'ingest[mysql]' here and where the workers run") from exc
    return zstandard


def unpack_payload(payload: Payload) -> list[bytes]:
    """Return the events of a compressed transaction; they have no checksums. Raise BadEvent."""
    body = payload.compressed
    if payload.zstd:
        zstandard = _zstandard()
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(payload.compressed, read_across_frames=True)
            body = reader.read(payload.size + 1)
        except zstandard.ZstdError as exc:
            raise BadEvent(f"a compressed transaction that cannot be unpacked: {exc}") from exc
    if len(body) != payload.size and payload.zstd:
        raise BadEvent(f"a compressed transaction of {len(body)} bytes where it says {payload.size}")
    events, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at + 9 : at + 13], "little")
        if size < HEADER_BYTES or at + size > len(body):
            msg = f"an event of {size} bytes, {len(body) - at} bytes before the end of its compressed transaction"
            raise BadEvent(msg)
        events.append(body[at : at + size])
        at += size
    return events


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """The end of an XA transaction's rows: what becomes of them is known later, but for `one_phase`."""

    one_phase: bool
    xid: str
    """The XID as statements of the log write it: X'…',X'…',1."""


def read_xa_prepare(event: bytes) -> XaPrepare:
    """Return what an event says of the XA transaction that it ends."""
    cursor = Cursor(event, HEADER_BYTES)
    one_phase, form = cursor.number(1), cursor.number(4)
    first, second = cursor.number(4), cursor.number(4)
    data = cursor.take(first + second)
    return XaPrepare(bool(one_phase), f"X'{data[:first].hex()}',X'{data[first:].hex()}',{form}")
