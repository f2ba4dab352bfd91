"""The sandbox's MariaDB: it starts, its rows change, the source's user can read its log and no more, and it ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness import free_port

from ingest.errors import ProgramMissing
from ingest.sandbox import mysql
from ingest.sandbox.process import is_free
from ingest.sources.mysql.checks import ServerNeeds, check_server
from ingest.sources.mysql.connection import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("sandbox_mysql")


@pytest.fixture(scope="module")
def sandbox_mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("sandbox")
    mysql.up(folder, free_port())
    yield folder
    mysql.shop_down(folder)
    mysql.down(folder, wipe=True)


def ask(found: mysql.RunningMariaDb, *statements: str, user: str = mysql.USER) -> list[tuple[Any, ...]]:
    connection = connect(mysql.login(found, user))
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())
    finally:
        connection.close()


def test_its_user_has_what_the_source_needs_and_no_more(sandbox_mysql: Path) -> None:
    found = mysql.up(sandbox_mysql)
    assert found == mysql.status(sandbox_mysql), "it is started once"
    assert found.version.startswith(("10.", "11."))
    assert check_server(mysql.login(found), ServerNeeds(range(5401, 5402), databases=("shop",))) == []
    rights = " ".join(row[0] for row in ask(found, "SHOW GRANTS"))
    assert "GRANT SELECT ON `shop`.*" in rights
    assert "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.*" in rights
    assert not any(word in rights for word in ("LOCK", "RELOAD", "INSERT", "ALL PRIVILEGES", "SUPER"))
    assert Path(found.password_file).stat().st_mode & 0o77 == 0


def test_its_rows_change_and_are_taken_over_at_the_next_start(sandbox_mysql: Path) -> None:
    found = mysql.up(sandbox_mysql)
    assert mysql.shop_up(sandbox_mysql, found, 0) is None
    counts = (
        "SELECT (SELECT COUNT(*) FROM shop.customers), (SELECT COUNT(*) FROM shop.products), COUNT(*) FROM shop.orders"
    )
    assert ask(found, counts) == [(10, 5, 20)]
    shop = mysql.shop_of(found)
    for _ in range(60):
        shop.change()
    again = mysql.shop_of(found)
    assert again.tables == shop.tables
    stored = ask(found, "SELECT id, status, quantity FROM shop.orders ORDER BY id")
    assert stored == [(key, row["status"], row["quantity"]) for key, row in sorted(shop.tables["orders"].items())]
    for each in (shop, again):
        each._connection.close()


def test_a_process_changes_them_until_the_sandbox_is_stopped(sandbox_mysql: Path) -> None:
    found = mysql.up(sandbox_mysql)
    changing = mysql.shop_up(sandbox_mysql, found, 200.0)
    assert changing is not None
    assert changing == mysql.shop_status(sandbox_mysql)
    before = ask(found, "SHOW MASTER STATUS")[0][:2]
    while ask(found, "SHOW MASTER STATUS")[0][:2] == before:
        pass
    mysql.shop_down(sandbox_mysql)
    assert mysql.shop_status(sandbox_mysql) is None


def test_its_data_stay_until_they_are_wiped(sandbox_mysql: Path) -> None:
    found = mysql.up(sandbox_mysql)
    mysql.shop_up(sandbox_mysql, found, 0)
    assert mysql.down(sandbox_mysql)
    assert mysql.status(sandbox_mysql) is None
    assert is_free(found.port)
    again = mysql.up(sandbox_mysql)
    assert (again.port, again.password_file) == (found.port, found.password_file)
    assert ask(again, "SELECT COUNT(*) FROM shop.products") == [(5,)]
    mysql.down(sandbox_mysql, wipe=True)
    assert not (sandbox_mysql / "mysql" / "data").exists()
    assert not mysql.down(sandbox_mysql)
    mysql.up(sandbox_mysql, found.port)


def test_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql, "_PROGRAM", "no-such-mariadbd")
    with pytest.raises(ProgramMissing, match="the programs of a MariaDB server are missing") as missing:
        mysql.programs()
    assert "apt-get install mariadb-server-core" in missing.value.hint
