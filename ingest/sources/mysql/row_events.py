"""Table maps and row events of the binary log: bytes to what they say, without the values of rows. The reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ingest.sources.mysql.events import (
    DELETE_ROWS,
    DELETE_ROWS_COMPRESSED,
    DELETES,
    HEADER_BYTES,
    INSERTS,
    PARTIAL_UPDATE_ROWS,
    TABLE_MAP,
    UPDATE_ROWS,
    UPDATE_ROWS_COMPRESSED,
    UPDATES,
    WRITE_ROWS,
    WRITE_ROWS_COMPRESSED,
    WRITE_ROWS_COMPRESSED_V1,
    WRITE_ROWS_V1,
    BadEvent,
    Cursor,
    FormatDescription,
    unpack_mariadb,
)

_TO_PLAIN: Final = WRITE_ROWS_COMPRESSED - WRITE_ROWS
_COMPRESSED_ROWS: Final = frozenset(range(WRITE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED + 1))
_WITH_EXTRA: Final = frozenset(
    {
        WRITE_ROWS,
        UPDATE_ROWS,
        DELETE_ROWS,
        PARTIAL_UPDATE_ROWS,
        WRITE_ROWS_COMPRESSED,
        UPDATE_ROWS_COMPRESSED,
        DELETE_ROWS_COMPRESSED,
    }
)
_FIELD_METADATA: Final = {
    1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 0, 7: 0, 8: 0, 9: 0, 10: 0, 11: 0, 12: 0, 13: 0, 14: 0, 15: 2, 16: 2, 17: 1, 18: 1,
    19: 1, 140: 1, 141: 2, 242: 1, 245: 1, 246: 2, 247: 2, 248: 2, 249: 1, 250: 1, 251: 1, 252: 1, 253: 2,
    254: 2, 255: 1,
}  # fmt: skip
"""Bytes of metadata of each type in a table map. MariaDB: 140 and 141 are compressed BLOB and VARCHAR."""


@dataclass(frozen=True, slots=True)
class TableMap:
    """The table of the row events that follow, as its id stands for it until the statement ends."""

    id: int
    database: str
    name: str
    types: bytes
    """The type's code of each column."""
    metadata: tuple[bytes, ...]
    """What the code leaves open, for each column: lengths, digits."""
    signed: tuple[bool, ...] | None = None
    """For each numeric column in order: whether it has a sign; None where the server does not say."""
    names: tuple[str, ...] | None = None
    """Names of columns, where the server writes all metadata (`binlog_row_metadata = FULL`)."""


NUMERIC: Final = frozenset({0, 1, 2, 3, 4, 5, 8, 9, 246})
"""Types that have a bit in the list of signs."""


def name_in(event: bytes, lengths: FormatDescription) -> tuple[str, str]:
    """Return the table that a table map is of. Raise BadEvent."""
    return _name(Cursor(event, HEADER_BYTES + lengths.length(TABLE_MAP, 8)))


def _name(cursor: Cursor) -> tuple[str, str]:
    database = cursor.take(cursor.number(1)).decode("utf-8", "surrogateescape")
    cursor.take(1)
    name = cursor.take(cursor.number(1)).decode("utf-8", "surrogateescape")
    cursor.take(1)
    return database, name


def read_table_map(event: bytes, lengths: FormatDescription) -> TableMap:
    """Return what a table map says. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    size = lengths.length(TABLE_MAP, 8)
    table_id = cursor.number(4 if size == 6 else 6)
    cursor.take(size - (4 if size == 6 else 6))
    database, name = _name(cursor)
    types = cursor.take(cursor.packed())
    described = Cursor(cursor.take(cursor.packed()))
    metadata: list[bytes] = []
    for code in types:
        if code not in _FIELD_METADATA:
            msg = f"column {len(metadata) + 1} of {database}.{name} has the type {code}, which is not known"
            raise BadEvent(msg)
        metadata.append(described.take(_FIELD_METADATA[code]))
    cursor.take((len(types) + 7) // 8)
    signed, names = None, None
    while cursor.left:
        what = cursor.number(1)
        value = cursor.take(cursor.packed())
        if what == 1:
            count = sum(code in NUMERIC for code in types)
            signed = tuple(
                not value[at // 8] >> (7 - at % 8) & 1 if at // 8 < len(value) else True for at in range(count)
            )
        elif what == 4:
            listed = Cursor(value)
            found = []
            while listed.left:
                found.append(listed.take(listed.packed()).decode("utf-8", "surrogateescape"))
            if len(found) == len(types):
                names = tuple(found)
    return TableMap(table_id, database, name, types, tuple(metadata), signed, names)


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """Rows of one table. `before` and `after` say which columns the images have."""

    table: int
    kind: int
    last: bool
    """True if the statement ends with it, and table ids stand for nothing from here on."""
    columns: int
    before: tuple[bool, ...]
    """The columns of before images; of none for inserts."""
    after: tuple[bool, ...]
    body: bytes

    @property
    def op(self) -> str:
        """The kind of change: `c`, `u` or `d`."""
        return "c" if self.kind in INSERTS else "u" if self.kind in UPDATES else "d"

    @property
    def partial(self) -> bool:
        """True if after images may have changes of JSON in place of documents."""
        return self.kind == PARTIAL_UPDATE_ROWS


def bits(data: bytes, count: int) -> tuple[bool, ...]:
    """Return the first `count` bits, the lowest of each byte first."""
    return tuple(bool(data[at // 8] >> at % 8 & 1) for at in range(count))


def table_of(event: bytes, kind: int, lengths: FormatDescription) -> int:
    """Return the id of the table that a row event is of. Raise BadEvent."""
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    return Cursor(event, HEADER_BYTES).number(4 if size == 6 else 6)


def flags_of(event: bytes, kind: int, lengths: FormatDescription) -> int:
    """Return the flags of a row event. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    cursor.take(4 if lengths.length(kind, 10 if kind in _WITH_EXTRA else 8) == 6 else 6)
    return cursor.number(2)


def unpacked(event: bytes, kind: int, lengths: FormatDescription) -> tuple[int, bytes]:
    """Return the kind and the bytes that a row event has where it is not compressed. Raise BadEvent."""
    if kind not in _COMPRESSED_ROWS:
        return kind, event
    plain = kind - WRITE_ROWS_COMPRESSED_V1 + WRITE_ROWS_V1 if kind < WRITE_ROWS_COMPRESSED else kind - _TO_PLAIN
    cursor = Cursor(event, HEADER_BYTES)
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    cursor.take(size - 2 if kind in _WITH_EXTRA and size >= 10 else size)
    if kind in _WITH_EXTRA and size >= 10:
        cursor.take(cursor.number(2) - 2)
    count = cursor.packed()
    cursor.take((count + 7) // 8 * (2 if kind in UPDATES else 1))
    begins = cursor.at
    return plain, event[:4] + bytes([plain]) + event[5:begins] + unpack_mariadb(cursor.rest())


def read_rows(event: bytes, kind: int, lengths: FormatDescription) -> RowsEvent:
    """Return the rows of an event that is not compressed. Raise BadEvent."""
    cursor = Cursor(event, HEADER_BYTES)
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    table = cursor.number(4 if size == 6 else 6)
    flags = cursor.number(2)
    if kind in _WITH_EXTRA and size >= 10:
        cursor.take(cursor.number(2) - 2)
    count = cursor.packed()
    if count > cursor.left * 8:
        msg = f"an event of {len(event)} bytes with {count} columns"
        raise BadEvent(msg)
    bitmap = bits(cursor.take((count + 7) // 8), count)
    after = bits(cursor.take((count + 7) // 8), count) if kind in UPDATES else bitmap
    none = (False,) * count
    body = cursor.rest()
    before = none if kind in INSERTS else bitmap
    return RowsEvent(table, kind, bool(flags & 1), count, before, none if kind in DELETES else after, body)
