"""Row events to the source's records. The reference: row by row, value by value.

In: a table map, the rows of an event, and the table as the history of schemas has it at that place. Out: the JSON text
of each change, behind the id of its entry in the history: a Debezium envelope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from ingest.errors import ConfigError
from ingest.sources.mysql import json_binary
from ingest.sources.mysql.columns import Column
from ingest.sources.mysql.events import BadEvent, Cursor
from ingest.sources.mysql.row_events import NUMERIC, RowsEvent, TableMap, bits
from ingest.sources.mysql.row_values import mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.row_values import ValueReader

HIDDEN: Final = "!hidden!"
"""How the names begin of columns that MySQL keeps for functional indexes: they are in row images, and of no table."""
UNKNOWN: Final = Column("", "varbinary", hidden=True)
_JSON: Final = 245


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table of the log whose rows are read: as its table map has it, and as the history of schemas has it."""

    id: int
    """The entry of the history."""
    table: Table
    map: TableMap

    @property
    def columns(self) -> tuple[Column, ...]:
        """The column for each one of the table map. Those of functional indexes need not be in the history."""
        names, columns = self.map.names or (), self.table.columns
        if len(names) == len(columns) or sum(not name.startswith(HIDDEN) for name in names) != len(columns):
            return columns
        given = iter(columns)
        return tuple(UNKNOWN if name.startswith(HIDDEN) else next(given) for name in names)


def check(known: KnownTable) -> str:
    """Return why a table map is not of the table that the history has; an empty text if it is."""
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
    """Decodes the rows of one event."""

    def __init__(self, values: ValueReader) -> None:
        """Take what reads single values."""
        self.values = values

    def decode(self, known: KnownTable, rows: RowsEvent) -> Iterator[bytes]:
        """Yield a record's value for each row. Raise BadEvent."""
        if rows.columns != len(known.map.types):
            msg = f"rows of {rows.columns} columns, where the table map has {len(known.map.types)}"
            raise BadEvent(msg)
        cursor = Cursor(rows.body)
        table = known.table
        self.values.table = f"{table.database}.{table.name}"
        source = f'"source":{{"db":{_text(table.database)},"table":{_text(table.name)}}},"op":"{rows.op}"}}'.encode()
        head = b"\0" + known.id.to_bytes(4, "big")
        while cursor.left:
            begins = cursor.at
            before = after = b"null"
            documents: dict[int, bytes] = {}
            if rows.op != "c":
                before, documents = self._image(known, cursor, rows.before, documents, partial=False)
            if rows.op != "d":
                after, _ = self._image(known, cursor, rows.after, documents, partial=rows.partial)
            if cursor.at == begins:
                msg = "rows without any bytes"
                raise BadEvent(msg)
            yield head + b'{"before":' + before + b',"after":' + after + b"," + source

    def _image(
        self, known: KnownTable, cursor: Cursor, present: tuple[bool, ...], before: dict[int, bytes], *, partial: bool
    ) -> tuple[bytes, dict[int, bytes]]:
        """Return the JSON object of an image, and the bytes of its JSON documents by column."""
        types, metadata = known.map.types, known.map.metadata
        changed: Iterator[bool] = iter(())
        if partial and cursor.packed() & 1:
            count = types.count(_JSON)
            changed = iter(bits(cursor.take((count + 7) // 8), count))
        count = sum(present)
        nulls = iter(bits(cursor.take((count + 7) // 8), count))
        members, documents = [], {}
        for at, column in enumerate(known.columns):
            in_part = next(changed, False) if types[at] == _JSON else False
            if not present[at]:
                continue
            if next(nulls):
                text = b"null"
            elif in_part:
                text = self._changed(known, cursor, at, before)
            else:
                begins = cursor.at
                text = self.values.read(cursor, UNKNOWN if column.hidden else column, types[at], metadata[at])
                if types[at] == _JSON:
                    documents[at] = cursor.data[begins + metadata[at][0] : cursor.at]
            if not column.hidden:
                members.append(_text(column.name).encode() + b":" + text)
        return b"{" + b",".join(members) + b"}", documents

    def _changed(self, known: KnownTable, cursor: Cursor, at: int, before: dict[int, bytes]) -> bytes:
        """Return a JSON document after a partial update."""
        changes = cursor.take(cursor.number(4))
        if at not in before:
            column = known.columns[at]
            msg = f"column {column.name} has only the changed parts of a document, and the log lacks what it was before"
            raise ConfigError(msg, "SET GLOBAL binlog_row_value_options = '', or binlog_row_image = 'FULL'")
        return orjson.dumps(json_binary.printed(json_binary.change(json_binary.tree(before[at]), changes)))


def _text(name: str) -> str:
    """Return a name as JSON."""
    return orjson.dumps(name.encode("utf-8", "replace").decode()).decode()


def decode(known: KnownTable, rows: RowsEvent, values: ValueReader) -> Iterator[bytes]:
    """Yield a record's value for each row of an event. Raise BadEvent."""
    return RowsDecoder(values).decode(known, rows)
