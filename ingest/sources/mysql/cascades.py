"""Rows that foreign keys change, of which the log has nothing: found by the rows of the tables that they refer to.

In: row events of a referenced table, be it read or not. Out: which of its rows were deleted, or had a referenced column
changed, up to which position; then the tables whose rows that changed, and when they are read again. Of such an event
only its head is read, and of updates the bytes of the referenced columns. Native code has the same
(native/row_image.pyx). Rules: docs/spec/mysql.md#rows-that-statements-change.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.sources.mysql.chunks import quoted
from ingest.sources.mysql.events import DELETES, UPDATES, BadEvent, Cursor
from ingest.sources.mysql.row_decoder import KnownTable, bits, check, flags_of, read_rows
from ingest.sources.mysql.row_plan import row_shape, sizes_of
from ingest.sources.mysql.state import Dependent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.sources.mysql.events import FormatDescription
    from ingest.sources.mysql.history import History, Name, SchemaEntry
    from ingest.sources.mysql.row_decoder import RowsEvent, TableMap
    from ingest.sources.mysql.row_values import ValueReader
    from ingest.sources.mysql.state import State
    from ingest.sources.mysql.types import ForeignKey, Table

DELETED: Final = None
"""In place of a column: rows were deleted."""
ANY: Final = ""
"""In place of a column: rows were updated, and which columns changed is not known."""
PAUSE_S: Final = 3600
"""Seconds from one reading of a table for this reason to the next: rows of other tables are deleted all the time."""
LOOK_S: Final = 60
"""Seconds after which it is asked again how large a table is that is not read again."""
_JSON: Final = 245
_NO_FOREIGN_KEYS: Final = 2
"""The flag of a row event whose session had `foreign_key_checks = 0`: then nothing cascades."""


class Referenced(NamedTuple):
    """What of a table's rows other tables depend on."""

    deletes: bool
    columns: frozenset[str]
    """Columns whose changes go on, in lower case; with ANY, of one key they are not known. Where deletes go on, also
    that of a versioned table by which its rows end."""
    table: Table | None
    """The table; None where its definition is not known."""


def referenced(history: History, name: Name, position: int) -> Referenced | None:
    """Return on which rows and columns of a table foreign keys of known tables depend; None if there are none."""
    deletes, columns = False, set[str]()
    for _, key in _keys_to(history, name, position):
        deletes = deletes or bool(key.on_delete)
        columns |= {one.lower() for one in key.referenced or [ANY]} if key.on_update else set()
    if not deletes and not columns:
        return None
    known = history.at(name, position)
    table = None if known is None else known.table
    if deletes and table is not None and table.row_end is not None:
        columns.add(table.row_end.lower())  # a row of a versioned table that is deleted is one that ends
    return Referenced(deletes, frozenset(columns), table)


def changed_tables(history: History, parent: Name, column: str | None, position: int) -> dict[Name, str]:
    """Return the tables that are read and whose rows change with those of another table, each with why.

    `column`: of the other table, what changed; DELETED, or ANY. Rows that change so may change further ones.
    """
    out: dict[Name, str] = {}
    todo = [(parent, column)]
    seen = {*todo}
    while todo:
        name, what = todo.pop()
        for child, key in _keys_to(history, name, position):
            hit = what is DELETED or what == ANY or what.lower() in map(str.lower, key.referenced or [what])
            action = key.on_delete if what is DELETED else key.on_update
            if not hit or not action:
                continue
            if child.read:
                event = "DELETE" if what is DELETED else "UPDATE"
                out.setdefault(child.name, f"{event} in {'.'.join(name)}: its foreign key {key.name} says {action}")
            gone = what is DELETED and action == "CASCADE"
            following = [(child.name, one) for one in ([DELETED] if gone else key.columns or [ANY])]
            todo += [one for one in following if one not in seen]
            seen.update(following)
    return out


def _keys_to(history: History, parent: Name, position: int) -> Iterator[tuple[SchemaEntry, ForeignKey]]:
    """Yield the foreign keys that refer to a table at a position and change rows, each with the table that has it."""
    for child in history.children(parent):
        entry = history.at(child, position)
        for key in () if entry is None or entry.table is None else entry.table.cascades:
            if entry is not None and key.parent == parent:
                yield entry, key


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
        self.shape = row_shape(self._sizes, [*self._places]) if native and self._places else None
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
            msg = f"rows of {rows.columns} columns, where the table map has {len(self._types)}"
            raise BadEvent(msg)
        cursor, out = Cursor(rows.body), set[int]()
        while cursor.left:
            begins = cursor.at
            before = self._image(cursor, rows.before, partial=False)
            after = self._image(cursor, rows.after, partial=rows.partial)
            out |= {at for at, value in after.items() if at not in before or before[at] != value}
            if cursor.at == begins:
                msg = "rows without any bytes"
                raise BadEvent(msg)
        return out

    def _image(self, cursor: Cursor, present: Sequence[bool], *, partial: bool) -> dict[int, bytes | None]:
        """Return the bytes of an image's referenced columns, with those of their length; None is NULL."""
        in_part: Iterator[bool] = iter(())
        if partial and cursor.packed() & 1:
            count = self._types.count(_JSON)
            in_part = iter(bits(cursor.take((count + 7) // 8), count))
        count = sum(present)
        nulls = iter(bits(cursor.take((count + 7) // 8), count))
        out: dict[int, bytes | None] = {}
        for at, (length, size) in enumerate(self._sizes):
            parts = next(in_part, False) if self._types[at] == _JSON else False
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


# -- The driver's side ------------------------------------------------------------------------------------------------


def note_parents(state: State, history: History, notes: Iterable[tuple[str, str, str | None, int]]) -> None:
    """Note the tables that are read and whose rows have changed with rows of others."""
    for database, name, column, position in notes:
        for child, why in changed_tables(history, (database, name), column, position).items():
            one = next((one for one in state.dependents if one.name == child), None)
            if one is None:
                one = Dependent(child)
                state.dependents.append(one)
            if position > one.position:
                one.position, one.why = position, why


def changed_since(state: State, history: History) -> Iterator[Dependent]:
    """Yield the tables whose rows have changed since they were read last, and that are not being read."""
    read = {entry.name: entry.table for entry in history.newest() if entry.read}
    known = {one.name: one for one in state.dependents if one.name in read}
    for snapshot in state.snapshots:
        table = read.get(snapshot.name)
        if snapshot.read and table is not None and (table.cascades or snapshot.name in known):
            known.setdefault(snapshot.name, Dependent(snapshot.name)).low = snapshot.low
    state.dependents = [*known.values()]
    reading = {one.name for one in state.snapshots if not one.read}
    for one in state.dependents:
        if one.name not in reading and one.position > (-1 if one.low is None else one.low):
            yield one


def moment(seconds: int) -> str:
    """Return a moment for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def unseen_parent(name: Name) -> str:
    """Return the line of the log about a table that others refer to, and that is not there or may not be seen."""
    return (
        f"foreign keys of tables that are read refer to {'.'.join(name)}, whose columns this user may not see: each of "
        "its updates counts as one of the columns that they refer to, and its own foreign keys are not known "
        f"(GRANT SELECT ON {'.'.join(map(quoted, name))} fixes it)"
    )


def unknown_parents(history: History) -> set[Name]:
    """Return tables of which nothing is known, and to whose rows those of known ones refer."""
    tables = [entry.table for entry in history.newest() if entry.table is not None]
    parents = {key.parent for table in tables for key in table.cascades}
    return {name for name in parents if history.at(name, 1 << 63) is None}
