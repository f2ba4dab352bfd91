"""Commits of batches to the tables of a lake, and what a checkpoint knows of a table that has them.

A table notes the last batch that it has, so that one that is committed already is seen. A mark of the checkpoint says
which batch a table has got last, and which state of the table that was. Somebody may roll a table back, or restore an
older state of it: the notes of batches stay in the table then, and their rows do not. A table whose state is not one
that came after the mark's has lost rows.

Rules: docs/spec/iceberg.md#delivery and docs/spec/delta.md#what-others-do.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ingest.model.commit import old_copy
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.sinks.lake.files import AddedFile
    from ingest.sinks.lake.table import TableName

Result = TypeVar("Result")
_TRIES: Final = 8
_PAUSE_S: Final = 0.1


def digest_of(files: Sequence[AddedFile]) -> str:
    """Return what tells the files of a batch from those of another one: 64 hexadecimal digits."""
    return hashlib.sha256("\n".join(one.path for one in files).encode()).hexdigest()


def has_batch(last: int, batch: int, *, same_files: bool) -> bool:
    """Return whether a table whose last batch of a checkpoint this is has a batch.

    `same_files`: whether that one had the same files. Raise CheckpointError where the table has a later batch, or
    another one of this number: the checkpoint is an old copy.
    """
    if last > batch or (last == batch and not same_files):
        raise old_copy(last, batch)
    return last == batch


def retried(commit: Callable[[], Result], faster: type[Exception] | tuple[type[Exception], ...]) -> Result:
    """Commit, again where another writer was faster. `faster`: the exceptions that say so, or that nobody knows it."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return commit()
        except faster:
            if not tries_left:
                raise
            time.sleep(_PAUSE_S * (_TRIES - tries_left))
    raise AssertionError


class Committed(NamedTuple):
    """A table with the files of a batch."""

    state: Any
    """The table, or what the lake knows its state by."""
    older: int = 0
    """Rows of the batch that were left out, as they are older than their row in the table."""
    due: bool = False
    """True if upkeep is to follow."""


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
