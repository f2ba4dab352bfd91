"""Reads chunks of tables without locks, each with its mark: the position of the log whose state its rows have.

In: a connection of the reader's own, a table as the history of schemas has it, a chunk. Out: records with op `r` in
groups, by native code where it is built, else by the reference, with the same bytes; and the mark.

- MariaDB, and Percona's server, say the position of a consistent snapshot: that is the mark.
- MySQL does not. So the log is read from a position below every transaction that the snapshot may lack, up to the log's
  end after the rows were read; its changes are applied in order, and that end is the mark. A change that the rows have
  already does no harm.

Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import orjson
import pymysql
from pymysql.constants import CR, ER
from pymysql.err import raise_mysql_exception

from ingest import compiled
from ingest.errors import ConfigError
from ingest.sources.mysql.chunks import WHOLE, TableChunk, condition, name_of, source_of
from ingest.sources.mysql.connection import as_client_errors
from ingest.sources.mysql.log_records import LogRecord
from ingest.sources.mysql.marks import Lock, LogPoint, Visibility, log_end, snapshot_point
from ingest.sources.mysql.query_values import is_selectable, selected, value_writer
from ingest.sources.mysql.snapshot_log import LoggedChange, identity_of, merge
from ingest.sources.mysql.types import Column, Table, data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.native.result_rows import ResultSetRows
    from ingest.sources.mysql.query_values import ValueWriter

    Between: TypeAlias = Callable[[Table, LogPoint, LogPoint], Sequence[LoggedChange]]
    """Function that returns the changes of a table in the log between two points, in order. It raises TableChanged
    where a statement in between may have changed the table."""

ROWS: Final = 2_000
"""Rows that are given at a time, at most."""
_READ_BYTES: Final = 1 << 18
_GROUP_BYTES: Final = 1 << 22
"""Bytes of rows that are given at a time, but for a larger row."""
BUILT = compiled.USED
if compiled.BUILT:
    from ingest.sources.mysql.native import result_rows as native


@dataclass(frozen=True, slots=True)
class Reading:
    """A chunk to read, with the columns to select and the form of its records."""

    table: Table
    entry: int
    """The id of the table's entry in the history of schemas."""
    key: tuple[Column, ...]
    """The columns that the table is split by; none: it is read in one piece."""
    chunk: TableChunk = WHOLE
    position: int = 0
    """The chunk's position in its split, which is that of all its records."""
    millis: int = 0

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
        source = orjson.dumps({"db": self.table.database, "table": self.table.name})
        return b'},"source":' + source + b',"op":"r"}'

    def record(self, fields: bytes) -> LogRecord:
        """Return a row, the members of its JSON object, as a record."""
        return LogRecord(self.head + fields + self.tail, self.position, self.millis)

    def fields(self, record: Record) -> bytes:
        """Return the members of a record's row."""
        return (record.value() or b"")[len(self.head) : -len(self.tail)]


class ChunkRowReader:
    """Reads rows by native code, or by the reference."""

    def __init__(self, *, tinyint1_as_boolean: bool = False, native: bool = True) -> None:
        """`native`: use native code, where it was built."""
        self._boolean = tinyint1_as_boolean
        self._native = native and BUILT

    def read(self, connection: Connection, reading: Reading) -> Iterator[Sequence[Record]]:
        """Yield a chunk's rows in groups. Raise pymysql.MySQLError."""
        columns = reading.columns
        names = [orjson.dumps(column.name) for column in columns]
        writers = [value_writer(column, tinyint1_as_boolean=self._boolean) for column in columns]
        if not self._native:
            return grouped(_by_reference(connection, reading, names, writers))
        rows = native.ResultSetRows(reading.head, reading.tail, names, writers, reading.position, reading.millis)
        return _by_native_code(connection, statement_of(reading), rows)


def _by_reference(
    connection: Connection, reading: Reading, names: Sequence[bytes], writers: Sequence[ValueWriter]
) -> Iterator[LogRecord]:
    for row in raw_rows(connection, statement_of(reading)):
        yield reading.record(
            b",".join(
                [
                    name + b":" + (b"null" if value is None else write(value))
                    for name, write, value in zip(names, writers, row, strict=True)
                ]
            )
        )


def statement_of(reading: Reading) -> str:
    """Return the statement that reads a chunk. Rows come in the order of the index, which nobody depends on."""
    where = condition(reading.key, reading.chunk)
    rest = f" WHERE {where}" if where else ""
    return f"SELECT {selected(reading.columns)} FROM {source_of(reading.table, reading.key)}{rest}"


def raw_rows(connection: Connection, sql: str) -> Iterator[tuple[bytes | None, ...]]:
    """Yield a query's rows as the server's bytes, unbuffered. Raise pymysql.MySQLError."""
    connection.query(sql, unbuffered=True)
    result = cast("Any", connection)._result
    result.converters = [(None, None)] * result.field_count
    try:
        while True:
            with as_client_errors():
                row = result._read_rowdata_packet_unbuffered()
            if row is None:
                break
            if len(row) != result.field_count:
                raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, "Malformed packet: a row that ends too early")
            yield row
    finally:
        if result.unbuffered_active:
            _give_up(connection, result)


def _by_native_code(connection: Connection, sql: str, rows: ResultSetRows) -> Iterator[Sequence[Record]]:
    """Yield the rows of a statement as records, read by native code. Raise pymysql.MySQLError."""
    connection.query(sql, unbuffered=True)
    own = cast("Any", connection)
    result, stream = own._result, own._rfile
    buffer = memoryview(bytearray(_READ_BYTES))
    try:
        own._sock.settimeout(own._read_timeout)
        with as_client_errors():
            rows.feed(stream.read1(_READ_BYTES))  # what is buffered; the rest comes from the socket itself
        while not rows.ended:
            with as_client_errors():
                count = own._sock.recv_into(buffer)
                if not count:
                    raise pymysql.OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
                rows.feed(buffer[:count])
            if len(rows) >= ROWS or rows.size >= _GROUP_BYTES:
                yield rows.take()
        result.unbuffered_active, result.connection = False, None
        if rows.error is not None:
            with as_client_errors():
                raise_mysql_exception(rows.error)
        if len(rows):
            yield rows.take()
    finally:
        if result.unbuffered_active:
            _give_up(connection, result)


def _give_up(connection: Connection, result: Any) -> None:
    """Close a connection in the middle of a result: reading the rest could take an hour."""
    connection.close()
    result.unbuffered_active, result.connection = False, None


def grouped(records: Iterator[Record]) -> Generator[Sequence[Record]]:
    """Yield records in groups."""
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == ROWS:
            yield group
            group = []
    if group:
        yield group


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
    """Signal that the table was dropped. Other tables are read on."""


class ChunkReader:
    """Reader of chunks over one connection. It lives as long as the connection, with what it has cached."""

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
        """`table_now`: the catalogue's reading of a table, in the chunk's own transaction.

        `lock`: what locks a table without a key (`scan.snapshot.keyless: lock`).
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
            cursor.execute(f"SELECT 1 FROM {name_of(table)} LIMIT 0")
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
    """Return the properties of a table that decide how its rows are selected and identified."""
    columns = [(column.name, column.type, data_type(column)) for column in table.columns if not column.hidden]
    return (*columns, *map(str.lower, table.primary_key))
