"""The driver's side of the source: where the log begins and ends, and which rows are read when.

Its state is in the checkpoint with each plan (`state.py`); what a task gets is a function of it and the task's ranges.
Rules: docs/spec/mysql.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from ingest.errors import ConfigError, DataLoss
from ingest.model.table import TableId, show, table_in
from ingest.sources import SourceCoordinator
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.checks import LogProbe, ServerNeeds, check_server
from ingest.sources.mysql.history import History, SchemaEntry, comments_of, may_change_tables
from ingest.sources.mysql.log_history import LAST, LogHistory, shown
from ingest.sources.mysql.log_model import FIRST, WAYS, LogFiles, LogPlace
from ingest.sources.mysql.start_positions import excluded_sources, first_place, follow, place_of_tables
from ingest.sources.mysql.state import (
    LANES,
    LOG,
    SNAPSHOT,
    AssignedChunk,
    MySqlAssignment,
    State,
    TableRegions,
    TaskNotes,
)
from ingest.sources.mysql.statements import known_at, note_read_again
from ingest.sources.mysql.table_keys import keys_now
from ingest.sources.stateful import LogLook, SinkHabits, SourceState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ingest.model.change import Change
    from ingest.model.record import Split
    from ingest.model.schema import TableComments, TableSchema
    from ingest.model.standing import Standing
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.state import ChunkNote, LaneChunk
    from ingest.sources.mysql.types import Table, TableName

_BYTES_A_RECORD: Final = 160
"""Bytes of the log that a change takes, about: batches are sized by it until they have been measured."""


class MySqlCoordinator(SourceCoordinator):
    """The driver's side. Raises IngestError only."""

    def __init__(self, options: MySqlSource, pipeline: str, warn: Callable[[str], None]) -> None:
        self._options, self._warn, self._pipeline = options, warn, pipeline
        self._log = LogHistory(options, warn)
        self.stateful = self
        self.probe = LogProbe(options.server, lambda: None if self._log.state is None else self._log.state.files)
        self.ids = {LOG[0]: "mysql", SNAPSHOT: "mysql"}
        self._excluded = excluded_sources(options.gtid_excludes)
        self._anew = "never"
        self.begun_anew = False
        """True if `start` has begun at the log's end, wherever the log was read."""
        self._settled = -1
        """A position below which the server shows all that its log has."""

    def connect(self) -> str:
        """Return an identity of where records come from."""
        self._log.rules()
        return f"mysql://{self._log.server.name}"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this source depends on: the server may change, as after a failover."""
        return {"type": "mysql"}

    # -- The state ----------------------------------------------------------------------------------------------------

    def state(self) -> SourceState:
        """Return the state as of now."""
        return SourceState(self._log.now.to_json(), self._log.documents)

    def restore(self, state: SourceState) -> None:
        """Take over the state of the batch that is planned next, or again."""
        self._log.restore(state)

    def assign(self, ranges: Mapping[Split, tuple[int, int]]) -> MySqlAssignment:
        """Return what the task of these ranges gets."""
        state = self._log.now
        chunks = []
        for (topic, lane), (start, end) in ranges.items():
            if topic == SNAPSHOT:
                chunks += [self._chunk(lane, one) for one in state.lanes[lane] if start <= one.position < end]
        if LOG not in ranges:
            return MySqlAssignment(chunks=chunks, server=state.files.identity)
        last = state.files.place(state.place.position)[0]
        bases = {file.name: file.base for file in state.files.files if file.base >= last.base}
        snapshots = (one for one in state.snapshots if not one.again)
        regions = [TableRegions(one.name, self._key(one.name), tuple(one.regions())) for one in snapshots]
        return MySqlAssignment(
            state.place, bases, regions, chunks, state.skip, state.left_out, last.first_time, state.files.identity,
            [one.entry for one in state.applied], self._log.sink.parts,
        )  # fmt: skip

    def _chunk(self, lane: int, chunk: LaneChunk) -> AssignedChunk:
        entry = self._log.history.at(chunk.name, LAST)
        known = entry is not None and entry.table is not None and self._log.now.snapshot(chunk.name) is not None
        number = entry.id if entry is not None and known and not chunk.stale else 0
        return AssignedChunk(lane, chunk.position, number, self._key(chunk.name), chunk.lower, chunk.upper)

    def _key(self, name: TableName) -> tuple[str, ...]:
        """Return the columns that a table is split by."""
        entry = self._log.history.at(name, LAST)
        table = None if entry is None else entry.table
        return () if table is None else tuple(column.name for column in self._log.lanes.key(table))

    def shared(self) -> History:
        """Return what all tasks get."""
        return self._log.history

    def learn(self, notes: Sequence[Any]) -> None:
        """Take into the state what readers have noted."""
        for note in notes:
            noted = msgspec.convert(note, TaskNotes)
            for chunk in noted.all_chunks:
                self._learn_chunk(chunk)
            if noted.log is not None:
                self._log.learn(noted.log)
            if noted.changed:  # whatever the run was to read, the log has to pass what changed the table
                self._log.now.needed = self._log.end()

    def _learn_chunk(self, note: ChunkNote) -> None:
        state = self._log.now
        if not note.file:
            self._log.lanes.mark(state, note.lane, note.position, None)
            return
        low_file, low = (note.low_file, note.low) if note.low_file else (note.file, note.offset)
        if state.files.file(note.file) is None or state.files.file(low_file) is None:
            state.files = state.files.grown(self._log.listing())
        mark, low = state.files.position(note.file, note.offset), state.files.position(low_file, low)
        if not self._log.sink.once:
            # An attempt that died may have left rows of an earlier mark. Changes since then have to follow
            mark, low = min(mark, state.place.position), min(low, state.place.position)
        self._log.lanes.mark(state, note.lane, note.position, mark, note.rows, low)

    def new_schemas(self) -> list[tuple[TableId, TableSchema]]:
        """Return schemas that are new since the last call."""
        found, self._log.new = self._log.new, []
        return [(entry.table_id, entry.schema()) for entry in found if entry.read]

    def comments(self) -> list[tuple[TableId, TableComments]]:
        """Return the comments of tables that are new, or have changed, since the last call."""
        found, self._log.commented = self._log.commented, {}
        wanted = found.values() if self._options.comments else ()
        return [(entry.table_id, comments_of(self._log.history, entry)) for entry in wanted]

    def begin_anew(self, *, where_lost: bool) -> None:
        """Begin at the log's end when `start` is called; `where_lost`: only if the log cannot be read on."""
        self._anew = "where lost" if where_lost else "always"

    def read_again(self, tables: Sequence[TableId] | None) -> list[TableId]:
        """Let the rows of tables be read once more. Raise ConfigError for one that the server does not have."""
        names = {entry.table_id: entry.name for entry in self._log.history.newest() if entry.read}
        chosen = sorted(names if tables is None else tables)
        gone = [show(table) for table in chosen if table not in names]
        if gone:
            msg = f"{self._log.server.name} has no table {gone[0]}, or source.tables does not choose it"
            raise ConfigError(msg, "leave it out, or correct source.tables")
        self._log.begin([names[table] for table in chosen], again=True)
        note_read_again(self._log.now, {names[table] for table in chosen})
        for table in chosen:
            self._log.now.marked.pop(show(table), None)
        return chosen

    def emptied(self) -> list[TableId]:
        """Return the tables that were emptied since the last call."""
        found, self._log.now.emptied = self._log.now.emptied, []
        return [table_in(*name) for name in found]

    def replaced(self) -> list[TableId]:
        """Return the tables whose rows were all read again, and of which the sink may have others."""
        return [table_in(*one.name) for one in self._log.now.snapshots if one.replaces and one.read]

    def have_replaced(self, table: TableId) -> None:
        """Know that the sink has no other rows of a table."""
        for one in self._log.now.snapshots:
            one.replaces = one.replaces and table_in(*one.name) != table

    def empty_first(self, table: TableId) -> None:
        """Count a table whose rows are read again among those that were emptied."""
        self._log.now.emptied += [
            entry.name for entry in self._log.history.newest() if entry.read and entry.table_id == table
        ]

    def mark(self, table: TableId, why: str) -> None:
        """Know that the sink's rows of a table may differ until it is read again."""
        self._log.now.marked[show(table)] = why

    def keys(self, table: TableId, names: Sequence[str]) -> Iterator[list[Change]] | str:
        """Return deletes of the keys that a table has now; why there are none, or empty where they come later."""
        entry = next((one for one in self._log.history.newest() if one.read and one.table_id == table), None)
        if entry is None:
            return f"{self._log.server.name} has no table {show(table)} any more"
        there = set() if entry.table is None else {column.name for column in entry.table.columns}
        if missing := [name for name in names if name not in there]:
            return f"{show(table)} has no column {missing[0]}, by which the sink tells its rows"
        form = self._options.format
        form.schemas.history = self._log.history
        settled, end = self._settled >= self._log.now.files.end, self._settled
        if not settled:  # to wait for it takes seconds on a server without GTIDs, and once is enough for all tables
            end = self._log.end()
        found = keys_now(self._log.server, entry, names, form, settled=settled)
        self._settled = self._settled if isinstance(found, str) else end
        return found

    def writes(self, habits: SinkHabits) -> None:
        """Take what the sink does with rows that come again, and which statements the pipeline passes on."""
        self._log.sink = habits

    def weight(self, split: Split) -> float:
        """Return how many records a position of a split stands for."""
        return 1 / _BYTES_A_RECORD if split == LOG else float(self._options.chunk_size)

    def standing(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Standing | None:
        """Return where reading stands at these positions; None before it is known where it starts."""
        at = positions.get(LOG)
        return None if self._log.state is None or at is None else self._log.state.standing(at, ends.get(LOG, at))

    def look(self, file: str | None, offset: int) -> LogLook | None:
        """Return how one place of the log is read: from the beginning of its file, with the history as it is now."""
        files = self._log.now.files
        if file is None and files.files and offset >= files.files[0].base:
            known, offset = files.place(offset)
        elif file is None or (found := files.file(file)) is None:
            return None
        else:
            known = found
        if offset >= known.size:
            return None
        assigned = MySqlAssignment(LogPlace(known.name, FIRST, known.base), {known.name: known.base})
        return LogLook(LOG, known.base + offset, assigned, self._log.history.whole())

    def grows(self, split: Split) -> bool:
        """Return whether `--once` reads a split to wherever it ends: chunks are planned while it runs."""
        return split != LOG

    # -- Where reading starts -----------------------------------------------------------------------------------------

    def start(
        self, stored: Mapping[Split, int], _ids: Mapping[str, str], _owner: str, _from_time: int | None
    ) -> dict[Split, int]:
        """Return where each split starts: where it stood, else what the options say."""
        if self._log.state is not None and stored:
            self._check_server(first=False)
            try:
                positions = None if self._anew == "always" else self.check(stored)
            except DataLoss as exc:
                if self._anew != "where lost":
                    raise
                positions = None
                self._warn(exc.message)
            if positions is None:
                return self._begin_at_the_end(stored)
            self._take_in()
            return positions
        self._check_server(first=True)
        about = self._log.identity()
        (file, offset, executed), tables = place_of_tables(
            self._options,
            self._log.ask,
            lambda: first_place(self._options, self._log.search, self._log.ask, self._excluded),
            History(),
        )
        # A reading that starts over beside the pipeline's run has its positions, and nothing else of its state
        known = LogFiles((about,)) if self._log.state is None else self._log.state.files
        if not about.is_same(known.identity):
            msg = f"{self._log.server.name} is {about.name}, and the pipeline reads the log of {known.identity.name}"
            raise ConfigError(msg, "let the pipeline go on with this server first")
        self._log.history, self._log.documents, self._log.new = History(), {}, []
        files = known.grown(self._log.listing(), file)
        files = files.timed(file, self._log.search.head(file).first_time)
        base = files.position(file, FIRST) - FIRST
        self._log.state = State(
            files,
            LogPlace(file, offset, base),
            planned=[0] * LANES,
            lanes=[[] for _ in range(LANES)],
            gtids=str(executed or self._log.search.executed_at(file, offset) or ""),
        )
        if self._options.startup_mode in {"earliest-offset", "specific-offset", "timestamp"}:
            databases = self._log.ask("ask for databases", catalogue.databases)
            tables = known_at(self._log.search, (file, offset), tables, self._log.rules(), databases)
        names = self._add_tables(0, tables)
        if not names:
            self._warn(
                f"no table of {self._log.server.name} matches source.tables so far (a user sees those that it may read)"
            )
        if self._options.startup_mode in {"initial", "snapshot"}:
            self._log.begin(names)
        return {LOG: base + offset, **{(SNAPSHOT, lane): 0 for lane in range(LANES)}}

    def _begin_at_the_end(self, stored: Mapping[Split, int]) -> dict[Split, int]:
        """Return positions whose log begins where it ends now, of whichever server, with the tables of now.

        Each table has lost changes, and is marked until its rows are read again.
        """
        state, about = self._log.now, self._log.identity()
        status, tables = place_of_tables(self._options, self._log.ask, self._log.status, History())
        before = state.files.shown(stored[LOG])
        state.files = state.files.moved(about).grown(self._log.listing(), status.file)
        base = state.files.position(status.file, FIRST) - FIRST
        state.files = state.files.timed(status.file, self._log.search.head(status.file).first_time)
        state.place, state.skip = LogPlace(status.file, status.offset, base), ""
        state.inside, state.left_out, state.applied, state.needed = None, None, [], 0
        state.gtids = str(status.executed or self._log.search.executed_at(status.file, status.offset) or "")
        position = state.place.position
        known = [entry for entry in self._log.history.newest() if entry.read]
        gone = [entry for entry in known if entry.name not in tables]
        state.marked |= {shown(entry.name): "changes were lost where the log was not read" for entry in known}
        dropped = [replace(one, id=at, position=position, table=None) for at, one in enumerate(gone, state.next_entry)]
        self._log.add(dropped, [])
        names = self._add_tables(position, tables)
        state.snapshots = [one for one in state.snapshots if one.name in tables]
        if self._options.new_tables and not self._options.new_tables_log_only:
            met = {entry.name for entry in known}
            self._log.begin([name for name in names if name not in met])
        self.begun_anew = True
        self._warn(
            f"the log is given up after {before}, and read on from {status.file}:{status.offset}: tables that are not "
            "read again now lack changes (ingest status shows them)"
        )
        return {**stored, LOG: position}

    def _check_server(self, *, first: bool) -> None:
        """Check the server's settings and the user's rights before the first write.

        `first`: the pipeline has not read before. Else the server may still know its last reader by its number.
        """
        given = first and self._options.server_id is not None
        ids = self._options.server_ids(self._pipeline)[:1] if given else range(0)
        needs = ServerNeeds(ids, readers=len(ids), partial_images=self._log.sink.parts)
        for text in check_server(self._log.server, needs):
            self._warn(text)

    def _add_tables(self, position: int, tables: Mapping[TableName, Table]) -> list[TableName]:
        """Add tables to the history, and return their names. Raise ConfigError for one that no log has rows of."""
        for name, table in tables.items() if self._options.startup_mode != "snapshot" else ():
            end = table.find(table.row_end or "")
            if end is not None and end.type == "bigint":
                msg = f"{shown(name)} is versioned by transactions: its changes are logged as statements"
                raise ConfigError(msg, "leave it out (tables.exclude), or version it by time: TIMESTAMP(6)")
        self._log.add_tables(position, tables, read=True)
        self._log.add_parents(position)
        return sorted(tables)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions, where the log is still the one that they are of. Raise DataLoss."""
        state = self._log.now
        self.close()  # a connection that was kept may lead to a server that others do not reach any more
        about = self._log.identity()
        if about.is_same(state.files.identity):
            self._log.search.check(state.files, state.place)
            return dict(positions)
        within = positions[LOG] > state.place.position and not self._log.history.answered(positions[LOG])
        inside = state.inside if within else None
        if within and inside is None:
            msg = f"the server is {about.name} now, and a transaction of {state.files.identity.name} is written in part"
            raise ConfigError(msg, f"let the former server be read to its end, or {WAYS}")
        before = state.files.shown(state.place.position)
        self._log.replace_history(
            self._log.history.without(state.place.position)
        )  # the other server has them at its own places
        state.applied = [one for one in state.applied if self._log.history.entry(one.entry) is not None]
        state.files, place, skip = follow(self._log.search, state.files, state.gtids, about, self._excluded, inside)
        state.place, state.skip, state.inside, state.left_out = place, str(skip), None, inside
        self._warn(
            f"the server is {about.name} now: after {before} of {state.files.servers[-2].name} its log is read from "
            f"{place.file}:{place.offset} on, found by GTIDs"
        )
        return {**positions, LOG: place.position}

    def _take_in(self) -> None:
        """Take in tables that the options choose and did not choose before: at the end of the log as it is now.

        Their changes before that are left out, and so are statements, as their rows are read later; not where rows are
        not read, but the log only. What they choose no more is left.
        """
        state = self._log.now
        self._log.add(self._log.lanes.leave(state, self._log.history, self._options.reads), [])
        self._log.add(self._without_cascades(), [])
        left = self._log.lanes.left(self._log.history)
        status, tables = place_of_tables(self._options, self._log.ask, self._log.status, self._log.history)
        end = self._log.see(status)
        had = {name for name in tables if self._log.history.was_read(name, LAST)}
        names, keyed = self._add_tables(end, tables), self._log.sink.keyed
        with_rows = self._options.new_tables and not self._options.new_tables_log_only
        for name in sorted(had if with_rows else left.intersection(names)):
            why = "its changes were not read while source.tables did not choose it"
            if name not in left:
                why = "it was made under a name that another table had"
            self._warn(f"{shown(name)}: {why}" + keyed * "; it is read again")
            if keyed:
                self._log.begin([name], again=True, at=end)
                state.marked.pop(shown(name), None)
            else:
                state.marked[shown(name)] = why
        if with_rows:
            self._log.begin([name for name in names if name not in (had if keyed else left)], at=end)

    def _without_cascades(self) -> list[SchemaEntry]:
        """Return entries without foreign keys that change rows, from the log's end on, where the log has such rows now.

        So it is after an upgrade of the server to MySQL 9.6. Statements that are not read yet may change these tables:
        then it waits for the next start, and until then such tables are read again more often than they have to be.
        """
        if not self._log.rules().logs_cascades:
            return []
        known = [(entry, table) for entry in self._log.history.newest() if (table := entry.table) and table.cascades]
        end = self._log.end() if known else 0
        place = self._log.now.place
        later = self._log.search.statements(place.file, place.offset) if known else ()
        if any(may_change_tables(query.text) for *_, query in later):
            return []
        return [
            replace(entry, id=number, position=max(end, entry.position), table=replace(table, cascades=()))
            for number, (entry, table) in enumerate(known, self._log.now.next_entry)
        ]

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where each split ends now."""
        state = self._log.now
        end = self._log.end()
        if state.applied and positions[LOG] == end:
            self._log.compare(end)
        self._log.follow_parents()
        self._log.lanes.forget(state, positions)
        waits = self._log.lanes.plan(
            state,
            self._log.history,
            positions,
            lambda question: self._log.ask("cut a table", question),
            reached=positions[LOG] >= end,
        )
        state.needed = end if waits else state.needed
        ends = {(SNAPSHOT, lane): state.planned[lane] for lane in range(LANES)}
        if self._options.startup_mode == "snapshot":
            return {**ends, LOG: max(positions[LOG], state.needed)}
        return {**ends, LOG: end}

    def needed(self) -> dict[Split, int]:
        """Return how far the log is read at least, so that the chunks of a table that changed can be read."""
        return {LOG: self._log.now.needed}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return empty ranges: no record is looked at before the first batch."""
        return {split: (end, end) for split, end in ends.items()}

    def reads(self, _topic: str) -> bool:
        """Return False: no topic is read."""
        return False

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return whether a bounded source was read to its end: in the mode `snapshot`, when the rows are."""
        return self._options.startup_mode == "snapshot" and all(one.read for one in self._log.now.snapshots)

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing: all splits are there from the start."""
        return {}

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Raise ConfigError: an operator's words for positions mean nothing in a log of a database."""
        count = len([*splits])
        if not count:
            return {}
        msg = f"positions of {count} splits of a database cannot be set to {to}"
        raise ConfigError(msg, "begin with another --checkpoint, and scan.startup.mode, or `ingest backfill` tables")

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return nothing: there are no topics."""
        return dict.fromkeys(names) and {}

    def close(self) -> None:
        """Close the connection."""
        self._log.close()
