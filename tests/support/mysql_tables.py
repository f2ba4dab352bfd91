"""Tables of a test's server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.sources.mysql import catalogue

if TYPE_CHECKING:
    from ingest.sources.mysql.columns import Table
    from ingest.sources.mysql.connection import Connection


def table_now(connection: Connection, database: str, name: str) -> Table | None:
    """A table as the server has it now."""
    return catalogue.tables(connection, [(database, name)], catalogue.server(connection)).get((database, name))
