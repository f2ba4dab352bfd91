"""The server's log over the network: a session that asks for it as a replica does, and the packets that come.

In: a connection that is logged in, a place in a log. Out: bytes as they come, in which each event is a packet.
The protocol is the one of MySQL's "Replication Protocol" pages; MariaDB differs in the variables of the session.
"""

from __future__ import annotations

import contextlib
import time
from contextlib import closing
from struct import pack
from typing import TYPE_CHECKING, Final

from pymysql.constants import COMMAND
from pymysql.err import MySQLError

from ingest.errors import IngestError, Unavailable
from ingest.sources.mysql.connection import connect, explain, version

if TYPE_CHECKING:
    import socket

    from ingest.sources.mysql.connection import Connection
    from ingest.sources.mysql.server import MySqlServer

HEARTBEAT_S: Final = 5.0
"""Seconds after which the server says that nothing happened."""
SILENCE: Final = 4
"""Periods of heartbeats after which a connection that says nothing is taken for dead."""
MAX_PACKET: Final = (1 << 24) - 1
WAIT_S: Final = 0.1
"""Seconds that a look for bytes takes, at most."""
_ANSWER_S: Final = 0.2
"""Seconds without an answer after which connections are ended for which the server waits."""
_BLOCKED: Final = (
    "SELECT ID, USER, USER() FROM information_schema.PROCESSLIST"
    " WHERE COMMAND = 'Killed' AND STATE = 'Writing to net' AND INFO IS NULL"
)
_CHUNK: Final = 1 << 18
_MARIADB_GTIDS: Final = 4


class LogStream:
    """One connection on which the log comes. Raises IngestError."""

    def __init__(
        self, connection: Connection, server: MySqlServer, server_id: int, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        """`server_id`: no other replica of the server may have it."""
        self._connection, self._server = connection, server
        self._server_id = server_id
        self._silence_s = max(heartbeat_s * SILENCE, 10.0)
        self._heard = 0.0
        self._look_s = 0.0
        """Seconds of silence after which it is looked for what the server waits for; 0: it has answered."""
        self._buffer = bytearray(_CHUNK)
        self.mariadb = version(connection).mariadb
        self._prepare(heartbeat_s)

    def _prepare(self, heartbeat_s: float) -> None:
        """Set the session's variables, and register as a replica."""
        nanos = int(heartbeat_s * 1_000_000_000)
        wanted = [f"SET @master_heartbeat_period = {nanos}", f"SET @source_heartbeat_period = {nanos}"]
        # The server sends checksums only to who says that he knows them
        wanted += ["SET @master_binlog_checksum = @@global.binlog_checksum"]
        wanted += ["SET @source_binlog_checksum = @@global.binlog_checksum"]
        if self.mariadb:
            wanted += [f"SET @mariadb_slave_capability = {_MARIADB_GTIDS}"]
        try:
            with self._connection.cursor() as cursor:
                for statement in wanted:
                    cursor.execute(statement)
                with contextlib.suppress(MySQLError):  # a server that is idle for long must not close what it sends
                    cursor.execute("SET net_write_timeout = 3600")
            body = pack("<I", self._server_id) + b"\0\0\0" + pack("<H", 0) + pack("<II", 0, 0)
            self._command(COMMAND.COM_REGISTER_SLAVE, body)
            self._connection._read_ok_packet()  # type: ignore[attr-defined]
        except MySQLError as exc:
            raise explain(exc, "register as a replica", self._server) from exc

    def _command(self, command: int, body: bytes) -> None:
        self._connection._execute_command(command, body)  # type: ignore[attr-defined]

    def start(self, file: str, offset: int) -> None:
        """Ask for a file of the log from a place below 4 GiB on; it goes on with the files after it."""
        self._ask(COMMAND.COM_BINLOG_DUMP, pack("<IHI", offset, 0, self._server_id) + file.encode())

    def _ask(self, command: int, body: bytes) -> None:
        try:
            self._command(command, body)
        except MySQLError as exc:
            raise explain(exc, "ask for the log", self._server) from exc
        self._socket.settimeout(WAIT_S)
        self._heard, self._look_s = time.monotonic(), _ANSWER_S

    @property
    def _socket(self) -> socket.socket:
        """The socket, with TLS or without."""
        found: socket.socket = self._connection._sock  # type: ignore[attr-defined]
        return found

    def read(self) -> memoryview | None:
        """Return bytes as they come, which are valid until the next call; None where none came. Raise Unavailable."""
        try:
            count = self._socket.recv_into(self._buffer)
        except TimeoutError as exc:
            silent = time.monotonic() - self._heard
            if self._look_s and self.mariadb and silent >= self._look_s:
                self._end_blocked()
                self._look_s += 1
            if silent < self._silence_s:
                return None
            msg = f"{self._server.name} sent nothing of its log for {silent:.0f} s, not even that nothing happened"
            raise Unavailable(msg, "the connection is taken for dead; the log is asked for again") from exc
        except OSError as exc:
            raise explain(exc, "read the log", self._server) from exc
        if not count:
            msg = f"{self._server.name} closed the connection on which its log comes"
            raise Unavailable(msg, "the log is asked for again; the server's error log may say why")
        self._heard, self._look_s = time.monotonic(), 0.0
        return memoryview(self._buffer)[:count]

    def _end_blocked(self) -> None:
        """End this user's connections that the server has ended already, but that have not noticed.

        MariaDB sends a replica its log only when the replica's former connection is gone. That is not while the server
        writes to it and nobody reads: another worker has kept it, or its machine is no more.
        """
        with (
            contextlib.suppress(MySQLError, IngestError),
            closing(connect(self._server)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(_BLOCKED)
            for number, user, own in cursor.fetchall():
                if user == own.rpartition("@")[0]:
                    cursor.execute(f"KILL CONNECTION {number:d}")

    def close(self) -> None:
        """Close the connection at once: on one that sends the log there is no way to say good-bye."""
        with contextlib.suppress(MySQLError, OSError):
            self._connection._force_close()  # type: ignore[attr-defined]


class Packets:
    """Bytes to packets, of which those of 16 MiB go on in the next one."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._data += data

    def next(self) -> bytes | None:
        """Return the next packet that is complete; None where there is none yet."""
        at, parts = 0, []
        while True:
            if len(self._data) < at + 4:
                return None
            size = int.from_bytes(self._data[at : at + 3], "little")
            end = at + 4 + size
            if len(self._data) < end:
                return None
            parts.append(bytes(self._data[at + 4 : end]))
            at = end
            if size < MAX_PACKET:
                del self._data[:at]
                return b"".join(parts)


def check_packet(packet: bytes, server: MySqlServer) -> bytes:
    """Return the event of a packet. Raise the error that it has, or Unavailable for the end of the log."""
    first = packet[0] if packet else -1
    if first == 0:
        return packet[1:]
    if first == 0xFF:
        number = int.from_bytes(packet[1:3], "little")
        text = packet[3:].decode("utf-8", "replace")
        raise explain(MySQLError(number, text[6:] if text.startswith("#") else text), "read the log", server)
    msg = f"{server.name} sent {'the end of its log' if first == 0xFE else f'byte {first}'} where an event was expected"
    raise Unavailable(msg, "the log is asked for again")
