"""Reads chunks of tables without locks, each with its mark: the position of the log whose state its rows have.

In: a connection of the reader's own, a table as the history of schemas has it, a chunk. Out: records with op `r`, and
the mark. Rules: docs/spec/mysql.md#snapshot.

- MariaDB, and Percona's server, say the position of a consistent snapshot: that is the mark.
- MySQL does not. So the log is read from a position below every transaction that the snapshot may lack, up to the log's
  end after the rows were read; its changes are applied in order, and that end is the mark. A change that the rows have
  already does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
import pymysql
from pymysql.constants import ER

from ingest.errors import ConfigError
from ingest.sources.mysql.chunks import WHOLE, condition, name_of, source_of
from ingest.sources.mysql.marks import Lock, LogPoint, Visibility, log_end, snapshot_point
from ingest.sources.mysql.merging import identity_of, merge
from ingest.sources.mysql.query_values import is_selectable, selected, value_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from ingest.model.record import Headers, Record
    from ingest.sources.mysql.chunks import Chunk
    from ingest.sources.mysql.columns import Column, Table
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.passing import Change

    Between: TypeAlias = Callable[[Table, LogPoint, LogPoint], Sequence[Change]]
    """Function that returns the changes of a table in the log between two points, in order. It raises TableChanged
    where a statement in between may have changed the table."""

ROWS: Final = 2_000
"""Rows that are given at a time, at most."""
_TRIES: Final = 5
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


@dataclass(slots=True)
class RowRecord:
    """A row of a chunk, as a record."""

    text: bytes
    at: int
    millis: int
    stands_for: str = ""

    def key(self) -> None:
        """Return None: the key is in the row."""
        return

    def value(self) -> bytes:
        """Return the row, framed."""
        return self.text

    def topic(self) -> str:
        """Return what stands for the topic: the split's name."""
        return self.stands_for

    def partition(self) -> int:
        """Return 0."""
        return 0

    def offset(self) -> int:
        """Return the chunk's position in its split."""
        return self.at

    def timestamp(self) -> tuple[int, int]:
        """Return when it was read, in milliseconds."""
        return 1, self.millis

    def headers(self) -> Headers:
        """Return nothing."""
        return []

    def leader_epoch(self) -> None:
        """Return None."""
        return


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be read, and how its records look."""

    table: Table
    entry: int
    """The id of the table's entry in the history of schemas."""
    key: tuple[Column, ...]
    """The columns that the table is split by; none: it is read in one piece."""
    chunk: Chunk = WHOLE
    position: int = 0
    """The chunk's position in its split, which is that of all its records."""
    millis: int = 0
    topic: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that a statement can read."""
        return tuple(column for column in self.table.columns if is_selectable(column))

    @property
    def head(self) -> bytes:
        """The bytes in front of a row's columns."""
        return b"\0" + self.entry.to_bytes(4, "big") + b'{"before":null,"after":{'

    @property
    def tail(self) -> bytes:
        """The bytes behind a row's columns."""
        source = msgspec.json.encode({"db": self.table.database, "table": self.table.name})
        return b'},"source":' + source + b',"op":"r"}'

    def record(self, fields: bytes) -> RowRecord:
        """Return a row as a record."""
        return RowRecord(self.head + fields + self.tail, self.position, self.millis, self.topic)


class ChunkReader:
    """Reads one chunk after the other over one connection."""

    def __init__(
        self,
        connection: Connection,
        table_now: Callable[[Connection, str, str], Table | None],
        between: Between,
        *,
        visibility: Visibility | None = None,
        lock: Lock | None = None,
        tinyint1_as_boolean: bool = False,
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
        self._boolean = tinyint1_as_boolean
        self.mark = LogPoint("", 0)
        """The mark of the chunk that was read last."""

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
        point = snapshot_point(self._connection) if transactional else None
        if point is not None:
            self.mark = point
            self._check(reading, point)
            yield from _grouped(map(reading.record, self._rows(reading)))
        elif identity_of(reading.table):
            yield from self._read_and_merge(reading)
        else:
            self.mark = self._exact_point(reading)
            self._check(reading, self.mark)
            yield from _grouped(map(reading.record, self._rows(reading)))

    def _read_and_merge(self, reading: Reading) -> Generator[Sequence[Record]]:
        low = self._visibility.low_mark()
        _begin(self._connection)
        self._check(reading, low)
        rows = list(self._rows(reading))
        self._end()
        high = log_end(self._connection)
        changes = self._between(reading.table, low, high) if low != high else ()
        self.mark = high
        if changes:
            rows = merge(reading.table, reading.key, reading.chunk, rows, changes, self._ask)
        yield from _grouped(map(reading.record, rows))

    def _exact_point(self, reading: Reading) -> LogPoint:
        """Begin a transaction whose snapshot is of a known point, and return that. Raise ConfigError."""
        if self._lock is not None:
            with self._lock.of(name_of(reading.table)):
                locked = log_end(self._connection)
                _begin(self._connection)
            return locked
        point = self._visibility.quiet_point(lambda: _begin(self._connection))
        if point is None:
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
        return point

    def _check(self, reading: Reading, mark: LogPoint) -> None:
        """Compare the table with the history's. From here to the transaction's end no statement can change it."""
        table = reading.table
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT 1 FROM {name_of(table)} LIMIT 0")  # noqa: S608  (quoted)
        now = self._table_now(self._connection, table.database, table.name)
        if now is None:
            raise TableGone
        if _shape(now) != _shape(table):
            raise TableChanged(now, mark)

    def _rows(self, reading: Reading) -> Iterator[bytes]:
        """Yield a chunk's rows: the members of their JSON objects."""
        columns = reading.columns
        names = [msgspec.json.encode(column.name) + b":" for column in columns]
        writers = [value_writer(column, tinyint1_as_boolean=self._boolean) for column in columns]
        for row in raw_rows(self._connection, statement_of(reading)):
            yield b",".join([
                name + (b"null" if value is None else write(value))
                for name, write, value in zip(names, writers, row, strict=True)
            ])  # fmt: skip

    def _ask(self, sql: str) -> Sequence[object]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone() or ()


def statement_of(reading: Reading) -> str:
    """Return the statement that reads a chunk. Rows come in the order of the index, which nobody depends on."""
    where = condition(reading.key, reading.chunk)
    rest = f" WHERE {where}" if where else ""
    return f"SELECT {selected(reading.columns)} FROM {source_of(reading.table, reading.key)}{rest}"  # noqa: S608 (quoted)


def raw_rows(connection: Connection, sql: str) -> Iterator[tuple[bytes | None, ...]]:
    """Yield the rows of a statement as the server's bytes, without keeping them. Raise pymysql.MySQLError."""
    connection.query(sql, unbuffered=True)
    result = cast("Any", connection)._result  # noqa: SLF001  (a cursor would decode each value)
    result.converters = [(None, None)] * result.field_count
    try:
        while (row := result._read_rowdata_packet_unbuffered()) is not None:  # noqa: SLF001
            yield row
    finally:
        if result.unbuffered_active:
            connection.close()  # nobody wants the rest; reading it could take an hour


def _begin(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")


def _shape(table: Table) -> tuple[object, ...]:
    """Return what decides how a table's rows are read; its comments do not."""
    columns = [
        (c.name, c.type, c.length, c.precision, c.scale, c.fsp, c.unsigned, c.charset, c.labels) for c in table.columns
    ]
    return (*columns, *map(str.lower, table.primary_key))


def _grouped(records: Iterator[Record]) -> Generator[Sequence[Record]]:
    """Yield records in groups."""
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == ROWS:
            yield group
            group = []
    if group:
        yield group
