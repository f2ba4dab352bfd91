"""Points of the log at which rows are read: whose state a transaction's snapshot has.

A server logs a transaction before others see it. So the log's end is no point below which all is visible, and most of
this is about what lies between. Rules: docs/spec/mysql.md#snapshot.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import pymysql
from pymysql.constants import ER

from ingest.errors import AccessError, Unavailable
from ingest.sources.mysql.checks import account
from ingest.sources.mysql.chunks import name_of, quoted
from ingest.sources.mysql.log_search import log_status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.types import Table

SETTLED_S: Final = 5.0
"""Seconds after which a transaction that is in the log is taken as visible, where the server does not say it (no
GTIDs)."""
_WAIT_S: Final = 60.0
_POLL_S: Final = 0.01
_TRIES: Final = 20


class LogPoint(NamedTuple):
    """The end of a transaction in the server's log."""

    file: str
    offset: int


def log_end(connection: Connection) -> LogPoint:
    """Return the end of the server's log. Raise ConfigError where it writes none, and pymysql.MySQLError."""
    status = log_status(connection)
    return LogPoint(status.file, status.offset)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def snapshot_point(connection: Connection) -> LogPoint | None:
    """Begin a consistent snapshot, and return its point where the server says it: MariaDB, Percona Server."""
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
        found = {_text(name).lower(): _text(value) for name, value in cursor.fetchall()}
    file, offset = found.get("binlog_snapshot_file"), found.get("binlog_snapshot_position")
    if not file or not offset:
        connection.rollback()
        return None
    return LogPoint(file, int(offset))


class Visibility:
    """Finds points below which everything is visible."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._sleep = sleep
        self._seen: deque[tuple[float, LogPoint]] = deque()
        """Ends of the log, and when they were seen; the first is the newest that is old enough, once there is one."""

    def low_mark(self) -> LogPoint:
        """Return a point of the log below which all transactions are visible. Raise Unavailable."""
        point = log_end(self._connection)
        owned = self._owned()
        if owned is None:
            return self._settled(point)
        self._wait(owned)
        return point

    def quiet_point(self, begin: Callable[[], None]) -> LogPoint | None:
        """Begin a snapshot by `begin`, and return its point; None where something is always written meanwhile."""
        for _ in range(_TRIES):
            point = log_end(self._connection)
            owned = self._owned()
            if owned is None:
                self._sleep(SETTLED_S)
                if log_end(self._connection) != point:
                    continue
            else:
                self._wait(owned)
            begin()
            # What is visible now is what was logged below the point, and nothing was logged behind it
            if log_end(self._connection) == point:
                return point
            self._connection.rollback()
            self._sleep(_POLL_S)
        return None

    def _settled(self, point: LogPoint) -> LogPoint:
        """Return the newest end of the log that was seen long enough ago."""
        now = self._clock()
        self._seen.append((now, point))
        if now - self._seen[0][0] < SETTLED_S:
            self._sleep(SETTLED_S - (now - self._seen[0][0]))
            now = self._clock()
        while len(self._seen) > 1 and now - self._seen[1][0] >= SETTLED_S:
            self._seen.popleft()
        return self._seen[0][1]

    def _owned(self) -> set[str] | None:
        """Return the GTIDs of transactions that are being committed: logged perhaps, and not visible yet.

        None: transactions have no GTIDs.
        """
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('gtid_mode', 'gtid_owned')")
            found = {_text(name).lower(): _text(value) for name, value in cursor.fetchall()}
        if found.get("gtid_mode", "").upper() != "ON":
            return None
        owned = set()
        for source in found.get("gtid_owned", "").replace("\n", "").split(","):
            uuid, *numbers = source.strip().split(":")
            owned |= {f"{uuid}:{number.partition('#')[0]}" for number in numbers}
        return owned

    def _wait(self, owned: set[str]) -> None:
        """Wait until transactions are visible, or rolled back."""
        until = self._clock() + _WAIT_S
        while owned:
            if self._clock() > until:
                msg = f"a transaction is in the log for {_WAIT_S:.0f} s without being visible: {min(owned)}"
                raise Unavailable(msg, "see SHOW PROCESSLIST, and whether replicas acknowledge (semi-synchronous)")
            self._sleep(_POLL_S)
            owned = owned & (self._owned() or set())


class Lock:
    """Locks a table against writes, for the moment in which a snapshot begins (`scan.snapshot.keyless: lock`)."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """`connect`: returns a connection, as the one that reads cannot hold a lock."""
        self._connect = connect

    @contextmanager
    def of(self, table: Table) -> Generator[Connection]:
        """Hold the lock of a table, until the connection that is given is closed. Raise AccessError."""
        connection = self._connect()
        try:
            with connection.cursor() as cursor:
                try:
                    cursor.execute(f"LOCK TABLES {name_of(table)} READ")
                except pymysql.MySQLError as exc:
                    if exc.args[0] not in {ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR}:
                        raise
                    cursor.execute("SELECT CURRENT_USER()")
                    (user,) = cursor.fetchone() or ("",)
                    msg = f"user {user} may not lock {table.database}.{table.name} (scan.snapshot.keyless: lock)"
                    grant = f"GRANT LOCK TABLES ON {quoted(table.database)}.* TO {account(str(user))}"
                    raise AccessError(msg, grant) from exc
            yield connection
        finally:
            if connection.open:
                connection.close()
