"""The writing direction of formats: how a change becomes the bytes of a record's value.

A format's module has a function that makes a `Value` for a table. A sink asks for one `Value` for each table that it
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from ingest.model.change import Kind
from ingest.model.jsontext import object_of
from ingest.model.reject import RowError
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, show

Image: TypeAlias = dict[str, bytes]
"""The JSON text of each column. The value of a column that is missing here is not known."""
Value: TypeAlias = "Callable[[Kind, Image | None, Image | None], bytes | None]"
"""Function that makes a record's value for a change, from the row before and the row after it.

It returns None for Kafka's null. The row before an update may be missing.
"""


class ImageRef(Enum):
    """Piece of a pattern that is a whole image of the row, or JSON's null."""

    BEFORE = 0
    AFTER = 1


class ColumnRef(NamedTuple):
    """Piece of a pattern that is one column of the row after the change; for a delete, of the row before it."""

    name: str
    csv: bool = False
    """True if the value is written as a field of a CSV line, and not as JSON."""
    write: Callable[[bytes], bytes] | None = None
    """Function that returns the value as it is written, from its JSON text; None where `csv` says that. It may raise
    RowError."""


Segments: TypeAlias = tuple[bytes | ColumnRef | ImageRef, ...]
"""The pieces that a text is built from, in order: fixed bytes, columns, and whole images."""


@dataclass(frozen=True, slots=True)
class ValueTemplate:
    """Patterns of the values of a table's records, one for each kind of change.

    It is a `Value` that native code can use, too.
    """

    insert: Segments
    update: Segments
    """Pattern of an update whose row before the change is known."""
    alone: Segments
    """Pattern of an update whose row before the change is not known."""
    delete: Segments | None
    """Pattern of a delete. None means that the value is Kafka's null."""

    @property
    def patterns(self) -> tuple[Segments, Segments, Segments, Segments | None]:
        """The patterns, in the order in which the class takes them."""
        return self.insert, self.update, self.alone, self.delete

    def __call__(self, kind: Kind, before: Image | None, after: Image | None) -> bytes | None:
        """Return the value of a record for a change. None is Kafka's null."""
        if kind is Kind.DELETE:
            pieces = self.delete
        elif kind is Kind.INSERT:
            pieces = self.insert
        else:
            pieces = self.alone if before is None else self.update
        return None if pieces is None else fill(pieces, before, after)


_NULL: Final = b"null"


def object_or_null(image: Image | None) -> bytes:
    """Return an image as a JSON object, or JSON's null where there is no image."""
    return _NULL if image is None else object_of(image)


def fill(pieces: Segments, before: Image | None, after: Image | None) -> bytes:
    """Return the text of a pattern, filled in for one change.

    A column that the image lacks becomes JSON's null. The columns are those of `after`, or of `before` where there is
    no `after`.
    """
    row = (before if after is None else after) or {}
    parts = []
    for piece in pieces:
        if isinstance(piece, bytes):
            parts.append(piece)
        elif isinstance(piece, ImageRef):
            parts.append(object_or_null(before if piece is ImageRef.BEFORE else after))
        else:
            value = row.get(piece.name, _NULL)
            if piece.write is not None:
                value = piece.write(value)
            parts.append(csv_field(value) if piece.csv else value)
    return b"".join(parts)


def json_cells(cells: Iterable[tuple[str, ColumnRef]], first: bytes = b"") -> Segments:
    """Return a pattern of a JSON object with these columns, each under its given name.

    `first` is JSON text of members that the object begins with, without the brace.
    """
    parts: list[bytes | ColumnRef | ImageRef] = []
    begin = b"{" + first
    for name, cell in cells:
        parts += [begin + (b"," if parts or first else b"") + msgspec.json.encode(name) + b":", cell]
        begin = b""
    return (*parts, begin + b"}")


def csv_cells(cells: Iterable[ColumnRef], first: bytes | None = None, delimiter: bytes = b",") -> Segments:
    """Return a pattern of a CSV line with these columns. `first` is the text of the line's first field."""
    parts: list[bytes | ColumnRef | ImageRef] = [] if first is None else [first]
    for cell in cells:
        parts += [delimiter, cell] if parts else [cell]
    return tuple(parts)


TABLE_ID: Final = "TableId"
"""The member of keys that has the table's id."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The columns that the keys of a table's records have, and their names there."""

    columns: tuple[str, ...] = ()
    """None: those of the primary key."""
    prefix: str = ""
    """The beginning of the columns' names that keys do without."""
    table_id: bool = True
    """True if keys begin with the table's id."""

    def of(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns that the keys of a table have."""
        return self.columns or schema.primary_key

    def named(self, schema: TableSchema) -> list[tuple[str, str]]:
        """Return the columns that the keys of a table have, each behind its name there.

        Raise RowError where two members of the keys would have one name.
        """
        named = [(name.removeprefix(self.prefix) or name, name) for name in self.of(schema)]
        taken = {TABLE_ID} if self.table_id else set()
        for name, _ in named:
            if name in taken:
                msg = f"keys would have two members {name[:100]!r}; rename a column in a transform, or write other keys"
                raise RowError("unwritable-table", msg)
            taken.add(name)
        return named


def table_member(table: TableId) -> bytes:
    """Return the member of keys that has the table's id, `"TableId":"shop.orders"`."""
    return b'"%b":%b' % (TABLE_ID.encode(), msgspec.json.encode(show(table)))


def json_key(table: TableId, schema: TableSchema, form: KeyForm = KeyForm()) -> Segments:
    """Return the pattern of keys like `{"TableId":"shop.orders","id":1}`. Raise RowError as `KeyForm.named` does."""
    first = table_member(table) if form.table_id else b""
    return json_cells(((name, ColumnRef(column)) for name, column in form.named(schema)), first)


def without(value: Value, left_out: Collection[str], schema: TableSchema) -> Value:
    """Return a function that makes the values of `value` without some columns of a table's rows."""
    if not left_out:
        return value
    kept = [column.name for column in schema.columns if column.name not in left_out]
    if isinstance(value, ValueTemplate) and not any(
        piece is ImageRef.BEFORE for pieces in value.patterns for piece in pieces or ()
    ):
        row = json_cells((name, ColumnRef(name)) for name in kept)
        insert, update, alone = (_replaced(pieces, row) for pieces in (value.insert, value.update, value.alone))
        return ValueTemplate(insert, update, alone, value.delete and _replaced(value.delete, row))

    def cut(image: Image | None) -> Image | None:
        return None if image is None else {name: text for name, text in image.items() if name not in left_out}

    def made(kind: Kind, before: Image | None, after: Image | None) -> bytes | None:
        return value(kind, cut(before), cut(after))

    return made


def _replaced(pieces: Segments, row: Segments) -> Segments:
    """Return a pattern with the pieces of a row in place of the whole row."""
    return tuple(part for piece in pieces for part in (row if piece is ImageRef.AFTER else (piece,)))


def csv_field(value: bytes) -> bytes:
    """Return a JSON value as a field of a CSV line.

    Texts and nested values stand in quotes, null becomes empty, numbers and booleans stay as they are.
    """
    if value == _NULL:
        return b""
    if value[:1] == b'"':
        text = msgspec.json.decode(value, type=str).encode("utf-8", "surrogatepass")
    elif value[:1] in (b"{", b"["):
        text = value
    else:
        return value
    return b'"' + text.replace(b'"', b'""') + b'"'
