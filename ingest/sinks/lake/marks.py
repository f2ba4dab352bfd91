"""What a checkpoint knows of the tables of a lake that its pipeline has written to, and what others have done to them.

A mark says which batch a table has got last, and which state of the table that was. Somebody may roll a table back, or
restore an older state of it: the notes of batches stay in the table then, and their rows do not. A table whose state is
not one that came after the mark's has lost rows.

Rules: docs/spec/iceberg.md#delivery and docs/spec/delta.md#what-others-do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TableName = tuple[str, ...]
"""The name of a table in a lake, with its namespace."""


class Mark(NamedTuple):
    """The last batch of a checkpoint in a table, and a state of the table that has it."""

    batch: int
    state: tuple[Any, ...]
    """What the lake knows a state by, as JSON has values."""


class TakenAway(NamedTuple):
    """Rows of a checkpoint that somebody has taken out of a table."""

    how: str
    """What was done to the table."""
    kept: int | None
    """The last batch whose rows it still has, 0 for none; None where that is not known."""
    newest: int
    """The last batch that it had."""
    others: bool = False
    """True if rows of a run of its own are gone, too: of a replay, or of a backfill."""

    @property
    def rows(self) -> str:
        """Which rows are gone; empty where none are."""
        kept, newest = self.kept, self.newest
        lost = [] if kept is not None and kept >= newest else [_batches(kept, newest)]
        return " and ".join([*lost, *(["a replay or a backfill"] if self.others else [])])


def _batches(kept: int | None, newest: int) -> str:
    if kept is None:
        return f"batches up to {newest}"
    return f"batch {newest}" if kept + 1 == newest else f"batches {kept + 1} to {newest}"


def marks_of(stored: Iterable[list[Any]]) -> dict[TableName, Mark]:
    """Return marks as a checkpoint has them."""
    return {tuple(name): Mark(batch, tuple(state)) for name, batch, state in stored}


def to_json(marks: Mapping[TableName, Mark]) -> list[list[Any]]:
    """Return plain values, as a checkpoint stores them."""
    return [[[*name], mark.batch, [*mark.state]] for name, mark in sorted(marks.items())]


def tell(warn: Callable[[str], None], name: TableName, found: TakenAway, remedy: str) -> None:
    """Say which rows are not in a table any more, and what reads them again."""
    warn(
        f"table {show(name)}: {found.how}: rows of {found.rows}, which this pipeline has written, are not in it any "
        f"more (said once); {remedy}"
    )
