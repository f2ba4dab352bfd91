"""The places where the rows of a source table are: which of them lack the rows that were read before they were one.

A route, or an option of the sink, may give a table another place while the checkpoint stays. The pipeline goes on where
it was, so that the new place begins without the earlier rows. Rules: docs/spec/delivery.md#backfills.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final

from ingest.checkpoint.checkpoint import KeptPlaces
from ingest.checkpoint.notes import backfill_notes
from ingest.model.table import show
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.checkpoint.checkpoint import Checkpoint, Place
    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import RunContext
    from ingest.model.table import TableId
    from ingest.schema.evolve import Schemas, SourceTable

_TOLD: Final = 20
"""Tables that lack rows that are told one by one."""


class TablePlaces:
    """The places of the tables of one checkpoint."""

    def __init__(self, context: RunContext, checkpoint: Checkpoint) -> None:
        """Read nothing yet."""
        self._context = context
        self._checkpoint = checkpoint
        self._known: dict[str, KeptPlaces] = {}
        self._stored: dict[str, KeptPlaces] = {}

    def take_over(self, stored: Schemas) -> None:
        """Read what the checkpoint has. Of what it lacks, sink tables that it knows are where they were.

        Raises CheckpointError.
        """
        self._stored = self._checkpoint.places()
        self._known = dict(self._stored)
        for table, source in stored.sources.items():
            if show(table) not in self._known:
                known = [one for one in source.targets if one in stored.sinks]
                self._known[show(table)] = KeptPlaces(self._places(known), [])

    def settle(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Take the places that tables have now, tell those that lack rows, and store all. Raises CheckpointError.

        A run tells those that it is the first to see, a plan all of them.
        """
        told: list[tuple[TableId, Place]] = []
        for table, source in sources.items():
            now, before = self._places(source.targets), self._known.get(show(table))
            if before is None:
                self._known[show(table)] = KeptPlaces(now, [])
                continue
            lacking = [place for place in now if place not in before.whole]
            again = self._checkpoint.untouched
            told += [(table, place) for place in lacking if again or place not in before.lacking]
            self._known[show(table)] = KeptPlaces([place for place in now if place in before.whole], lacking)
        self._tell(told)
        self.store()

    def _tell(self, lacking: Sequence[tuple[TableId, Place]]) -> None:
        for table, (target, place) in lacking[:_TOLD]:
            where = target if place in {"", target} else f"{target} ({place})"
            self._context.warn(
                f"table {where} lacks the rows of {show(table)} that were read before: it is new to them, and this "
                f"pipeline goes on where it was. What brings them: {command(self._context.pipeline, [table])}"
            )
        if len(lacking) > _TOLD:
            more = f"{len(lacking) - _TOLD} more tables lack the rows that were read before"
            self._context.warn(f"{more}: ingest checkpoint show {quoted(self._context.pipeline.file)}")

    def tell_unfinished(self) -> None:
        """Warn of backfills that somebody has begun and not ended: rows may be older than they were."""
        for note in backfill_notes(self._checkpoint).values():
            if not note.finished:
                again = command(self._context.pipeline, note.tables)
                self._context.warn(
                    f"a backfill of {', '.join(map(show, note.tables))} has not come to its end, so that rows may be "
                    f"older than they were before it: go on with {again}"
                )

    def have_all(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Know that all places of these tables have all of their rows, and store that. Raises CheckpointError."""
        self._known.update({show(t): KeptPlaces(self._places(of.targets), []) for t, of in sources.items()})
        self.store()

    def store(self) -> None:
        """Store what is known, where that is new. Raises CheckpointError."""
        if self._known != self._stored:
            self._checkpoint.keep_places(self._known)
            self._stored = dict(self._known)

    def _places(self, targets: Iterable[TableId]) -> list[Place]:
        return [(show(one), self._context.pipeline.sink.place_of(one)) for one in targets]


def command(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return the command that brings the rows of tables."""
    # A table may have any name, and people copy commands
    return f"ingest backfill {quoted(pipeline.file)} " + " ".join(f"--table {quoted(show(one))}" for one in tables)


def quoted(name: str) -> str:
    """Return a name as one word of a command."""
    return quote(one_line(name))


def remedy(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return what reads the rows of source tables again, where those of a sink table are gone."""
    known = [*tables]
    if not known:
        return "to have them, begin anew with another --checkpoint"
    if pipeline.sink.keeps_states:
        return f"to have them, empty the table; then {command(pipeline, known)} reads all of its rows again"
    return f"{command(pipeline, known)} reads them again"
