"""Which chunks of which tables are read next: tables are cut while they are read, and chunks go to lanes.

In: the state, and the server. Out: chunks at positions of lanes, and marks of those that were read. A chunk's place in
its table is known by its upper bound; so what a task says of it finds its piece again.
Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import pymysql
from pymysql.constants import ER

from ingest.model.table import TableId, selector, table_in
from ingest.sources.mysql.chunks import Bound, chunk_columns, keeps_order, next_bound, rows_at_once, split_key
from ingest.sources.mysql.state import LANES, SNAPSHOT, LaneChunk, Piece, State, TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ingest.model.record import Split
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.history import History, SchemaEntry
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.types import Column, Table, TableName

    Question: TypeAlias = Callable[[Connection], Bound | None]

AHEAD: Final = 4
"""Chunks that a lane has to be read at first."""
MOST: Final = 60
"""Chunks of a lane in one batch, at most: the sink keeps a note of each with its progress."""


_CHANGED: Final = frozenset({ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR, ER.BAD_FIELD_ERROR, ER.KEY_DOES_NOT_EXITS})
"""Errors of a question about a table that was altered, renamed or dropped, which the log is still to say."""


class _NotAsKnown(Exception):
    """Signal that a table differs from the history: it is split into chunks once the log has passed the change."""


class Lanes:
    """Planner of snapshots: splits tables into chunks and assigns the next ones to lanes."""

    def __init__(self, options: MySqlSource, now: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._columns = chunk_columns(options.chunk_columns or "")
        self._ahead = AHEAD
        self._rows: dict[TableName, int] = {}
        """Rows of a chunk of each table."""
        self._at: dict[int, int] = {}
        """The position of each lane at the last look."""
        self._now = now
        self._size = min(options.chunk_size, max(1, int(options.rows_per_second or options.chunk_size)))
        self._since, self._saved = now(), float(self._size)

    def begin(
        self,
        state: State,
        names: Iterable[TableName],
        rows: Mapping[TableName, int] | None = None,
        *,
        again: bool = False,
        at: int = 0,
    ) -> None:
        """Let tables be read from their first row on. `again`: the sink has rows of them already, and replaces them.

        `rows`: about how many rows they have, for people. `at`: see `TableSnapshot.began`.
        """
        if all(one.read for one in state.snapshots):
            state.tables_done = state.rows_done = 0
        for name in names:
            found = state.snapshot(name)
            if found is None:
                of = (rows or {}).get(name, 0)
                state.snapshots.append(TableSnapshot(name, again=again, rows=of, replaces=again, began=at))
            elif again or at:  # what of it was read is older
                found.replaces, found.began = found.replaces or again, max(found.began, at)
                self.restart(state, name)

    @staticmethod
    def left(history: History) -> set[TableName]:
        """Return the tables that were read before and that the pipeline's options now exclude."""
        known = {entry.name for entry in history.entries if entry.read}
        return {entry.name for entry in history.newest() if not entry.read} & known

    @staticmethod
    def leave(state: State, history: History, reads: Callable[[TableId], bool]) -> list[SchemaEntry]:
        """Return entries that end the reading of tables which the options exclude, from the log's position on."""
        excluded = [entry for entry in history.newest() if entry.read and not reads(entry.table_id)]
        names = {entry.name for entry in excluded}
        state.snapshots = [one for one in state.snapshots if one.name not in names]
        at = state.place.position
        return [
            replace(entry, id=number, position=max(at, entry.position), read=False)
            for number, entry in enumerate(excluded, state.next_entry)
        ]

    def follow(self, state: State, name: TableName, before: Table, now: Table) -> bool:
        """Go on with a table whose definition has changed; from its first row on, where its bounds mean nothing now.

        Returns whether rows come again that were read before.
        """
        snapshot = state.snapshot(name)
        key = [column.name for column in self.key(before)]
        alike = key == [column.name for column in self.key(now)] and (not key or keeps_order(before, now, key))
        if snapshot is None or alike or snapshot.read:
            return False
        self.restart(state, name)
        return bool(snapshot.pieces)

    @staticmethod
    def restart(state: State, name: TableName) -> None:
        """Restart the snapshot of a table from its first row; its chunks that are already planned become stale."""
        before = state.snapshot(name)
        again = before is not None and (before.again or bool(before.pieces))  # some may be read in an open batch
        state.snapshots = [snapshot for snapshot in state.snapshots if snapshot.name != name]
        rows, replaces, began = (0, False, 0) if before is None else (before.rows, before.replaces, before.began)
        state.snapshots.append(TableSnapshot(name, again=again, rows=rows, replaces=replaces, began=began))
        state.lanes = [
            [msgspec.structs.replace(chunk, stale=chunk.stale or chunk.name == name) for chunk in lane]
            for lane in state.lanes
        ]

    def key(self, table: Table) -> tuple[Column, ...]:
        """Return the columns by which a table is split into chunks; empty if it is read as one chunk.

        Raise ConfigError.
        """
        name = table_in(table.database, table.name)
        chosen = next(
            (setting.column for setting in self._columns if selector(setting.tables).match(name) is not None), None
        )
        return split_key(table, chosen)

    def forget(self, state: State, positions: Mapping[Split, int]) -> None:
        """Remove chunks that were read, and tables whose marks the log has all passed."""
        for lane in range(LANES):
            at = positions.get((SNAPSHOT, lane), 0)
            for chunk in state.lanes[lane]:
                if chunk.position < at:
                    self._mark_unknown(state, chunk)
            state.lanes[lane] = [chunk for chunk in state.lanes[lane] if chunk.position >= at]
        log = positions.get(("binlog", 0), 0)
        passed = [
            snapshot
            for snapshot in state.snapshots
            if snapshot.read
            and not snapshot.replaces
            and max((piece.mark or 0 for piece in snapshot.pieces), default=0) <= log
        ]
        state.tables_done += len(passed)
        state.rows_done += sum(snapshot.rows_read for snapshot in passed)
        names = {snapshot.name for snapshot in passed}
        state.snapshots = [snapshot for snapshot in state.snapshots if snapshot.name not in names]
        for snapshot in state.snapshots:
            snapshot.shrink(log)

    def plan(
        self,
        state: State,
        history: History,
        positions: Mapping[Split, int],
        ask: Callable[[Question], Bound | None],
        *,
        reached: bool = True,
    ) -> bool:
        """Plan the next chunks of each lane; return whether a table waits until the log has passed a statement.

        It does where the server has it no more as the history does. Raise IngestError. `ask`: asks for the end of a
        chunk. `reached`: whether the log is read to its end, so that nothing in it says what became of a table.
        """
        self._learn_pace(positions)
        newest = {entry.name: entry for entry in history.newest()}
        gone = [snapshot.name for snapshot in state.snapshots if snapshot.rest and snapshot.name not in newest]
        state.snapshots = [snapshot for snapshot in state.snapshots if snapshot.name not in gone]
        waiting = [snapshot for snapshot in state.snapshots if snapshot.rest]
        waits = False
        while waiting:
            behind = {lane: state.planned[lane] - positions.get((SNAPSHOT, lane), 0) for lane in range(LANES)}
            lane = min(behind, key=lambda k: (behind[k], k))
            if behind[lane] >= self._ahead or not self._may_read():
                return waits
            snapshot = waiting[0]
            table = newest[snapshot.name].table
            assert table is not None
            try:
                self._cut(state, snapshot, table, lane, ask, reached=reached)
            except _NotAsKnown:
                waits = True
                waiting.pop(0)
                continue
            if not snapshot.rest:
                waiting.pop(0)
        return waits

    def _cut(
        self,
        state: State,
        snapshot: TableSnapshot,
        table: Table,
        lane: int,
        ask: Callable[[Question], Bound | None],
        *,
        reached: bool,
    ) -> None:
        """Cut the next chunk off the rest of a table."""
        key, after = self.key(table), snapshot.after
        size = self._size

        def bound(connection: Connection) -> Bound | None:
            rows = self._rows.get(snapshot.name)
            try:
                if rows is None or after is None:
                    rows = self._rows[snapshot.name] = rows_at_once(connection, table, size)
                return next_bound(connection, table, key, after, rows)
            except pymysql.MySQLError as exc:
                if reached or exc.args[0] not in _CHANGED:
                    raise
                raise _NotAsKnown from exc

        upper = ask(bound) if key else None
        snapshot.pieces.append(Piece(upper))
        snapshot.rest = upper is not None
        snapshot.chunk_rows = self._rows.get(snapshot.name, size) if key else max(snapshot.rows, 1)
        state.lanes[lane].append(LaneChunk(state.planned[lane], snapshot.name, after, upper))
        state.planned[lane] += 1
        self._saved -= size

    def _learn_pace(self, positions: Mapping[Split, int]) -> None:
        """Plan as far ahead as two batches read."""
        for lane in range(LANES):
            at = positions.get((SNAPSHOT, lane), 0)
            self._ahead = max(self._ahead, min(MOST, 2 * (at - self._at.get(lane, at))))
            self._at[lane] = at

    def _may_read(self) -> bool:
        """Return whether `scan.snapshot.rows-per-second` lets another chunk begin."""
        limit = self._options.rows_per_second
        if limit is None:
            return True
        now = self._now()
        most = max(limit, float(self._size))
        self._saved, self._since = min(self._saved + (now - self._since) * limit, most), now
        return self._saved >= 0

    @staticmethod
    def _mark_unknown(state: State, chunk: LaneChunk) -> None:
        """Set the mark of a chunk that a task has written without its note reaching the driver.

        All changes from where the log stands follow it then: some may be in its rows already.
        """
        table = None if chunk.stale else state.snapshot(chunk.name)
        if table is not None and any(piece.upper == chunk.upper and piece.mark is None for piece in table.pieces):
            table.mark(chunk.upper, state.place.position, table.chunk_rows)

    @staticmethod
    def mark(state: State, lane: int, position: int, mark: int | None, rows: int = 0, low: int | None = None) -> None:
        """Note the mark of a chunk that was read, and its rows; None: the table is gone. `low`: of `TableSnapshot`."""
        chunk = next((one for one in state.lanes[lane] if one.position == position), None)
        table = None if chunk is None else state.snapshot(chunk.name)
        if chunk is None or table is None or chunk.stale:
            return
        if mark is None:
            state.snapshots = [one for one in state.snapshots if one.name != chunk.name]
        else:
            table.mark(chunk.upper, mark, rows, low)
