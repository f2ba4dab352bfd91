"""The places where the rows of a source table are: which of them lack the rows that were read before they were one.

A route, or an option of the sink, may give a table another place while the checkpoint stays. The pipeline goes on where
it was, so that the new place begins without the earlier rows. Rules: docs/spec/delivery.md#backfills.

    places.json            by source table: the sink tables that its rows go to, and where these are
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from ingest.checkpoint.notes import backfill_notes
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import RunContext
    from ingest.model.table import TableId
    from ingest.schema.evolve import Schemas, SourceTable

_FILE: Final = "places.json"
_TOLD: Final = 20
"""Tables that lack rows that are told one by one."""
Place = tuple[str, str]
"""A sink table, and where the sink has it."""


class TablePlaces:
    """The places of the tables of one checkpoint."""

    def __init__(self, context: RunContext, checkpoint: Checkpoint) -> None:
        """Read nothing yet."""
        self._context = context
        self._checkpoint = checkpoint
        self._known: dict[str, list[Place]] = {}
        self._stored: dict[str, list[Place]] = {}

    def take_over(self, stored: Schemas) -> None:
        """Read what the checkpoint has. Of what it lacks, sink tables that it knows are where they were.

        Raises CheckpointError.
        """
        try:
            found = orjson.loads(self._checkpoint.storage.read(_FILE) or b"{}")
            self._known = {table: [(target, place) for target, place in places] for table, places in found.items()}
        except (ValueError, TypeError, AttributeError) as exc:
            raise self._checkpoint.damaged(_FILE, exc) from exc
        self._stored = dict(self._known)
        for table, source in stored.sources.items():
            if show(table) not in self._known:
                self._known[show(table)] = self._places(one for one in source.targets if one in stored.sinks)

    def tell(self, stored: Schemas, now: Schemas) -> None:
        """Warn of places that lack rows of tables that the checkpoint knew before."""
        lacking = []
        for table, source in now.sources.items():
            if table in stored.sources:
                before = self._known[show(table)]
                lacking += [(table, place) for place in self._places(source.targets) if place not in before]
        for table, (target, place) in lacking[:_TOLD]:
            where = target if place in {"", target} else f"{target} ({place})"
            self._context.warn(
                f"table {where} lacks the rows of {show(table)} that were read before: it is new to them, and this "
                f"pipeline goes on where it was. What brings them: {command(self._context.pipeline, [table])}"
            )
        if len(lacking) > _TOLD:
            self._context.warn(f"{len(lacking) - _TOLD} more tables lack the rows that were read before")

    def tell_unfinished(self) -> None:
        """Warn of backfills that somebody has begun and not ended: rows may be older than they were."""
        for note in backfill_notes(self._checkpoint).values():
            if not note.finished:
                again = command(self._context.pipeline, note.tables)
                self._context.warn(
                    f"a backfill of {', '.join(map(show, note.tables))} has not come to its end, so that rows may be "
                    f"older than they were before it: go on with {again}"
                )

    def keep(self, sources: Mapping[TableId, SourceTable]) -> None:
        """Know where rows of these tables go from now on, and store that. Raises CheckpointError."""
        self._known.update({show(table): self._places(source.targets) for table, source in sources.items()})
        if self._known != self._stored:
            self._checkpoint.refuse_newer_run()
            self._checkpoint.storage.write(_FILE, orjson.dumps(self._known))
            self._stored = dict(self._known)

    def _places(self, targets: Iterable[TableId]) -> list[Place]:
        return [(show(one), self._context.pipeline.sink.place_of(one)) for one in targets]


def command(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return the command that brings the rows of tables."""
    return f"ingest backfill {pipeline.file} " + " ".join(f"--table {show(table)}" for table in tables)


def remedy(pipeline: Pipeline, tables: Iterable[TableId]) -> str:
    """Return what reads the rows of source tables again, where those of a sink table are gone."""
    known = [*tables]
    if not known:
        return "to have them, begin anew with another --checkpoint"
    if pipeline.sink.keeps_states:
        return f"to have them, empty the table; then {command(pipeline, known)} reads all of its rows again"
    return f"{command(pipeline, known)} reads them again"
