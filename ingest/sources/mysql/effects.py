"""The effect of a DDL statement on tables, and how the pipeline corrects rows that changed without row events.

`StatementRun` collects an `Effect` while a statement is applied. `consequences` returns what becomes of the rows in the
sink, for each table that is read. Rules: docs/spec/mysql.md#rows-that-statements-change.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from ingest.errors import SchemaChangeRefused
from ingest.model.table import show, table_in
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.sources.mysql.history import History, SchemaEntry
    from ingest.sources.mysql.tokens import ServerRules
    from ingest.sources.mysql.types import Table, TableName


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
    """The effect of a DDL statement on tables and databases."""

    tables: dict[TableName, Table | None] = field(default_factory=dict)
    """The tables that the statement changes, as they are after it; None: no table has this name after it."""
    made: list[TableName] = field(default_factory=list)
    """The tables that the statement creates. A table that it replaces is in `dropped` as well."""
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
    """The run of one DDL statement: the tables, databases and settings before it, and its effect so far."""

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
        """Return a table as it is at this point of the statement."""
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
        """Record that a table exists and that the server has to be asked for its columns."""
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
        table = session.table(before)
        session.put(before, None)
        if table is None:
            session.ask(after)
        else:
            session.put(after, replace(table, database=after[0], name=after[1]))
        now[after] = origin
    session.effect.renamed += [(before, after) for after, before in now.items() if before != after]
    moved = {before: after for after, before in now.items()}
    for name in {*session.tables, *session.effect.tables}:  # foreign keys go on to refer to the table that they did
        table = session.table(name)
        if table is not None and any(key.parent in moved for key in table.cascades):
            keys = tuple(replace(key, parent=moved.get(key.parent, key.parent)) for key in table.cascades)
            session.put(name, replace(table, cascades=keys))
    session.effect.marks = [replace(mark, table=moved.get(mark.table, mark.table)) for mark in session.effect.marks]


_SHOWN: Final = 300
"""Characters of a statement that an error shows."""


class Remedy(Enum):
    """How a table's rows in the sink are corrected after a statement that changed them without row events."""

    DELETE = "delete"
    """The sink's rows are deleted, in order with the rows of the log."""
    READ_AGAIN = "read again"
    """The table is read again beside the log."""
    READ = "read"
    """The table is read beside the log: the sink has no row of it."""
    STAY = "stay"
    """The sink's rows stay as they are, and the table is marked as possibly different."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """The remedy for one table, and its reason."""

    table: TableName
    remedy: Remedy
    why: str
    """What happened, for people: `ALTER TABLE: ADD COLUMN with a default (column n)`."""


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """The remedies that the sink and the pipeline's options allow."""

    keyed: bool
    """True if the sink keeps one row per key: no append or history mode, no changelog."""
    truncate: str = "delete"
    """`schema-change.truncate`: delete or ignore."""
    resnapshot: str = "auto"
    """`schema-change.resnapshot`: auto, always or never."""
    max_rows: int = 1_000_000
    """`schema-change.resnapshot.max-rows`."""

    def empties(self) -> Remedy:
        """Return the remedy for a TRUNCATE TABLE."""
        return Remedy.DELETE if self.keyed and self.truncate == "delete" else Remedy.STAY

    def marks(self, rows: int | None) -> Remedy:
        """Return the remedy for a marked table; `rows`: its estimated number of rows, None if unknown."""
        if not self.keyed or self.resnapshot == "never":
            return Remedy.STAY
        small = rows is not None and rows <= self.max_rows
        return Remedy.READ_AGAIN if self.resnapshot == "always" or small else Remedy.STAY


def consequences(
    effect: Effect,
    policy: RowPolicy,
    *,
    reads: Callable[[TableName], bool],
    was_read: Callable[[TableName], bool],
    rows: Callable[[TableName], int | None],
) -> list[Consequence]:
    """Return the remedies for the sink's rows that a statement requires.

    `reads`: whether the pipeline reads a table of this name. `was_read`: whether the sink may have rows of a table that
    had this name before. `rows`: how many rows information_schema counts.
    """
    out: list[Consequence] = []

    def add(table: TableName, remedy: Remedy, why: str) -> None:
        if reads(table):
            out.append(Consequence(table, remedy, why))

    for table in effect.emptied:
        add(table, policy.empties(), "TRUNCATE TABLE")
    for table in effect.dropped:
        if table not in effect.made:
            add(table, Remedy.STAY, "DROP TABLE: its rows stay in the sink")
    for table in effect.made:
        if table in effect.dropped or was_read(table):
            add(table, policy.empties(), "CREATE TABLE of a name that another table had")
    arrived = {after for _, after in effect.renamed}
    for before, after in effect.renamed:
        if before not in arrived:
            add(before, Remedy.STAY, f"RENAME TABLE to {'.'.join(after)}: its rows stay in the sink under the old name")
        # where the sink has nothing of this name, the table is one that is new to the pipeline
        remedy = policy.marks(rows(after)) if was_read(after) else Remedy.READ
        add(after, remedy, f"RENAME TABLE of {'.'.join(before)} to this name")
    for mark in effect.marks:
        column = f" (column {mark.column})" if mark.column else ""
        remedy = Remedy.STAY if mark.gone else policy.marks(rows(mark.table))
        add(mark.table, remedy, f"ALTER TABLE: {mark.why}{column}")
    return out


def refuse(
    history: History,
    entries: Iterable[SchemaEntry],
    effect: Effect | None,
    statement: str,
    reads: Callable[[TableName], bool],
) -> None:
    """Raise SchemaChangeRefused for a statement that changes a table which is read; one that makes a table may pass.

    `history`: as before the statement, `entries`: those that it adds.
    """
    changed = {table for table in (() if effect is None else effect.emptied) if reads(table)}
    for entry in entries:
        before = history.at(entry.name, entry.position)
        if before is not None and before.read and before.table is not None:
            same = entry.table is not None and entry.schema() == before.schema()
            again = effect is not None and entry.name in effect.dropped
            changed |= set() if same and not again else {entry.name}
    for name in sorted(changed):
        msg = f"table {show(table_in(*name))} changed, and pipeline.schema.change.behavior is 'exception'; the "
        msg += f"statement: {one_line(statement)[:_SHOWN]}"
        raise SchemaChangeRefused(msg, "apply the change downstream, then allow it with 'lenient' or 'evolve'")


def warning(found: Consequence, *, keyed: bool) -> str:
    """Return the warning for a table whose rows in the sink stay as they are."""
    name = ".".join(found.table)
    said = f"{name}: {found.why}; no row of the log says so, so that rows in the sink may differ"
    if not keyed:
        return f"{said}. In append and history modes, and in changelog topics, nothing is read again"
    return f"{said}. Read the table again: ingest backfill FILE --table {name}"
