"""Rows that foreign keys change, of which the log has nothing: found by the rows of the tables that they refer to.

In: which rows of a referenced table were deleted, or had a referenced column changed, up to which position, as
`ParentWatch` of `table_maps.py` notes it. Out: the tables whose rows that changed, and when they are read again.
Rules: docs/spec/mysql.md#rows-that-statements-change.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ingest.sources.mysql.chunks import quoted
from ingest.sources.mysql.state import Dependent, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.sources.mysql.history import History, SchemaEntry
    from ingest.sources.mysql.types import ForeignKey, Table, TableName

DELETED: Final = None
"""In place of a column: rows were deleted."""
ANY: Final = ""
"""In place of a column: rows were updated, and which columns changed is not known."""
PAUSE_S: Final = 3600
"""Seconds from one reading of a table for this reason to the next: rows of other tables are deleted all the time."""
LOOK_S: Final = 60
"""Seconds after which it is asked again how large a table is that is not read again."""


class Referenced(NamedTuple):
    """The operations on a table, and its columns, through which foreign keys change rows of other tables."""

    deletes: bool
    columns: frozenset[str]
    """Columns whose changes go on, in lower case; with ANY, of one key they are not known. Where deletes go on, also
    that of a versioned table by which its rows end."""
    table: Table | None
    """The table; None where its definition is not known."""


def referenced(history: History, name: TableName, position: int) -> Referenced | None:
    """Return the changes of a table that foreign keys of known tables react to; None if no foreign key refers to it."""
    deletes, columns = False, set[str]()
    for _, key in _keys_to(history, name, position):
        deletes = deletes or bool(key.on_delete)
        columns |= {column.lower() for column in key.referenced or [ANY]} if key.on_update else set()
    if not deletes and not columns:
        return None
    known = history.at(name, position)
    table = None if known is None else known.table
    if deletes and table is not None and table.row_end is not None:
        columns.add(table.row_end.lower())  # a row of a versioned table that is deleted is one that ends
    return Referenced(deletes, frozenset(columns), table)


def changed_tables(history: History, parent: TableName, column: str | None, position: int) -> dict[TableName, str]:
    """Return the tables of the pipeline whose rows foreign keys change with a table's rows, each with the reason.

    `column`: of the other table, what changed; DELETED, or ANY. Rows that change so may change further ones.
    """
    out: dict[TableName, str] = {}
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


def _keys_to(history: History, parent: TableName, position: int) -> Iterator[tuple[SchemaEntry, ForeignKey]]:
    """Yield the foreign keys on a table, at a position, that change rows; each with the entry of its own table."""
    for child in history.children(parent):
        entry = history.at(child, position)
        for key in () if entry is None or entry.table is None else entry.table.cascades:
            if entry is not None and key.parent == parent:
                yield entry, key


def note_parents(state: State, history: History, notes: Iterable[tuple[str, str, str | None, int]]) -> None:
    """Record the tables of the pipeline whose rows foreign keys have changed with the noted rows."""
    for database, name, column, position in notes:
        for child, why in changed_tables(history, (database, name), column, position).items():
            dependent = next((dependent for dependent in state.dependents if dependent.name == child), None)
            if dependent is None:
                dependent = Dependent(child)
                state.dependents.append(dependent)
            if position > dependent.position:
                dependent.position, dependent.why = position, why


def changed_since(state: State, history: History) -> Iterator[Dependent]:
    """Yield the tables whose rows have changed since they were read last, and that are not being read."""
    read = {entry.name: entry.table for entry in history.newest() if entry.read}
    known = {dependent.name: dependent for dependent in state.dependents if dependent.name in read}
    for snapshot in state.snapshots:
        table = read.get(snapshot.name)
        if snapshot.read and table is not None and (table.cascades or snapshot.name in known):
            known.setdefault(snapshot.name, Dependent(snapshot.name)).low = snapshot.low
    state.dependents = [*known.values()]
    reading = {snapshot.name for snapshot in state.snapshots if not snapshot.read}
    for dependent in state.dependents:
        if dependent.name not in reading and dependent.position > (-1 if dependent.low is None else dependent.low):
            yield dependent


def moment(seconds: int) -> str:
    """Return a moment for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def unseen_parent(name: TableName) -> str:
    """Return the warning for a referenced table that does not exist or that this user may not see."""
    return (
        f"foreign keys of tables that are read refer to {'.'.join(name)}, whose columns this user may not see: each of "
        "its updates counts as one of the columns that they refer to, and its own foreign keys are not known "
        f"(GRANT SELECT ON {'.'.join(map(quoted, name))} fixes it)"
    )


def unknown_parents(history: History) -> set[TableName]:
    """Return the tables without a known definition to which foreign keys of known tables refer."""
    tables = [entry.table for entry in history.newest() if entry.table is not None]
    parents = {key.parent for table in tables for key in table.cascades}
    return {name for name in parents if history.at(name, 1 << 63) is None}
