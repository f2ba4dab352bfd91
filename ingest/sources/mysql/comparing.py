"""Compares tables as statements of the log have made them with the server's, when the log's end is reached.

In: statements that were applied since the last comparison, and the tables as the server has them at the same position.
Out: entries of the history with the server's columns, where no row was decoded by others. Rule:
docs/spec/mysql.md#statements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import ConfigError
from ingest.model.table import show, table_in
from ingest.model.text import one_line
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.state import AppliedStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ingest.sources.mysql.history import History, Name, SchemaEntry
    from ingest.sources.mysql.starting import Ask
    from ingest.sources.mysql.state import State
    from ingest.sources.mysql.types import Column, Table

_NO_WIDTH: Final = frozenset({"smallint", "mediumint", "int", "bigint", "year"})
"""Types whose number in brackets says nothing of their values."""
_SHOWN: Final = 120
"""Characters of a statement that are kept, for people: each plan has them."""


def note_applied(state: State, entries: Iterable[SchemaEntry], statement: str) -> None:
    """Note tables that a statement changed, as what its words say: the server was not asked for their columns."""
    shown = one_line(statement)[:_SHOWN]
    state.applied += [AppliedStatement(entry.name, entry.id, shown) for entry in entries if entry.read]


def note_passed(state: State) -> None:
    """Keep the last statement of each table, where the log is read up to it: those before it decode no row any more."""
    last: dict[Name, AppliedStatement] = {}
    for one in state.applied:
        before = last.pop(one.name, None)
        used = one.used or (before is not None and before.used)  # rows may be wrong by a statement before this one
        last[one.name] = msgspec.structs.replace(one, used=used)
    state.applied = [*last.values()]


def note_asked(state: State, names: Collection[Name]) -> None:
    """Forget what was applied to tables whose columns the server, or a person, has just said."""
    state.applied = [one for one in state.applied if one.used or one.name not in names]


def note_used(state: State, entries: Collection[int] | None) -> None:
    """Note by which entries of the history rows were decoded; None: nobody knows, so it may be all."""
    state.applied = [
        msgspec.structs.replace(one, used=one.used or entries is None or one.entry in entries) for one in state.applied
    ]


def note_read_again(state: State, names: Collection[Name]) -> None:
    """Note that rows of tables are read again: those that were decoded do not count any more."""
    state.applied = [msgspec.structs.replace(one, used=one.used and one.name not in names) for one in state.applied]


def compare(
    state: State, history: History, ask: Ask, still: Callable[[], bool], warn: Callable[[str], None]
) -> list[SchemaEntry]:
    """Return entries for the tables that the server has otherwise, and forget what was applied.

    `still`: whether the log ends where it did. Raise ConfigError where rows were decoded by columns that are not the
    server's.
    """
    note_passed(state)
    about, names = ask("ask for its version", catalogue.server), [one.name for one in state.applied]
    there = ask("ask for columns", lambda connection: catalogue.settled(connection, names, about))
    if there is None or not still():
        return []  # at the next look
    out: list[SchemaEntry] = []
    for one in state.applied:
        entry = history.entry(one.entry)
        if entry is None:
            continue
        now = there.get(one.name)
        why = difference(entry.table, now)
        if not why:
            continue
        table = show(table_in(*one.name))
        if one.used or entry.table is None:
            msg = f"the server has {table} with other columns than a statement was taken to leave ({why}), and rows of "
            msg += f"the log were read by these; the statement: {one.statement}"
            raise ConfigError(msg, f"run `ingest backfill FILE --table {table}`, and please report the statement")
        warn(
            f"{table}: the server has other columns than a statement was taken to leave ({why}); no row was read by "
            f"these, and the server's are taken; please report the statement: {one.statement}"
        )
        out.append(replace(entry, id=state.next_entry + len(out), table=now))
    state.applied = []
    return out


def difference(ours: Table | None, theirs: Table | None) -> str:
    """Return the first difference of two definitions by which rows are read otherwise; empty where there is none."""
    if ours is None or theirs is None:
        return "" if ours is theirs else f"the server has {'no' if theirs is None else 'a'} table of this name"
    for at, (here, there) in enumerate(zip(ours.columns, theirs.columns, strict=False), 1):
        if _facts(here) != _facts(there):
            return f"column {at} is {_shown(here)} here and {_shown(there)} there"
    if len(ours.columns) != len(theirs.columns):
        return f"{len(ours.columns)} columns here and {len(theirs.columns)} there"
    if ours.primary_key != theirs.primary_key:
        return f"the primary key is {_keys([ours.primary_key])} here and {_keys([theirs.primary_key])} there"
    if sorted(ours.unique_keys) != sorted(theirs.unique_keys):
        return f"unique keys are {_keys(ours.unique_keys)} here and {_keys(theirs.unique_keys)} there"
    return ""


def _facts(column: Column) -> tuple[object, ...]:
    length = None if column.type in _NO_WIDTH else column.length
    if column.type == "tinyint":
        length = 1 if length == 1 and not column.unsigned else None
    return (
        column.name, column.type, length, column.precision, column.scale, column.fsp, column.unsigned, column.charset,
        column.labels, column.nullable, column.hidden,
    )  # fmt: skip


def _shown(column: Column) -> str:
    words = [column.name, column.type + (f"({column.length})" if column.length else ""), column.charset or ""]
    words += ["unsigned" if column.unsigned else "", "" if column.nullable else "not null"]
    return " ".join(filter(None, words))


def _keys(found: Iterable[tuple[str, ...]]) -> str:
    return " ".join(f"({', '.join(key)})" for key in sorted(found))
