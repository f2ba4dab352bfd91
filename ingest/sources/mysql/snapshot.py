"""Reads chunks of tables without locks, each with its mark: the position of the log whose state its rows have.

In: a connection of the reader's own, a table as the history of schemas has it, a chunk. Out: records with op `r`, and
the mark. Rules: docs/spec/mysql.md#snapshot.

- MariaDB, and Percona's server, say the position of a consistent snapshot: that is the mark.
- MySQL does not. So the log is read from a position below every transaction that the snapshot may lack, up to the log's
  end after the rows were read; its changes are applied in order, and that end is the mark. A change that the rows have
  already does no harm.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import pymysql
from pymysql.constants import ER

from ingest.errors import ConfigError
from ingest.sources.mysql.chunk_rows import ChunkRowReader, grouped
from ingest.sources.mysql.chunks import name_of
from ingest.sources.mysql.marks import Lock, LogPoint, Visibility, log_end, snapshot_point
from ingest.sources.mysql.merging import identity_of, merge
from ingest.sources.mysql.types import data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.chunk_rows import Reading
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.passing import LoggedChange
    from ingest.sources.mysql.types import Table

    Between: TypeAlias = Callable[[Table, LogPoint, LogPoint], Sequence[LoggedChange]]
    """Function that returns the changes of a table in the log between two points, in order. It raises TableChanged
    where a statement in between may have changed the table."""

_TRIES: Final = 5
_COUNTER: Final = re.compile(r" AUTO_INCREMENT=[0-9]+")
_TRANSACTIONAL: Final = frozenset({"innodb", "rocksdb", "tokudb"})
"""Engines whose consistent snapshot is one with the log's position."""


class TableChanged(Exception):
    """The table is not as the history of schemas has it: the chunk is read again when the log has passed the change."""

    def __init__(self, now: Table | None, mark: LogPoint) -> None:
        """`now`: the table as the server has it; `mark`: the position that the chunk would have had."""
        super().__init__(now, mark)
        self.now = now
        self.mark = mark


class TableGone(Exception):
    """The table is not there any more. That is no failure of the others."""


class ChunkReader:
    """Reads one chunk after the other over one connection; it is kept as long as that, for what it has learned."""

    def __init__(
        self,
        connection: Connection,
        table_now: Callable[[Connection, str, str], Table | None],
        between: Between,
        *,
        visibility: Visibility | None = None,
        lock: Lock | None = None,
        tinyint1_as_boolean: bool = False,
        native: bool = True,
    ) -> None:
        """Read nothing yet.

        `table_now`: the catalogue's reading of a table, in the chunk's own transaction. `lock`: what locks a table
        without a key (`scan.snapshot.keyless: lock`).
        """
        self._connection = connection
        self._table_now = table_now
        self._between = between
        self._visibility = visibility or Visibility(connection)
        self._lock = lock
        self._rows = ChunkRowReader(tinyint1_as_boolean=tinyint1_as_boolean, native=native).read
        self._known: dict[int, str] = {}
        """For each entry of the history: the definition, as the server prints it, that was seen to be the same."""
        self._says_points = True
        """False where the server does not say the position of a snapshot."""
        self.mark = LogPoint("", 0)
        """The mark of the chunk that was read last."""
        self.low = self.mark
        """A point at or before it, up to which nothing is missing in the rows, also what the log does not have."""

    def read(self, reading: Reading) -> Generator[Sequence[Record]]:
        """Yield a chunk's rows, and set `mark`, which is final when all were given.

        Raise TableGone, TableChanged, ConfigError, Unavailable, and what the connection raises. What was given before
        is to be left out then.
        """
        for left in reversed(range(_TRIES)):
            begun = False
            try:
                for records in self._read(reading):
                    begun = True
                    yield records
            except pymysql.MySQLError as exc:
                code = exc.args[0] if exc.args else None
                if code in {ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR}:
                    raise TableGone from exc
                # The table was altered between the snapshot and its first row
                if code != ER.TABLE_DEF_CHANGED or begun or not left:
                    raise
            else:
                return
            finally:
                self._end()

    def _end(self) -> None:
        """End the transaction, so that DDL waits for no chunk that was read."""
        if self._connection.open:
            try:
                self._connection.rollback()
            except pymysql.MySQLError:  # the connection is gone: the error that matters was raised before
                self._connection.close()

    def _read(self, reading: Reading) -> Generator[Sequence[Record]]:
        transactional = reading.table.engine.lower() in _TRANSACTIONAL
        point = snapshot_point(self._connection) if transactional and self._says_points else None
        if point is not None:
            self.low = self.mark = point
            self._check(reading, point)
            yield from self._rows(self._connection, reading)
            return
        self._says_points = self._says_points and not transactional
        if identity_of(reading.table):
            yield from self._read_and_merge(reading)
        elif self._lock is not None:
            yield from self._read_locked(reading, self._lock, transactional=transactional)
        else:
            yield from self._read_quietly(reading, transactional=transactional)

    def _read_and_merge(self, reading: Reading) -> Generator[Sequence[Record]]:
        low = self._visibility.low_mark()
        _begin(self._connection)
        self._check(reading, low)
        groups = list(self._rows(self._connection, reading))
        self._end()
        high = log_end(self._connection)
        changes = self._between(reading.table, low, high) if low != high else ()
        self.low, self.mark = low, high
        if changes:
            rows = [reading.fields(record) for group in groups for record in group]
            merged = merge(reading.table, reading.key, reading.chunk, rows, changes, self._ask)
            yield from grouped(map(reading.record, merged))
        else:
            yield from groups

    def _read_locked(self, reading: Reading, lock: Lock, *, transactional: bool) -> Generator[Sequence[Record]]:
        """Yield the rows of a table without a key, which nobody may write until the transaction has begun."""
        with lock.of(reading.table) as locking:
            self.low = self.mark = log_end(self._connection)
            _begin(self._connection)
            self._check(reading, self.mark)
            if transactional:
                locking.close()
            yield from self._rows(self._connection, reading)

    def _read_quietly(self, reading: Reading, *, transactional: bool) -> Generator[Sequence[Record]]:
        """Yield the rows of a table without a key, in a transaction during whose beginning nothing was written."""
        point = self._visibility.quiet_point(lambda: _begin(self._connection))
        if point is not None:
            self.low = self.mark = point
            self._check(reading, point)
            yield from self._rows(self._connection, reading)
            # A table without transactions shows what is written while it is read
            if transactional or log_end(self._connection) == point:
                return
        name = f"{reading.table.database}.{reading.table.name}"
        msg = (
            f"table {name} has no primary key, and no unique key without nulls, and the server writes too often to "
            "know the position of the log at which its rows are read"
        )
        hint = (
            f"give it a key (ALTER TABLE {name} ADD PRIMARY KEY …), start at a quieter time, or let it be locked "
            "for a moment: scan.snapshot.keyless: lock"
        )
        raise ConfigError(msg, hint)

    def _check(self, reading: Reading, mark: LogPoint) -> None:
        """Compare the table with the history's. From here to the transaction's end no statement can change it."""
        table = reading.table
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {name_of(table)} LIMIT 0")  # noqa: S608  (quoted)
            cursor.execute(f"SHOW CREATE TABLE {name_of(table)}")
            (_, text, *_) = cursor.fetchone() or ("", "")
        # The catalogue's queries take as long as a tenth of a chunk: they are for a definition that is new here
        definition = _COUNTER.sub("", str(text))
        if self._known.get(reading.entry) == definition:
            return
        now = self._table_now(self._connection, table.database, table.name)
        if now is None:
            raise TableGone
        if _shape(now) != _shape(table):
            raise TableChanged(now, mark)
        self._known[reading.entry] = definition

    def _ask(self, sql: str) -> Sequence[object]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or ()


def _begin(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")


def _shape(table: Table) -> tuple[object, ...]:
    """Return what decides how a table's rows are read and told apart."""
    columns = [(column.name, column.type, data_type(column)) for column in table.columns if not column.hidden]
    return (*columns, *map(str.lower, table.primary_key))
