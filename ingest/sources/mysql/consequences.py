"""What a pipeline does about a statement that changed rows without row events, for each table that it reads.

In: a statement's effect, and what the sink and the options allow. Out: consequences, in the statement's order. Rules:
docs/spec/mysql.md#rows-that-statements-change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from ingest.errors import SchemaChangeRefused
from ingest.model.table import show, table_in
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ingest.sources.mysql.effects import Effect, TableName
    from ingest.sources.mysql.history import History, SchemaEntry

_SHOWN: Final = 300
"""Characters of a statement that an error shows."""


class Remedy(Enum):
    """What becomes of the rows of a table in the sink."""

    DELETE = "delete"
    """They are deleted, in order with the rows of the log."""
    READ_AGAIN = "read again"
    """The table is read again beside the log."""
    READ = "read"
    """The table is read beside the log: the sink has no row of it."""
    STAY = "stay"
    """They stay, and the table is marked."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """What becomes of one table."""

    table: TableName
    remedy: Remedy
    why: str
    """What happened, for people: `ALTER TABLE: ADD COLUMN with a default (column n)`."""


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """What the sink and the options allow."""

    keyed: bool
    """True if the sink keeps one row per key: no append or history mode, no changelog."""
    truncate: str = "delete"
    """`schema-change.truncate`: delete or ignore."""
    resnapshot: str = "auto"
    """`schema-change.resnapshot`: auto, always or never."""
    max_rows: int = 1_000_000
    """`schema-change.resnapshot.max-rows`."""

    def empties(self) -> Remedy:
        """Return what TRUNCATE does."""
        return Remedy.DELETE if self.keyed and self.truncate == "delete" else Remedy.STAY

    def marks(self, rows: int | None) -> Remedy:
        """Return what is done about a mark; `rows`: about how many the table has, None where nobody knows."""
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
    """Return what a statement means for the rows that the sink has.

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
    """Return the line of the log about a table whose rows stay as they were."""
    name = ".".join(found.table)
    said = f"{name}: {found.why}; no row of the log says so, so that rows in the sink may differ"
    if not keyed:
        return f"{said}. In append and history modes, and in changelog topics, nothing is read again"
    return f"{said}. Read the table again: ingest backfill FILE --table {name}"
