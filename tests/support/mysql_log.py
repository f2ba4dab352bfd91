"""Reading a test server's log with the product's reader, and its tables as the history of schemas has them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from mysql_servers import PASSWORD, USER

from ingest.sources.mysql.cascades import referenced
from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.server import MySqlServer, Tls
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from mysql_servers import MySql

    from ingest.sources.mysql.cascades import Referenced
    from ingest.sources.mysql.log_model import Statement

_FAR = 1 << 62
SERVER_ID = 4711
"""The number that a reader has."""


@dataclass
class Tables:
    """Tables that are read, all with one entry each, at all positions."""

    tables: dict[tuple[str, str], Table]
    known: set[int] = field(default_factory=set)
    """Positions of statements that have an answer."""
    all_known: bool = True
    met: list[Statement] = field(default_factory=list)
    partial: bool = False
    unread: frozenset[str] = frozenset()
    """Names of tables whose rows are not read, and to which others may refer."""

    def read(self, database: str, name: str, _position: int) -> tuple[int, Table] | None:
        for at, (key, table) in enumerate(self.tables.items()):
            if key == (database, name) and name not in self.unread:
                return at + 1, table
        return None

    def referenced(self, database: str, name: str, position: int) -> Referenced | None:
        entries = [
            SchemaEntry(at, 0, key, table, read=True, booleans=False)
            for at, (key, table) in enumerate(self.tables.items(), 1)
        ]
        return referenced(History(tuple(entries)), (database, name), position)

    def answered(self, position: int) -> bool:
        return self.all_known or position in self.known

    def matters(self, statement: Statement) -> bool:
        self.met.append(statement)
        text = statement.query.text.decode(errors="replace")
        return any(re.search(rf"\b{re.escape(name)}\b", text) for _, name in self.tables)


def tables_of(server: MySql, database: str) -> dict[tuple[str, str], Table]:
    """The tables of a database, as information_schema has them now."""
    found: dict[tuple[str, str], Table] = {}
    query = (
        "SELECT c.TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION,"
        " NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, IS_NULLABLE, COLUMN_KEY, ENGINE"
        " FROM information_schema.COLUMNS c JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME)"
        " WHERE TABLE_SCHEMA = %s ORDER BY c.TABLE_NAME, ORDINAL_POSITION"
    )
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(query, (database,))
        rows = cursor.fetchall()
    for name, column, kind, full, length, precision, scale, fsp, charset, nullable, key, engine in rows:
        labels = tuple(
            label.replace("''", "'") for label in re.findall(r"'((?:[^']|'')*)'", full) if kind in {"enum", "set"}
        )
        width = re.search(r"\((\d+)\)", full)
        made = Column(
            column, kind, length=length or (int(width.group(1)) if width else None), precision=precision, scale=scale,
            fsp=fsp or 0, unsigned="unsigned" in full, charset=charset, labels=labels, nullable=nullable == "YES",
        )  # fmt: skip
        table = found.get((database, name)) or Table(database, name, (), engine=engine)
        keys = (*table.primary_key, column) if key == "PRI" else table.primary_key
        found[database, name] = Table(database, name, (*table.columns, made), keys, engine=engine)
    return found


def server_of(server: MySql) -> MySqlServer:
    """How the product logs in."""
    return MySqlServer("127.0.0.1", server.port, USER, PASSWORD, tls=Tls(mode="disabled"))


def place_of(server: MySql) -> LogPlace:
    """Where the log ends now, with 0 as the base of its file."""
    return LogPlace(*server.position(), 0)


def reader_of(server: MySql, tables: Tables, **options: Any) -> LogReader:
    return LogReader(server_of(server), SERVER_ID, tables, heartbeat_s=1.0, **options)


def read_log(server: MySql, tables: Tables, start: LogPlace, reader: LogReader | None = None) -> list[Any]:
    """All records from a place on to where the log ends now."""
    own = reader or reader_of(server, tables)
    bases = {start.file: start.base}
    base = start.base
    for (name, size), (following, _) in zip(server.logs()[:-1], server.logs()[1:], strict=True):
        if name >= start.file:
            base += size
            bases[following] = base
    file, end = server.position()
    out: list[Any] = []
    for chunk in own.read(start, bases[file] + end, bases=bases):
        out += chunk.messages if chunk is not None else []
    if reader is None:
        own.close()
    return out


def changes(records: list[Any]) -> list[dict[str, Any]]:
    """The envelopes of records."""
    return [orjson.loads(record.value()[5:]) for record in records]
