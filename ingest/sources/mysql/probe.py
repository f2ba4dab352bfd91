"""Whether the server answers, and where its log ends: asked by a thread of its own (`driver/availability.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql
from msgspec.structs import replace

from ingest.errors import DataLoss
from ingest.model.probe import PROBE_S
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.log_search import log_listing, log_status
from ingest.sources.mysql.state import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.record import Split
    from ingest.sources.mysql.connection import Connection, MySqlServer
    from ingest.sources.mysql.positions import LogFiles


class LogProbe:
    """A question where the log ends, by a connection of its own."""

    def __init__(self, server: MySqlServer, files: Callable[[], LogFiles | None]) -> None:
        """`files`: returns the log's files that are known; None before it is known where reading starts."""
        self._server = replace(server, connect_s=min(server.connect_s, PROBE_S), read_s=PROBE_S, tries=1)
        self._files = files
        self._connection: Connection | None = None

    def ask(self, positions: Mapping[Split, int]) -> Mapping[Split, int] | None:
        """Return where the log ends, and the other splits where they are. Raise IngestError."""
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._server)
        try:
            status, files = log_status(self._connection), self._files()
            if files is None or LOG not in positions:
                return None
            if files.file(status.file) is None:
                files = files.grown(log_listing(self._connection))
            return {**positions, LOG: files.position(status.file, status.offset)}
        except DataLoss:  # it answers; what is lost is for the run to say
            return None
        except (pymysql.MySQLError, OSError) as exc:
            self.close()
            raise explain(exc, "ask for the log's position", self._server) from exc

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None
