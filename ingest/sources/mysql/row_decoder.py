"""Table maps and row events of the binary log, and the source's records of their rows. The reference: value by value.

In: the bytes of events, and the table as the history of schemas has it at that place. Out: the JSON text of each
change, behind the id of its entry in the history: a Debezium envelope. What an image lacks is not null: of an update it
is as in the row before, if that has it; of an insert it is the column's default (docs/spec/mysql.md#the-log).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from ingest.errors import ConfigError
from ingest.sources.mysql import events, json_binary
from ingest.sources.mysql.events import BadEvent, Cursor, FormatDescription
from ingest.sources.mysql.row_values import ValueReader, default_text, mismatch
from ingest.sources.mysql.types import Column, Table

_TO_PLAIN: Final = events.WRITE_ROWS_COMPRESSED - events.WRITE_ROWS
_COMPRESSED_ROWS: Final = frozenset(range(events.WRITE_ROWS_COMPRESSED_V1, events.DELETE_ROWS_COMPRESSED + 1))
_WITH_EXTRA: Final = frozenset(
    {
        events.WRITE_ROWS,
        events.UPDATE_ROWS,
        events.DELETE_ROWS,
        events.PARTIAL_UPDATE_ROWS,
        events.WRITE_ROWS_COMPRESSED,
        events.UPDATE_ROWS_COMPRESSED,
        events.DELETE_ROWS_COMPRESSED,
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
    """A TABLE_MAP event: the table, columns and types of the row events with its table id."""

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
    return _name(Cursor(event, events.HEADER_BYTES + lengths.length(events.TABLE_MAP, 8)))


def _name(cursor: Cursor) -> tuple[str, str]:
    database = cursor.take(cursor.number(1)).decode("utf-8", "surrogateescape")
    cursor.take(1)
    name = cursor.take(cursor.number(1)).decode("utf-8", "surrogateescape")
    cursor.take(1)
    return database, name


def read_table_map(event: bytes, lengths: FormatDescription) -> TableMap:
    """Decode a TABLE_MAP event. Raise BadEvent."""
    cursor = Cursor(event, events.HEADER_BYTES)
    size = lengths.length(events.TABLE_MAP, 8)
    table_id = cursor.number(4 if size == 6 else 6)
    cursor.take(size - (4 if size == 6 else 6))
    database, name = _name(cursor)
    types = cursor.take(cursor.packed())
    described = Cursor(cursor.take(cursor.packed()))
    metadata: list[bytes] = []
    for code in types:
        if code not in _FIELD_METADATA:
            raise BadEvent(f"column {len(metadata) + 1} of {database}.{name} has the type {code}, which is not known")
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
    """A row event of one table, undecoded. `before` and `after` say which columns the images have."""

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
        return "c" if self.kind in events.INSERTS else "u" if self.kind in events.UPDATES else "d"

    @property
    def partial(self) -> bool:
        """True if after images may have changes of JSON in place of documents."""
        return self.kind == events.PARTIAL_UPDATE_ROWS


def bits(data: bytes, count: int) -> tuple[bool, ...]:
    """Return the first `count` bits, the lowest of each byte first."""
    return tuple(bool(data[at // 8] >> at % 8 & 1) for at in range(count))


def table_of(event: bytes, kind: int, lengths: FormatDescription) -> int:
    """Return the id of the table that a row event is of. Raise BadEvent."""
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    return Cursor(event, events.HEADER_BYTES).number(4 if size == 6 else 6)


def flags_of(event: bytes, kind: int, lengths: FormatDescription) -> int:
    """Return the flags of a row event. Raise BadEvent."""
    cursor = Cursor(event, events.HEADER_BYTES)
    cursor.take(4 if lengths.length(kind, 10 if kind in _WITH_EXTRA else 8) == 6 else 6)
    return cursor.number(2)


def unpacked(event: bytes, kind: int, lengths: FormatDescription) -> tuple[int, bytes]:
    """Return a row event's kind and bytes, both in uncompressed form. Raise BadEvent."""
    if kind not in _COMPRESSED_ROWS:
        return kind, event
    plain = (
        kind - events.WRITE_ROWS_COMPRESSED_V1 + events.WRITE_ROWS_V1
        if kind < events.WRITE_ROWS_COMPRESSED
        else kind - _TO_PLAIN
    )
    cursor = Cursor(event, events.HEADER_BYTES)
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    cursor.take(size - 2 if kind in _WITH_EXTRA and size >= 10 else size)
    if kind in _WITH_EXTRA and size >= 10:
        cursor.take(cursor.number(2) - 2)
    count = cursor.packed()
    cursor.take((count + 7) // 8 * (2 if kind in events.UPDATES else 1))
    begins = cursor.at
    return plain, event[:4] + bytes([plain]) + event[5:begins] + events.unpack_mariadb(cursor.rest())


def read_rows(event: bytes, kind: int, lengths: FormatDescription) -> RowsEvent:
    """Return the rows of an event that is not compressed. Raise BadEvent."""
    cursor = Cursor(event, events.HEADER_BYTES)
    size = lengths.length(kind, 10 if kind in _WITH_EXTRA else 8)
    table = cursor.number(4 if size == 6 else 6)
    flags = cursor.number(2)
    if kind in _WITH_EXTRA and size >= 10:
        cursor.take(cursor.number(2) - 2)
    count = cursor.packed()
    if count > cursor.left * 8:
        raise BadEvent(f"an event of {len(event)} bytes with {count} columns")
    bitmap = bits(cursor.take((count + 7) // 8), count)
    after = bits(cursor.take((count + 7) // 8), count) if kind in events.UPDATES else bitmap
    none = (False,) * count
    body = cursor.rest()
    before = none if kind in events.INSERTS else bitmap
    return RowsEvent(table, kind, bool(flags & 1), count, before, none if kind in events.DELETES else after, body)


HIDDEN: Final = "!hidden!"
"""How the names begin of columns that MySQL keeps for functional indexes: they are in row images, and of no table."""
UNKNOWN: Final = Column("", "varbinary", hidden=True)
JSON: Final = 245
_ROW_END: Final = "\0"
"""Stands for the time at which a row of a versioned table ended, beside its columns: no column has such a name."""
_NEVER: Final = (b'"2038-01-19 03:14:07.999999Z"', b'"2106-02-07 06:28:15.999999Z"', b"18446744073709551615")
"""That time of a row that is there: MariaDB's last moment, from 11.5 on a later one, and the last transaction."""
WHOLE: Final = b"\0"
PARTIAL: Final = b"\1"
"""First byte of a record whose row after an update lacks columns: native encoders leave it to the reference."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of the log whose rows are read: as its table map has it, and as the history of schemas has it."""

    id: int
    """The id of the table's entry in the history of schemas."""
    table: Table
    map: TableMap

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's column for each column of the table map. Hidden columns of functional indexes may be unknown."""
        names, columns = self.map.names or (), self.table.columns
        if len(names) == len(columns) or sum(not name.startswith(HIDDEN) for name in names) != len(columns):
            return columns
        given = iter(columns)
        return tuple(UNKNOWN if name.startswith(HIDDEN) else next(given) for name in names)


def check(known: KnownTable) -> str:
    """Return the first difference between a table map and the table in the history of schemas, or an empty text."""
    columns, types = known.columns, known.map.types
    if len(columns) != len(types):
        return f"has {len(types)} columns in the log, and {len(columns)} in the history of schemas"
    # Whether YEAR has a bit among the signs depends on the server's version
    names, signed = known.map.names, iter(known.map.signed or () if _YEAR not in types else ())
    for at, column in enumerate(columns):
        has_sign = next(signed, None) if types[at] in NUMERIC else None
        if column.hidden:
            continue
        if names is not None and names[at].lower() != column.name.lower():
            return f"has column {names[at]} in the log where the history of schemas has {column.name}"
        why = mismatch(column, types[at], known.map.metadata[at])
        if not why and has_sign is not None and has_sign == column.unsigned:
            why = f"is {'signed' if has_sign else 'unsigned'} in the log, and not in the history of schemas"
        if why:
            return f"has column {column.name}, which {why}"
    return ""


_YEAR: Final = 13


class RowsDecoder:
    """Decoder of row events: their rows become Debezium envelopes."""

    def __init__(self, values: ValueReader) -> None:
        self.values = values

    def decode(self, known: KnownTable, rows: RowsEvent, *, partial: bool) -> Iterator[bytes]:
        """Yield a record's value for each row. `partial`: whether a row after an update may lack columns.

        Raise BadEvent, and ConfigError for a row that lacks columns and may not.
        """
        if rows.columns != len(known.map.types):
            raise BadEvent(f"rows of {rows.columns} columns, where the table map has {len(known.map.types)}")
        defaults, unsent = self._absent(known, rows)
        if unsent and not partial:
            raise _needs_whole(known.table, unsent)
        cursor = Cursor(rows.body)
        table = known.table
        self.values.table = f"{table.database}.{table.name}"
        source = f'"source":{{"db":{_text(table.database)},"table":{_text(table.name)}}},"op":'.encode()
        head = (PARTIAL if unsent else WHOLE) + known.id.to_bytes(4, "big")
        names = [column.name for column in known.columns if not column.hidden]
        while cursor.left:
            begins = cursor.at
            before: dict[str, bytes] | None = None
            after: dict[str, bytes] | None = None
            documents: dict[int, bytes] = {}
            if rows.op != "c":
                before, documents = self._image(known, cursor, rows.before, documents, partial=False)
            if rows.op != "d":
                after, _ = self._image(known, cursor, rows.after, documents, partial=rows.partial)
                after = {**(before or defaults), **after}
            if cursor.at == begins:
                raise BadEvent("rows without any bytes")
            op = rows.op
            if table.row_end is not None:
                before, after = _current(before), _current(after)
                if before is None and after is None:
                    continue
                op = "c" if before is None else "d" if after is None else "u"
            images = b'{"before":' + _object(names, before) + b',"after":' + _object(names, after) + b","
            yield head + images + source + b'"%b"}' % op.encode()

    def _absent(self, known: KnownTable, rows: RowsEvent) -> tuple[dict[str, bytes], list[str]]:
        """Return default values for columns missing in inserted rows, and the columns missing without a default.

        Raise ConfigError where an insert lacks a column whose default is not known.
        """
        defaults: dict[str, bytes] = {}
        unsent = []
        for index, column in enumerate(known.columns):
            if rows.op == "d" or rows.after[index] or column.hidden:
                continue
            if rows.op == "u":
                unsent += [] if rows.before[index] else [column.name]
                continue
            default = default_text(column, tinyint1_as_boolean=self.values.tinyint1_as_boolean)
            if default is None:
                raise _needs_whole(known.table, [column.name])
            defaults[column.name] = default
        return defaults, unsent

    def _image(
        self, known: KnownTable, cursor: Cursor, present: tuple[bool, ...], before: dict[int, bytes], *, partial: bool
    ) -> tuple[dict[str, bytes], dict[int, bytes]]:
        """Return the JSON texts of an image's values, and the bytes of its JSON documents by column."""
        types, metadata = known.map.types, known.map.metadata
        changed: Iterator[bool] = iter(())
        if partial and cursor.packed() & 1:
            count = types.count(JSON)
            changed = iter(bits(cursor.take((count + 7) // 8), count))
        count = sum(present)
        nulls = iter(bits(cursor.take((count + 7) // 8), count))
        members: dict[str, bytes] = {}
        documents: dict[int, bytes] = {}
        row_end = (known.table.row_end or "").lower()
        for at, column in enumerate(known.columns):
            in_part = next(changed, False) if types[at] == JSON else False
            if not present[at]:
                continue
            if next(nulls):
                text = b"null"
            elif in_part:
                text = self._changed(known, cursor, at, before)
            else:
                begins = cursor.at
                text = self.values.read(cursor, UNKNOWN if column.hidden else column, types[at], metadata[at])
                if types[at] == JSON:
                    documents[at] = cursor.data[begins + metadata[at][0] : cursor.at]
            if not column.hidden:
                members[column.name] = text
            if row_end and column.name.lower() == row_end:
                members[_ROW_END] = text
        return members, documents

    def _changed(self, known: KnownTable, cursor: Cursor, at: int, before: dict[int, bytes]) -> bytes:
        """Return a JSON document after a partial update."""
        changes = cursor.take(cursor.number(4))
        if at not in before:
            column = known.columns[at]
            msg = f"column {column.name} has only the changed parts of a document, and the log lacks what it was before"
            raise ConfigError(msg, "SET GLOBAL binlog_row_value_options = '', or binlog_row_image = 'FULL'")
        return orjson.dumps(json_binary.printed(json_binary.change(json_binary.tree(before[at]), changes)))


def _current(row: dict[str, bytes] | None) -> dict[str, bytes] | None:
    """Return a system-versioned table's row if it is a current one; None for a historical row or no row."""
    return row if row is not None and row.get(_ROW_END, _NEVER[0]) in _NEVER else None


def _needs_whole(table: Table, columns: Sequence[str]) -> ConfigError:
    names = ", ".join(columns[:5]) + (", …" if len(columns) > 5 else "")
    msg = (
        f"a row of {table.database}.{table.name} is in the log without {names}: the session that wrote it has another "
        "binlog_row_image than FULL, and this pipeline needs whole rows"
    )
    hint = (
        "SET GLOBAL binlog_row_image = 'FULL', and end the sessions that set another one. What is in the log stays: "
        "begin with another --checkpoint, so that rows are read again"
    )
    return ConfigError(msg, hint)


def _object(names: Sequence[str], members: Mapping[str, bytes] | None) -> bytes:
    """Return a row's JSON, in the order of the table's columns."""
    if members is None:
        return b"null"
    return b"{" + b",".join(_text(name).encode() + b":" + members[name] for name in names if name in members) + b"}"


def _text(name: str) -> str:
    """Return a name as JSON."""
    return orjson.dumps(name.encode("utf-8", "replace").decode()).decode()
