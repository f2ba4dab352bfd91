"""Reading of records' keys, as their format says.

In: the bytes of a key. Out: a row as JSON text with what it declares, or a reject that says that it is the key's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ingest.model.change import InlineSchema, Reject
from ingest.model.jsontext import MALFORMED, PAYLOAD, check_text, fields_of, key_image, key_text, reason
from ingest.model.temporal import SQL
from ingest.model.values import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container

    import msgspec

    from ingest.component.options import AnyOptions
    from ingest.model.table import TableId

    ReadKey: TypeAlias = Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]
    """Function that reads a key as JSON text with what it declares, or returns its reject."""


def key_reader(options: AnyOptions, table: TableId) -> ReadKey | None:
    """Return the function that reads keys of a table's records, by the options of their format; None without any."""
    if options is None:
        return None
    read: ReadKey = options.reader_of(table)
    return read


def read_key(read: ReadKey, key: bytes, table: TableId | None = None) -> tuple[msgspec.Raw, InlineSchema] | Reject:
    """Read a record's key with its format's function; the reject says that it is the key's. Raise IngestError."""
    found = read(key)
    if not isinstance(found, Reject):
        return found
    code = "malformed-key" if found.code == "malformed" else found.code
    return Reject(code, f"the key: {found.message}", table, of_key=True)


def compared(
    key: bytes,
    row: bytes,
    declared: InlineSchema | None = None,
    standard: str = SQL,
    numbers: Collection[str] | None = None,
) -> str | dict[str, bytes]:
    """Return why a row is not its key's: it says something else of a column of the key.

    Where it is, return the columns that it has in another text, as a number for the text of that number, each with the
    key's value. `key` and `row` are JSON objects; `declared` has the types that the row's message declares: a type that
    it tells for the row is not told for the key. Columns that the row lacks say nothing. `numbers`: the columns whose
    texts are numbers by what the key declares; None: as in the row. Raise one of MALFORMED.
    """
    begin = key[:-1]
    numbers_of_row = frozenset[str]() if declared is None else declared.numbers
    numbers = numbers_of_row if numbers is None else numbers
    alike = not numbers and not numbers_of_row
    if alike and len(begin) > 1 and row.startswith(begin) and row[len(begin) : len(begin) + 1] in {b",", b"}"}:
        return {}  # rows mostly begin with their key
    said, others = fields_of(row), {}
    for name, value in fields_of(key).items():
        other = said.get(name)
        if other is None:
            continue
        number, of_key = name in numbers_of_row, name in numbers
        if _same(bytes(value), bytes(other), is_number=number):
            texts = key_text(bytes(value), is_number=of_key), key_text(bytes(other), is_number=number)
            if number != of_key or texts[0] != texts[1]:
                others[name] = bytes(value)
            continue
        declared_type = None if declared is None else declared.types.get(name)
        if declared_type is None or fits(declared_type, bytes(value), standard):
            shown = [raw[:60].decode("utf-8", "backslashreplace") for raw in (bytes(value), bytes(other))]
            return f"column {name[:100]!r} is {shown[0]} in the key and {shown[1]} in the value"
    return others


def _same(one: bytes, other: bytes, *, is_number: bool) -> bool:
    """Return whether two values have one text: a key in text has no numbers."""
    texts = (key_text(value, as_string=True, is_number=is_number) for value in (one, other))
    return len(set(texts)) == 1


def columns_beside(key: bytes, row: msgspec.Raw | bytes | None) -> Container[str]:
    """Return the columns of a key's row, as far as it takes to see whether the key is an envelope (`key_image`)."""
    try:
        return () if row is None or PAYLOAD.encode() not in key else fields_of(row)
    except MALFORMED:  # it will be a reject
        return ()


def json_key(key: bytes, table: TableId, columns: Container[str] = ()) -> dict[str, msgspec.Raw] | Reject:
    """Return the fields of a key that is a JSON object, without its envelope. `columns`: see `key_image`."""
    try:
        check_text(key)
        return fields_of(key_image(key, columns) or key)
    except MALFORMED as exc:
        return Reject("malformed-key", f"the key is not a JSON object (key.format): {reason(exc)}", table, of_key=True)
