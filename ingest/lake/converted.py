"""Columns of tables that are written anew, as values of a wider type.

In: a column of Arrow. Out: the same values as another type has them, which holds them all. Rules:
docs/spec/types.md#merging.
"""

from __future__ import annotations

from base64 import b64encode

import pyarrow as pa
import pyarrow.compute as pc


def converted(column: pa.ChunkedArray, to: pa.DataType) -> pa.ChunkedArray:
    """Return a column as values of another type, which holds them: as the JSON of the values would be read."""
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):  # as some writers have them
        column = column.cast(pa.string() if pa.types.is_string_view(column.type) else pa.binary())
    known = column.type
    if known == to:
        return column
    if pa.types.is_string(to) or pa.types.is_large_string(to):
        return pa.chunked_array([_texts(chunk) for chunk in column.chunks], pa.string()).cast(to)
    if pa.types.is_timestamp(to) and pa.types.is_date(known):
        column = column.cast(pa.timestamp("us"))
    return column.cast(to, safe=not pa.types.is_floating(to))


def _texts(chunk: pa.Array) -> pa.Array:
    """Return the texts of values, as rows have them in JSON."""
    known, text = chunk.type, pa.string()
    if pa.types.is_binary(known) or pa.types.is_large_binary(known):
        return pa.array([None if one is None else b64encode(one).decode() for one in chunk.to_pylist()], text)
    if pa.types.is_decimal(known):  # Arrow's own text may have an exponent
        return pa.array([None if one is None else f"{one:f}" for one in chunk.to_pylist()], text)
    if pa.types.is_timestamp(known) or pa.types.is_time(known):
        naive = chunk.cast(pa.timestamp("us")) if pa.types.is_timestamp(known) else chunk
        found = pc.utf8_rtrim(pc.utf8_rtrim(naive.cast(text), "0"), ".")
        return pc.binary_join_element_wise(found, "Z", "") if getattr(known, "tz", None) else found
    return chunk.cast(text)
