"""What a format makes of a change when it is written: the other direction.

A format's module offers what makes a `Value` for a table; a sink asks for one for each table that it writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from ingest.model.jsontext import object_of
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.event import Kind
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId

Image: TypeAlias = dict[str, bytes]
"""The JSON text of each column; one that is not there is not known."""
Value: TypeAlias = "Callable[[Kind, Image | None, Image | None], bytes | None]"
"""The value of a record for a change, from its images; none is Kafka's null. An update may lack its before image."""
Key: TypeAlias = "Callable[[Image], bytes]"
"""The key of a record for a row."""

_NULL: Final = b"null"


def object_or_null(image: Image | None) -> bytes:
    """An image as JSON text."""
    return _NULL if image is None else object_of(image)


def json_key(table: TableId, schema: TableSchema) -> Key:
    """Keys like `{"TableId":"shop.orders","id":1}`."""
    names = schema.primary_key
    first = b'{"TableId":' + msgspec.json.encode(show(table))
    begins = [b",%b:" % msgspec.json.encode(name) for name in names]

    def key(row: Image) -> bytes:
        columns = [begin + row.get(name, _NULL) for name, begin in zip(names, begins, strict=True)]
        return b"".join((first, *columns, b"}"))

    return key


def csv_key(table: TableId, schema: TableSchema) -> Key:
    """Keys like `"shop.orders",1`."""
    names = schema.primary_key
    first = csv_field(msgspec.json.encode(show(table)))
    return lambda row: b",".join((first, *(csv_field(row.get(name, _NULL)) for name in names)))


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
