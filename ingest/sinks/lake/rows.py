"""Rows as columns of Arrow: the last step before they are in a file.

In: the columns of a table, and records of an upsert encoder. Out: a record batch with a row for each record, in their
order. Each value is exact, or its row is named with the reason why it cannot be. Columns of the key are read from the
key, whatever the row has there: a delete finds its row by them. Native code reads rows where it can, and leaves the
others to the reference. Rules: docs/spec/values.md, docs/spec/keys.md.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from ingest import compiled
from ingest.model import types
from ingest.model.jsontext import parse_row
from ingest.model.reject import RowError
from ingest.model.types import DecimalType, TimeType
from ingest.sinks.lake.values import arrow_type, reader_of

if compiled.BUILT:
    from ingest.native.records import EncodedBatch
    from ingest.sinks.lake.native.rows import LakeKeys, LakeKind, LakeRows, keep_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record
    from ingest.sinks.lake.native.rows import ColumnBuffer, Parts
    from ingest.sinks.lake.table import LakeColumn


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


class UnfitRows(ValueError):
    """Error about records whose values a column of Arrow cannot hold."""

    def __init__(self, faults: list[tuple[int, str]]) -> None:
        """Keep the place of each record at fault, in the order of the records, and the reason in words."""
        super().__init__(f"{len(faults)} records that cannot be rows; the first: {faults[0][1]}")
        self.faults = faults


def rows_to_batch(
    columns: Sequence[LakeColumn],
    key: Sequence[str],
    records: Sequence[tuple[bytes, bytes | None]],
    cut: dict[str, int] | None = None,
) -> pa.RecordBatch:
    """Return a record batch with a row for each record. Raise UnfitRows, having counted nothing.

    `records`: key and row as JSON; the row is None for a delete. `key`: the columns of the primary key; the row of a
    delete has values only in these. `cut`: by column, the number of times that were cut to microseconds is added to it.
    """
    reader = rows_reader(columns, key)
    if reader is None:
        return rows_to_batch_by_reference(columns, key, records, cut)
    left = reader.read(records)
    count, parts, cuts, _ = reader.take()
    batch, fine = batch_of(columns, count, parts), cuts_of(columns, cuts)
    if left:
        try:
            others = rows_to_batch_by_reference(columns, key, [records[place] for place in left], fine)
        except UnfitRows as exc:
            raise UnfitRows([(left[place], reason) for place, reason in exc.faults]) from None
        order = _order(len(records), left)
        batch = join_batches([batch, others]).take(pa.array(order, pa.int64()))
    add_counts(cut, fine)
    return batch


def cuts_of(columns: Sequence[LakeColumn], counts: Sequence[int]) -> dict[str, int]:
    """Return, by column, how many times were cut to microseconds. `counts`: for each column; zeros are left out."""
    return {one.name: count for one, count in zip(columns, counts, strict=True) if count}


def join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of record batches of one schema in one."""
    columns = [pa.concat_arrays(parts) for parts in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _order(count: int, left: Sequence[int]) -> list[int]:
    """Return where each of so many rows is if those that were left come last."""
    places, native = dict(zip(left, range(count - len(left), count), strict=True)), itertools.count()
    return [places[at] if at in places else next(native) for at in range(count)]


def rows_to_batch_by_reference(
    columns: Sequence[LakeColumn],
    key: Sequence[str],
    records: Sequence[tuple[bytes, bytes | None]],
    cut: dict[str, int] | None = None,
) -> pa.RecordBatch:
    """Return what `rows_to_batch` returns, by Python alone. Raise what it raises."""
    readers = {one.name: reader_of(one.type) for one in columns}
    values: dict[str, list[Any]] = {one.name: [] for one in columns}
    faults: list[tuple[int, str]] = []
    fine: dict[str, int] = {}
    for index, (key_text, row_text) in enumerate(records):
        try:
            row = _row(columns, key, key_text, row_text)
            read = {name: _read(name, text, readers[name]) for name, text in row.items()}
        except RowError as exc:
            faults.append((index, str(exc)))
            continue
        for one in columns:
            value, was_cut = read.get(one.name, (None, False))
            values[one.name].append(value)
            if was_cut:
                fine[one.name] = fine.get(one.name, 0) + 1
    if faults:
        raise UnfitRows(faults)
    add_counts(cut, fine)
    arrays = [pa.array(values[one.name], arrow_type(one.type)) for one in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))


def add_counts(cut: dict[str, int] | None, found: Mapping[str, int]) -> None:
    """Add counts of values that were cut to the existing counts."""
    if cut is not None:
        for name, count in found.items():
            cut[name] = cut.get(name, 0) + count


def _row(
    columns: Sequence[LakeColumn], key: Sequence[str], key_text: bytes, row_text: bytes | None
) -> dict[str, bytes]:
    """Return the texts of a row's values that are not null; those of the key are the key's. Raise RowError."""
    of_key = parse_row(msgspec.Raw(key_text))
    row = {} if row_text is None else parse_row(msgspec.Raw(row_text))
    for name in key:
        row[name] = of_key.get(name, b"null")
        if row[name] == b"null":
            raise RowError("null-key", f"primary key column {name!r} is null or missing")
    return {one.name: text for one in columns if (text := row.get(one.name, b"null")) != b"null"}


def _read(name: str, text: bytes, read: Callable[[bytes], tuple[Any, bool]]) -> tuple[Any, bool]:
    """Return what a value's text says. Raise RowError."""
    try:
        return read(text)
    except ValueError as exc:
        shown = text[:60].decode("utf-8", "backslashreplace")
        raise RowError("type-mismatch", f"column {name!r} {exc}, and the row has {shown}") from None
