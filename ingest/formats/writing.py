"""What a format makes of a change when it is written: the other direction.

A format's module offers what makes a `Value` for a table; a sink asks for one for each table that it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from ingest.model.change import Kind
from ingest.model.jsontext import object_of
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

Image: TypeAlias = dict[str, bytes]
"""The JSON text of each column; one that is not there is not known."""
Value: TypeAlias = "Callable[[Kind, Image | None, Image | None], bytes | None]"
"""The value of a record for a change, from its images; none is Kafka's null. An update may lack its before image."""


class Side(Enum):
    """An image as a whole, or null."""

    BEFORE = 0
    AFTER = 1


class Cell(NamedTuple):
    """A column of the row after a change, or before a delete."""

    name: str
    csv: bool = False
    """Whether it is a field of a line, and not JSON."""


Pieces: TypeAlias = tuple[bytes | Cell | Side, ...]
"""What a text is put together of: texts, columns, images."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The values of a table's records, by what happened: a `Value`, and one that C can make as well."""

    insert: Pieces
    update: Pieces
    """Where the row before it is known."""
    alone: Pieces
    """An update where it is not."""
    delete: Pieces | None
    """None is Kafka's null."""

    def __call__(self, kind: Kind, before: Image | None, after: Image | None) -> bytes | None:
        """The value of a record for a change."""
        if kind is Kind.DELETE:
            pieces = self.delete
        elif kind is Kind.INSERT:
            pieces = self.insert
        else:
            pieces = self.alone if before is None else self.update
        return None if pieces is None else fill(pieces, before, after)


_NULL: Final = b"null"


def object_or_null(image: Image | None) -> bytes:
    """An image as JSON text."""
    return _NULL if image is None else object_of(image)


def fill(pieces: Pieces, before: Image | None, after: Image | None) -> bytes:
    """Put a text together."""
    row = (before if after is None else after) or {}
    parts = []
    for piece in pieces:
        if isinstance(piece, bytes):
            parts.append(piece)
        elif isinstance(piece, Side):
            parts.append(object_or_null(before if piece is Side.BEFORE else after))
        else:
            value = row.get(piece.name, _NULL)
            parts.append(csv_field(value) if piece.csv else value)
    return b"".join(parts)


def json_cells(cells: Iterable[tuple[str, Cell]], first: bytes = b"") -> Pieces:
    """An object of these columns, each under a name; `first`: what it has already, after its brace."""
    parts: list[bytes | Cell | Side] = []
    begin = b"{" + first
    for name, cell in cells:
        parts += [begin + (b"," if parts or first else b"") + msgspec.json.encode(name) + b":", cell]
        begin = b""
    return (*parts, begin + b"}")


def csv_cells(cells: Iterable[Cell], first: bytes | None = None) -> Pieces:
    """A line of these columns; `first`: its first field."""
    parts: list[bytes | Cell | Side] = [] if first is None else [first]
    for cell in cells:
        parts += [b",", cell] if parts else [cell]
    return tuple(parts)


def json_key(table: TableId, schema: TableSchema) -> Pieces:
    """Keys like `{"TableId":"shop.orders","id":1}`."""
    first = b'"TableId":' + msgspec.json.encode(show(table))
    return json_cells(((name, Cell(name)) for name in schema.primary_key), first)


def csv_key(table: TableId, schema: TableSchema) -> Pieces:
    """Keys like `"shop.orders",1`."""
    return csv_cells((Cell(name, csv=True) for name in schema.primary_key), csv_field(msgspec.json.encode(show(table))))


def csv_field(value: bytes) -> bytes:
    """A JSON value as a field of a line: texts in quotes, null empty, numbers as they are, nested values as texts."""
    if value == _NULL:
        return b""
    if value[:1] == b'"':
        text = msgspec.json.decode(value, type=str).encode("utf-8", "surrogatepass")
    elif value[:1] in (b"{", b"["):
        text = value
    else:
        return value
    return b'"' + text.replace(b'"', b'""') + b'"'
