"""What a statement does to tables, and the state while it is applied."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.tokens import ServerRules

TableName: TypeAlias = tuple[str, str]
"""A database and the name of a table in it, as rows of the log have them."""


@dataclass(frozen=True, slots=True)
class TableMark:
    """Stored rows of a table were changed by a statement, and no row event says so."""

    table: TableName
    why: str
    """What the statement did, for people: `ADD COLUMN with a default`."""
    column: str | None = None
    gone: bool = False
    """True if rows are gone, so that to read the table again does not help: the sink still has them."""


@dataclass(slots=True)
class Effect:
    """What a statement does."""

    tables: dict[TableName, Table | None] = field(default_factory=dict)
    """The tables that it changes, as they are then; None: there is none of this name then."""
    made: list[TableName] = field(default_factory=list)
    """Tables that it makes. One that was there before is in `dropped` as well."""
    dropped: list[TableName] = field(default_factory=list)
    renamed: list[tuple[TableName, TableName]] = field(default_factory=list)
    """Names before and after the statement."""
    emptied: list[TableName] = field(default_factory=list)
    marks: list[TableMark] = field(default_factory=list)
    unknown: set[TableName] = field(default_factory=set)
    """Tables that are there after the statement, and whose columns have to be asked for."""
    databases: dict[str, str | None] = field(default_factory=dict)
    """Databases whose default character set changes; None: the database is dropped."""
    doubt: str | None = None
    """Why the statement was not understood."""
    touches: frozenset[TableName] = frozenset()
    """With a doubt: the tables that the statement may touch, of those that were given."""
    is_dml: bool = False
    """True for a statement that changes rows (INSERT and the like): the log has it where its format is STATEMENT."""


@dataclass(slots=True)
class StatementRun:
    """What a statement is run with."""

    tables: Mapping[TableName, Table]
    databases: Mapping[str, str]
    default_database: str
    sql_mode: int
    server: ServerRules
    effect: Effect = field(default_factory=Effect)

    def id(self, name: tuple[str | None, str]) -> TableName:
        """Return a table's id."""
        database = name[0] if name[0] is not None else self.default_database
        return self.server.named(database), self.server.named(name[1])

    def table(self, table: TableName) -> Table | None:
        """Return a table as it is by now."""
        found = self.effect.tables.get(table)
        return found if table in self.effect.tables else self.tables.get(table)

    def charset(self, database: str) -> str:
        """Return the default character set of a database."""
        return self.effect.databases.get(database) or self.databases.get(database) or self.server.charset

    def put(self, table: TableName, found: Table | None) -> None:
        """Set a table's columns; None: there is none, or its columns are unknown."""
        self.effect.tables[table] = found
        self.effect.unknown.discard(table)

    def ask(self, table: TableName) -> None:
        """Note that a table is there and that its columns are not known."""
        self.put(table, None)
        self.effect.unknown.add(table)

    def mark(self, table: TableName, why: str, column: str | None = None, *, gone: bool = False) -> None:
        """Note that stored rows changed, or are gone."""
        self.effect.marks.append(TableMark(table, why, column, gone))


def rename(session: StatementRun, pairs: list[tuple[TableName, TableName]]) -> None:
    """Rename tables, from left to right, as one statement does."""
    now: dict[TableName, TableName] = {}
    """Names that tables have by now, with those that they had before the statement."""
    for before, after in pairs:
        origin = now.pop(before, before)
        found = session.table(before)
        session.put(before, None)
        if found is None:
            session.ask(after)
        else:
            session.put(after, replace(found, database=after[0], name=after[1]))
        now[after] = origin
    session.effect.renamed += [(before, after) for after, before in now.items() if before != after]
    moved = {before: after for after, before in now.items()}
    for name in {*session.tables, *session.effect.tables}:  # foreign keys go on to refer to the table that they did
        found = session.table(name)
        if found is not None and any(key.parent in moved for key in found.cascades):
            keys = tuple(replace(key, parent=moved.get(key.parent, key.parent)) for key in found.cascades)
            session.put(name, replace(found, cascades=keys))
    session.effect.marks = [replace(mark, table=moved.get(mark.table, mark.table)) for mark in session.effect.marks]
