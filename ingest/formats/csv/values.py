"""Fields of CSV as values of declared types: a number, a boolean or a nested value is one, all else is a text.

In: the text of a field. Out: what msgspec writes as the JSON of the value. A text that is no value of its type stays a
text: the table's schema decides about it. Rules: docs/spec/csv.md#values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ingest.model.jsontext import MALFORMED, Json, check_text, fields_of
from ingest.model.spelling import number
from ingest.model.types import (
    INTEGERS,
    ArrayType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    is_text,
)
from ingest.model.values import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.types import DataType

    Read: TypeAlias = Callable[[str], Any]
    """Function that returns the value of a field's text."""


def reader_for(data_type: DataType, delimiter: str, null: str) -> Read | None:
    """Return the function that reads fields of a type; None where they are texts.

    `delimiter`: the text between the elements of an ARRAY and between the fields of a ROW. `null`: the text of a null
    there; without one, where it is empty, an empty text is a text.
    """
    if isinstance(data_type, (*INTEGERS, FloatType, DoubleType, DecimalType)):
        return _number
    if isinstance(data_type, BooleanType):
        return _boolean
    if isinstance(data_type, ArrayType):
        return partial(_array, _part(data_type.element, delimiter, null), delimiter)
    if isinstance(data_type, StructType):
        members = {field.name: _part(field.type, delimiter, null) for field in data_type.fields}
        return partial(_row, members, delimiter)
    return _map if isinstance(data_type, MapType) else None


def of_field(data_type: DataType, delimiter: str, null: str) -> Read | None:
    """Return `reader_for` for a field of a row: with a text of nulls, an empty field whose type has none is null."""
    read = reader_for(data_type, delimiter, null)
    if not null or is_text(data_type) or isinstance(data_type, (BinaryType, ArrayType)):
        return read
    return _unless({""}, read or str)


def _part(data_type: DataType, delimiter: str, null: str) -> Read:
    """Return the function that reads an element of an ARRAY, or a field of a ROW, which may be null."""
    read = reader_for(data_type, delimiter, null) or str
    nulls = {null} - {""}
    if not is_text(data_type) and not isinstance(data_type, (BinaryType, ArrayType, StructType, MapType)):
        nulls.add("")
    return _unless(nulls, read) if nulls else read


def _unless(nulls: set[str], read: Read) -> Read:
    return lambda text: None if text in nulls else read(text)


def _number(text: str) -> Json:
    try:
        return msgspec.Raw(number(text.strip().encode()))
    except ValueError:
        return text


def _boolean(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def _nested(text: str, first: str) -> msgspec.Raw | None:
    """Return a text that is a JSON array or object already, as our own sinks write them."""
    raw = text.strip().encode()
    if not raw.startswith(first.encode()):
        return None
    try:
        check_text(raw)
        (elements_of if first == "[" else fields_of)(raw)
    except MALFORMED:
        return None
    return msgspec.Raw(raw)


def _array(read: Read, delimiter: str, text: str) -> Json:
    found = _nested(text, "[")
    if found is not None:
        return found
    return [read(element) for element in text.split(delimiter)] if text else []


def _row(members: dict[str, Read], delimiter: str, text: str) -> Json:
    found = _nested(text, "{")
    if found is not None:
        return found
    parts = text.split(delimiter)
    if len(parts) != len(members):
        return text
    return {name: read(part) for (name, read), part in zip(members.items(), parts, strict=True)}


def _map(text: str) -> Json:
    found = _nested(text, "{")
    return text if found is None else found
