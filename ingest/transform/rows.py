"""Rows of a chunk, column by column: the columns that stay on this side of Spark, and those that go to expressions.

In: the columns that every row has, and the values of its slots. Out: columns that stay, and an Arrow batch of the rows
that have a transform, with their slots: natively where that was built, in Python otherwise. Rows come back as Spark
hands them on, in batches of whatever size, and are taken in the numbers in which they went.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import pyarrow as pa

from ingest.encode.compiled_transform import MARKS, CompiledTransforms
from ingest.errors import InternalError
from ingest.model.reject import RowError
from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.native.transform_rows import Parts, TransformRows

META: Final = (pa.int32(), pa.int32(), pa.int64(), pa.int32(), pa.binary(), pa.binary())
"""The columns of every row: transform (`READY` if it has none), target, offset, event, text, key."""
READY: Final = -1
"""In the place of a transform's number: a record that is ready to be written."""
MARK: Final = -2
"""A row that only says that a chunk ends."""
TRANSFORM: Final = "_transform"
BATCH_ROWS: Final = 10_000
"""Spark hands rows on when it has so many."""
_SLOTS: Final = {"s": pa.string(), "l": pa.int64(), "d": pa.float64(), "b": pa.bool_()}

RetainedColumns: TypeAlias = "tuple[int, list[Parts]]"
"""How many rows, and the columns of `META`, each as Arrow has it: validity, offsets, data."""


def layout(transforms: CompiledTransforms) -> pa.Schema:
    """Return the schema of the rows that go to expressions."""
    return pa.schema([(TRANSFORM, pa.int32()), *((slot, _SLOTS[slot[0]]) for slot in transforms.inputs)])


class Rows(Protocol):
    """Rows of a chunk while it is read. Each is retained; a row that has a transform is also sent to expressions."""

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row: the values of `META`, and those of all slots, or of none."""

    def mark(self, code: int, count: int = 1) -> None:
        """Add rows that are only sent, not retained, with `code` in the place of a transform's number."""

    def size(self) -> tuple[int, int]:
        """Return (number of rows for Spark, bytes of the retained texts)."""

    def take(self) -> tuple[RetainedColumns, pa.RecordBatch]:
        """Return (retained columns, rows for Spark) and reset."""


class ReferenceRows:
    """Rows of a chunk, in Python."""

    def __init__(self, schema: pa.Schema) -> None:
        """`schema`: that of the rows for Spark, as `layout` returns it."""
        self._schema = schema
        self._stay: list[tuple[Any, ...]] = []
        self._go: list[tuple[Any, ...]] = []
        self._nothing = (None,) * (len(schema) - 1)

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row: the values of `META`, and those of all slots, or of none."""
        self._stay.append(meta)
        if meta[0] >= 0:
            self._go.append((meta[0], *(values or self._nothing)))

    def mark(self, code: int, count: int = 1) -> None:
        """Add rows that are only sent, not retained, with `code` in the place of a transform's number."""
        self._go += [(code, *self._nothing)] * count

    def size(self) -> tuple[int, int]:
        """Return (number of rows for Spark, bytes of the retained texts)."""
        return len(self._go), sum(len(row[4] or b"") for row in self._stay)

    def take(self) -> tuple[RetainedColumns, pa.RecordBatch]:
        """Return (retained columns, rows for Spark) and reset."""
        stay = [_parts_of(pa.array(column, kind)) for column, kind in zip(_turned(self._stay, META), META, strict=True)]
        types = [field.type for field in self._schema]
        go = [pa.array(column, kind) for column, kind in zip(_turned(self._go, types), types, strict=True)]
        retained = len(self._stay), stay
        self._stay, self._go = [], []
        return retained, pa.RecordBatch.from_arrays(go, schema=self._schema)


def _turned(rows: list[tuple[Any, ...]], columns: Sequence[Any]) -> Sequence[Sequence[Any]]:
    return [*zip(*rows, strict=True)] if rows else [()] * len(columns)


def _parts_of(array: pa.Array) -> Parts:
    buffers = [None if buffer is None else buffer.to_pybytes() for buffer in array.buffers()]
    return buffers[0], None if len(buffers) == 2 else buffers[1] or bytes(4), buffers[-1] or b""


class NativeRows:
    """Rows of a chunk in native code. Native encoders add theirs without Python."""

    def __init__(self, schema: pa.Schema, rows: TransformRows) -> None:
        """`schema`: that of the rows for Spark, as `layout` returns it."""
        self._schema = schema
        self.native = rows
        """The rows, for native encoders to add to."""

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row: the values of `META`, and those of all slots, or of none."""
        self.native.add(meta, values)

    def mark(self, code: int, count: int = 1) -> None:
        """Add rows that are only sent, not retained, with `code` in the place of a transform's number."""
        self.native.mark(code, count)

    def size(self) -> tuple[int, int]:
        """Return (number of rows for Spark, bytes of the retained texts)."""
        return self.native.size()

    def take(self) -> tuple[RetainedColumns, pa.RecordBatch]:
        """Return (retained columns, rows for Spark) and reset."""
        stay, columns, go, slots = self.native.take()
        arrays = [
            pa.Array.from_buffers(field.type, go, [part if part is None else pa.py_buffer(part) for part in parts])
            for field, parts in zip(self._schema, map(_buffers, slots), strict=True)
        ]
        return (stay, columns), pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _buffers(column: Parts) -> list[bytes | None]:
    valid, ends, data = column
    return [valid, data] if ends is None else [valid, ends, data]


def rows_of(schema: pa.Schema) -> Rows:
    """Return empty Rows: native ones where native code was built."""
    rows = native.transform_rows_of("".join(field.name[0] for field in schema)[1:].encode())
    return ReferenceRows(schema) if rows is None else NativeRows(schema, rows)


class Texts:
    """A column of bytes, some of which may be missing."""

    def __init__(self, parts: Parts) -> None:
        """Take validity, offsets, data."""
        valid, ends, data = parts
        self._valid, self._data = valid, data
        self._ends = memoryview(ends or bytes(4)).cast("i")

    def __getitem__(self, i: int) -> bytes | None:
        if self._valid is not None and not self._valid[i >> 3] >> (i & 7) & 1:
            return None
        return self._data[self._ends[i] : self._ends[i + 1]]


class RetainedRows:
    """The retained rows of a chunk, by column: transform, target, offset, event, text, key."""

    def __init__(self, retained: RetainedColumns) -> None:
        """`retained`: as `Rows.take` returns it."""
        self.size, columns = retained
        self.columns = [(0, *parts) for parts in columns]
        """The columns for native code, each with the index where its values begin."""
        self.transforms, self.targets = _whole(columns[0], "i"), _whole(columns[1], "i")
        self.offsets, self.events = _whole(columns[2], "q"), _whole(columns[3], "i")
        self.texts, self.keys = Texts(columns[4]), Texts(columns[5])


def _whole(parts: Parts, kind: Literal["i", "q"]) -> Sequence[int]:
    return memoryview(parts[2]).cast(kind)


class Results:
    """The rows of a chunk that Spark returned: transform, masks of failures, results, and errors of functions."""

    def __init__(self, batch: pa.RecordBatch, results: Sequence[str], *, has_errors: bool) -> None:
        """`results`: the slots of the results; `has_errors`: whether functions have errors. Raises InternalError."""
        _check(batch, results, has_errors=has_errors)
        columns = batch.columns
        self.size = batch.num_rows
        self._errors = columns.pop() if has_errors else None
        first = len(columns) - len(results)
        self._transforms, *self._masks = columns[:first]
        self._values = columns[first:]
        self.kinds = "".join(slot[0] for slot in results).encode()
        """The kinds of the results, for native code."""
        self._asked = 0
        self._lists: list[list[Any]] | None = None

    @property
    def simple(self) -> bool:
        """True if native code can read them."""
        return len(self._masks) == 1

    def columns(self) -> list[tuple[int, Any, Any, Any]]:
        """Return transform, mask and results, for native code."""
        return [_given(column) for column in (self._transforms, *self._masks, *self._values)]

    def row(self, row: int) -> tuple[int, int, list[Any]]:
        """Return (transform, mask of failures, results) of a row. Raises RowError.

        The caller compares the transform with that of the row that was sent.
        """
        self._asked += 1
        columns = (self._transforms, *self._masks, *self._values)
        if self._asked == _FEW:
            with suppress(UnicodeDecodeError):
                self._lists = [column.to_pylist() for column in columns]
        if self._lists is not None:
            number, *values = (column[row] for column in self._lists)
        else:
            try:
                number, *values = (column[row].as_py() for column in columns)
            except UnicodeDecodeError as exc:
                raise RowError("expression-failed", "a result is a text that is not UTF-8") from exc
        failed = 0
        for shift, mask in enumerate(values[: len(self._masks)]):
            failed |= mask << (MARKS * shift)
        return number, failed, values[len(self._masks) :]

    def errors(self, start: int, stop: int) -> str:
        """Return the messages of user-defined functions that failed for some rows, each once."""
        messages = [] if self._errors is None else self._errors.slice(start, stop - start).to_pylist()
        return "; ".join(dict.fromkeys(filter(None, messages)))


def _check(batch: pa.RecordBatch, results: Sequence[str], *, has_errors: bool) -> None:
    """Raise InternalError for columns of types that no plan returns, as native code reads their memory directly."""
    masks = max(1, -(-len(results) // MARKS))
    expected = [
        pa.int32(),
        *[pa.int64()] * masks,
        *(_SLOTS[slot[0]] for slot in results),
        *([pa.string()] if has_errors else []),
    ]
    wrong = ""
    if batch.schema.types != expected:
        wrong = f"columns of {', '.join(map(str, batch.schema.types))} instead of {', '.join(map(str, expected))}"
    elif any(column.null_count for column in batch.columns[: 1 + masks]):
        wrong = "a row without its transform or its marks"
    else:
        try:
            batch.validate()
        except pa.ArrowInvalid as exc:
            wrong = str(exc)
    if wrong:
        msg = f"what came back from Spark is not what the transforms give: {wrong}"
        raise InternalError(msg, "please report this with the pipeline's transforms")


_FEW: Final = 64
"""So many rows are read by themselves before all are."""


def _given(array: pa.Array) -> tuple[int, Any, Any, Any]:
    buffers = array.buffers()
    return array.offset, buffers[0], None if len(buffers) == 2 else buffers[1], buffers[-1]


class ReturnedRows:
    """Rows that Spark returns, taken in the same numbers in which they were sent."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: pa.RecordBatch | None = None

    def wait(self) -> bool:
        """Wait for the next row; return whether there is one."""
        while self._batch is None or not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch = batch
        return True

    def take(self, count: int) -> pa.RecordBatch:
        """Return the next rows; raises InternalError if there are fewer."""
        pieces: list[pa.RecordBatch] = []
        while count or not pieces:
            if not self.wait():
                raise lost(f"{count} rows")
            assert self._batch is not None
            pieces.append(self._batch.slice(0, count))
            self._batch = self._batch.slice(pieces[-1].num_rows)
            count -= pieces[-1].num_rows
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return the batches that were not taken yet."""
        return self._batches


def lost(what: str) -> InternalError:
    """Return the error for rows that were sent to Spark and not returned."""
    return InternalError(f"{what} did not come back from Spark", "please report this with the pipeline's transforms")
