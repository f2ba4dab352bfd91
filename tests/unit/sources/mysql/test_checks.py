"""What is wrong with a server is said at the start, all of it at once, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mysql_servers import MARIADB_10, MYSQL_5, PASSWORD, USER

from ingest.errors import AccessError, ConfigError
from ingest.sources.mysql.checks import (
    ServerNeeds,
    check_server,
    filter_problems,
    grants,
    number_problems,
    retention_warnings,
    settings_problems,
)  # fmt: skip
from ingest.sources.mysql.connection import parse_version
from ingest.sources.mysql.log_search import status_statement
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from collections.abc import Callable

    from mysql_servers import Kind, MySql

    Starter = Callable[..., MySql]
NEEDS = ServerNeeds(range(5401, 5402))
GOOD = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "server_id": "1"}
NEW, MARIA = parse_version("8.4.2"), parse_version("10.11.6-MariaDB")


def login(server: MySql, user: str = USER) -> MySqlServer:
    return MySqlServer("127.0.0.1", server.port, user, PASSWORD, Tls("disabled"))


@pytest.mark.parametrize("name", ["mariadb", "mysql5"])
def test_a_server_that_is_as_it_should_be(name: str, mariadb: MySql, mysql5: MySql) -> None:
    assert check_server(login({"mariadb": mariadb, "mysql5": mysql5}[name]), NEEDS) == []


@pytest.mark.parametrize("kind", [MARIADB_10, MYSQL_5])
def test_all_that_is_wrong_is_said_at_once(kind: Kind, mysql_server: Starter) -> None:
    server = mysql_server(kind, binlog_ignore_db="shop", server_id=5401)
    server.execute("SET GLOBAL binlog_format = 'MIXED'", "SET GLOBAL binlog_row_image = 'MINIMAL'")
    with pytest.raises(ConfigError) as refused:
        check_server(login(server), ServerNeeds(range(5401, 5402), 2, databases=("shop", "other")))
    for part in (
        "binlog_format is MIXED", "binlog_row_image is MINIMAL", "server-id has 1 numbers for 2 readers",
        "server-id 5401 is the server's own", "changes of the database shop are not logged",
    ):  # fmt: skip
        assert part in refused.value.message
    assert "other" not in refused.value.message
    for part in ("SET GLOBAL binlog_format = 'ROW'", "SET GLOBAL binlog_row_image = 'FULL'", "binlog_ignore_db"):
        assert part in refused.value.hint
    # What the hints say is what helps
    server.execute("SET GLOBAL binlog_format = 'ROW'", "SET GLOBAL binlog_row_image = 'FULL'")
    assert check_server(login(server), ServerNeeds(range(5402, 5403), databases=("other",))) == []


def test_rights_that_are_missing_are_a_grant_that_helps(mariadb: MySql, mysql5: MySql) -> None:
    for server in (mariadb, mysql5):
        known = parse_version(server.execute("SELECT VERSION()")[0][0])
        server.execute(f"GRANT SELECT ON shop.* TO 'o''neil'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        try:
            for right in ("", "REPLICATION SLAVE", "REPLICATION CLIENT"):
                if right:
                    server.execute("REVOKE ALL, GRANT OPTION FROM 'o''neil'@'127.0.0.1'")
                    server.execute(f"GRANT {right} ON *.* TO 'o''neil'@'127.0.0.1'")
                with pytest.raises(AccessError, match=r"user o'neil@127\.0\.0\.1 of .* may not read its log") as denied:
                    check_server(login(server, "o'neil"), NEEDS)
                assert denied.value.hint == grants(known, "o'neil@127.0.0.1")
            server.execute(denied.value.hint)
            assert check_server(login(server, "o'neil"), NEEDS) == []
        finally:
            server.execute("DROP USER 'o''neil'@'127.0.0.1'")


def test_a_server_without_a_log(mysql_server: Starter) -> None:
    with pytest.raises(ConfigError, match="it writes no log"):
        check_server(login(mysql_server(MARIADB_10, skip_log_bin=1)), NEEDS)


def test_a_replica_that_logs_nothing_of_its_primary(mariadb: MySql, mysql_server: Starter) -> None:
    server = mysql_server(MARIADB_10, server_id=7, skip_slave_start=1)
    assert check_server(login(server), NEEDS) == []
    server.execute(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {mariadb.port}, MASTER_USER = '{USER}', "
                   f"MASTER_PASSWORD = '{PASSWORD}'")  # fmt: skip
    with pytest.raises(ConfigError, match="a replica that does not log what it replicates"):
        check_server(login(server), NEEDS)


def test_partial_images_are_for_sinks_that_write_what_came() -> None:
    nodup = GOOD | {"binlog_row_image": "FULL_NODUP"}
    assert settings_problems(MARIA, nodup, NEEDS) == [], "the row before has what the row after lacks"
    for image in ("MINIMAL", "NOBLOB"):
        variables = GOOD | {"binlog_row_image": image}
        assert settings_problems(MARIA, variables, ServerNeeds(range(1, 2), partial_images=True)) == []
        [(what, hint)] = settings_problems(MARIA, variables, NEEDS)
        assert what == f"binlog_row_image is {image}, and this pipeline needs whole rows"
        assert hint.startswith("SET GLOBAL binlog_row_image = 'FULL'")


def test_settings() -> None:
    assert settings_problems(NEW, GOOD, NEEDS) == []
    del_format = {key: value for key, value in GOOD.items() if key != "binlog_format"}
    assert settings_problems(parse_version("9.6.0"), del_format, NEEDS) == [], "a server that knows no other format"
    assert settings_problems(NEW, GOOD | {"server_id": "0"}, NEEDS)[0][1].startswith("SET GLOBAL server_id = 1")
    assert "too old" in settings_problems(parse_version("5.5.62"), GOOD, NEEDS)[0][0]
    assert settings_problems(parse_version("5.7.mysql_aurora.2.11.1"), GOOD, NEEDS) == []


def test_numbers_of_readers() -> None:
    assert number_problems(1, ServerNeeds(range(5401, 5403), 2), [(5403, "db2:3306"), (5401, "")]) == []
    assert [what for what, _ in number_problems(1, ServerNeeds(range(5401, 5403), 2), [(5402, "db2:3306")])] == [
        "server-id 5402 is that of the replica db2:3306: two with one number throw each other out"
    ]


def test_retention() -> None:
    assert retention_warnings(NEW, {"binlog_expire_logs_seconds": "2592000"}) == []
    assert retention_warnings(NEW, {"binlog_expire_logs_seconds": "0", "expire_logs_days": "0"}) == []
    [warning] = retention_warnings(NEW, {"binlog_expire_logs_seconds": "7200"})
    assert warning.startswith("the log is kept for 2 h only")
    assert "SET GLOBAL binlog_expire_logs_seconds = 259200" in warning
    assert "SET GLOBAL expire_logs_days = 3" in retention_warnings(MARIA, {"expire_logs_days": "0.5"})[0]
    assert "1000 bytes" in retention_warnings(MARIA, {"max_binlog_total_size": "1000"})[0]


def test_databases_that_are_not_logged() -> None:
    assert filter_problems("", "", ["a"]) == []
    assert [what for what, _ in filter_problems("a,b", "", ["a", "c"])] == ["changes of the database c are not logged"]
    assert filter_problems("", "c", ["c"])[0][1] == "correct binlog_ignore_db in its option file"


def test_statements_of_versions() -> None:
    assert status_statement(parse_version("8.0.36")) == "SHOW MASTER STATUS"
    assert status_statement(NEW) == "SHOW BINARY LOG STATUS"
    assert status_statement(parse_version("11.4.5-MariaDB")) == "SHOW MASTER STATUS"
    assert grants(NEW, "a'b@%") == "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'a''b'@'%'"
    assert grants(parse_version("10.4.1-MariaDB"), "a@%").startswith("GRANT REPLICATION SLAVE, REPLICATION CLIENT")
