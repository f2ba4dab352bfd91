"""Rows of a chunk as records: the statement, and what the server sends for it.

In: what is read, and a connection with a transaction. Out: records in groups, by native code where there is some, else
by the reference, with the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import orjson
import pymysql
from pymysql.constants import CR
from pymysql.err import raise_mysql_exception

from ingest import compiled
from ingest.sources.mysql.chunks import WHOLE, condition, source_of
from ingest.sources.mysql.connection import as_client_errors
from ingest.sources.mysql.log_records import LogRecord
from ingest.sources.mysql.query_values import is_selectable, selected, value_writer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ingest.model.record import Record
    from ingest.sources.mysql.chunks import TableChunk
    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.native.result_rows import ResultSetRows
    from ingest.sources.mysql.query_values import ValueWriter
    from ingest.sources.mysql.types import Column, Table

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
    """What is to be read, and how its records look."""

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
    return f"SELECT {selected(reading.columns)} FROM {source_of(reading.table, reading.key)}{rest}"  # noqa: S608 (quoted)


def raw_rows(connection: Connection, sql: str) -> Iterator[tuple[bytes | None, ...]]:
    """Yield the rows of a statement as the server's bytes, without keeping them. Raise pymysql.MySQLError."""
    connection.query(sql, unbuffered=True)
    result = cast("Any", connection)._result  # noqa: SLF001  (a cursor would decode each value)
    result.converters = [(None, None)] * result.field_count
    try:
        while True:
            with as_client_errors():
                row = result._read_rowdata_packet_unbuffered()  # noqa: SLF001
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
    result, stream = own._result, own._rfile  # noqa: SLF001  (native code reads the packets)
    buffer = memoryview(bytearray(_READ_BYTES))
    try:
        own._sock.settimeout(own._read_timeout)  # noqa: SLF001
        with as_client_errors():
            rows.feed(stream.read1(_READ_BYTES))  # what is buffered; the rest comes from the socket itself
        while not rows.ended:
            with as_client_errors():
                count = own._sock.recv_into(buffer)  # noqa: SLF001
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
    """Close a connection whose rows nobody wants any more: reading the rest could take an hour."""
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
