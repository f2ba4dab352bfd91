"""What servers do that cannot be had here: logins of MySQL 8, logs of newer versions, errors and broken connections."""

from __future__ import annotations

import zlib
from collections import deque
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from mysql_log import Tables, changes
from replay_server import ReplayServer, ServerError, log_of, made_event

from ingest.errors import AccessError, ConfigError, DataLoss, IngestError, Unavailable
from ingest.sandbox.secure import Authority
from ingest.sources.mysql.checks import ServerNeeds, check_server
from ingest.sources.mysql.connection import NumberTaken, connect
from ingest.sources.mysql.gtids import GtidSet
from ingest.sources.mysql.log_model import LogPlace
from ingest.sources.mysql.log_reader import LogReader
from ingest.sources.mysql.log_search import LogSearch
from ingest.sources.mysql.server import Tls
from ingest.sources.mysql.types import Column, Table

if TYPE_CHECKING:
    from pathlib import Path

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
RAW = bytes.fromhex(UUID.replace("-", ""))
TABLE = Table("shop", "t", (Column("id", "int"), Column("text", "varchar", length=20, charset="utf8mb4")), ("id",))
FILE = "binlog.000001"
Events = list[tuple[int, bytes]]


def row(key: int, text: str) -> bytes:
    data = text.encode()
    return b"\0" + pack("<i", key) + bytes([len(data)]) + data


def inserts(*rows: bytes) -> Events:
    """The events of rows of the table: its map, and the rows."""
    table = (
        (9).to_bytes(6, "little")
        + pack("<H", 1)
        + b"\x04shop\0\x01t\0"
        + b"\x02\x03\x0f\x02"
        + pack("<H", 80)
        + b"\x02"
    )
    return [(19, table), (30, (9).to_bytes(6, "little") + pack("<HH", 1, 2) + b"\x02\x03" + b"".join(rows))]


def query(text: bytes) -> tuple[int, bytes]:
    return 2, pack("<IIBHH", 7, 0, 4, 0, 0) + b"shop\0" + text


def gtid(number: int) -> tuple[int, bytes]:
    return 33, b"\0" + RAW + pack("<Q", number) + b"\x02" + pack("<QQ", 0, 1)


def transaction(number: int, *rows: bytes) -> Events:
    return [gtid(number), query(b"BEGIN"), *inserts(*rows), (16, pack("<Q", number))]


def previous(*last: int) -> tuple[int, bytes]:
    return 35, GtidSet({UUID: [(1, number) for number in last]} if last else {}).encode()


LOG = [previous(), *transaction(1, row(1, "ä")), *transaction(2, row(2, "b"), row(3, "c"))]


def place(events: Events, *, base: int = 0) -> LogPlace:
    return LogPlace(FILE, len(log_of(events)), base)


def read(server: ReplayServer, start: LogPlace, bound: int, reader: LogReader | None = None) -> list[Any]:
    own = reader or LogReader(server.login(), 4711, Tables({("shop", "t"): TABLE}), heartbeat_s=0.2)
    try:
        return [record for chunk in own.read(start, bound) if chunk is not None for record in chunk.messages]
    finally:
        own.close()


def keys(records: list[Any]) -> list[int]:
    return [change["after"]["id"] for change in changes(records)]


# -- Logins


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    folder: Path = tmp_path_factory.mktemp("certificate")
    authority = Authority("of the tests")
    key, chain = authority.issue("localhost", "127.0.0.1")
    for name, data in (("ca", authority.pem), ("key", key), ("chain", chain)):
        (folder / name).write_bytes(data)
    return str(folder / "chain"), str(folder / "key"), str(folder / "ca")


def test_caching_sha2_password_is_cold_first_and_warm_then(certificate: tuple[str, str, str]) -> None:
    chain, key, ca = certificate
    with ReplayServer(tls=(chain, key)) as server:
        for tls, cold in (
            (Tls("disabled"), "full by RSA"),
            (Tls("verify-identity", ca), "full by TLS"),
            (Tls(), "full by TLS"),
        ):
            server.warm, server.said = False, []
            for _ in range(2):
                connect(server.login(tls)).close()
            assert [word for word in server.said if word.startswith(("full", "fast"))] == [cold, "fast"]
        with pytest.raises(ConfigError, match=r"certificate of .* is refused"):
            connect(server.login(Tls("verify-identity")))


@pytest.mark.parametrize("password", ["", "x", "pä$$ 'w\"ö\\rd", "密码🔑" * 5, "x" * 200])
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "mysql_native_password"])
@pytest.mark.parametrize("offered", ["caching_sha2_password", "mysql_native_password"])
def test_each_password_and_a_switch_of_plugins(password: str, plugin: str, offered: str) -> None:
    with ReplayServer(plugin=plugin, offered=offered, password=password) as server:
        connect(server.login()).close()
        if password:
            with pytest.raises(AccessError, match="1045"):
                connect(server.login(password="another-s3cret"))  # noqa: S106


def test_metadata_chunks_and_log_log_in_alike() -> None:
    with ReplayServer({FILE: log_of(LOG)}) as server:
        connect(server.login()).close()
        LogSearch(server.login()).head(FILE)
        read(server, LogPlace(FILE, 4, 0), 500)
        said = [word for word in server.said if word in {"full by RSA", "fast"}]
        assert said == ["full by RSA", "fast", "fast"]


def test_a_password_is_not_given_to_who_asks_for_it_in_the_clear(certificate: tuple[str, str, str]) -> None:
    chain, key, ca = certificate
    with ReplayServer(plugin="mysql_clear_password", offered="caching_sha2_password", tls=(chain, key)) as server:
        for tls in (Tls("disabled"), Tls("preferred")):
            with pytest.raises(ConfigError, match="gives it away"):
                connect(server.login(tls))
        assert "clear" not in server.said
        connect(server.login(Tls("verify-identity", ca))).close()
        assert "clear" in server.said


def test_the_statement_of_newer_servers_is_asked() -> None:
    for version in ("8.0.36", "8.4.3", "9.1.0"):
        with ReplayServer({FILE: log_of(LOG)}, version=version) as server:
            server.variables["gtid_executed"] = f"{UUID}:1-2"
            status = LogSearch(server.login()).status()
            assert (status.file, status.offset, str(status.executed)) == (FILE, len(log_of(LOG)), f"{UUID}:1-2")
            assert check_server(server.login(), ServerNeeds(range(5401, 5402))) == []
            server.answers["SHOW BINARY LOGS"] = ServerError(
                1227, "Access denied; you need (at least one of) …", "42000"
            )
            with pytest.raises(AccessError, match="may not read its log"):
                check_server(server.login(), ServerNeeds(range(5401, 5402)))


# -- Logs


@pytest.mark.parametrize("checksum", [True, False])
def test_a_log_is_read_from_its_beginning_and_from_the_end_of_a_transaction(checksum: bool) -> None:
    log = log_of(LOG, checksum=checksum)
    with ReplayServer({FILE: log}) as server:
        assert keys(read(server, LogPlace(FILE, 4, 0), len(log))) == [1, 2, 3]
        between = len(log_of(LOG[:6], checksum=checksum))
        assert keys(read(server, LogPlace(FILE, between, 0), len(log))) == [2, 3]


def test_checksums_may_change_from_file_to_file() -> None:
    logs = {
        FILE: log_of(LOG),
        "binlog.000002": log_of([previous(2), *transaction(3, row(4, "d"))], checksum=False),
        "binlog.000003": log_of([previous(3), *transaction(4, row(5, "e"))]),
    }
    with ReplayServer(logs) as server:
        assert keys(read(server, LogPlace(FILE, 4, 0), sum(map(len, logs.values())) - 1)) == [1, 2, 3, 4, 5]


def test_a_compressed_transaction() -> None:
    inner = [query(b"BEGIN"), *inserts(row(7, "g"), row(8, "h")), (16, pack("<Q", 3))]
    plain = b"".join(made_event(kind, body, checksum=False) for kind, body in inner)
    packed = zstandard.compress(plain)
    size = pack("<H", len(packed))
    body = b"\x01\x03\xfc" + size + b"\x02\x01\0" + b"\x03\x03\xfc" + pack("<H", len(plain)) + b"\0" + packed
    events = [*LOG, gtid(3), (40, body), *transaction(4, row(9, "i"))]
    with ReplayServer({FILE: log_of(events)}) as server:
        records = read(server, place(LOG), len(log_of(events)))
        assert keys(records) == [7, 8, 9]


def test_a_packet_of_16_mib_goes_on_in_the_next_one() -> None:
    filler = bytes((1 << 24) - 1 - 1 - 19 - 4)  # with its header, its sum and the protocol's byte it is full exactly
    for more in (0, 1, 3 << 20):
        events = [*LOG, (29, bytes([0]) + filler[1:] + bytes(more)), *transaction(3, row(4, "d"))]
        with ReplayServer({FILE: log_of(events)}) as server:
            assert keys(read(server, place(LOG), len(log_of(events)))) == [4]


def test_a_connection_that_breaks_in_the_middle_is_worth_another_try() -> None:
    with ReplayServer({FILE: log_of(LOG)}) as server:
        server.break_after = 6
        with pytest.raises(Unavailable):
            read(server, LogPlace(FILE, 4, 0), len(log_of(LOG)))
        assert keys(read(server, LogPlace(FILE, 4, 0), len(log_of(LOG)))) == [1, 2, 3]


@pytest.mark.parametrize(
    ("error", "kind", "hint"),
    [
        (ServerError(1236, "Could not find first log file name in binary log index file"), DataLoss, "backfill"),
        (ServerError(1236, "log event entry exceeded max_allowed_packet; Increase it on source"), ConfigError,
         "max_allowed_packet"),
        (ServerError(1236, "A replica with the same server_uuid/server_id as this replica has connected"), NumberTaken,
         "server-id"),
        (ServerError(1227, "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s)", "42000"),
         AccessError, "rights"),
        (ServerError(1053, "Server shutdown in progress", "08S01"), Unavailable, "again"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [0, 5])
def test_error_packets_say_what_they_mean(error: ServerError, kind: type[IngestError], hint: str, after: int) -> None:
    with ReplayServer({FILE: log_of(LOG)}) as server:
        server.fail_after = (after, error)
        with pytest.raises(kind) as failed:
            read(server, LogPlace(FILE, 4, 0), len(log_of(LOG)))
        assert type(failed.value) is kind
        assert error.text in failed.value.message
        assert hint in failed.value.hint


def test_two_readers_with_one_number_are_told_so() -> None:
    with ReplayServer({FILE: log_of(LOG)}) as server:
        first = LogReader(server.login(), 4711, Tables({}), heartbeat_s=0.2)
        reading = first.read(LogPlace(FILE, 4, 0), 1 << 40)
        next(reading)
        second = LogReader(server.login(), 4711, Tables({}), heartbeat_s=0.2)
        other = second.read(LogPlace(FILE, 4, 0), 1 << 40)
        next(other)
        with pytest.raises(ConfigError, match="same server_uuid/server_id") as thrown:
            deque(reading, 0)
        assert "server-id" in thrown.value.hint
        LogSearch(server.login()).head(FILE)  # looks without a number: it throws nobody out
        next(other)
        second.close()


def test_a_connection_that_another_worker_has_ended_since_the_last_batch_is_made_again() -> None:
    """Both have the pipeline's number. What the first one got before it was thrown out is still on its way to it."""
    with ReplayServer({FILE: log_of(LOG)}) as server:
        first, second = (LogReader(server.login(), 4711, Tables({("shop", "t"): TABLE}), heartbeat_s=0.2) for _ in "12")
        middle, end = place(LOG[:5]).position, len(log_of(LOG))

        def found(reader: LogReader, start: LogPlace, bound: int) -> list[int]:
            chunks = [*reader.read(start, bound)]
            return keys([record for chunk in chunks if chunk is not None for record in chunk.messages])

        assert found(first, LogPlace(FILE, 4, 0), middle) == [1]
        assert found(second, first.place, end) == [2, 3]
        server.append(FILE, log_of([*LOG, *transaction(3, row(4, "d"))])[end:])
        assert found(first, first.place, end + 1) == [2, 3, 4]
        second.close()
        first.close()


def test_the_same_place_with_another_event_is_data_loss() -> None:
    other = [previous(), *transaction(1, row(1, "b!")), *transaction(2, row(2, "b"), row(3, "c"))]
    assert len(log_of(other)) == len(log_of(LOG))
    begin = len(log_of(LOG[:5]))
    at = place(LOG[:6])
    data = log_of(LOG[:6])[begin:-4]
    known = LogPlace(FILE, at.offset, 0, begin, zlib.crc32(data))
    with ReplayServer({FILE: log_of(LOG)}) as server:
        assert keys(read(server, known, len(log_of(LOG)))) == [2, 3]
        server.logs[FILE] = log_of([previous(), *transaction(1, row(1, "b!"))[:-1], (16, pack("<Q", 9)), *LOG[6:]])
        with pytest.raises(DataLoss):
            read(server, known, len(log_of(LOG)))


def test_a_server_that_says_nothing_is_taken_for_dead() -> None:
    with ReplayServer({FILE: log_of(LOG)}) as server:
        reader = LogReader(server.login(), 4711, Tables({}), heartbeat_s=0.2)
        reading = reader.read(LogPlace(FILE, 4, 0), 1 << 40)
        for _ in range(12):
            next(reading)  # heartbeats come
        assert reader._stream is not None
        reader._stream._silence_s = 0.3
        server.silent = True
        with pytest.raises(Unavailable, match="taken for dead"):
            deque(reading, 0)


def test_a_transaction_is_in_the_log_before_a_query_sees_it() -> None:
    rows: list[tuple[int]] = []
    with ReplayServer({FILE: log_of(LOG)}, answers={"SELECT id FROM shop.t": lambda: rows}) as server:
        before = LogSearch(server.login()).status()
        server.append(FILE, log_of([*LOG, *transaction(3, row(4, "d"))])[len(log_of(LOG)) :])
        connection = connect(server.login())
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM shop.t")
            assert cursor.fetchall() == ()
            rows.append((4,))
            cursor.execute("SELECT id FROM shop.t")
            assert cursor.fetchall() == (("4",),)
        connection.close()
        assert LogSearch(server.login()).status().offset > before.offset
        assert keys(read(server, place(LOG), before.offset + 1)) == [4]


def test_a_place_of_mysql_8_is_found_by_gtids() -> None:
    logs = {FILE: log_of(LOG), "binlog.000002": log_of([previous(2), *transaction(3, row(4, "d"))])}
    with ReplayServer(logs) as server:
        server.variables["gtid_executed"] = f"{UUID}:1-3"
        found = LogSearch(server.login()).find_gtids(GtidSet.parse(f"{UUID}:1"))
        assert (found.file, found.offset) == (FILE, len(log_of(LOG[:6])))
        assert LogSearch(server.login()).find_gtids(GtidSet.parse(f"{UUID}:1-2")).file == "binlog.000002"
        server.variables["gtid_purged"] = f"{UUID}:1-2"
        with pytest.raises(DataLoss, match=f"has no log any more of transactions that were not read: {UUID}:2"):
            LogSearch(server.login()).find_gtids(GtidSet.parse(f"{UUID}:1"))
        server.variables["gtid_mode"] = "OFF"
        with pytest.raises(DataLoss, match="has no GTIDs"):
            LogSearch(server.login()).find_gtids(GtidSet.parse(f"{UUID}:1"))
