"""What a server has to be like before its log is read: settings, rights, numbers of readers; each with what to do.

All that is wrong is said at once. While a run goes on, a thread of its own asks whether the server answers
(`driver/availability.py`). Rules: docs/spec/mysql.md#checks-at-the-start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pymysql
from msgspec.structs import replace

from ingest.errors import AccessError, ConfigError, DataLoss
from ingest.model.probe import PROBE_S
from ingest.sources.mysql.catalogue import names, unreadable
from ingest.sources.mysql.chunks import quoted
from ingest.sources.mysql.connection import connect, explain, version
from ingest.sources.mysql.log_search import LogSearch, log_listing, log_status, status_statement
from ingest.sources.mysql.state import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ingest.model.record import Split
    from ingest.sources.mysql.connection import Connection, ServerVersion
    from ingest.sources.mysql.log_model import LogFiles
    from ingest.sources.mysql.server import MySqlServer
    from ingest.sources.mysql.types import TableName

_VARIABLES: Final = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "server_id",
    "binlog_expire_logs_seconds",
    "expire_logs_days",
    "log_slave_updates",
    "log_replica_updates",
    "max_binlog_total_size",
)
_DAY_S: Final = 86_400
_SHOWN: Final = 20
"""Tables that an error names."""
_DENIED: Final = frozenset({1227, 1044, 1045, 1142, 1143, 1370})


class ServerNeeds(msgspec.Struct, frozen=True):
    """What a pipeline needs of a server."""

    server_ids: range
    """The numbers of its readers."""
    readers: int = 1
    """How many tasks may read the log or hold a number at once."""
    partial_images: bool = False
    """True if its sink writes only the columns that came."""
    databases: tuple[str, ...] = ()
    """The databases whose tables are read, as far as they are known."""


class ServerLook(msgspec.Struct, frozen=True):
    """What a server is, and what of it a user may read."""

    version: str
    tables: list[tuple[str, str]]
    """Databases and names."""
    warnings: list[str]


def look_at(server: MySqlServer) -> ServerLook:
    """Return what there is to read. Raise ConfigError where the log cannot be read, and other IngestErrors."""
    warnings = check_server(server, ServerNeeds(range(0), 0, partial_images=True))
    connection = connect(server)
    try:
        known = version(connection)
        return ServerLook(f"{known.product} {known.text}", names(connection), warnings)
    except pymysql.MySQLError as exc:
        raise explain(exc, "list its tables", server) from exc
    finally:
        connection.close()


def check_server(server: MySqlServer, needs: ServerNeeds) -> list[str]:
    """Return warnings. Raise ConfigError, with all that is wrong, where the log cannot be read; other IngestErrors."""
    connection = connect(server)
    try:
        known = version(connection)
        variables = _variables(connection)
        user = str(_rows(connection, "SELECT CURRENT_USER()")[0][0])
        problems = [
            *settings_problems(known, variables, needs),
            *number_problems(int(variables.get("server_id", "0")), needs, _replicas(connection)),
        ]
        warnings = retention_warnings(known, variables)
        if variables.get("log_bin", "OFF") == "ON":
            denied, filtered = _status(connection, known, needs)
            problems += filtered
            if not denied and _reads_nothing(connection, known, variables):
                problems.append(_NO_UPDATES)
            if denied or not _may_read_log(server, connection):
                raise AccessError(f"user {user} of {server.name} may not read its log", grants(known, user))
    except pymysql.MySQLError as exc:
        raise explain(exc, "look at the server's settings", server) from exc
    finally:
        connection.close()
    if problems:
        msg = f"{server.name} ({known.product} {known.text}) cannot be read: {'; '.join(what for what, _ in problems)}"
        raise ConfigError(msg, "; ".join(dict.fromkeys(hint for _, hint in problems)))
    return warnings


def settings_problems(known: ServerVersion, variables: Mapping[str, str], needs: ServerNeeds) -> list[tuple[str, str]]:
    """Return what is wrong with a server's settings, each with what to do."""
    problems = []
    if not known.since(mysql=(5, 6), mariadb=(10, 2)):
        problems.append((f"{known.product} {known.text} is too old", "MySQL 5.6 and MariaDB 10.5 and newer are read"))
    if variables.get("log_bin", "OFF") != "ON":
        problems.append(("it writes no log", "start it with log_bin = binlog and server_id = 1 in its option file"))
        return problems
    row = variables.get("binlog_format", "ROW").upper()
    if row != "ROW":
        hint = "SET GLOBAL binlog_format = 'ROW', and in the option file; sessions that are open keep theirs"
        problems.append((f"binlog_format is {row}: statements do not say which rows they changed", hint))
    image = variables.get("binlog_row_image", "FULL").upper()
    if image not in {"FULL", "FULL_NODUP"} and not needs.partial_images:
        hint = (
            "SET GLOBAL binlog_row_image = 'FULL', and in the option file; sessions that are open keep theirs "
            "(the sink postgres without a transform writes the columns that come)"
        )
        problems.append((f"binlog_row_image is {image}, and this pipeline needs whole rows", hint))
    if int(variables.get("server_id", "0")) == 0:
        problems.append(("its server_id is 0, so it sends no log", "SET GLOBAL server_id = 1, and in the option file"))
    return problems


def number_problems(own: int, needs: ServerNeeds, replicas: Sequence[tuple[int, str]]) -> list[tuple[str, str]]:
    """Return what is wrong with the numbers of readers. `replicas`: numbers and names of those that are connected."""
    hint = "give server-id a range that nobody else has, of one number for each reader: server-id: 5401-5404"
    problems = []
    if len(needs.server_ids) < needs.readers:
        problems.append((f"server-id has {len(needs.server_ids)} numbers for {needs.readers} readers", hint))
    if own in needs.server_ids:
        problems.append((f"server-id {own} is the server's own", hint))
    problems += [
        (f"server-id {number} is that of the replica {name}: two with one number throw each other out", hint)
        for number, name in replicas
        if number in needs.server_ids and name
    ]
    return problems


def retention_warnings(known: ServerVersion, variables: Mapping[str, str]) -> list[str]:
    """Return warnings of a log that is deleted soon."""
    seconds = int(variables.get("binlog_expire_logs_seconds", "0"))
    days = float(variables.get("expire_logs_days", "0"))
    kept = seconds or days * _DAY_S
    warnings = []
    if 0 < kept < _DAY_S:
        name = "binlog_expire_logs_seconds" if seconds else "expire_logs_days"
        better = 3 * _DAY_S if seconds else 3
        warnings.append(
            f"the log is kept for {kept / 3600:g} h only: a pipeline that is stopped for longer has lost changes "
            f"(SET GLOBAL {name} = {better})"
        )
    total = int(variables.get("max_binlog_total_size", "0"))
    if known.mariadb and total:
        warnings.append(f"the log is deleted from {total} bytes on (max_binlog_total_size), whoever still reads it")
    return warnings


def grants(known: ServerVersion, user: str) -> str:
    """Return the statement that gives a user the rights to read the log."""
    rights = "BINLOG MONITOR" if known.since(mariadb=(10, 5, 2)) else "REPLICATION CLIENT"
    return f"GRANT REPLICATION SLAVE, {rights} ON *.* TO {account(user)}"


def account(user: str) -> str:
    """Return what CURRENT_USER() says as statements have it."""
    name, _, host = user.rpartition("@")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (name, host))


def check_readable(connection: Connection, wanted: Collection[TableName], server: MySqlServer) -> None:
    """Raise AccessError, with the statements that mend it, where a user sees tables and may not read all of them."""
    denied = unreadable(connection, wanted)
    if denied:
        user = str(_rows(connection, "SELECT CURRENT_USER()")[0][0])
        given = [f"GRANT SELECT ON {'.'.join(map(quoted, name))} TO {account(user)}" for name in denied[:_SHOWN]]
        more = f" and {len(denied) - _SHOWN} more" * (len(denied) > _SHOWN)
        names = ", ".join(map(".".join, denied[:_SHOWN])) + more
        raise AccessError(f"user {user} of {server.name} may not read {names}", "; ".join(given))


_NO_UPDATES: Final = (
    "it is a replica that does not log what it replicates",
    "start it with log_slave_updates (log_replica_updates), or read its primary",
)


def _status(connection: Connection, known: ServerVersion, needs: ServerNeeds) -> tuple[bool, list[tuple[str, str]]]:
    """Return whether the user may not ask where the log stands, and databases that are not logged."""
    try:
        row = _rows(connection, status_statement(known))[0]
    except pymysql.MySQLError as exc:
        if exc.args and exc.args[0] in _DENIED:
            return True, []
        raise
    return False, filter_problems(str(row[2] or ""), str(row[3] or ""), needs.databases)


def filter_problems(do: str, ignore: str, databases: Collection[str]) -> list[tuple[str, str]]:
    """Return databases that are read and not logged, by Binlog_Do_DB and Binlog_Ignore_DB of the log's status."""
    logged = {name.strip() for name in do.split(",") if name.strip()}
    ignored = {name.strip() for name in ignore.split(",") if name.strip()}
    lost = sorted(name for name in databases if name in ignored or (logged and name not in logged))
    option = "binlog_do_db" if logged else "binlog_ignore_db"
    return [(f"changes of the database {name} are not logged", f"correct {option} in its option file") for name in lost]


def _reads_nothing(connection: Connection, known: ServerVersion, variables: Mapping[str, str]) -> bool:
    """Return whether the server is a replica whose log has its own changes only."""
    logs = variables.get("log_replica_updates") or variables.get("log_slave_updates", "ON")
    if logs == "ON":
        return False
    statement = "SHOW REPLICA STATUS" if known.since(mysql=(8, 0, 22), mariadb=(10, 5, 1)) else "SHOW SLAVE STATUS"
    try:
        return bool(_rows(connection, statement))
    except pymysql.MySQLError:
        return False  # without the right to ask, it is not known


def _may_read_log(server: MySqlServer, connection: Connection) -> bool:
    """Return whether the user may read the log: its first event is asked for."""
    try:
        files = _rows(connection, "SHOW BINARY LOGS")
        LogSearch(server).head(str(files[-1][0]))
    except AccessError:
        return False
    except pymysql.MySQLError as exc:
        if exc.args and exc.args[0] in _DENIED:
            return False
        raise
    return True


def _replicas(connection: Connection) -> list[tuple[int, str]]:
    """Return numbers and addresses of the replicas that are connected, where the user may ask. Readers have no port."""
    for statement in ("SHOW REPLICAS", "SHOW SLAVE HOSTS"):
        try:
            rows = _rows(connection, statement)
        except pymysql.MySQLError:
            continue
        return [(int(row[0]), f"{row[1] or 'of port'}:{row[2]}" if int(row[2] or 0) else "") for row in rows]
    return []


def _variables(connection: Connection) -> dict[str, str]:
    wanted = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = _rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({wanted})")
    return {str(name).lower(): str(value) for name, value in rows}


def _rows(connection: Connection, statement: str) -> Sequence[Sequence[Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


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
