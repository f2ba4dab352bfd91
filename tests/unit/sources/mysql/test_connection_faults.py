"""Connections that break, fall silent or are refused while something is read: which error that is, and how soon."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from mysql_log import Tables, changes, read_log, reader_of, server_of, tables_of
from mysql_servers import MARIADB_10, MYSQL_5, running
from mysql_tables import known_table, table_now
from replay_server import ReplayServer, ServerError

from ingest.errors import AccessError, ConfigError, IngestError, Unavailable
from ingest.sources.mysql.chunks import split_key
from ingest.sources.mysql.connection import connect, explain
from ingest.sources.mysql.history import History, SchemaEntry
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.options import MySqlSource
from ingest.sources.mysql.reader import MySqlReader
from ingest.sources.mysql.server import READ_S
from ingest.sources.mysql.snapshot import ChunkReader, Reading
from ingest.sources.mysql.state import SNAPSHOT, AssignedChunk, MySqlAssignment
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from mysql_servers import MySql

TABLE = Table(
    "shop", "t", (Column("id", "int", nullable=False), Column("s", "varchar", length=9, charset="utf8mb4")), ("id",)
)
ROWS = [(at, "x" * 200) for at in range(5000)]
NATIVE = pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.compiled)])


def source(port: int, **more: Any) -> MySqlReader:
    """A task's side of a source."""
    given = {"type": "mysql", "hostname": "127.0.0.1", "port": port, "username": "reader", "tables": "shop.t"}
    options = MySqlSource.model_validate({**given, "password": "pä$$ 'w\"ord", **more})
    return MySqlReader(options, "p")


def read_chunk(server: ReplayServer, **more: Any) -> int:
    """The rows of a chunk, as a task reads them. Raise IngestError."""
    reader = source(server.port, **more)
    reader.take(
        MySqlAssignment(chunks=[AssignedChunk(0, 0, 1, ("id",), None, None)]),
        History((SchemaEntry(1, 0, ("shop", "t"), TABLE, read=True, booleans=False),)),
    )
    try:
        return sum(len(one.messages) for one in reader.read({(SNAPSHOT, 0): (0, 1)}) if one is not None)
    finally:
        reader.close()


def chunk_server() -> ReplayServer:
    """A server that has one table, of which a chunk can be read."""
    create = "CREATE TABLE `t` (`id` int NOT NULL, `s` varchar(9), PRIMARY KEY (`id`))"
    return ReplayServer(plugin="mysql_native_password", answers={
          r"SHOW STATUS LIKE 'binlog_snapshot_%'": [
            ("binlog_snapshot_file", "binlog.000001"), ("binlog_snapshot_position", "4")
        ],
        "SELECT 1 FROM .* LIMIT 0": [], "SHOW CREATE TABLE .*": [("t", create)],
        "SELECT `id`, `s` FROM .*": ROWS,
    })  # fmt: skip


@pytest.fixture
def table_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's information_schema has the table."""
    monkeypatch.setattr("ingest.sources.mysql.reader.table_now", lambda *_: TABLE)


def rows_until(count: int, instead: bytes) -> Any:
    """What sends something else than the packets of rows after so many of them, and then ends the connection."""
    seen = 0

    def spoil(_: tuple[int, int], wire: bytes) -> bytes | None:
        nonlocal seen
        seen += len(wire) > 200
        packet = len(instead).to_bytes(3, "little") + wire[3:4] + instead if instead else b""
        return packet if seen == count and len(wire) > 200 else None

    return spoil


@pytest.mark.usefixtures("table_is_known")
@NATIVE
@pytest.mark.parametrize("resets", [False, True])
def test_a_server_that_leaves_while_a_chunk_is_read_may_come_back(
    native: bool, resets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.mysql.snapshot.BUILT", native)
    with chunk_server() as server:
        assert read_chunk(server) == len(ROWS)
        server.spoil, server.resets = rows_until(3000, b""), resets
        with pytest.raises(Unavailable, match=r"cannot read rows of shop\.t at .*Lost connection"):
            read_chunk(server)


@pytest.mark.usefixtures("table_is_known")
@NATIVE
@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (1317, "Query execution was interrupted", Unavailable),
        (1053, "Server shutdown in progress", Unavailable),
        (1030, 'Got error 28 "No space left on device" from storage engine InnoDB', Unavailable),
        (3, "Error writing file '/tmp/MYfd=12' (Errcode: 28 \"No space left on device\")", Unavailable),
        (3032, "The server is currently in offline mode", Unavailable),
        (1194, "Table 't' is marked as crashed and should be repaired", ConfigError),
        (1142, "SELECT command denied to user", AccessError),
    ],
)
def test_an_error_in_the_middle_of_rows_is_the_servers(
    native: bool, code: int, text: str, kind: type[IngestError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.mysql.snapshot.BUILT", native)
    packet = b"\xff" + code.to_bytes(2, "little") + b"#HY000" + text.encode()
    with chunk_server() as server:
        server.spoil = rows_until(2500, packet)
        with pytest.raises(kind) as failed:
            read_chunk(server)
        assert type(failed.value) is kind
        assert text in failed.value.message
        assert f"(error {code})" in failed.value.message


@pytest.mark.usefixtures("table_is_known")
@NATIVE
def test_a_proxy_that_falls_silent_among_rows_is_an_error_in_time(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.mysql.snapshot.BUILT", native)
    with chunk_server() as server:

        def stop(_: tuple[int, int], wire: bytes) -> bytes | None:
            if len(wire) > 200:
                server._ended.wait(20)
            return None

        server.spoil = stop
        with pytest.raises(Unavailable, match="timed out"):
            read_chunk(server, **{"jdbc.properties.socketTimeout": "300"})
        server._ended.set()
    assert source(1)._options.server.read_s == READ_S == 600


def test_an_order_of_keys_is_asked_again_where_the_connection_was_idle_for_too_long(mariadb: MySql) -> None:
    reader = source(mariadb.port, username="ingest", password="of-the-tests")  # noqa: S106  (it guards nothing)
    assert [str(one) for one in reader._ask_order("SELECT 1")] == ["1"]
    assert reader._questions is not None
    mariadb.execute(f"KILL {reader._questions.thread_id()}")  # type: ignore[no-untyped-call]
    assert [str(one) for one in reader._ask_order("SELECT 2")] == ["2"]
    with pytest.raises(ConfigError, match="cannot compare keys"):
        reader._ask_order("SELECT COUNT(*) FROM shop.nothing_of_that_name HAVING 1 = (SELECT 1 UNION SELECT 2)")
    reader.close()


def test_a_server_that_is_full_of_connections_may_have_room_later() -> None:
    with running(MARIADB_10, max_connections=10, extra_max_connections=1) as server, ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(closing(server.connect()))
        with pytest.raises(Unavailable, match="Too many connections") as failed:
            deque((stack.enter_context(closing(connect(server_of(server)))) for _ in range(8)), 0)
        assert "max_connections" in failed.value.hint


def test_rows_and_events_above_max_allowed_packet_are_read() -> None:
    """The server's limit is for what it gets: a smaller one than what is stored stops nothing."""
    with running(MARIADB_10, max_allowed_packet=64 << 20) as server:
        server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, a LONGTEXT)")
        start = LogPlace(*server.position(), 0)
        server.execute("INSERT INTO shop.t VALUES (1, REPEAT('a', 17 * 1024 * 1024)), (2, 'b')")
        server.execute("SET GLOBAL max_allowed_packet = 1024", "SET GLOBAL net_buffer_length = 1024")
        connection = connect(server_of(server))
        table = known_table(connection, "shop", "t")
        found = [
            record for records in ChunkReader(connection, table_now, lambda *_: ()).read(
                Reading(table, 1, split_key(table))
            ) for record in records
        ]  # fmt: skip
        connection.close()
        logged = read_log(server, Tables({("shop", "t"): table}), start)
        texts = [[len(change["after"]["a"]) for change in changes(records)] for records in (found, logged)]
        assert texts == [[17 << 20, 1]] * 2


def test_gtids_may_be_switched_on_and_off() -> None:
    """A server on which they are off does not send transactions that have some: a clear stop, and no loss."""

    def read(start: LogPlace) -> tuple[list[int], list[tuple[int, int]]]:
        reader = reader_of(server, tables)
        with closing(reader):
            found = [change["after"]["id"] for change in changes(read_log(server, tables, start, reader))]
            return found, [(run.first, run.last) for run in reader.gtids]

    with running(MYSQL_5) as server:
        server.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
        tables = Tables(tables_of(server, "shop"))
        start = LogPlace(*server.position(), 0)
        server.insert(1)
        server.restart(gtid_mode="ON", enforce_gtid_consistency=1, log_slave_updates=1)
        server.insert(2)
        server.insert(3)
        assert read(start) == ([1, 2, 3], [(1, 2)])
        server.restart(gtid_mode="OFF")
        behind = LogPlace(*server.position(), 0)
        server.insert(4)
        with pytest.raises(ConfigError, match="GTID_MODE = OFF") as failed:
            read(start)
        assert "gtid_mode" in failed.value.hint
        assert read(behind) == ([4], [])


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (1047, "WSREP has not yet prepared node for application use", Unavailable),
        (1047, "Unknown command", ConfigError),
        (9001, "Max connect timeout reached while reaching hostgroup 0 after 10000ms", Unavailable),
        (1836, "Running in read-only mode", Unavailable),
        (1026, "Error writing file 'x' (errno: 28 \"No space left on device\")", Unavailable),
        (1021, "Disk full (/tmp/#sql); waiting for someone to free some space...", Unavailable),
        (1153, "Got a packet bigger than 'max_allowed_packet' bytes", ConfigError),
        (2027, "Malformed packet", Unavailable),
    ],
)
def test_errors_of_maintenance_full_disks_and_proxies(code: int, text: str, kind: type[IngestError]) -> None:
    found = explain(pymysql.OperationalError(code, text), "read", server_of_port(1))
    assert type(found) is kind
    assert found.hint


def server_of_port(port: int) -> Any:
    return source(port)._options.server


def test_what_is_no_mysql_server_is_named() -> None:
    with ReplayServer(plugin="mysql_native_password") as server:
        for said in (b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x05\0\0\0\x0b\x08\x05\x1a\0"):
            server.spoil = lambda _, __, said=said: said
            with pytest.raises(
                ConfigError, match=r"what answers at 127\.0\.0\.1:\d+ does not log in as a MySQL"
            ) as failed:
                connect(server.login())
            assert "hostname and port" in failed.value.hint
        server.spoil = lambda _, __: b""
        with pytest.raises(Unavailable):
            connect(server.login())
        server.spoil = None
        server.answers["SET SESSION.*"] = ServerError(1040, "Too many connections", "08004")
        with pytest.raises(Unavailable, match="Too many connections"):
            connect(server.login())
