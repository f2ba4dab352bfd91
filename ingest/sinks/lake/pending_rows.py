"""Rows that wait for a commit: which states of a key are written, the last one or all, and what becomes of deletes.

In: records of many tables, in native code's own batches or as objects. Out: for each table one record batch, with a row
for each key that was written, in the order of their last states. Keys that are equal in the table are one key, however
messages spell them: `41` and `"41"` in a BIGINT. A record is read when it is kept: one that cannot be a row is told at
once, and is not kept. Rules: docs/spec/keys.md, docs/spec/sinks.md#deleted-rows-of-tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import InternalError
from ingest.sinks.lake.ordering import codes_of, later_mark, newest
from ingest.sinks.lake.rows import (
    UnfitRows,
    add_counts,
    batch_of,
    bits_array,
    cuts_of,
    join_batches,
    keep_natively,
    keys_reader,
    rows_to_batch_by_reference,
    targets_of,
)
from ingest.sinks.lake.table import LAST_STATES, LakeColumn, LakeTable, StatesToWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.encode.upsert_encoder import Destination, Record
    from ingest.sinks.lake.native.rows import LakeKeys, LeftRecord, Parts


@dataclass(frozen=True, slots=True)
class LastStates:
    """The states of the keys of one table that are written, in their order."""

    rows: pa.RecordBatch
    gone: pa.BooleanArray
    """True for each row that is a delete: it has only the columns of its key."""
    cut: dict[str, int] = field(default_factory=dict)
    """By column: times that were finer than a microsecond, of all records, also of earlier states."""
    older: int = 0
    """Rows that came after a newer one of their key, and are left out."""


def written_states(
    written: StatesToWrite, rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str], table: LakeTable
) -> LastStates:
    """Return the states that are written, of all states in their order. `key`: names of the columns of the key."""
    deleted = table.deleted
    if written.ignore:
        stays = pc.invert(gone)
        rows, gone = rows.filter(stays), gone.filter(stays)
    if written.append:
        if deleted is None:
            return LastStates(rows, gone)
        marks = pc.or_(gone, pc.fill_null(rows[deleted], False))
        return LastStates(_marked(rows, deleted, marks), pa.repeat(False, len(gone)))
    if table.sequence is not None:
        return _newest(rows, gone, key, table.sequence, deleted)
    last, kept = _last(rows, gone, key)
    # A row that came and went is there as it was, and is marked; one that only went is looked for in the table
    places = pa.array(np.where(kept >= 0, kept, last))
    is_gone = gone.take(pa.array(last))
    left = pc.and_(is_gone, pa.array(kept < 0))
    rows = rows.take(places)
    return LastStates(rows if deleted is None else _marked(rows, deleted, is_gone), left)


def _newest(
    rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str], sequence: str, deleted: str | None
) -> LastStates:
    """Return the keys of all deletes, and then the newest row of each key.

    A row of the table may be newer than that: then it is the one which the delete is about.
    """
    codes, is_gone = codes_of([rows[name] for name in key]), gone.to_numpy(zero_copy_only=False)
    deletes, alive = np.flatnonzero(is_gone), np.flatnonzero(~is_gone)
    newest_rows = newest(codes[alive], rows[sequence].take(pa.array(alive)))
    best = np.sort(alive[newest_rows.places])
    marks = np.zeros(len(codes), bool)
    if len(deletes):
        marks[best] = later_mark(codes, best, deletes, np.arange(len(codes)))
        deletes = deletes[np.unique(codes[deletes], return_index=True)[1]]
    order = pa.array(np.concatenate([deletes, best]))
    chosen = rows.take(order)
    marked = chosen if deleted is None else _marked(chosen, deleted, pa.array(marks).take(order))
    return LastStates(marked, gone.take(order), older=int(newest_rows.older.sum()))


def _last(
    rows: pa.RecordBatch, gone: pa.BooleanArray, key: Sequence[str]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the place of the last state of each key, and of its last one that is a row: -1 where there is none."""
    names = [f"k{at}" for at in range(len(key))]
    at = np.arange(rows.num_rows)
    alive = np.where(gone.to_numpy(zero_copy_only=False), -1, at)
    table = pa.table([*(rows[name] for name in key), at, alive], [*names, "at", "alive"])
    found = table.group_by(names, use_threads=False).aggregate([("at", "max"), ("alive", "max")]).sort_by("at_max")
    return found["at_max"].to_numpy(), found["alive_max"].to_numpy()


def _marked(rows: pa.RecordBatch, deleted: str, which: pa.BooleanArray) -> pa.RecordBatch:
    """Return rows with the column that says whether they are deleted."""
    return rows.set_column(rows.schema.names.index(deleted), deleted, which)


class PendingRows:
    """The rows of many tables that wait for a commit."""

    def __init__(
        self,
        columns_of: Callable[[Any], tuple[Sequence[LakeColumn], Sequence[str]]],
        states: StatesToWrite = LAST_STATES,
    ) -> None:
        """`columns_of` returns the columns of a destination's table, and the names of those of its key."""
        self._columns_of = columns_of
        self._states = states
        self._tables: dict[Destination, _PendingTable] = {}
        self._known: dict[int, tuple[Destination, _PendingTable]] = {}
        """Tables by the addresses of their destinations: to look one up by itself, all of its columns are hashed."""

    def keep(self, records: Sequence[Record]) -> None:
        """Keep records. Raise UnfitRows for those that cannot be rows, having kept the others."""
        targets = targets_of(records)
        if targets is None:
            touched = self._keep_objects(records)
        else:
            touched = [self._table_of(destination) for destination in targets]
            if not keep_natively(records, [one.keys for one in touched]):
                touched = self._keep_objects(records)
        faults = [fault for one in dict.fromkeys(touched) for fault in one.read_left()]
        if faults:
            raise UnfitRows(sorted(faults))

    def size(self) -> tuple[int, int]:
        """Return how many records are kept, those of earlier states included, and how many bytes they take."""
        sizes = [one.size() for one in self._tables.values()]
        return sum(count for count, _ in sizes), sum(size for _, size in sizes)

    def take(self) -> list[tuple[Any, LastStates]]:
        """Return the last states of the keys of each table that has any, and keep nothing."""
        tables, self._tables, self._known = self._tables, {}, {}
        taken = [(destination, one.take()) for destination, one in tables.items()]
        return [(destination, states) for destination, states in taken if states.rows.num_rows]

    def _keep_objects(self, records: Sequence[Record]) -> list[_PendingTable]:
        touched: dict[_PendingTable, None] = {}
        for place, (destination, key, row) in enumerate(records):
            if key is None:
                raise InternalError("a row without a key")
            table = self._table_of(destination)
            touched[table] = None
            table.keys.keep_record(place, key, None if row is None else bytes(row))
        return [*touched]

    def _table_of(self, destination: Destination) -> _PendingTable:
        entry = self._known.get(id(destination))
        if entry is None:
            table = self._tables.get(destination)
            if table is None:
                columns, key = self._columns_of(destination)
                table = self._tables[destination] = _PendingTable(columns, key, self._states, destination)
            entry = self._known[id(destination)] = (destination, table)
        return entry[1]


class _PendingTable:
    """The rows of one table: those that native code has read are in `keys`, the others in record batches."""

    def __init__(self, columns: Sequence[LakeColumn], key: Sequence[str], written: StatesToWrite, table: Any) -> None:
        self._columns, self._key = columns, key
        self._written, self._table = written, table
        self.keys: LakeKeys | PlainKeys = keys_reader(columns, key) or PlainKeys(len(columns))
        self._batches: list[pa.RecordBatch] = []
        self._cut: dict[str, int] = {}
        self._states: list[tuple[int, int, bool]] = []
        """Of each record that was left: how many rows native code had then, the place in `_batches`, whether it is a
        delete. The place is -1 where it was no row."""
        self._count = 0

    def read_left(self) -> list[tuple[int, str]]:
        """Read the records that were left to the reference; return the places of those that cannot be rows, and why."""
        left = self.keys.take_left()
        if not left:
            return []
        try:
            batch = self._read(left)
            faults: dict[int, str] = {}
        except UnfitRows as exc:
            faults = dict(exc.faults)
            batch = self._read([record for at, record in enumerate(left) if at not in faults])
        first = len(self._states)
        for at in sorted(faults, reverse=True):
            self.keys.forget(left[at][1], -1 - first - at, left[at][3])
        for at, (_, _, row, _, rows) in enumerate(left):
            self._states.append((rows, -1 if at in faults else self._count, row is None))
            self._count += at not in faults
        self._batches.append(batch)
        return [(left[at][0], reason) for at, reason in faults.items()]

    def _read(self, left: Sequence[LeftRecord]) -> pa.RecordBatch:
        records = [(key, row) for _, key, row, _, _ in left]
        return rows_to_batch_by_reference(self._columns, self._key, records, self._cut)

    def size(self) -> tuple[int, int]:
        count, size = self.keys.size()
        return count + self._count, size + sum(batch.nbytes for batch in self._batches)

    def take(self) -> LastStates:
        count, parts, cuts, deletes, last, others = self.keys.take()
        add_counts(self._cut, cuts_of(self._columns, cuts))
        rows, gone = batch_of(self._columns, count, parts), bits_array(deletes, count)
        if self._written.all:
            last, others = None, [-1 - at for at, (_, place, _) in enumerate(self._states) if place >= 0]
        if not others:
            if last is not None:
                mask = bits_array(last, count)
                rows, gone = rows.filter(mask), gone.filter(mask)
            return self._made(rows, gone)
        states = [self._states[-1 - number] for number in sorted(others, reverse=True)]
        native = _places(count) if last is None else pc.indices_nonzero(bits_array(last, count)).cast("int64")
        places = [count + place for _, place, _ in states]
        # A record that was left while there were n rows comes before the row n
        turns = pa.concat_arrays(
            [pc.add(pc.multiply(native, 2), 1), pa.array([2 * before for before, _, _ in states], pa.int64())]
        )
        order = pa.concat_arrays([native, pa.array(places, pa.int64())]).take(pc.sort_indices(turns))
        marks = [False] * self._count
        for _, place, deleted in states:
            marks[place] = deleted
        rows, gone = join_batches([rows, *self._batches]), pa.concat_arrays([gone, pa.array(marks, pa.bool_())])
        return self._made(rows.take(order), gone.take(order))

    def _made(self, rows: pa.RecordBatch, gone: pa.BooleanArray) -> LastStates:
        """Return the states that are written: none whose key has a later one by another text."""
        if self._written.all:
            return replace(written_states(self._written, rows, gone, self._key, self._table), cut=self._cut)
        names = [f"k{at}" for at in range(len(self._key))]
        values = pa.table([*(rows[name] for name in self._key), _places(len(gone))], [*names, "at"])
        last = values.group_by(names, use_threads=False).aggregate([("at", "max")])["at_max"]
        if len(last) < len(gone):
            places = last.combine_chunks().sort()
            rows, gone = rows.take(places), gone.take(places)
        return LastStates(rows, gone, self._cut)


def _places(count: int) -> pa.Int64Array:
    """Return the places of so many rows."""
    return pc.indices_nonzero(pa.repeat(True, count)).cast("int64")


class PlainKeys:
    """The keys of one table where there is no native code: each record is left to the reference."""

    def __init__(self, columns: int) -> None:
        """Begin without records."""
        self._columns = columns
        self._numbers: dict[bytes, int] = {}
        self._left: list[LeftRecord] = []
        self._count = 0

    def keep_record(self, place: int, key: bytes, row: bytes | None) -> None:
        """Keep a record as the last state of its key."""
        self._count += 1
        self._left.append((place, key, row, self._numbers.get(key), 0))
        self._numbers[key] = -self._count

    def take_left(self) -> list[LeftRecord]:
        """Return the records since the last time that this was asked for."""
        left, self._left = self._left, []
        return left

    def forget(self, key: bytes, number: int, before: int | None) -> None:
        """Let a key have the state that it had before, if it has the one of this number."""
        if self._numbers.get(key) == number:
            if before is None:
                del self._numbers[key]
            else:
                self._numbers[key] = before

    def size(self) -> tuple[int, int]:
        """Return that there are no rows that native code has read."""
        return 0, 0

    def take(self) -> tuple[int, list[Parts], list[int], bytes, bytes | None, list[int]]:
        """Return no rows, and the numbers of the last states."""
        return 0, [], [0] * self._columns, b"", None, list(self._numbers.values())
