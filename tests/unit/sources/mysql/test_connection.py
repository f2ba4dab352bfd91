"""Logins to real servers, what a session has after one, and which error is whose."""

from __future__ import annotations

import pickle
import socket
import ssl
from typing import TYPE_CHECKING, Any

import msgspec
import pymysql
import pytest
from harness import free_port, time_with
from msgspec.structs import replace
from mysql_servers import MARIADB_10, PASSWORD, USER, running

from ingest.errors import AccessError, ConfigError, DataLoss, IngestError, Unavailable
from ingest.sandbox.secure import Authority
from ingest.sources.mysql import connection
from ingest.sources.mysql.connection import (
    NumberTaken,
    ServerVersion,
    connect,
    explain,
    log_error,
    parse_version,
    version,
)  # fmt: skip
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mysql_servers import MySql

SERVER = MySqlServer("db.example", 3306, "reader", "s3cret-word")


def login(server: MySql, user: str = USER, password: str | None = PASSWORD, tls: Tls = Tls()) -> MySqlServer:  # noqa: B008  (frozen)
    return MySqlServer("127.0.0.1", server.port, user, password, tls)


def ask(server: MySqlServer, query: str) -> list[tuple[Any, ...]]:
    connection = connect(server)
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["mariadb", "mysql5"])
def test_a_session_has_known_settings_whatever_the_servers_are(name: str, mariadb: MySql, mysql5: MySql) -> None:
    server = {"mariadb": mariadb, "mysql5": mysql5}[name]
    known = "time_zone, sql_mode, sql_select_limit, character_set_client, autocommit, wait_timeout, lock_wait_timeout"
    before = "time_zone, sql_mode, sql_select_limit, character_set_client, wait_timeout"
    kept = server.execute("SELECT " + ", ".join(f"@@GLOBAL.{each}" for each in before.split(", ")))[0]
    try:
        server.execute(
            "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
            "SET GLOBAL sql_select_limit = 2", "SET GLOBAL wait_timeout = 5",
        )  # fmt: skip
        found = ask(login(server), "SELECT " + ", ".join(f"@@{each}" for each in known.split(", ")))[0]
        rows = ask(login(server), "SELECT 1 UNION SELECT 2 UNION SELECT 3")
        text = ask(login(server), 'SELECT "a\\"b", CONVERT("ä" USING latin1), \'2021-02-30\' < CAST(NOW() AS DATE)')
    finally:
        for each, value in zip(before.split(", "), kept, strict=True):
            server.execute(f"SET GLOBAL {each} = {value if isinstance(value, int) else repr(value)}")
    assert found[0] == "+00:00"
    assert not {"ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PAD_CHAR_TO_FULL_LENGTH", "NO_ZERO_DATE"} & set(
        found[1].split(",")
    )
    assert {"STRICT_ALL_TABLES", "ALLOW_INVALID_DATES"} <= set(found[1].split(","))
    assert found[2:] == (18446744073709551615, "utf8mb4", 1, 28800, 60)
    assert len(rows) == 3
    assert text == [('a"b', "ä", 1)]


@pytest.mark.parametrize("password", ["", "pä$$ 'w\"ö\\rd`;--", "密码🔑", "x" * 79, "#%/@:?&=+"])
@pytest.mark.parametrize("name", ["mariadb", "mysql5"])
def test_any_password_logs_in(name: str, password: str, mariadb: MySql, mysql5: MySql) -> None:
    server = {"mariadb": mariadb, "mysql5": mysql5}[name]
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("GRANT USAGE ON *.* TO 'wörd'@'127.0.0.1' IDENTIFIED BY %s", (password,))
    connection.close()
    try:
        assert ask(login(server, "wörd", password), "SELECT CURRENT_USER()") == [("wörd@127.0.0.1",)]
        with pytest.raises(AccessError, match=r"Access denied.*error 1045") as refused:
            connect(login(server, "wörd", "wrong-s3cret"))
        assert "wrong-s3cret" not in str(refused.value)
    finally:
        server.execute("DROP USER 'wörd'@'127.0.0.1'")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority("of the tests")
    for name, names in (
        ("server", ("localhost", "127.0.0.1")),
        ("elsewhere", ("db.example", None)),
        ("client", ("c", None)),
    ):
        key, chain = authority.issue(*names)
        (folder / f"{name}.key").write_bytes(key)
        (folder / f"{name}.pem").write_bytes(chain)
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "other.pem").write_bytes(Authority("another").pem)
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def encrypted(certificates: dict[str, str], mariadb: MySql) -> Iterator[MySql]:
    own = {
        "ssl_ca": certificates["ca.pem"],
        "ssl_cert": certificates["server.pem"],
        "ssl_key": certificates["server.key"],
    }
    with running(MARIADB_10, **own) as server:
        server.execute(
            f"GRANT USAGE ON *.* TO tls@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE X509",
            f"GRANT USAGE ON *.* TO safe@'%' IDENTIFIED BY '{PASSWORD}' REQUIRE SSL",
        )
        yield server


def test_tls_verifies_the_certificate_unless_that_is_switched_off(
    encrypted: MySql, certificates: dict[str, str]
) -> None:
    cipher = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
    right, wrong = certificates["ca.pem"], certificates["other.pem"]
    for tls in (Tls("verify-identity", right), Tls("verify-ca", right), Tls("required"), Tls()):
        assert ask(login(encrypted, "safe", tls=tls), cipher)[0][1].startswith("TLS_")
    assert ask(login(encrypted, tls=Tls("disabled")), cipher) == [("Ssl_cipher", "")]
    for tls in (Tls("verify-identity", wrong), Tls("verify-ca", wrong), Tls("verify-identity")):
        with pytest.raises(ConfigError, match=r"the certificate of 127\.0\.0\.1:\d+ is refused") as refused:
            connect(login(encrypted, tls=tls))
        assert "ssl.ca" in refused.value.hint
    with pytest.raises(AccessError, match="1045"):
        connect(login(encrypted, "safe", tls=Tls("disabled")))


def test_where_nothing_is_said_tls_is_verified_but_on_this_machine(
    encrypted: MySql, mariadb: MySql, certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cipher = "SHOW SESSION STATUS LIKE 'Ssl_cipher'"
    assert ask(login(encrypted), cipher)[0][1].startswith("TLS_"), "nobody stands between"
    monkeypatch.setattr("ingest.sources.mysql.connection.is_loopback", lambda _: False)
    with pytest.raises(ConfigError, match=r"the certificate of 127\.0\.0\.1:\d+ is refused") as refused:
        connect(login(encrypted))
    assert all(way in refused.value.hint for way in ("ssl.ca", "ssl.mode: required", "ssl.mode: disabled"))
    right = Tls(ca=certificates["ca.pem"])
    assert ask(login(encrypted, tls=right), cipher)[0][1].startswith("TLS_")
    assert ask(login(encrypted, tls=Tls("preferred")), cipher)[0][1].startswith("TLS_")
    assert ask(login(mariadb), cipher) == [("Ssl_cipher", "")], "a server without TLS is read all the same"


def test_the_hosts_name_is_verified(mysql_server: Any, certificates: dict[str, str]) -> None:
    server = mysql_server(MARIADB_10, ssl_cert=certificates["elsewhere.pem"], ssl_key=certificates["elsewhere.key"])
    assert connect(login(server, tls=Tls("verify-ca", certificates["ca.pem"]))).open
    with pytest.raises(ConfigError, match="IP address mismatch"):
        connect(login(server, tls=Tls("verify-identity", certificates["ca.pem"])))


def test_a_client_certificate_logs_in(encrypted: MySql, certificates: dict[str, str]) -> None:
    for mode in ("preferred", "required", "verify-identity"):
        own = Tls(mode, certificates["ca.pem"], certificates["client.pem"], certificates["client.key"])
        assert ask(login(encrypted, "tls", tls=own), "SELECT CURRENT_USER()") == [("tls@%",)]
    with pytest.raises(AccessError, match="1045"):
        connect(login(encrypted, "tls"))
    with pytest.raises(ConfigError, match=r"ssl\.cert: there is no file '/none\.pem'"):
        connect(login(encrypted, tls=Tls("required", cert="/none.pem")))
    with pytest.raises(ConfigError, match=r"ssl\.ca, ssl\.cert or ssl\.key cannot be used"):
        connect(login(encrypted, tls=Tls("required", cert=certificates["client.pem"], key=certificates["server.key"])))


def test_a_server_without_tls_is_refused_where_tls_is_wanted(mariadb: MySql) -> None:
    with pytest.raises(ConfigError, match=r"error 2026") as refused:
        connect(login(mariadb, tls=Tls("verify-identity")))
    assert refused.value.hint == "let the server speak TLS, or choose another ssl.mode"


def test_a_server_that_is_away_may_come_back(mariadb: MySql) -> None:
    with pytest.raises(Unavailable, match=r"cannot log in at 127\.0\.0\.1:\d+: .*refused"):
        connect(MySqlServer("127.0.0.1", free_port(), "u", "p"))
    with pytest.raises(Unavailable, match="cannot log in at nowhere"):
        connect(MySqlServer("nowhere.invalid", 3306, "u", "p"))
    with pytest.raises(ConfigError, match="no text"):
        connect(MySqlServer("a" * 70 + ".example", 3306, "u", "p"))


def test_connecting_is_tried_as_often_as_it_is_said(mariadb: MySql, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may pass, with a pause each time; wrong credentials once."""
    tried: list[Any] = []
    pauses: list[float] = []
    real = connection._login

    def log_in(server: MySqlServer, database: str | None) -> Any:
        tried.append(server)
        if len(tried) < 3:
            raise pymysql.OperationalError(2003, "Can't connect to MySQL server")
        return real(server, database)

    monkeypatch.setattr(connection, "_login", log_in)
    monkeypatch.setattr(connection, "time", time_with(sleep=pauses.append))
    with pytest.raises(Unavailable):
        connect(replace(login(mariadb), tries=2))
    assert (len(tried), pauses) == (2, [0.3])
    tried.clear()
    connect(replace(login(mariadb), tries=3)).close()
    assert (len(tried), pauses) == (3, [0.3] * 3)
    tried[:] = [None] * 9
    with pytest.raises(AccessError):
        connect(replace(login(mariadb, password="wrong"), tries=3))  # noqa: S106  (it is none)
    assert len(tried) == 10


def test_a_peer_that_says_nothing_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unavailable, match="timed out"):
        connect(MySqlServer("127.0.0.1", silent.getsockname()[1], "u", "p", connect_s=0.1))


def test_the_default_database_is_the_one_asked_for(mariadb: MySql) -> None:
    connection = connect(login(mariadb), database="shop")
    with connection.cursor() as cursor:
        cursor.execute("SELECT DATABASE()")
        assert cursor.fetchall() == (("shop",),)
    assert version(connection).since(mariadb=(10, 11))
    connection.close()
    with pytest.raises(ConfigError, match="Unknown database 'nowhere'"):
        connect(login(mariadb), database="nowhere")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1040, Unavailable), (1203, Unavailable), (1053, Unavailable), (1205, Unavailable), (1213, Unavailable),
        (2013, Unavailable), (2006, Unavailable), (1317, Unavailable), (1927, Unavailable), (4031, Unavailable),
        (1412, Unavailable), (1045, AccessError), (1044, AccessError), (1142, AccessError), (1227, AccessError),
        (1130, AccessError), (1862, AccessError), (3118, AccessError), (1049, ConfigError), (1251, ConfigError),
        (2059, ConfigError), (2026, ConfigError), (3159, ConfigError), (1129, ConfigError), (1366, ConfigError),
    ],
)  # fmt: skip
def test_what_may_pass_is_unavailable(code: int, kind: type[IngestError]) -> None:
    found = explain(pymysql.OperationalError(code, "the server's text"), "read", SERVER)
    assert type(found) is kind
    assert found.message == f"cannot read at db.example:3306: the server's text (error {code})"
    assert found.hint
    assert "{" not in found.hint


def test_errors_without_a_number() -> None:
    assert type(explain(ConnectionResetError(104, "reset"), "read", SERVER)) is Unavailable
    assert type(explain(ssl.SSLEOFError(8, "EOF occurred"), "read", SERVER)) is Unavailable
    assert type(explain(ssl.SSLError(1, "wrong version number"), "read", SERVER)) is ConfigError
    assert type(explain(pymysql.OperationalError("unexpected packet"), "read", SERVER)) is Unavailable
    assert type(explain(ValueError("port"), "read", SERVER)) is ConfigError


@pytest.mark.parametrize(
    ("text", "kind", "hint"),
    [
        ("Could not find first log file name in binary log index file", DataLoss, "backfill"),
        (("The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1, but the master has purged binary "
         "logs containing GTIDs that the slave requires."), DataLoss, "backfill"),
        ("Cannot replicate because the source purged required binary logs.", DataLoss, "backfill"),
        ("Client requested master to start replication from position > file size", DataLoss, "RESET MASTER"),
        ("Client requested master to start replication from impossible position", DataLoss, "RESET MASTER"),
        (("Slave has more GTIDs than the master has, using the master's SERVER_UUID. This may indicate that the end of "
         "the binary log was truncated"), DataLoss, "backfill"),
        ("Error: connecting slave requested to start from GTID 0-1-9, which is not in the master's binlog", DataLoss,
         "backfill"),
        ("bogus data in log event; the first event 'binlog.000001' at 4", DataLoss, "error log"),
        ("binlog truncated in the middle of event; consider out of disk space on master", DataLoss, "error log"),
        (("A slave with the same server_uuid/server_id as this slave has connected to the master; the first event "
         "'binlog.000001' at 4"), NumberTaken, "server-id"),
        ("log event entry exceeded max_allowed_packet; Increase max_allowed_packet on master", ConfigError,
         "SET GLOBAL max_allowed_packet"),
        ("Binary log is not open", ConfigError, "log_bin"),
        ("Misconfigured master - server_id was not set", ConfigError, "server_id"),
        ("Slave can not handle replication events with the checksum of the master", ConfigError, "see"),
        ("memory allocation failed reading log event", Unavailable, "again"),
        ("something new", ConfigError, "error log"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [1236, 4052])  # MariaDB has a number of its own for one of them
def test_error_1236_is_read_by_its_text(text: str, kind: type[IngestError], hint: str, number: int) -> None:
    found = explain(pymysql.OperationalError(number, text), "read", SERVER)
    assert type(found) is kind
    assert found.message == log_error(text, SERVER).message
    assert text[:100] in found.message
    assert hint in found.hint


def test_versions() -> None:
    assert parse_version("8.0.36-0ubuntu0.22.04.1-log") == ServerVersion(
        (8, 0, 36), False, "8.0.36-0ubuntu0.22.04.1-log"
    )
    assert parse_version("5.5.5-10.5.12-MariaDB-1:10.5.12+maria~focal-log").numbers == (10, 5, 12)
    assert parse_version("11.4.5-MariaDB").since(mariadb=(11,))
    assert not parse_version("11.4.5-MariaDB").since(mysql=(5, 6))
    assert parse_version("5.7.mysql_aurora.2.11.1").numbers == (5, 7)
    assert parse_version("").numbers == ()
    assert parse_version("9.1.0").since(mysql=(8, 4), mariadb=None)


def test_secrets_are_not_shown_and_travel() -> None:
    server = msgspec.structs.replace(SERVER, tls=Tls("required", key="k", key_password="another-s3cret"))  # noqa: S106
    for text in (repr(server), str(server), f"{server}", repr(server.tls)):
        assert "s3cret" not in text
    assert pickle.loads(pickle.dumps(server)) == server  # noqa: S301  (as Spark does)
    assert MySqlServer("::1", 3306, "u", None).name == "[::1]:3306"
