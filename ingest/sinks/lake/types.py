"""Types of a lake's columns: the Arrow type of each of ours, and columns whose values become those of a wider type.

Rules: docs/spec/types.md#merging.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ingest.model import types
from ingest.model.jsontext import key_text
from ingest.model.types import DecimalType, TimeType

if TYPE_CHECKING:
    from ingest.model.types import DataType


_PLAIN: Final = {
    types.BOOLEAN: pa.bool_(),
    types.TINYINT: pa.int32(),
    types.SMALLINT: pa.int32(),
    types.INT: pa.int32(),
    types.BIGINT: pa.int64(),
    types.FLOAT: pa.float32(),
    types.DOUBLE: pa.float64(),
    types.STRING: pa.string(),
    types.BYTES: pa.binary(),
    types.DATE: pa.date32(),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMP_LTZ: pa.timestamp("us", tz="UTC"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type of a column's values. Raise TypeError for a type that no column of a lake has."""
    if types.is_text(data_type):
        return pa.string()
    if isinstance(data_type, DecimalType) and data_type.precision <= types.MAX_PRECISION:
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, TimeType):
        return pa.time64("us")
    found = _PLAIN.get(data_type)
    if found is None:
        msg = f"a lake has no columns of {types.name(data_type)}"
        raise TypeError(msg)
    return found


def converted(column: pa.ChunkedArray, to: pa.DataType, *, of_key: bool = False) -> pa.ChunkedArray:
    """Return a column as values of another type, which holds them: as the JSON of the values would be read.

    `of_key`: numbers become the texts that keys have, by which rows are found: `1.5` for a DECIMAL that is 1.50.
    A FLOAT becomes the DOUBLE of its digits, as a key of 0.1 that is a FLOAT is 0.1 there.
    """
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):  # as some writers have them
        column = column.cast(pa.string() if pa.types.is_string_view(column.type) else pa.binary())
    source = column.type
    if source == to:
        return column
    if pa.types.is_string(to) or pa.types.is_large_string(to):
        return pa.chunked_array([_texts(chunk, of_key=of_key) for chunk in column.chunks], pa.string()).cast(to)
    if pa.types.is_timestamp(to) and pa.types.is_date(source):
        column = column.cast(pa.timestamp("us"))
    if of_key and pa.types.is_float32(source) and pa.types.is_floating(to):
        return column.cast(pa.string()).cast(to)
    return column.cast(to, safe=not pa.types.is_floating(to))


def _texts(chunk: pa.Array, *, of_key: bool) -> pa.Array:
    """Return the texts of values, as rows have them in JSON."""
    source, text = chunk.type, pa.string()
    if pa.types.is_binary(source) or pa.types.is_large_binary(source):
        return pa.array([None if one is None else b64encode(one).decode() for one in chunk.to_pylist()], text)
    if pa.types.is_decimal(source):  # Arrow's own text may have an exponent
        found = pa.array([None if one is None else f"{one:f}" for one in chunk.to_pylist()], text)
        return _key_texts(found) if of_key else found
    if pa.types.is_timestamp(source) or pa.types.is_time(source):
        naive = chunk.cast(pa.timestamp("us")) if pa.types.is_timestamp(source) else chunk
        found = pc.utf8_rtrim(pc.utf8_rtrim(naive.cast(text), "0"), ".")
        return pc.binary_join_element_wise(found, "Z", "") if getattr(source, "tz", None) else found
    return _key_texts(chunk.cast(text)) if of_key and pa.types.is_floating(source) else chunk.cast(text)


def _key_texts(numbers: pa.Array) -> pa.Array:
    """Return the texts that numbers, given as texts, have in keys (docs/spec/keys.md#text-of-a-key-value)."""
    return pa.array([None if one is None else _key_text(one) for one in numbers.to_pylist()], numbers.type)


def _key_text(number: str) -> str:
    try:
        return key_text(number.encode()).decode()
    except msgspec.DecodeError:  # another writer's NaN, which no key is
        return number
