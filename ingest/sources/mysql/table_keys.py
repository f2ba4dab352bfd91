"""The keys that a table has at the server, at a state that is not older than what was read of its log.

In: a table's entry in the history of schemas. Out: deletes of all keys, as the source's decoder gives changes: whoever
has rows of a table compares them with these. Rule: docs/spec/mysql.md#rows-that-are-read-again.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import pymysql

from ingest.errors import Unavailable
from ingest.model.change import Change, InlineSchema, Kind
from ingest.sources.mysql import catalogue
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.format import MySqlRows, head_of
from ingest.sources.mysql.log_model import log_name
from ingest.sources.mysql.marks import LogPoint, Visibility, log_end, snapshot_point
from ingest.sources.mysql.snapshot import ChunkRowReader, Reading
from ingest.sources.mysql.types import Column, data_type

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.history import SchemaEntry
    from ingest.sources.mysql.server import MySqlServer

_WAIT_S: Final = 60.0
_POLL_S: Final = 0.05


def keys_now(
    server: MySqlServer, entry: SchemaEntry, names: Sequence[str], form: MySqlRows, *, settled: bool = False
) -> Generator[list[Change]] | str:
    """Return deletes of all keys of a table; an empty text where these columns are not as the entry has them yet.

    `form` knows the history of schemas. `settled`: all that was read of the log is known to be visible. Raise
    IngestError.
    """
    connection = connect(server)
    try:
        _begin(connection, None if settled else log_end(connection))
        if not _is_as_known(connection, entry, names):
            connection.close()
            return ""
    except BaseException as exc:
        connection.close()
        if isinstance(exc, pymysql.MySQLError):
            raise explain(exc, f"read keys of {'.'.join(entry.name)}", server) from exc
        raise
    found = _deletes(connection, server, entry, names, form)
    next(found)  # so that to close it closes the connection
    return found


def _begin(connection: Connection, end: LogPoint | None) -> None:
    """Begin a snapshot that has all that the log has below its end, if given: what is logged is visible only later."""
    until = time.monotonic() + _WAIT_S
    while (point := snapshot_point(connection)) is not None:
        if end is None or (log_name(point.file).number, point.offset) >= (log_name(end.file).number, end.offset):
            return
        connection.rollback()
        if time.monotonic() > until:
            msg = f"a transaction is in the log for {_WAIT_S:.0f} s without being visible"
            raise Unavailable(msg, "see SHOW PROCESSLIST, and whether replicas acknowledge (semi-synchronous)")
        time.sleep(_POLL_S)
    if end is not None:
        Visibility(connection).low_mark()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")


def _is_as_known(connection: Connection, entry: SchemaEntry, names: Sequence[str]) -> bool:
    """Return whether these columns of a table are as its entry has them, in the snapshot that has begun."""
    now = catalogue.tables(connection, [entry.name], catalogue.server(connection)).get(entry.name)
    if now is None or entry.table is None:
        return False
    known, found = ({one.name: one for one in table.columns} for table in (entry.table, now))
    return all(
        name in known and name in found and _shape(known[name], entry) == _shape(found[name], entry) for name in names
    )


def _shape(column: Column, entry: SchemaEntry) -> tuple[object, ...]:
    return column.type, data_type(column, tinyint1_as_boolean=entry.booleans)


def _deletes(
    connection: Connection, server: MySqlServer, entry: SchemaEntry, names: Sequence[str], form: MySqlRows
) -> Generator[list[Change]]:
    assert entry.table is not None
    of = {column.name: column for column in entry.table.columns}
    reading = Reading(replace(entry.table, columns=tuple(of[name] for name in names)), entry.id, ())
    rows = ChunkRowReader(tinyint1_as_boolean=entry.booleans)
    declared: InlineSchema | None = None
    with closing(connection):
        yield []
        try:
            for records in rows.read(connection, reading):
                images = [b"{%b}" % reading.fields(record) for record in records]
                if declared is None and images:
                    declared = _declared(form, entry, images[0])
                yield [
                    Change(entry.table_id, Kind.DELETE, msgspec.Raw(image), None, None, declared) for image in images
                ]
        except pymysql.MySQLError as exc:
            raise explain(exc, f"read keys of {'.'.join(entry.name)}", server) from exc


def _declared(form: MySqlRows, entry: SchemaEntry, image: bytes) -> InlineSchema | None:
    """Return what a delete's record declares beside its values, by the decoder itself."""
    database, name = entry.name
    source = msgspec.json.encode({"db": database, "table": name})
    text = b'{"before":%b,"after":null,"source":%b,"op":"d"}' % (image, source)
    (found,) = form.decoder("").decode([None], [head_of(entry.id) + text])
    return found.declared if isinstance(found, Change) else None
