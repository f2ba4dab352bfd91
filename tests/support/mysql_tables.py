"""Tables of a test's server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mysql_log import server_of
from mysql_servers import PASSWORD, USER

from ingest.sources.mysql import catalogue
from ingest.sources.mysql.connection import connect
from ingest.sources.mysql.options import MySqlSource
from ingest.sources.mysql.snapshot_log import Region
from ingest.sources.mysql.state import Piece, TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mysql_servers import MySql

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.types import Table


def table_now(connection: Connection, database: str, name: str) -> Table | None:
    """A table as the server has it now."""
    return catalogue.tables(connection, [(database, name)], catalogue.server(connection)).get((database, name))


def known_table(connection: Connection, database: str, name: str) -> Table:
    """A table that has to be there."""
    table = table_now(connection, database, name)
    assert table is not None
    return table


def shrunk(regions: Iterable[Region], reached: int) -> list[Region]:
    """Regions as a checkpoint has them, once the log was read up to a position."""
    kept = TableSnapshot(("d", "t"), [Piece(one.upper, one.mark) for one in regions], rest=False)
    kept.shrink(reached)
    return [Region(*one) for one in kept.regions()]


def reader(server: MySql) -> Connection:
    """A session as the source opens it."""
    return connect(server_of(server))


def source_of(server: MySql, tables: str, **more: Any) -> MySqlSource:
    """The options of a source that reads tables of a server."""
    return MySqlSource.model_validate({
        "type": "mysql", "hostname": "127.0.0.1", "port": server.port, "username": USER, "password": PASSWORD,
        "tables": tables, "ssl.mode": "disabled", **more,
    })  # fmt: skip
