"""Statements that tasks have met in the log become entries of the history of schemas.

In: a statement at its position, and what is known of tables there. Out: entries, and what else it does. What is not
known, and what the parser does not understand, is asked of the server. Tables as statements have left them are compared
with the server's when the end of the log is reached: where no row was decoded by other columns, the server's count.
Rules: docs/spec/mysql.md#statements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingest.errors import ConfigError
from ingest.model.table import TableId, show, table_in
from ingest.model.text import one_line
from ingest.sources.mysql import catalogue, ddl
from ingest.sources.mysql.ddl import answer_to, statement_text
from ingest.sources.mysql.effects import Effect, Remedy, RowPolicy, TableMark, consequences
from ingest.sources.mysql.history import History, SchemaEntry, may_change_tables
from ingest.sources.mysql.state import AppliedStatement, State, StatementNote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.events import Query
    from ingest.sources.mysql.log_search import LogSearch
    from ingest.sources.mysql.start_positions import Ask
    from ingest.sources.mysql.tokens import ServerRules
    from ingest.sources.mysql.types import Column, Table, TableName

_SHOWN: Final = 300
"""Characters of a statement that an error shows."""

MOST_AHEAD: Final = 1000
"""Statements that are applied before the log is read up to them, at most."""

_REDEFINES: Final = re.compile(r"\b(?:MODIFY|CHANGE|CONVERT|RENAME)\b", re.IGNORECASE)
"""Words of statements that columns may have been others before, though they are as the statement says."""


def known_at(
    search: LogSearch,
    place: tuple[str, int],
    tables: Mapping[TableName, Table],
    about: ServerRules,
    databases: Mapping[str, str],
) -> dict[TableName, Table]:
    """Return the tables that there are at an earlier place of the log, of those that the server has now.

    What the log makes behind the place is none of them: its columns come with the statement. Raise ConfigError where a
    statement changes a table that was there before: nothing says what its columns were.
    """
    statements = [one for one in search.statements(*place) if not one[2].error and may_change_tables(one[2].text)]

    def applied(query: Query, of: Mapping[TableName, Table]) -> Effect:
        return ddl.apply(
            of,
            query.text.decode("utf-8", "replace"),
            default_database=query.database,
            sql_mode=query.sql_mode,
            server=about,
            databases=databases,
        )

    created: dict[TableName, Table | None] = {}
    for _, _, query in statements:
        effect = applied(query, {name: table for name, table in created.items() if table is not None})
        here = {*effect.made, *(after for before, after in effect.renamed if before in created)}
        created |= {name: effect.tables.get(name) for name in {*here, *(effect.tables.keys() & created)}}
    existing = {name: table for name, table in tables.items() if name not in created}
    for file, end, query in statements:
        effect = applied(query, existing)
        text = query.text.decode("utf-8", "replace")
        for name in sorted(existing.keys() & {*effect.tables, *effect.touches}):
            now = effect.tables.get(name, existing[name])
            same = now is not None and now.columns == existing[name].columns and not _REDEFINES.search(text)
            if effect.doubt is not None or not same:
                msg = (
                    f"reading would start before a statement that changes {'.'.join(name)}, and nothing says what its "
                    f"columns were before: {one_line(text)[:300]}"
                )
                raise ConfigError(msg, f"start at {file}:{end} or behind it, or with scan.startup.mode: initial")
    return existing


@dataclass(slots=True)
class Applied:
    """The outcome of a statement that was applied: new entries of the history, and its effect."""

    entries: list[SchemaEntry] = field(default_factory=list)
    effect: Effect | None = None
    """The statement's effect; None where only the resulting columns are known, from the server."""
    answers: list[str] = field(default_factory=list)
    """Names of the answers that were used."""
    asked: set[TableName] = field(default_factory=set)
    """Tables whose columns came from the server or from a person."""


class StatementHistory:
    """Applies statements, in the order of the log."""

    def __init__(
        self,
        about: ServerRules,
        databases: Mapping[str, str],
        reads: Callable[[TableId], bool],
        *,
        booleans: bool,
        begins: Callable[[TableName], int] = lambda _: 0,
    ) -> None:
        """`about`: the server, `databases`: their default character sets, `reads`: whether a table is read.

        `begins`: from which position on. One that is taken in later is read by its rows, which have all before that.
        """
        self._about = about
        self._databases = dict(databases)
        self._reads, self._begins = reads, begins
        self._booleans = booleans

    def apply(
        self,
        history: History,
        note: StatementNote,
        first: int,
        ask: Connection,
        answers: Mapping[str, Any],
        used: Collection[str],
        later: Callable[[], Iterable[Query]] = tuple,
    ) -> Applied:
        """Return the outcome of a statement; new entries get ids from `first` on. Raise IngestError or a PyMySQL error.

        `answers`: documents with what a person has said of tables; `used`: names of those that were used before.
        `later`: yields the statements behind it, up to where the log ends when it is called.
        """
        tables = self._tables(history, note.position)
        effect = self._effect(tables, note)
        changed: dict[TableName, Table | None] = dict(effect.tables)
        taken: list[str] = []
        wanted = {name for name in effect.unknown | effect.touches if self.reads(name, note.position)}
        if wanted:
            answered = {
                name: found
                for name in sorted(wanted)
                if (found := answer_to(name, answers, used, server=self._about, databases=self._databases)) is not None
            }
            taken = [name for name, _ in answered.values()]
            changed.update({name: table for name, (_, table) in answered.items()})
            if left := wanted - answered.keys():
                changed.update(self._asked(left, note, effect.doubt, ask, later))
        return Applied(self._entries(history, tables, effect, changed, note.position, first), effect, taken, wanted)

    def ahead(
        self,
        history: History,
        notes: Iterable[StatementNote],
        written: Collection[TableName],
        first: int,
        policy: RowPolicy,
    ) -> list[tuple[StatementNote, Applied]]:
        """Return the next statements that can be applied at once, each with its outcome, before the log is read on.

        Those that follow each other as in a migration are applied at once, as each asks for a batch otherwise. Rows
        between them are decoded by the columns of their own positions all the same. The log is read up to a statement
        whose columns are asked for, behind which rows are deleted or read again, or which changes the columns of a
        table that has rows before it, or takes away a foreign key by which rows before it may have changed others.
        `written`: tables with rows in the log before the statement that came last.
        """
        out: list[tuple[StatementNote, Applied]] = []
        for note in islice(notes, MOST_AHEAD):
            if history.answered(note.position):
                continue
            tables = self._tables(history, note.position)
            effect = self._effect(tables, note)
            if any(self.reads(name, note.position) for name in effect.unknown | effect.touches):
                break
            entries = self._entries(history, tables, effect, effect.tables, note.position, first)
            outcome = consequences(
                effect,
                policy,
                reads=partial(self.reads, position=note.position),
                was_read=partial(history.was_read, position=note.position),
                rows=lambda _: 0,
            )
            waits = any(consequence.remedy is not Remedy.STAY for consequence in outcome)
            # A task notes only the last change of a parent: the keys have to be the same up to there
            waits = waits or (
                bool(written) and any(_loses_key(tables.get(entry.name), entry.table) for entry in entries)
            )
            if waits or any(_is_another(tables.get(entry.name), entry) for entry in entries if entry.name in written):
                break
            out.append((note, Applied(entries, effect)))
            history = history.with_entries(entries, [note.position])
            first += len(entries)
        return out

    def _effect(self, tables: Mapping[TableName, Table], note: StatementNote) -> Effect:
        """Return the effect of a statement, from its text alone."""
        effect = ddl.apply(
            tables,
            note.text,
            default_database=note.database,
            sql_mode=note.sql_mode,
            server=self._about,
            databases=self._databases,
        )
        for database, charset in effect.databases.items():
            if charset is None:
                self._databases.pop(database, None)
            else:
                self._databases[database] = charset
        return effect

    def _entries(
        self,
        history: History,
        tables: Mapping[TableName, Table],
        effect: Effect,
        changed: Mapping[TableName, Table | None],
        position: int,
        first: int,
    ) -> list[SchemaEntry]:
        """Return the entries of tables that a statement has changed; `tables`: those before it."""
        entries: list[SchemaEntry] = []
        for name, table in changed.items():
            known = tables.get(name)
            if table is None and known is None:
                continue
            before = [entry for entry in history.of(name) if entry.position < position]
            self._mark_names(effect, before, name, known, table)
            read = self.reads(name, position)
            entries.append(SchemaEntry(first + len(entries), position, name, table, read, self._booleans))
        return entries

    @staticmethod
    def _mark_names(
        effect: Effect, before: Iterable[SchemaEntry], name: TableName, known: Table | None, table: Table | None
    ) -> None:
        """Mark new columns that reuse a former column's name: the sink's column still has the former values."""
        if known is None or table is None:
            return
        former = {
            column.name.lower()
            for entry in before
            if entry.read and entry.table is not None
            for column in entry.table.columns
        }
        marked = {mark.column for mark in effect.marks if mark.table == name}
        for column in table.columns:
            again = known.find(column.name) is None and column.name.lower() in former
            if again and column.name not in marked and not column.hidden:
                effect.marks.append(TableMark(name, "ADD COLUMN of a name that another one had", column.name))

    def reads(self, name: TableName, position: int) -> bool:
        """Return whether a table is read by the log at a position."""
        return self._reads(table_in(*name)) and position >= self._begins(name)

    @staticmethod
    def _tables(history: History, position: int) -> dict[TableName, Table]:
        found = {entry.name: history.at(entry.name, position) for entry in history.entries}
        return {name: one.table for name, one in found.items() if one is not None and one.table is not None}

    def _asked(
        self,
        wanted: Collection[TableName],
        note: StatementNote,
        doubt: str | None,
        ask: Connection,
        later: Callable[[], Iterable[Query]],
    ) -> dict[TableName, Table]:
        """Return the tables' columns as the server has them now, unless a later statement changes them.

        Raise ConfigError.
        """
        existing = catalogue.tables(ask, wanted, self._about)
        why = {name: "it is gone" for name in wanted if name not in existing}
        for query in () if why else later():
            text = statement_text(query.text, query.charset)
            for name in wanted:
                if ddl.may_change(name, text, sql_mode=query.sql_mode, server=self._about):
                    why.setdefault(name, f"a later statement is about it: {one_line(text)[:_SHOWN]}")
        for name in sorted(why):
            shown = show(table_in(*name))
            what = f"is not understood ({doubt})" if doubt else "does not say which columns a table has"
            msg = f"a statement of the log {what}, and the server cannot be asked what {shown} was after it, as "
            msg += f"{why[name]}; the statement: {one_line(note.text)[:_SHOWN]}"
            raise ConfigError(msg, f"say it: ingest schema set FILE --table '{shown}' 'CREATE TABLE …'")
        return existing


def _is_another(before: Table | None, entry: SchemaEntry) -> bool:
    """Return whether an entry changes the columns that a table's rows have in the sink."""
    if before is None or entry.table is None or not entry.read:
        return False
    return replace(entry, table=before).schema() != entry.schema()


def _loses_key(before: Table | None, after: Table | None) -> bool:
    """Return whether a statement takes away a foreign key that changes rows."""
    return before is not None and not {*before.cascades} <= {*(() if after is None else after.cascades)}


_NO_WIDTH: Final = frozenset({"smallint", "mediumint", "int", "bigint", "year"})
"""Types whose number in brackets says nothing of their values."""
_KEPT: Final = 120
"""Characters of a statement that are kept, for people: each plan has them."""


def note_applied(state: State, entries: Iterable[SchemaEntry], statement: str) -> None:
    """Record tables whose new columns were parsed from a statement, without asking the server for them."""
    shown = one_line(statement)[:_KEPT]
    state.applied += [AppliedStatement(entry.name, entry.id, shown) for entry in entries if entry.read]


def note_passed(state: State) -> None:
    """Keep only the last applied statement of each table.

    Once the log is read up to it, none before it decodes rows.
    """
    last: dict[TableName, AppliedStatement] = {}
    for applied in state.applied:
        before = last.pop(applied.name, None)
        used = applied.used or (before is not None and before.used)  # rows may be wrong by a statement before this one
        last[applied.name] = msgspec.structs.replace(applied, used=used)
    state.applied = [*last.values()]


def note_asked(state: State, names: Collection[TableName]) -> None:
    """Remove the applied statements of tables whose columns the server or a person has just confirmed."""
    state.applied = [applied for applied in state.applied if applied.used or applied.name not in names]


def note_used(state: State, entries: Collection[int] | None) -> None:
    """Record which entries of the history were used to decode rows; None: unknown, any may have been."""
    state.applied = [
        msgspec.structs.replace(applied, used=applied.used or entries is None or applied.entry in entries)
        for applied in state.applied
    ]


def note_read_again(state: State, names: Collection[TableName]) -> None:
    """Record that tables are read again: rows decoded before no longer need a check."""
    state.applied = [
        msgspec.structs.replace(applied, used=applied.used and applied.name not in names) for applied in state.applied
    ]


def compare(
    state: State, history: History, ask: Ask, still: Callable[[], bool], warn: Callable[[str], None]
) -> list[SchemaEntry]:
    """Return entries for the tables that the server defines otherwise, and clear the list of applied statements.

    `still`: whether the log ends where it did. Raise ConfigError where rows were decoded by columns that are not the
    server's.
    """
    note_passed(state)
    about, names = ask("ask for its version", catalogue.server), [applied.name for applied in state.applied]
    existing = ask("ask for columns", lambda connection: catalogue.settled(connection, names, about))
    if existing is None or not still():
        return []  # at the next look
    out: list[SchemaEntry] = []
    for applied in state.applied:
        entry = history.entry(applied.entry)
        if entry is None:
            continue
        now = existing.get(applied.name)
        why = difference(entry.table, now)
        if not why:
            continue
        table = show(table_in(*applied.name))
        if applied.used or entry.table is None:
            msg = f"the server has {table} with other columns than a statement was taken to leave ({why}), and rows of "
            msg += f"the log were read by these; the statement: {applied.statement}"
            raise ConfigError(msg, f"run `ingest backfill FILE --table {table}`, and please report the statement")
        warn(
            f"{table}: the server has other columns than a statement was taken to leave ({why}); no row was read by "
            f"these, and the server's are taken; please report the statement: {applied.statement}"
        )
        out.append(replace(entry, id=state.next_entry + len(out), table=now))
    state.applied = []
    return out


def difference(ours: Table | None, theirs: Table | None) -> str:
    """Return the first difference of two table definitions that changes how rows are decoded, or an empty text."""
    if ours is None or theirs is None:
        return "" if ours is theirs else f"the server has {'no' if theirs is None else 'a'} table of this name"
    for number, (our_column, server_column) in enumerate(zip(ours.columns, theirs.columns, strict=False), 1):
        if _facts(our_column) != _facts(server_column):
            return f"column {number} is {_shown(our_column)} here and {_shown(server_column)} there"
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
