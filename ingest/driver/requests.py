"""Requests that other commands leave in the checkpoint for the run that uses it: tables whose rows are read again.

In: requests. Out: a source that reads these rows, and an answer. What is taken is stored before it is answered, so that
a run that is killed goes on with it, and one that is killed before takes it again.
Rule: docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.checkpoint.requests import Answer, answer, asked
from ingest.errors import ConfigError, Unavailable
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.checkpoint.requests import BackfillRequest
    from ingest.driver.context import RunContext
    from ingest.driver.replacement import TableReplacement

LOOK_S: Final = 1.0
"""The time between two looks, in seconds."""
REMOTE_S: Final = 5.0
"""The same where the checkpoint is on another file system, in which each look is a question."""
_NAMED: Final = 5


class BackfillRequests:
    """The requests of one run."""

    def __init__(
        self, context: RunContext, checkpoint: Checkpoint, replacement: TableReplacement, store: Callable[[], None]
    ) -> None:
        """Look for nothing yet. `store`: stores the source's state with the progress."""
        self._context = context
        self._checkpoint = checkpoint
        self._replacement = replacement
        self._store = store
        self._every = REMOTE_S if checkpoint.storage.lock is None else LOOK_S
        self._looked: float | None = None

    def look(self) -> None:
        """Take what was asked, between two batches. Raise IngestError."""
        now = self._context.clock.now()
        if not self._replacement.possible or (self._looked is not None and now - self._looked < self._every):
            return
        self._looked = now
        for name, request in asked(self._checkpoint.storage):
            self._take(name, request)

    def _take(self, name: str, request: BackfillRequest) -> None:
        storage, run = self._checkpoint.storage, self._checkpoint.run
        try:
            tables = self._replacement.begin(request.tables)
        except ConfigError as exc:
            self._context.warn(f"ingest backfill of {_some(request.tables)} is refused: {exc.message}")
            answer(storage, name, Answer(run, refused=exc.message, hint=exc.hint or ""))
            return
        except Unavailable:
            return  # it is taken when the side that is away is back
        self._store()
        self._replacement.carry_out()  # what of them is emptied first
        shown = [*map(show, tables)]
        self._context.warn(f"ingest backfill: rows of {_some(shown)} are read again beside the log")
        answer(storage, name, Answer(run, shown))


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (", ".join(names[:_NAMED]) or "all tables") + more
