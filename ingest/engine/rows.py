"""Rows on their way to expressions, which become Arrow batches: by C where it is there, in Python otherwise.

In: what every row has (program, destination, offset, what it is, its text, its key), and its slots. Out: batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ingest.flow import native

if TYPE_CHECKING:
    from ingest.flow._native import Lane
    from ingest.flow.transform import Programs
    from ingest.model.record import Record

META: Final = {
    "_program": pa.int32(), "_head": pa.int32(), "_at": pa.int64(), "_what": pa.int32(),
    "_text": pa.binary(), "_key": pa.binary(),
}  # fmt: skip
"""What every row has: program, destination, offset, what it is, its text, its key."""
_SLOTS: Final = {"s": pa.string(), "l": pa.int64(), "d": pa.float64(), "b": pa.bool_()}


def layout(programs: Programs) -> pa.Schema:
    """What the first stage gives."""
    return pa.schema([*META.items(), *((slot, _SLOTS[slot[0]]) for slot in programs.inputs)])


class Rows:
    """Rows of a chunk, in Python."""

    def __init__(self, schema: pa.Schema) -> None:
        """None yet."""
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._nothing = (None,) * (len(schema) - len(META))

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row: all slots, or none."""
        self._rows.append((*meta, *(values or self._nothing)))

    def batch(self) -> pa.RecordBatch:
        """All rows; none are left."""
        columns = zip(*self._rows, strict=True) if self._rows else ([] for _ in self._schema)
        made = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._rows = []
        return pa.RecordBatch.from_arrays(made, schema=self._schema)


class RowsInC(Rows):
    """The same, in C."""

    def __init__(self, schema: pa.Schema) -> None:
        """None yet."""
        super().__init__(schema)
        self._made = native.rows("".join(field.name[0] for field in schema)[len(META) :].encode())

    def add(self, meta: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Add a row: all slots, or none."""
        self._made.add(meta, values)

    def feed(self, lane: Lane, messages: list[Record], start: int) -> int:
        """Take messages in C; the index of the first one that is left to others."""
        return lane.feed(messages, start, self._made)

    def batch(self) -> pa.RecordBatch:
        """All rows; none are left."""
        count, columns = self._made.take()
        made = [
            pa.Array.from_buffers(field.type, count, [part if part is None else pa.py_buffer(part) for part in parts])
            for field, parts in zip(self._schema, map(_parts, columns), strict=True)
        ]
        return pa.RecordBatch.from_arrays(made, schema=self._schema)


def _parts(column: tuple[bytes | None, bytes | None, bytes]) -> list[bytes | None]:
    valid, ends, data = column
    return [valid, data] if ends is None else [valid, ends, data]


def rows_of(schema: pa.Schema) -> Rows:
    """Rows of batches like this."""
    return RowsInC(schema) if native.BUILT else Rows(schema)
