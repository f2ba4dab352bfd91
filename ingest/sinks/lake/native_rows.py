"""The contract with native code that reads rows: columns as it has them, and record batches of what it returns.

In: the columns of a table. Out: the native reader of its rows; None where the reference has to read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from ingest import compiled
from ingest.model import types
from ingest.model.data_type import DecimalType, TimeType
from ingest.sinks.lake.columns import arrow_type

if compiled.BUILT:
    from ingest.native.records import EncodedBatch
    from ingest.sinks.lake.native.rows import LakeKeys, LakeKind, LakeRows, keep_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.sinks.lake.columns import LakeColumn
    from ingest.sinks.lake.native.rows import ColumnBuffer, Parts

BUILT: Final = compiled.USED
"""True if native code is there, and wanted."""


class LakeColumnSpec(msgspec.Struct, frozen=True):
    """A column of rows that become columns of Arrow. A value's form is the same whichever type its message declared."""

    name: bytes
    kind: LakeKind
    first: int = 0
    """The number of bits of an integer, or of digits of a decimal."""
    second: int = 0
    """The scale of a decimal."""
    of_key: bool = False
    """True if the value is the one that the record's key has."""


def rows_reader(columns: Sequence[LakeColumn], key: Sequence[str]) -> LakeRows | None:
    """Return the native reader of rows; None where there is none."""
    spec = _spec(columns, key) if BUILT else None
    return None if spec is None else LakeRows(spec)


def keys_reader(columns: Sequence[LakeColumn], key: Sequence[str]) -> LakeKeys | None:
    """Return the native reader of the last states of keys; None where there is none."""
    spec = _spec(columns, key) if BUILT else None
    return None if spec is None else LakeKeys(spec)


def keep_natively(records: Sequence[Record], tables: Sequence[object]) -> bool:
    """Keep the records of a native batch by the readers of their targets; False for others, which are not kept."""
    if not BUILT or not isinstance(records, EncodedBatch) or not all(isinstance(one, LakeKeys) for one in tables):
        return False
    keep_batch(records, [one for one in tables if isinstance(one, LakeKeys)])
    return True


def targets_of(records: Sequence[Record]) -> list[object] | None:
    """Return the destinations of a native batch; None for other records."""
    return records.targets if BUILT and isinstance(records, EncodedBatch) else None


def batch_of(columns: Sequence[LakeColumn], count: int, parts: Sequence[Parts]) -> pa.RecordBatch:
    """Return a record batch of columns that native code has made; without rows there are none."""
    if not count:
        return pa.RecordBatch.from_pylist([], schema_of(columns))
    arrays = [
        pa.Array.from_buffers(
            arrow_type(one.type), count, [_buffer(validity), *map(_buffer, texts), pa.py_buffer(data)]
        )
        for one, (validity, ends, data) in zip(columns, parts, strict=True)
        for texts in [() if ends is None else (ends,)]
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def bits_array(bits: bytes, count: int) -> pa.BooleanArray:
    """Return truth values of their bits."""
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(bits)])


def schema_of(columns: Sequence[LakeColumn]) -> pa.Schema:
    """Return the schema of rows with these columns."""
    return pa.schema([(one.name, arrow_type(one.type)) for one in columns])


def _buffer(data: bytes | ColumnBuffer | None) -> pa.Buffer | None:
    return None if data is None else pa.py_buffer(data)


def _spec(columns: Sequence[LakeColumn], key: Sequence[str]) -> tuple[LakeColumnSpec, ...] | None:
    """Return the columns for native code; None for a key that is not among them, or names that are no texts."""
    if not {one.name for one in columns}.issuperset(key):
        return None
    try:
        return tuple(_column(one, of_key=one.name in key) for one in columns)
    except UnicodeEncodeError:
        return None


def _column(column: LakeColumn, *, of_key: bool) -> LakeColumnSpec:
    """Return a column. No row that native code reads has a name with an escape, so names are compared as they are."""
    data_type, name = column.type, column.name.encode()
    if types.is_text(data_type):
        return LakeColumnSpec(name, LakeKind.LAKE_TEXT, of_key=of_key)
    if isinstance(data_type, DecimalType):
        return LakeColumnSpec(name, LakeKind.LAKE_DECIMAL, data_type.precision, data_type.scale, of_key)
    if isinstance(data_type, TimeType):
        return LakeColumnSpec(name, LakeKind.LAKE_TIME, of_key=of_key)
    kind = _kinds()[data_type]
    return LakeColumnSpec(name, kind, types.INTEGER_BITS.get(type(data_type), 0), of_key=of_key)


def _kinds() -> dict[object, LakeKind]:
    return {
        types.BOOLEAN: LakeKind.LAKE_BOOL,
        types.TINYINT: LakeKind.LAKE_INT,
        types.SMALLINT: LakeKind.LAKE_INT,
        types.INT: LakeKind.LAKE_INT,
        types.BIGINT: LakeKind.LAKE_LONG,
        types.FLOAT: LakeKind.LAKE_FLOAT,
        types.DOUBLE: LakeKind.LAKE_DOUBLE,
        types.BYTES: LakeKind.LAKE_BYTES,
        types.DATE: LakeKind.LAKE_DATE,
        types.TIMESTAMP: LakeKind.LAKE_TIMESTAMP,
        types.TIMESTAMP_LTZ: LakeKind.LAKE_TIMESTAMP_LTZ,
    }
