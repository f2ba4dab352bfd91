"""Changes of the log, applied over a chunk's rows that were read in their midst.

In: rows as they were seen at some moment between two points of the log, and all changes of their table between these.
Out: the rows at the second point. Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ingest.errors import ConfigError
from ingest.model.jsontext import object_of
from ingest.sources.mysql.key_order import KeyOrder
from ingest.sources.mysql.passing import row_of
from ingest.sources.mysql.query_values import is_selectable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.sources.mysql.chunks import TableChunk
    from ingest.sources.mysql.key_order import Ask
    from ingest.sources.mysql.passing import LoggedChange
    from ingest.sources.mysql.types import Column, Table

    Fields = dict[str, Any]
    """A row's columns, each with the JSON text of its value."""


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
"""Function that returns an image's columns, None where there is none."""


def identity_of(table: Table) -> tuple[str, ...]:
    """Return the columns that tell a table's rows apart: the primary key, or a unique key without nulls."""
    nullable = {column.name.lower(): column.nullable for column in table.columns}
    own = {column.name.lower(): column.name for column in table.columns}
    for names in (table.primary_key, *table.unique_keys):
        if names and not any(nullable.get(name.lower(), True) for name in names):
            return tuple(own[name.lower()] for name in names)
    return ()


def merge(
    table: Table,
    key: Sequence[Column],
    chunk: TableChunk,
    rows: Sequence[bytes],
    changes: Sequence[LoggedChange],
    ask: Ask,
) -> list[bytes]:
    """Return a chunk's rows, the members of JSON objects, after all changes.

    A row that was changed has the bytes of its key in one of the changes, whichever state of it was read: so bytes are
    compared, and no collation. Whether a row lies in the chunk is asked of the key's order.
    """
    names = identity_of(table)
    touched: dict[tuple[bytes, ...], Fields | None] = {}
    images = [(_fields(change.before), _fields(change.after)) for change in changes]
    for before, after in images:
        for image in (before, None if after is None else {**(before or {}), **after}):
            if image is not None:
                touched[_identity(names, image)] = None
    out = []
    for row in rows:
        fields = _fields(b"{" + row + b"}") or {}
        identity = _identity(names, fields)
        if identity in touched:
            touched[identity] = fields
        else:
            out.append(row)
    for before, after in images:
        base: Fields = {}
        if before is not None:
            identity = _identity(names, before)
            base = {**before, **(touched[identity] or {})}
            touched[identity] = None
        if after is not None:
            identity = _identity(names, {**base, **after})
            # Of a partial image, the rest is in the row that was read, which may have its new key already
            touched[identity] = {**(touched[identity] or {}), **base, **after}
    left = [fields for fields in touched.values() if fields is not None]
    return out + [_members(table, fields) for fields in _within(key, chunk, left, ask)]


def _identity(names: Sequence[str], fields: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple(bytes(fields[name]) for name in names)


def _members(table: Table, fields: Fields) -> bytes:
    """Return the members of a row's object, in the order of the table's columns. Raise ConfigError where some lack."""
    names = [column.name for column in table.columns if is_selectable(column)]
    missing = next((name for name in names if name not in fields), None)
    if missing is not None:
        msg = f"{table.database}.{table.name}: a row has moved between chunks, and the log has no value of {missing}"
        raise ConfigError(msg, "SET GLOBAL binlog_row_image = 'FULL' until the snapshot is complete")
    return object_of({name: fields[name] for name in names})[1:-1]


def _within(key: Sequence[Column], chunk: TableChunk, rows: Sequence[Fields], ask: Ask) -> list[Fields]:
    """Return the rows whose key lies in a chunk."""
    order = KeyOrder(key, ask)
    bounds = [order.of_bound(bound) for bound in (chunk.lower, chunk.upper) if bound is not None]
    keys = [order.of_row(row_of(msgspec.json.encode(fields))) for fields in rows]
    inside = int(chunk.lower is not None)
    return [fields for fields, place in zip(rows, order.places(keys, bounds), strict=True) if place == inside]
