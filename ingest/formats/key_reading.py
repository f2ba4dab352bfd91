"""Reading of records' keys, as their format says.

In: the bytes of a key. Out: a row as JSON text with what it declares, or a reject that says that it is the key's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.formats.positional import PositionalOptions
from ingest.model.change import Reject
from ingest.model.jsontext import MALFORMED, check_text, fields_of, reason
from ingest.model.rowtext import key_image

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from ingest.component.options import AnyOptions
    from ingest.model.change import InlineSchema
    from ingest.model.table import TableId

    ReadKey: TypeAlias = Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]
    """Function that reads a key as JSON text with what it declares, or returns its reject."""


def key_reader(options: AnyOptions, table: TableId) -> ReadKey | None:
    """Return the function that reads keys of a table's records, by the options of their format; None without any."""
    if options is None:
        return None
    made: ReadKey = options.reader_of(table) if isinstance(options, PositionalOptions) else options.reader()
    return made


def read_key(read: ReadKey, key: bytes, table: TableId | None = None) -> tuple[msgspec.Raw, InlineSchema] | Reject:
    """Read a record's key with its format's function; the reject says that it is the key's. Raise IngestError."""
    found = read(key)
    if not isinstance(found, Reject):
        return found
    code = "malformed-key" if found.code == "malformed" else found.code
    return Reject(code, f"the key: {found.message}", table, of_key=True)


def json_key(key: bytes, table: TableId) -> dict[str, msgspec.Raw] | Reject:
    """Return the fields of a key that is a JSON object, without its schema envelope."""
    try:
        check_text(key)
        return fields_of(key_image(key) or key)
    except MALFORMED as exc:
        text = f"the key is not a JSON object (key.format): {reason(exc)}"
        return Reject("malformed-key", text, table, of_key=True)
