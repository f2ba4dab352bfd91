"""Types of columns in both lakes, and what values become in a column of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lake_sink import lake_schema
from lake_values import VALUES

from ingest.model import types
from ingest.sinks.delta import tables as delta
from ingest.sinks.iceberg import tables as iceberg
from ingest.sinks.lake.rows import rows_to_batch
from ingest.sinks.lake.table import LakeColumn, stored_schema

if TYPE_CHECKING:
    from ingest.model.types import DataType


def stored(kind: str, lake: str) -> DataType:
    """The type that a column of a type has in a lake."""
    one = stored_schema(lake_schema(f"c {kind}", key=""), times=lake == "iceberg").columns[0].type
    made = iceberg.our_type(iceberg.iceberg_type(one)) if lake == "iceberg" else delta.our_type(delta.delta_type(one))
    assert made is not None, (kind, lake)
    return made


def wider(first: str, lake: str) -> dict[str, DataType]:
    """By each type that makes a column of the first one wider: the type that the column has then."""
    narrow = stored(first, lake)
    merged = {second: types.merge(narrow, stored(second, lake)) for second in VALUES}
    if first == "BIGINT":  # its values are beyond what a DOUBLE holds
        merged = {second: types.STRING if one == types.DOUBLE else one for second, one in merged.items()}
    return {second: one for second, one in merged.items() if one != narrow}


def expected(kind: str, of: str, text: str, lake: str) -> Any:
    """What the reference reads from a value's text, as Python has it; `of`: the type that the column has now."""
    schema = stored_schema(lake_schema(f"c {of}", key=""), times=lake == "iceberg")
    column = LakeColumn("c", schema.columns[0].type)
    if kind == "FLOAT" and of != kind:
        value = expected(kind, kind, text, lake)  # it is the number that the column had
        return value if of != "STRING" else float(text)
    if kind == "DOUBLE" and of == "STRING":
        return float(text)
    return rows_to_batch([column], (), [(b"{}", b'{"c":%b}' % text.encode())]).column(0)[0].as_py()
