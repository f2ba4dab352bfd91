"""Reads some tables of a pipeline once more, from the beginning of their topics up to where the pipeline is.

It is a run of its own under the pipeline's checkpoint, as a replay is. In: a pipeline and the ids of source tables.
Out: a summary. The last state of each row is the last one that is read, so that it ends as the pipeline has left it;
only on the way rows may be older. A backfill that was killed goes on where it was. A database is another matter: it has
its rows, which the pipeline's own next run reads beside the log. Rules: docs/spec/delivery.md#backfills and
docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ingest.checkpoint.backfills import (
    FOLDER,
    BackfillNote,
    BackfillRequest,
    answered,
    ask,
    backfill_notes,
    store_note,
    withdraw,
)
from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import status
from ingest.checkpoint.storage import holder
from ingest.driver.backlog import Backlog
from ingest.driver.context import RunContext, Settings
from ingest.driver.ledger import RunCounters
from ingest.driver.replacement import TableReplacement, chosen_tables
from ingest.driver.run import prepared, spark_parts, started, stop_signal, summarised, with_checkpoint
from ingest.driver.sink_tables import SinkTables, command, filled_places
from ingest.driver.startup import PipelineStartup, Recovery, Start, begin_existing, still_there
from ingest.errors import ConfigError
from ingest.model.record import Split, is_another
from ingest.model.table import show
from ingest.observe.events import Observer, RunEnded
from ingest.paths import is_remote
from ingest.sources.backfill import BackfillCoordinator, BackfillSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.checkpoint.checkpoint import Checkpoint, Progress
    from ingest.config.pipeline import Pipeline
    from ingest.driver.driver import Driver
    from ingest.driver.run_parts import RunParts
    from ingest.driver.schemas import SchemaStore
    from ingest.schema.evolve import Schemas

POLL_S: Final = 0.5
"""The time between two looks for an answer, in seconds."""
_TELL_S: Final = 5.0
SILENT_S: Final = 60.0
"""The time after which no run is taken to be there, where no lock says that, in seconds."""


def beside(
    pipeline: Pipeline, settings: Settings, tables: Sequence[str], tell: Callable[[str], None]
) -> list[str] | None:
    """Request a backfill of a database's tables from the run that uses the checkpoint. Return the tables.

    None: no run is there. `tables`: none stands for all. Raise ConfigError where the run refuses it, CheckpointError.
    """
    source = pipeline.source.coordinator(pipeline.pipeline.name, tell)
    where, is_local = settings.checkpoint, not is_remote(settings.checkpoint)
    if source.stateful is None or (is_local and holder(Path(where)) is None):
        return None
    with opened(where, settings.conf, write=False, begun=False) as checkpoint:
        now = None if is_local else status(checkpoint)
        if now is not None and (now["started"] is None or now["ended"] is not None):
            return None
        storage, began = checkpoint.storage, time.monotonic()
        name, warned = ask(storage, BackfillRequest([*tables])), False
        while (reply := answered(storage, name)) is None:
            waited = time.monotonic() - began
            if (holder(Path(where)) is None) if is_local else waited > SILENT_S:
                withdraw(storage, name)
                reply = answered(storage, name)
                break
            if waited > _TELL_S and not warned:
                warned = True
                tell("the run takes the request between two of its batches; to end this command does not take it back")
            time.sleep(POLL_S)
    if reply is not None and reply.refused:
        raise ConfigError(reply.refused, reply.hint)
    return None if reply is None else reply.tables


def backfill(pipeline: Pipeline, settings: Settings, observer: Observer, tables: Sequence[str]) -> RunEnded:
    """Read tables again, in a run of this process. Raise IngestError."""
    context = RunContext(pipeline, settings, observer)
    summary = RunEnded(f"{context.name} (backfill)")
    with summarised(summary, observer), with_checkpoint(context) as access, prepared(context, access.lock) as engine:
        stop, counters = stop_signal(context), RunCounters(summary, pipeline.pipeline.max_tables)
        parts = spark_parts(context, context.pipeline.source, engine, stop)
        startup: RowsAgainStartup | BackfillStartup
        if parts.source.stateful is not None:
            startup = RowsAgainStartup(context, parts, counters, tables)
        else:
            parts = spark_parts(context, BackfillSource(context.pipeline.source), engine, stop)
            startup = BackfillStartup(context, parts, counters, tables)
        with started(context, parts, startup, access, counters) as (_, driver):
            startup.carry_out(driver, summary)
    return summary


class RowsAgainStartup:
    """The start of a run that also backfills tables of a database: an ordinary run, which replaces the sink's rows.

    A database has its rows, so nothing has to be read from its beginning: they are read beside the log, by the run that
    carries on the pipeline. One that was stopped is carried on by the pipeline's next run.
    """

    def __init__(self, context: RunContext, parts: RunParts, counters: RunCounters, tables: Sequence[str]) -> None:
        """`tables`: ids of source tables, as people write them; none: all, whatever is lost."""
        self._context, self._parts, self._names = context, parts, tables
        self._pipeline = PipelineStartup(context, parts, counters, self._read_again)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and let the rows be read again; raises IngestError."""
        if not checkpoint.exists:
            begin_existing(checkpoint, "backfill")
        self._checkpoint = checkpoint
        keeper = self._parts.source.stateful
        if keeper is not None:
            keeper.begin_anew(where_lost=bool(self._names))
        return self._pipeline.connect(checkpoint)

    def _read_again(self, tables: SinkTables, schemas: SchemaStore) -> None:
        """Start the backfill in the source: rows read again replace the sink's rows."""
        memory, checkpoint = self._pipeline.memory, self._checkpoint
        TableReplacement(self._context, self._parts, memory, tables, schemas, checkpoint).begin(self._names)

    def carry_out(self, driver: Driver, summary: RunEnded) -> None:
        """Run to the end; raises IngestError."""
        driver.run()
        if summary.stopped != "drained":
            self._context.warn("the backfill has not come to its end: the pipeline's next run goes on with it")


class BackfillStartup:
    """The start of a backfill, and its end."""

    def __init__(self, context: RunContext, parts: RunParts, counters: RunCounters, tables: Sequence[str]) -> None:
        """`tables`: ids of source tables, as people write them."""
        self._context = context
        self._parts = parts
        self._names = tables
        self._pipeline = PipelineStartup(context, parts, counters)
        self._recovery = Recovery(context, parts.sink)

    def connect(self, checkpoint: Checkpoint) -> Start:
        """Connect everything, and begin at the beginning, or where this backfill was; raises IngestError."""
        begin_existing(checkpoint, "backfill")
        where = self._pipeline.identify(checkpoint)
        self._recovery.acquire(checkpoint)
        main, _ = self._pipeline.recover(checkpoint)
        stored = checkpoint.schemas(self._parts.rules.rules)
        names = self._names or [show(table) for table in stored.sources]
        self._tables = chosen_tables(names, stored.sources, checkpoint.where)
        self._checkpoint = checkpoint
        number = self._take_note(stored, main)
        checkpoint.batches = f"{FOLDER}/{number}"
        progress, unfinished = checkpoint.progress()
        if self._recovery.recover(checkpoint, progress, unfinished):
            unfinished = None
            checkpoint.done(progress, {})
        if not progress.batch and unfinished is None:
            self._refuse_twice(stored)
        source = replace(cast("BackfillSource", self._parts.endpoints.source), tables=frozenset(self._tables))
        self._position(main, progress, source)
        unfinished = None if unfinished is None else still_there(unfinished, progress.positions)
        self._pipeline.prepare_collector(where)
        tables, schemas = self._pipeline.schemas(checkpoint, same_cluster=where[0] == where[1])
        known = schemas.take_over()
        checkpoint.done(progress, {})
        backlog = Backlog(progress, self._parts.source.ends(progress.positions), drain=True)
        self._schemas = schemas
        return Start(checkpoint, source, backlog, tables, schemas, known, unfinished, resumed=True)

    def _take_note(self, stored: Schemas, main: Progress) -> int:
        """Return the number of the backfill: one of these tables that has not come to its end, or a new one.

        It is a new one where rows have another place by now, and where somebody has emptied all of the sink's tables.
        """
        places = self._context.pipeline.sink.place_of
        targets = [target for table in self._tables for target in stored.sources[table].targets]
        now = [[show(target), places(target)] for target in targets]
        notes = backfill_notes(self._checkpoint)
        left = [number for number, note in notes.items() if not note.finished and note.tables == self._tables]
        if left and notes[left[-1]].places == now and filled_places(self._parts.sink, targets) != set():
            self._number, self._note = left[-1], notes[left[-1]]
            return self._number
        self._number = max(notes, default=0) + 1
        self._note = BackfillNote(self._tables, now, dict(main.positions))
        store_note(self._checkpoint, self._number, self._note)
        for number in left:
            store_note(self._checkpoint, number, replace(notes[number], finished=True))
        return self._number

    def _refuse_twice(self, stored: Schemas) -> None:
        """Refuse tables with all states of rows that have some; warn of a log that has. Raise IngestError."""
        sink = self._context.pipeline.sink
        if sink.capabilities.supersedes:
            return
        targets = {target for table in self._tables for target in stored.sources[table].targets}
        filled = sorted(filled_places(self._parts.sink, targets) or ())
        if filled and sink.capabilities.keeps_states:
            store_note(self._checkpoint, self._number, replace(self._note, finished=True))
            msg = f"{filled[0]} has rows, and keeps all states of a row: those that are read again would be there twice"
            raise ConfigError(msg, "empty it first, or route the table to a new one")
        if sink.capabilities.keeps_states:
            self._give_up_others()
        for name in filled:
            self._context.warn(
                f"{name} has changes already: those that are read again come behind them, older ones, too; the last "
                "change of each row is the newest"
            )

    def _give_up_others(self) -> None:
        """Mark other unfinished backfills of one of these tables as finished, and warn of their remaining tables."""
        for number, note in backfill_notes(self._checkpoint).items():
            if note.finished or number == self._number or not {*note.tables} & {*self._tables}:
                continue
            store_note(self._checkpoint, number, replace(note, finished=True))
            rest = [table for table in note.tables if table not in self._tables]
            if rest:
                self._context.warn(
                    f"the backfill of {', '.join(map(show, note.tables))} has not come to its end, and does not go on: "
                    f"some of these tables are read again. {', '.join(map(show, rest))} may lack rows: "
                    f"empty what their rows go to, then {command(self._context.pipeline, rest)}"
                )

    def _position(self, main: Progress, progress: Progress, source: BackfillSource) -> None:
        """Set the start of each split, and its end: the pipeline's position.

        A table with all states of rows has those that the pipeline wrote while this backfill stood still.
        """
        reached: dict[Split, int] = main.positions
        if self._context.pipeline.sink.capabilities.keeps_states:
            reached = self._note.ends
        coordinator = cast("BackfillCoordinator", self._parts.source)
        first = coordinator.bound({split: at for split, at in reached.items() if source.reads(split)}, main.ids)
        # Positions in a topic that was made again mean nothing
        reached_before = {
            s: at
            for s, at in progress.positions.items()
            if not is_another(progress.ids.get(s[0], ""), coordinator.ids.get(s[0], ""))
        }
        progress.positions = {split: max(at, reached_before.get(split, at)) for split, at in first.items()}
        progress.ids = dict(coordinator.ids)

    def carry_out(self, driver: Driver, summary: RunEnded) -> None:
        """Run to the end, and mark the backfill as finished. Raise IngestError."""
        driver.run()
        if summary.stopped == "drained":
            self._schemas.places.have_all({table: self._schemas.schemas.sources[table] for table in self._tables})
            for number, note in backfill_notes(self._checkpoint).items():
                if not note.finished and {*note.tables} <= {*self._tables}:
                    store_note(self._checkpoint, number, replace(note, finished=True))
        else:
            again = command(self._context.pipeline, self._tables)
            self._context.warn(f"the backfill has not come to its end: it goes on with {again}")
