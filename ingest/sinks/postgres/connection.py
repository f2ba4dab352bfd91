"""Connections to a PostgreSQL server, and its errors in the words of a run.

In: where the server is, and who asks. Out: a connection; for an exception of psycopg, an IngestError.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec
import psycopg

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable
from ingest.model.probe import PROBE_S
from ingest.model.text import one_line
from ingest.sinks.postgres.dialect import POSTGRES, SqlDialect, dialect_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.sinks.postgres.options import SqlSinkOptions

    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_S: Final = 15
"""Time that a connection may take, in seconds."""
RETRIED: Final = frozenset({"40001", "40P01"})
"""States of SQL in which the transaction can be tried again at once: a serialization failure, a deadlock."""
LOCKED: Final = "55P03"
"""State of a statement that has waited for a lock as long as it may."""
TIMED_OUT: Final = {
    "57014": "statement_timeout",
    "25P03": "idle_in_transaction_session_timeout",
    "25P04": "transaction_timeout",
}
"""States of what has taken longer than a setting lets it, with the setting. Nothing is committed then."""
_READ_ONLY: Final = "25006"
"""State of a server, or a session, that only reads."""
_AWAY: Final = ("08", "53", "57", "58", LOCKED)
"""States that pass, or their classes: no connection, no room or memory, a server that stops, errors of its system, a
lock that others hold."""
_KEEPALIVES: Final = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_ACCESS: Final = ("28", "42501")
_HIDES: Final = "check_enable_rls"
"""The server's function that refuses a statement whose rows row-level security would hide."""
_REFUSED: Final = ("authentication failed", "no pg_hba.conf entry", "no password supplied", "certificate")
"""Texts of a connection that was refused: it has no state of SQL."""


class Server(msgspec.Struct, frozen=True):
    """A database, and how to reach it."""

    host: str
    port: int
    database: str
    user: str
    password: str | None
    properties: Mapping[str, str]
    """Further parameters of libpq, for example `sslmode`."""
    dialect: SqlDialect = POSTGRES

    @property
    def name(self) -> str:
        """The database as messages name it."""
        return f"{self.host}:{self.port}/{self.database}"


def server_of(options: SqlSinkOptions) -> Server:
    """Return the database that the options of a sink name."""
    files = {"sslrootcert": options.sslrootcert, "sslcert": options.sslcert, "sslkey": options.sslkey}
    properties = {"sslmode": options.sslmode, **{name: file for name, file in files.items() if file is not None}}
    database, user, password = options.dbname, options.username, options.password
    return Server(*options.address, database, user, password, properties, dialect_of(options))


def connect(server: Server, application: str) -> Connection:
    """Return a connection, in which transactions begin by themselves. Raise IngestError.

    `application`: the name by which the server's views show it.
    """
    settings: dict[str, Any] = {"connect_timeout": CONNECT_S, **_KEEPALIVES, **server.properties}
    try:
        connection = psycopg.connect(
            host=server.host,
            port=server.port,
            dbname=server.database,
            user=server.user,
            password=server.password,
            application_name=application,
            client_encoding="UTF8",
            **settings,
        )
        server.dialect.settle(connection)
        connection.commit()
    except psycopg.Error as exc:
        raise explain(exc, "connect", server) from exc
    encoding = connection.info.parameter_status("server_encoding")
    if encoding == "SQL_ASCII":
        connection.close()
        msg = f"the database {server.name} has the encoding SQL_ASCII, which does not say what a text is"
        raise ConfigError(msg, "make a database with ENCODING 'UTF8'")
    return connection


class ServerProbe:
    """A question to a server, by a connection of its own, which has an answer or an error soon."""

    def __init__(self, server: Server, application: str) -> None:
        limits = {"connect_timeout": str(math.ceil(PROBE_S)), "tcp_user_timeout": str(round(1000 * PROBE_S))}
        self._server = msgspec.structs.replace(server, properties={**server.properties, **limits})
        self._application = application
        self._connection: Connection | None = None

    def ask(self, _positions: object) -> None:
        """Ask for nothing but an answer. Raise IngestError."""
        try:
            if self._connection is None:
                self._connection = connect(self._server, self._application)
                self._connection.autocommit = True
            self._connection.execute("SELECT 1")
        except psycopg.Error as exc:
            self.close()
            raise explain(exc, "connect", self._server) from exc

    def close(self) -> None:
        """Release the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def explain(exc: psycopg.Error, what: str, server: Server) -> IngestError:
    """Return the error for an exception of psycopg. `what`: what was tried."""
    state = exc.sqlstate or ""
    primary = getattr(exc.diag, "message_primary", None) or one_line(str(exc))
    more = getattr(exc.diag, "message_detail", None) if state.startswith("22") else None  # others hold rows
    said = f"{primary}: {more}" if more else primary
    detail = f"cannot {what} at the database {server.name}: {one_line(said)[:300]}"
    if exc.diag.source_function == _HIDES:
        return AccessError(detail, "let the user own the table or have BYPASSRLS: ALTER ROLE … BYPASSRLS")
    if state.startswith(_ACCESS) or (not state and any(text in str(exc) for text in _REFUSED)):
        hint = "the user needs CREATE on the database or on the schemas, their tables, and TEMPORARY for staging"
        return AccessError(detail, hint if state == "42501" else "check sink.username and sink.password")
    if isinstance(exc, psycopg.ProgrammingError) and not state:
        return ConfigError(detail, "correct the options of the sink")
    if state == _READ_ONLY:
        hint = "name the server that takes writes in sink.endpoint, and let default_transaction_read_only be off"
        return AccessError(detail, hint)
    if state == LOCKED:
        return Unavailable(detail, "see in pg_locks and pg_stat_activity who holds the table or its rows; run it again")
    if state in TIMED_OUT:
        setting = TIMED_OUT[state]
        hint = f"let {setting} of this user be longer (ALTER ROLE … SET {setting}), or see who cancels it; run it again"
        return Unavailable(detail, hint)
    if state in RETRIED or state.startswith(_AWAY) or not state:
        hint = "it is tried again; see whether the server runs, can be reached, and has room"
        if not state and "does not support SSL" in str(exc):
            return ConfigError(detail, "let the server speak TLS, or choose another sink.sslmode")
        if not state and "does not exist" in str(exc):
            return ConfigError(detail, "create it, or correct sink.dbname or sink.username")
        return Unavailable(detail, hint)
    return ConfigError(f"{detail} (SQLSTATE {state})", _hint(state))


def _hint(state: str) -> str:
    if state.startswith("22"):
        return "a value does not fit its column there: correct the value or the table, nothing of it is committed"
    if state.startswith("23"):
        return "a constraint of the table refuses a row: correct the row or the constraint, nothing of it is committed"
    return "correct the table or the pipeline, nothing of it is committed"
