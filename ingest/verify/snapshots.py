"""The rows that a sink should have of a database: read again, table by table, with the log behind them.

It is the pipeline's own source that begins with a snapshot, in this process, beside the run that may be going on:
chunks by their keys, each in a transaction of its own and at a position of its own, then the log up to where the server
is. Its positions are those of the pipeline's checkpoint. In: that checkpoint. Out: the keys and values of records, as
the sink's writer would get them. Rules: docs/spec/verify.md#databases-as-sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ingest.checkpoint.checkpoint import Progress
from ingest.driver.backlog import Backlog
from ingest.driver.startup import PipelineStartup, Start, begin_existing
from ingest.errors import ConfigError
from ingest.model.table import show
from ingest.sources.stateful import SourceState
from ingest.verify.expected import HandingOn, OneSplit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.component.options import AnyOptions
    from ingest.driver.context import RunContext
    from ingest.driver.ledger import RunCounters
    from ingest.driver.run_parts import RunParts
    from ingest.model.record import Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.observe.events import RunEnded
    from ingest.verify.expected import Readings, Receiver


_PLAIN: Final = re.compile(r"\w+\.\w+", re.ASCII)
_MAX_SELECTOR: Final = 5_000
"""Characters of a selector, at most: of more tables all are read."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a reading has come, for the one that goes on from there."""

    positions: dict[Split, int]
    state: SourceState


class SnapshotRows:
    """The records that a pipeline makes of the tables of a database."""

    incomplete: tuple[str, ...] = ()

    def __init__(self, readings: Readings, tables: Iterable[TableId]) -> None:
        """Read nothing yet. `tables`: those that are compared."""
        self._readings = readings
        self._tables = selector_of(tables)
        self._reached: Reached | None = None
        self.schemas: dict[TableId, TableSchema] = {}
        """The tables at the source, as they are now."""

    @property
    def positions(self) -> dict[Split, int]:
        """The positions of the log that were reached."""
        assert self._reached is not None
        return {split: at for split, at in self._reached.positions.items() if split == self.log}

    log: Split = ("binlog", 0)
    """The split of the log. Those of the snapshot are this reading's own."""

    def read(self, take: Receiver) -> RunEnded:
        """Hand on the records of all rows, or of the changes since the last reading. Raise IngestError."""
        summary, self._reached = self._run(self._reached, take, again=True)
        return summary

    def changes(self, take: Receiver) -> RunEnded:
        """Hand on the records of the changes that the pipeline has not read yet. Raise IngestError."""
        return self._run(None, take, again=False)[0]

    def _run(self, reached: Reached | None, take: Receiver, *, again: bool) -> tuple[RunEnded, Reached]:
        source = _beside(self._readings.pipeline.source, self._tables, again=again)

        def startup_of(context: RunContext, parts: RunParts, counters: RunCounters) -> SnapshotStartup:
            return SnapshotStartup(context, parts, counters, reached, self.schemas, again=again)

        # Of a key the changes of the log follow its row, whichever split they are of
        pacing = OneSplit(0.0, source.rate_limit, None)
        summary, parts, start = self._readings.read(source, startup_of, pacing, lambda: HandingOn(lambda _: 0, take))
        coordinator: Any = parts.source
        return summary, Reached(dict(start.backlog.positions), coordinator.state())


def selector_of(tables: Iterable[TableId]) -> str | None:
    """Return a selector of tables; None where a name has signs that mean something in it."""
    names = sorted(map(show, tables))
    plain = all(_PLAIN.fullmatch(name) for name in names) and sum(map(len, names)) <= _MAX_SELECTOR
    return ",".join(names) if plain else None


def _beside(source: AnyOptions, tables: str | None, *, again: bool) -> AnyOptions:
    """Return a source's options for a reading beside the pipeline's run. `again`: it begins with all rows."""
    # A server ends the connection of whoever reads its log under the number of another one
    update: dict[str, Any] = {
        "server_id": str(source.lane_id()),
        "format": type(source.format)(),
        "ignore_errors": True,
        "max_errors": -1,
    }
    if tables is not None:
        update["tables"] = tables
    return source.model_copy(update=update | ({"startup_mode": "initial"} if again else {}))


class SnapshotStartup:
    """The start of such a reading, under the pipeline's checkpoint, of which nothing is changed."""

    def __init__(
        self,
        context: RunContext,
        parts: RunParts,
        counters: RunCounters,
        reached: Reached | None,
        known: dict[TableId, TableSchema],
        *,
        again: bool,
    ) -> None:
        """Connect to nothing yet. `known` gets the schemas of tables. `again`: all rows are read, not changes only."""
        self._parts = parts
        self._reached = reached
        self._known = known
        self._again = again
        self._pipeline = PipelineStartup(context, parts, counters)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and begin with all rows, or where the last reading has ended. Raise IngestError."""
        begin_existing(checkpoint, "verify")
        self._pipeline.identify(checkpoint)
        main, _ = self._pipeline.resume(checkpoint)
        progress = Progress()
        progress.positions = self._positions(checkpoint, main)
        source: Any = self._parts.source
        progress.ids = dict(source.ids)
        checkpoint.batches = "verify"
        tables, schemas = self._pipeline.schemas(checkpoint, same_cluster=False)
        stored = schemas.take_over()
        memory = self._pipeline.memory
        backlog = Backlog(progress, source.ends(progress.positions), drain=True, fixed=memory.fixed)
        if new := memory.new_schemas():
            self._known.update(new)
            schemas.evolve(new)
        return Start(checkpoint, self._parts.endpoints.source, backlog, tables, schemas, stored, resumed=True)

    def _positions(self, checkpoint: Checkpoint, main: Progress) -> dict[Split, int]:
        """Return where reading begins. Raise IngestError."""
        source: Any = self._parts.source
        reached = self._reached
        if reached is not None:
            source.restore(reached.state)
            return dict(source.start(reached.positions, {}, checkpoint.id, None))
        if main.source_state is None:
            msg = "the checkpoint does not say where the log is read"
            raise ConfigError(msg, "let the pipeline run first")
        source.restore(SourceState(main.source_state, checkpoint.documents()))
        return dict(source.start({} if self._again else main.positions, {}, checkpoint.id, None))


def unread(state: Any) -> list[str]:
    """Return the tables of which a source's state says that not all rows are read yet."""
    found = state.get("snapshots", ()) if isinstance(state, dict) else ()
    return [show(tuple(one["name"])) for one in found if one["rest"] or any(mark is None for _, mark in one["pieces"])]
