"""The tables that row events stand for by their ids, and the rows of those that are read.

In: table maps and row events. Out: records of the rows, at positions of their own within the event. Native code gets a
plan for each table map: a step for each column. Types that have no step of their own are read by the reference, value
by value.

`ParentWatch` notes which rows of a table that others refer to by foreign keys were deleted or changed. Of such an event
only its head is read, and of updates the bytes of the referenced columns. Native code has the same
(native/row_image.pyx).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import orjson

from ingest import compiled
from ingest.errors import ConfigError
from ingest.sources.mysql import events
from ingest.sources.mysql.binary_values import OLD_SIZES, decimal_size
from ingest.sources.mysql.cascades import ANY, DELETED, Referenced
from ingest.sources.mysql.events import DELETES, UPDATES, BadEvent, Cursor, FormatDescription
from ingest.sources.mysql.log_decoder import Event, LogDecoder
from ingest.sources.mysql.row_decoder import (
    JSON,
    UNKNOWN,
    KnownTable,
    RowsDecoder,
    bits,
    check,
    flags_of,
    read_rows,
    read_table_map,
    table_of,
    unpacked,
)
from ingest.sources.mysql.row_values import ValueReader, real_type
from ingest.sources.mysql.types import BINARIES, FIXED, GEOMETRIES, Column, is_tinyint1

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.sources.mysql.log_model import LogTables
    from ingest.sources.mysql.native.row_image import RowPlan
    from ingest.sources.mysql.row_decoder import RowsEvent, TableMap

if compiled.BUILT:
    from ingest.sources.mysql.native import log_decoder, row_image


NATIVE: Final = compiled.USED
"""True if native code is there, and wanted."""
(
    BY_PYTHON, SIGNED, UNSIGNED, TRUTH, DATE, TIME, DATETIME, TIMESTAMP, YEAR, BITS, LABEL, LABELS, UTF8, ASCII,
    WINDOWS, BYTES, PADDED, FLOAT, DOUBLE, DECIMAL, NOTHING,
) = range(21)  # fmt: skip
"""The numbers of `Step` in native/row_image.pxd."""
_INTEGERS: Final = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_TEXTS: Final = {"utf8mb4": UTF8, "utf8mb3": UTF8, "utf8": UTF8, "ascii": ASCII, "latin1": WINDOWS}
_MOMENTS: Final = {17: (TIMESTAMP, 4), 18: (DATETIME, 5), 19: (TIME, 3)}
MAX_PADDED: Final = 256


def make_decoder(most: tuple[int, int, int], *, native: bool, metadata: bool) -> LogDecoder:
    """Return what decodes the log: natively, or the reference.

    `most`: bytes of records that are enough: of transactions that ended, of an open one, of one that is held.
    """
    return cast("LogDecoder", log_decoder.LogDecoder(*most, metadata)) if native else LogDecoder()


def plan_of(known: KnownTable, raw: bytes, values: ValueReader) -> RowPlan | None:
    """Return the plan for a table map, of which `raw` is the body; None where only the reference may read its rows."""
    if known.table.row_end is not None:  # some of its rows are history
        return None
    try:
        return _plan_of(known, raw, values)
    except (ValueError, IndexError):  # lengths or digits that no server writes: the reference says so
        return None


def sizes_of(known: KnownTable, values: ValueReader) -> list[tuple[int, int]]:
    """Return for each column the bytes of a value's length, and the bytes of a value where it has none of its own.

    Nothing for lengths or digits that no server writes.
    """
    out = []
    try:
        for at, column in enumerate(known.columns):
            _, length, size, *_ = _step(
                UNKNOWN if column.hidden else column, known.map.types[at], known.map.metadata[at], values
            )
            out.append((length, size))
    except (ValueError, IndexError):
        return []
    return out


def _plan_of(known: KnownTable, raw: bytes, values: ValueReader) -> RowPlan:
    columns = known.columns
    steps = []
    for at, column in enumerate(columns):
        code, metadata = known.map.types[at], known.map.metadata[at]
        step = _step(UNKNOWN if column.hidden else column, code, metadata, values)
        name = b"," + orjson.dumps(column.name) + b":"
        steps.append(((NOTHING if column.hidden else step[0]), *step[1:5], name, step[5]))
    table = known.table
    source = b',"source":{"db":' + _json(table.database) + b',"table":' + _json(table.name) + b'},"op":"'
    tails = [source + op + b'"}' for op in (b"c", b"u", b"d")]
    head = b"\0" + known.id.to_bytes(4, "big") + b'{"before":'

    def read(at: int, data: bytes) -> bytes:
        values.table = f"{table.database}.{table.name}"
        return values.read(Cursor(data), columns[at], known.map.types[at], known.map.metadata[at])

    return row_image.RowPlan(known, raw, head, tails, steps, read)


def _json(name: str) -> bytes:
    return orjson.dumps(name.encode("utf-8", "replace").decode())


def _step(
    column: Column, code: int, metadata: bytes, values: ValueReader
) -> tuple[int, int, int, int, int, tuple[bytes, ...]]:
    """Return step, bytes of a length, bytes of a value, digits or full length, digits behind the point, labels."""
    real, most = real_type(code, metadata)
    step, size, first, second = BY_PYTHON, 0, 0, 0
    labels: tuple[bytes, ...] = ()
    if real in _INTEGERS:
        size = _INTEGERS[real]
        if not (values.tinyint1_as_boolean and is_tinyint1(column)):
            step = UNSIGNED if column.unsigned else SIGNED
    elif real in {4, 5}:
        step, size = (FLOAT, 4) if real == 4 else (DOUBLE, 8)
    elif real == 246:
        step, size, first, second = DECIMAL, decimal_size(*metadata), *metadata
    elif real in {10, 13, 14}:
        step, size = (YEAR, 1) if real == 13 else (DATE, 3)
    elif real in _MOMENTS:
        step, size = _MOMENTS[real]
        second = (metadata[0] + 1) // 2
        size += second
    elif real in OLD_SIZES:
        size = OLD_SIZES[real][column.fsp]
    elif real == 16:
        bits = metadata[1] * 8 + metadata[0]
        step, size = (TRUTH, 1) if bits == 1 else (BITS, (bits + 7) // 8)
    elif real == 247:
        step, size = LABEL, most
        labels = (b'""', *map(orjson.dumps, column.labels))
    elif real == 248:
        step, size = LABELS, most
        labels = tuple(orjson.dumps(label)[1:-1] for label in column.labels)
    else:
        step, length, first = _long(column, real, most)
        return step, length, 0, first, 0, ()
    return step, 0, size, first, second, labels


def _long(column: Column, real: int, most: int) -> tuple[int, int, int]:
    """Return the step of a value that has a length, the bytes of that, and the bytes to which it is filled up."""
    length = (2 if most > 255 else 1) if real in {15, 253, 254, 141} else most
    kind = column.type
    if real in {140, 141, 245} or kind in GEOMETRIES or kind in FIXED:
        return BY_PYTHON, length, 0
    if kind == "binary":
        full = column.length or 1
        return (PADDED if full <= MAX_PADDED else BY_PYTHON), length, min(full, MAX_PADDED)
    if kind in BINARIES or column.charset in {None, "binary"}:
        return BYTES, length, 0
    return _TEXTS.get(column.charset or "", BY_PYTHON), length, 0


MAX_KNOWN: Final = 20_000
"""Ids that are known at once, at most, beside those of the open transaction."""
_ID_BYTES: Final = 6
_NO_TABLE: Final = 0xFFFFFF
"""The table of an event without rows that only ends a statement."""
_WITHOUT_TRANSACTIONS: Final = frozenset({"myisam", "aria", "memory", "heap", "csv", "archive", "mrg_myisam", "merge"})


_NO_FOREIGN_KEYS: Final = 2
"""The flag of a row event whose session had `foreign_key_checks = 0`: then nothing cascades."""


class AnotherDefinition(ConfigError):
    """A table of the log is not as the history of schemas has it."""


class ParentWatch:
    """Looks at the row events of a table that others refer to, as one table map has it."""

    def __init__(
        self,
        table: TableMap,
        of: Referenced,
        values: ValueReader,
        notes: dict[tuple[str, str, str | None], int],
        *,
        native: bool,
    ) -> None:
        """`notes`: takes the position of the last event for each database, table, and column (or DELETED, or ANY)."""
        self._name, self._notes, self._types = (table.database, table.name), notes, table.types
        self.deletes, self.updates = of.deletes, bool(of.columns)
        ends = None if of.table is None else of.table.row_end
        self._ends: frozenset[str] = frozenset() if ends is None else frozenset([ends.lower()])
        """The column of a versioned table by which a row is deleted, in lower case."""
        known = None if of.table is None else KnownTable(0, of.table, table)
        self._sizes = [] if known is None or check(known) else sizes_of(known, values)
        """Of each column: bytes of a length, and where that is 0, bytes of a value."""
        columns = known.columns if known is not None and self._sizes else ()
        self._places = {at: one.name for at, one in enumerate(columns) if one.name.lower() in of.columns}
        """The columns that others refer to, by their places; none where they are not known: any update counts then."""
        if len(self._places) < len(of.columns):
            self._places = {}
        native = native and NATIVE and bool(self._places)
        self.shape = row_image.RowShape(self._sizes, [*self._places]) if native else None
        """What native code compares rows by; None where any update counts."""

    def deleted(self, position: int) -> None:
        """Note that rows were deleted."""
        self._note(DELETED, position)

    def updated(self, position: int, places: Iterable[int] | None) -> None:
        """Note that columns at these places have changed; None: nobody knows which."""
        for column in [ANY, *self._ends] if places is None else [self._places[at] for at in places]:
            self._note(DELETED if column.lower() in self._ends else column, position)

    def _note(self, column: str | None, position: int) -> None:
        at = (*self._name, column)
        self._notes[at] = max(self._notes.get(at, 0), position)

    def look(self, data: bytes, kind: int, position: int, description: FormatDescription) -> None:
        """Look at a row event that is not compressed. Raise BadEvent."""
        if kind in DELETES and self.deletes and not flags_of(data, kind, description) & _NO_FOREIGN_KEYS:
            self.deleted(position)
        elif kind in UPDATES and self.updates and not flags_of(data, kind, description) & _NO_FOREIGN_KEYS:
            rows = read_rows(data, kind, description)
            self.updated(position, self._changed(rows) if self._places else None)

    def _changed(self, rows: RowsEvent) -> set[int]:
        """Return the places at which rows have other bytes after an update. Raise BadEvent."""
        if rows.columns != len(self._types):
            raise BadEvent(f"rows of {rows.columns} columns, where the table map has {len(self._types)}")
        cursor, out = Cursor(rows.body), set[int]()
        while cursor.left:
            begins = cursor.at
            before = self._image(cursor, rows.before, partial=False)
            after = self._image(cursor, rows.after, partial=rows.partial)
            out |= {at for at, value in after.items() if at not in before or before[at] != value}
            if cursor.at == begins:
                raise BadEvent("rows without any bytes")
        return out

    def _image(self, cursor: Cursor, present: Sequence[bool], *, partial: bool) -> dict[int, bytes | None]:
        """Return the bytes of an image's referenced columns, with those of their length; None is NULL."""
        in_part: Iterator[bool] = iter(())
        if partial and cursor.packed() & 1:
            count = self._types.count(JSON)
            in_part = iter(bits(cursor.take((count + 7) // 8), count))
        count = sum(present)
        nulls = iter(bits(cursor.take((count + 7) // 8), count))
        out: dict[int, bytes | None] = {}
        for at, (length, size) in enumerate(self._sizes):
            parts = next(in_part, False) if self._types[at] == JSON else False
            if not present[at]:
                continue
            value: bytes | None = None
            if not next(nulls):
                begins = cursor.at
                cursor.take(cursor.number(4) if parts else cursor.number(length) if length else size)
                value = cursor.data[begins : cursor.at]
            if at in self._places:
                out[at] = value
        return out


class TableMaps:
    """What is known of tables by their ids in the log, until a statement may have changed them."""

    def __init__(self, tables: LogTables, decoder: LogDecoder, values: ValueReader, *, native: bool) -> None:
        self._tables, self._decoder = tables, decoder
        self.values, self.native = values, native
        self._rows = RowsDecoder(values)
        self._known: dict[int, KnownTable | None] = {}
        """By the ids of tables in the log."""
        self._read: dict[bytes, tuple[TableMap, KnownTable | None, RowPlan | bytes | None, ParentWatch | None]] = {}
        """What table maps say, by their bodies without the id, of which a table may get a new one at any moment."""
        self.used: set[int] = set()
        """The entries of the history that tables had since `begin`."""
        self.parents: dict[tuple[str, str, str | None], int] = {}
        """Changes of rows that others refer to by foreign keys since `begin`, as `ParentWatch` notes them."""
        self.nested = False
        """True within a compressed transaction, whose rows get their positions at its end."""

    def begin(self) -> None:
        """Forget which entries were used, but for tables that native code goes on with by itself."""
        self.used = {known.id for known in self._known.values() if known is not None}
        self.parents.clear()

    def trim(self) -> None:
        """Forget all of them where they are many: servers give a table another id each time that they open it."""
        if max(len(self._known), self._decoder.known) > MAX_KNOWN:
            self.forget()

    def forget(self) -> None:
        """Forget all of them."""
        self._known.clear()
        self._read.clear()
        self._decoder.forget()

    def learn(self, event: Event, file: str) -> None:
        """Take a table map. Raise BadEvent, or ConfigError where it is not the table that the history has."""
        body = event.data[events.HEADER_BYTES :]
        table = table_of(event.data, events.TABLE_MAP, self._decoder.description)
        known_map = self._read.get(body[_ID_BYTES:])
        table_map = read_table_map(event.data, self._decoder.description) if known_map is None else known_map[0]
        entry = self._tables.read(table_map.database, table_map.name, self._decoder.base + event.start)
        if known_map is None or (entry and entry[0]) != (known_map[1] and known_map[1].id):
            known = None if entry is None else KnownTable(entry[0], entry[1], table_map)
            if known is not None and (why := check(known)):
                msg = f"table {table_map.database}.{table_map.name} {why} ({file}, before {self._decoder.offset})"
                hint = (
                    "give its columns with `ingest schema set FILE --table T 'CREATE TABLE …'`, or pass over it with "
                    "`ingest backfill FILE --all`"
                )
                raise AnotherDefinition(msg, hint)
            plan = None if not self.native else body if known is None else plan_of(known, body, self.values)
            of = self._tables.referenced(table_map.database, table_map.name, self._decoder.base + event.start)
            watch = None if of is None else ParentWatch(table_map, of, self.values, self.parents, native=self.native)
            known_map = self._read[body[_ID_BYTES:]] = table_map, known, plan, watch
        self._known[table] = known_map[1]
        if known_map[1] is not None:
            self.used.add(known_map[1].id)
        self._decoder.learn(table, known_map[2], known_map[3])

    def rows(self, event: Event) -> None:
        """Add the records of a row event. Raise BadEvent."""
        decoder, kind, data = self._decoder, event.header.kind, event.data
        table = table_of(data, kind, decoder.description)
        known, watch = self._lookup(table), decoder.watched.get(table)
        if watch is not None and not decoder.skipped:
            plain, body = unpacked(data, kind, decoder.description)
            watch.look(body, plain, decoder.base + event.start, decoder.description)
        if known is None or decoder.unheld or decoder.skipped:
            return
        if not event.filed:
            raise BadEvent("rows that are in no file")
        before, position = len(decoder.records), decoder.base + event.start
        kind, data = unpacked(data, kind, decoder.description)
        if not decoder.rows_of(data, position):
            rows = read_rows(data, kind, decoder.description)
            for value in self._rows.decode(known, rows, partial=self._tables.partial):
                decoder.records.add(value, position, event.header.time * 1000)
        if not self.nested:
            decoder.records.place(before, position, event.end - event.start)

    def _lookup(self, table: int) -> KnownTable | None:
        """Return the table of rows; None if it is not read. Raise BadEvent where no table map was before them."""
        if table in self._known or table == _NO_TABLE:
            return self._known.get(table)
        plan = self._decoder.plan(table)  # native code knows a table by its map, whatever its id
        if plan is None:
            raise BadEvent(f"rows of the table {table}, of which no table map came")
        return None if isinstance(plan, bytes) else plan.known

    def without_transactions(self, ids: Iterable[int]) -> set[int]:
        """Return those entries of the history that are tables without transactions."""
        by_id = {known.id: known.table.engine.lower() for _, known, *_ in self._read.values() if known is not None}
        return {one for one in ids if by_id.get(one) in _WITHOUT_TRANSACTIONS}
