"""The reader of the MySQL source, in tasks: reads the binary log from a position on, and chunks of tables.

In: ranges, and what the coordinator gives a task: the history of schemas, where a transaction begins, chunks. Out:
records, and notes of what was met. Rules: docs/spec/mysql.md.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pymysql

from ingest.errors import ConfigError, DataLoss
from ingest.model.record import Chunk, Record, Split, offset_of
from ingest.sources import Reader
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.cascades import Referenced, referenced
from ingest.sources.mysql.chunks import TableChunk
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.ddl import statement_text
from ingest.sources.mysql.events import BadEvent
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.history import History, KnownSchemas, may_change_tables
from ingest.sources.mysql.log_model import WAYS, LogPlace, PartOfTransaction, Statement
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.log_search import identity
from ingest.sources.mysql.marks import Lock, LogPoint
from ingest.sources.mysql.snapshot import ChunkReader, Reading, TableChanged, TableGone
from ingest.sources.mysql.snapshot_log import LoggedChange, Passing, Region, changes_in, passed
from ingest.sources.mysql.start_positions import passed_over
from ingest.sources.mysql.state import (
    CHUNK_BYTES,
    LOG,
    SNAPSHOT,
    ChunkNote,
    LogNote,
    MySqlAssignment,
    StatementNote,
    TaskNotes,
    commit_note_of,
    note_size,
    packed_chunks,
)
from ingest.sources.mysql.table_maps import AnotherDefinition

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.options import MySqlSource
    from ingest.sources.mysql.types import Table


_AGAIN_S: Final = 1.0
"""Seconds until a chunk is read again whose log has a statement on its table: its next low mark may be behind that."""
_FAR: Final = 1 << 40
"""The base of a log file that is above those of all files before it."""


class _Tables:
    """The `LogTables` of a task: the pipeline's history of schemas."""

    def __init__(self, schemas: KnownSchemas, *, partial: bool = False) -> None:
        self._schemas = schemas
        self.partial = partial

    def read(self, database: str, name: str, position: int) -> tuple[int, Table] | None:
        return self._schemas.history.read(database, name, position)

    def referenced(self, database: str, name: str, position: int) -> Referenced | None:
        return referenced(self._schemas.history, (database, name), position)

    def answered(self, position: int) -> bool:
        return self._schemas.history.answered(position)

    def matters(self, statement: Statement) -> bool:
        return self._schemas.history.matters(statement.query.text, changes_rows=statement.changes_rows)


class _OneTable:
    """The `LogTables` of one table with its current columns, for a chunk that is merged with the log."""

    partial = True

    def __init__(self, table: Table) -> None:
        self._table = table

    def read(self, database: str, name: str, _position: int) -> tuple[int, Table] | None:
        same = (database, name) == (self._table.database, self._table.name)
        return (1, self._table) if same else None

    def referenced(self, _database: str, _name: str, _position: int) -> None:
        return None

    def answered(self, _position: int) -> bool:
        return False

    def matters(self, statement: Statement) -> bool:
        text = statement.query.text.decode("utf-8", "replace").lower()
        own = self._table.name.lower() in text
        return own and (statement.changes_rows or may_change_tables(statement.query.text))


class MySqlReader(Reader):
    """Reader of one server's log and chunks. Its connections stay open between tasks."""

    def __init__(self, options: MySqlSource, pipeline: str) -> None:
        self.stateful = self
        self._options = options
        self._schemas: KnownSchemas = options.format.schemas
        self._server_id, self._lane_id = options.server_ids(pipeline)[0], options.lane_id()
        self._log: LogReader | None = None
        self._assigned = MySqlAssignment()
        self._position: dict[Split, int] = {}
        self._reached: list[tuple[int, int, int]] = []
        """For each of the places: the position behind the records before it, which lies below it where nothing but a
        commit follows; how many runs of GTIDs there were; and the last number of the last one."""
        self._inside: dict[int, PartOfTransaction] = {}
        """For positions within a transaction: how much of it is before them."""
        self._places: list[LogPlace] = []
        """Ends of transactions of this task, in order."""
        self._statement: Statement | None = None
        self._chunks: list[ChunkNote] = []
        """Chunks that were read in this task."""
        self._changed = False
        """True if one was not read, because its table is not as the history has it."""
        self._rows_given = 0
        """Rows of the current chunk."""
        self._questions: Connection | None = None
        """What asks for the order of keys."""
        self._rows: Connection | None = None
        self._chunk_reader: ChunkReader | None = None
        """The reader of chunks, with a connection of its own."""

    # -- What the coordinator gives, and learns ---------------------------------------------------------------------

    def take(self, assigned: MySqlAssignment, shared: History) -> None:
        """Start a task: set its assignment and the history of schemas, and clear all notes."""
        self._assigned = assigned
        self._schemas.history = shared
        self._inside = {}
        self._places, self._reached, self._statement, self._chunks, self._changed = [], [], None, [], False

    def commit_note(self, positions: Mapping[Split, int]) -> Any:
        """Return the note that the sink stores with a commit: marks of chunks, and the log's position."""
        log, chunks = self._log_note(positions), self._finished(positions)
        if log is not None:
            log = msgspec.structs.replace(log, files=[], statement=None, invalid={}, used=None)  # it is met again
            log = None if log.place == self._assigned.place and log.inside is None else log
        return commit_note_of(log, chunks)

    def resume(self, note: Any) -> None:
        """Restore the notes of chunks from the note that the sink stored with the last commit."""
        self._chunks = msgspec.convert(note, TaskNotes).all_chunks

    def _finished(self, positions: Mapping[Split, int]) -> list[ChunkNote]:
        return [note for note in self._chunks if note.position < positions.get((SNAPSHOT, note.lane), 0)]

    def notes(self, positions: Mapping[Split, int]) -> list[Any]:
        """Return the task's notes for the coordinator, as plain values."""
        found = TaskNotes(self._log_note(positions), self._finished(positions), self._changed)
        return [msgspec.to_builtins(found)] if found != TaskNotes() else []

    def _log_note(self, positions: Mapping[Split, int]) -> LogNote | None:
        at, place = positions.get(LOG), self._assigned.place
        if at is None or place is None:
            return None
        reached = [one for one, (after, *_) in zip(self._places, self._reached, strict=True) if after <= at]
        last_place = reached[-1] if reached else place
        files = [] if self._log is None else [(file.name, file.base, file.time) for file in self._log.files]
        met, statement = self._statement, None
        if met is not None and met.position <= at:
            query = met.query
            text = statement_text(query.text, query.charset)
            statement = StatementNote(met.position, met.end, query.database, text, query.sql_mode, met.time)
        inside = self._inside.get(at)
        if last_place == place and statement is None and inside is None:
            return None
        invalid = {} if self._log is None else dict(self._log.invalid)
        used = [] if self._log is None else sorted(self._log.maps.used.intersection(self._assigned.applied))
        logged = 0 if self._log is None else self._log.time
        parents = [] if self._log is None else [(*name, position) for name, position in self._log.maps.parents.items()]
        return LogNote(
            last_place, files, self._read_gtids(last_place), statement, invalid, inside, used, logged, parents
        )

    def _read_gtids(self, place: LogPlace) -> str:
        """Return the GTID set that this task has read up to a place of the log."""
        if self._log is None or place not in self._places:
            return ""
        _, count, last = self._reached[self._places.index(place)]
        read: dict[str, list[tuple[int, int]]] = {}
        for at, run in enumerate(self._log.gtids[:count]):
            read.setdefault(run.source, []).append((run.first, last if at == count - 1 else run.last))
        return str(GtidSet(read))

    # -- Reading ------------------------------------------------------------------------------------------------------

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read, or a statement is met. Raise IngestError."""
        self._position = {split: start for split, (start, _) in ranges.items()}
        self._places, self._reached, self._inside, self._statement = (
            [],
            [],
            {},
            None,
        )  # a task may go back, and read again
        for split, (start, end) in sorted(ranges.items()):
            if split == LOG:
                yield from self._read_log(start, end)
            else:
                yield from self._read_lane(split, start, end)

    def _read_log(self, start: int, end: int) -> Generator[Chunk | None]:
        place = self._assigned.place
        assert place is not None
        log = self._log
        if log is None:
            options = self._options
            log = self._log = LogReader(
                options.server,
                self._server_id,
                _Tables(self._schemas, partial=self._assigned.partial),
                heartbeat_s=options.heartbeat,
                tinyint1_as_boolean=options.booleans,
                metadata=bool(options.metadata),
            )
        passing = self._passing()
        over = passed_over(self._assigned.skip, self._options.gtid_excludes)
        assigned = self._assigned
        for found in log.read(
            place,
            end,
            after=start,
            bases=assigned.bases,
            excluded=over,
            began=assigned.began,
            left_out=assigned.left_out,
        ):
            if found is None:
                yield None
                continue
            self._position[LOG] = found.position
            if found.inside is not None:
                self._inside[found.position] = found.inside
            self._keep_place(log)
            messages = found.messages if not passing else passed(found.messages, passing)
            if messages:
                yield Chunk(LOG, LOG[0], messages, place=found.transactions)
        self._keep_place(log)
        self._statement = log.statement
        self._position[LOG] = self._places[-1].position if log.statement is None else log.statement.position

    def _keep_place(self, log: LogReader) -> None:
        place = log.place
        if not self._places or place.position > self._places[-1].position:
            self._places.append(place)
            runs = log.gtids
            at = min(place.position, self._position[LOG])
            self._reached.append((at, len(runs), runs[-1].last if runs else 0))

    def _passing(self) -> dict[int, Passing]:
        """Return filters of log changes for tables whose snapshot is not complete, by ids of their entries."""
        out: dict[int, Passing] = {}
        regions_by_name = {table.name: table for table in self._assigned.regions}
        for entry in self._schemas.history.entries if regions_by_name else ():
            regions, table = regions_by_name.get(entry.name), entry.table
            if regions is None or table is None:
                continue
            columns = {column.name: column for column in table.columns}
            if not all(name in columns for name in regions.key):
                continue
            key = [columns[name] for name in regions.key]
            pieces = [Region(upper, mark) for upper, mark in regions.pieces]
            out[entry.id] = Passing(key, pieces, self._ask_order, len(entry.types))
        return out

    def _ask_order(self, sql: str) -> Sequence[object]:
        """Return the row that answers a question about keys; a connection that was closed meanwhile is replaced."""
        server, connection = self._options.server, self._questions
        was_open = connection is not None and connection.open
        if connection is None or not was_open:
            connection = self._questions = connect(server)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchone() or ()
        except pymysql.MySQLError as exc:
            connection._force_close()  # type: ignore[attr-defined]
            if not was_open:
                raise explain(exc, "compare keys", server) from exc
        return self._ask_order(sql)

    # -- Chunks -------------------------------------------------------------------------------------------------------

    def _read_lane(self, split: Split, start: int, end: int) -> Generator[Chunk | None]:
        """Yield the rows of chunks.

        A lane ends before a chunk whose table is not as the history has it yet, and before more than a commit can note.
        """
        chunks = {one.position: one for one in self._assigned.chunks if one.lane == split[1]}
        room = CHUNK_BYTES // max(1, sum(split[0] == SNAPSHOT for split in self._position))
        for position in range(start, end):
            if note_size(packed_chunks(one for one in self._chunks if one.lane == split[1])) > room:
                return
            chunk = chunks[position]
            entry = self._schemas.history.entry(chunk.entry)
            mark, low, self._rows_given = LogPoint("", 0), LogPoint("", 0), 0
            if entry is not None and entry.table is not None:
                columns = {column.name: column for column in entry.table.columns}
                reading = Reading(
                    entry.table,
                    entry.id,
                    tuple(columns[name] for name in chunk.key),
                    TableChunk(chunk.lower, chunk.upper),
                    position,
                    int(time.time() * 1000),
                )
                try:
                    mark, low = yield from self._read_chunk(split, reading)
                except TableChanged:
                    self._changed = True
                    return
                except TableGone:
                    mark = LogPoint("", 0)
            note = ChunkNote(split[1], position, mark.file, mark.offset, self._rows_given, low.file, low.offset)
            before = [one for one in self._chunks if (one.lane, one.position) != (note.lane, note.position)]
            self._chunks = [*before, note]
            self._position[split] = position + 1

    def _read_chunk(self, split: Split, reading: Reading) -> Generator[Chunk | None, None, tuple[LogPoint, LogPoint]]:
        """Yield a chunk's rows; return its mark, and up to where nothing is missing. Raise TableChanged, TableGone."""
        options = self._options
        try:
            reader = self._chunk_reader
            if reader is None or self._rows is None or not self._rows.open:
                self._rows = self._connect_for_rows()
                lock = Lock(lambda: connect(options.server)) if options.keyless == "lock" else None
                reader = self._chunk_reader = ChunkReader(
                    self._rows, table_now, self._between, lock=lock, tinyint1_as_boolean=options.booleans
                )
            before: Sequence[Record] = ()
            with closing(reader.read(reading)) as groups:
                for records in groups:
                    self._rows_given += len(records)
                    if before:
                        yield Chunk(split, SNAPSHOT, before, more=True, place=reader.mark)
                    before = records
            if before:
                self._position[split] = reading.position
                yield Chunk(split, SNAPSHOT, before, place=reader.mark)
        except pymysql.MySQLError as exc:
            name = f"{reading.table.database}.{reading.table.name}"
            raise explain(exc, f"read rows of {name}", options.server) from exc
        except BadEvent as exc:
            msg = f"rows of {reading.table.database}.{reading.table.name} have a value that cannot be read: {exc}"
            raise ConfigError(msg, "correct it in the database, or leave the table out (tables.exclude)") from exc
        return reader.mark, reader.low

    def _connect_for_rows(self) -> Connection:
        """Return a connection to the server that marks of chunks are positions of. Raise DataLoss at another one."""
        connection, wanted = connect(self._options.server), self._assigned.server
        about = identity(connection)
        if wanted is not None and not about.is_same(wanted):
            connection.close()
            raise DataLoss(f"the server is {about.name}, and positions are those of {wanted.name}", WAYS)
        return connection

    def _between(self, table: Table, low: LogPoint, high: LogPoint) -> Sequence[LoggedChange]:
        """Return the changes of a table in the log between two points. Raise TableChanged."""
        options = self._options
        tables = _OneTable(table)
        log = LogReader(
            options.server, self._lane_id, tables, heartbeat_s=options.heartbeat, tinyint1_as_boolean=options.booleans
        )
        base = 0 if low.file == high.file else _FAR
        changes: list[LoggedChange] = []
        start = LogPlace(low.file, low.offset, 0)
        try:
            for chunk in log.read(start, base + high.offset, bases={low.file: 0, high.file: base}):
                for record in () if chunk is None else chunk.messages:
                    if offset_of(record) < base + high.offset:
                        changes += [change for _, change in changes_in(record)]
            changed = log.statement is not None
        except AnotherDefinition:  # the low mark, which is seconds old, lies before the statement
            changed = True
        finally:
            log.close()
        if changed:
            time.sleep(_AGAIN_S)
            raise TableChanged(None, high)
        return changes

    def position(self, split: Split) -> int:
        """Return the next position that a range would give."""
        return self._position[split]

    def first(self, split: Split) -> int:
        """Return the first position of a split, which the coordinator knows better."""
        return self._position.get(split, 0)

    def close(self) -> None:
        """Close the connections."""
        if self._log is not None:
            self._log.close()
            self._log = None
        for connection in (self._questions, self._rows):
            if connection is not None and connection.open:
                connection.close()
        self._questions = self._rows = self._chunk_reader = None


def table_now(connection: Connection, database: str, name: str) -> Table | None:
    """Return a table's current definition, from a connection inside of a transaction."""
    found = catalogue.tables(connection, [(database, name)], catalogue.server(connection))
    return found.get((database, name))
