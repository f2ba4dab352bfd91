"""Logs whose rows have only some columns, from real servers into a real PostgreSQL, judged by what the server has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from mysql_in_process import InProcessPipeline
from postgres import running

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mysql_servers import MySql
    from postgres import Database


@pytest.fixture(scope="module")
def postgres() -> Iterator[Database]:
    with running() as database:
        yield database


TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL DEFAULT 7, b VARCHAR(20) DEFAULT 'it''s', c TEXT, d BLOB)",
    "CREATE TABLE k (a VARCHAR(9), b INT, v INT, w DATETIME DEFAULT '2020-01-31 12:00:00', PRIMARY KEY (a, b))",
)
COLUMNS = {"t": "id, a, b, c, d", "k": "a, b, v, w"}


@pytest.mark.parametrize("product", ["mariadb", "mysql5"])
def test_columns_that_did_not_come_stay_in_postgres(
    request: pytest.FixtureRequest, product: str, postgres: Database, tmp_path: Path
) -> None:
    server: MySql = request.getfixturevalue(product)
    pipeline = InProcessPipeline(
        tmp_path, server, f"images_{product}",
        {"type": "postgres", "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
         "password": "of-the-tests"},
    )  # fmt: skip

    def judged() -> None:
        for name, columns in COLUMNS.items():
            expected = pipeline.execute(f"SELECT {columns} FROM {name}")
            found = postgres.rows(f"{pipeline.database}.{name}", columns)
            assert sorted(map(_plain, found)) == sorted(map(_plain, expected)), name

    pipeline.execute(
        *TABLES,
        "INSERT INTO t VALUES (1, 1, 'one', 'c1', x'00ff'), (2, 2, 'two', 'c2', x'01'), (3, 3, 'three', 'c3', NULL)",
        "INSERT INTO k VALUES ('x', 1, 1, NULL), ('y', 1, 2, NULL)",
    )
    # MariaDB logs it as an update of the columns that it names, so that its own replicas keep the others, too
    replaced = ["REPLACE INTO t (id, c) VALUES (2, 'replaced')"] if product == "mysql5" else []
    pipeline.run()
    judged()
    for image in ("MINIMAL", "NOBLOB"):
        pipeline.execute(
            f"SET SESSION binlog_row_image = {image}",
            "UPDATE t SET a = a + 10 WHERE id < 3", "UPDATE t SET b = NULL WHERE id = 2",
            "UPDATE t SET c = 'changed', d = x'ab' WHERE id = 1",
            "INSERT INTO t (id) VALUES (10)", "INSERT INTO t (id, b) VALUES (11, 'x'), (12, NULL)",
            "UPDATE t SET id = id + 100 WHERE id > 9 ORDER BY id DESC", "UPDATE t SET d = x'cd' WHERE id = 110",
            "UPDATE t SET id = 4, a = 44 WHERE id = 3", "DELETE FROM t WHERE id = 111",
            *replaced,
            "INSERT INTO t (id, a) VALUES (1, 5) ON DUPLICATE KEY UPDATE a = 99",
            "UPDATE k SET a = 'X', v = 10 WHERE a = 'x'", "INSERT INTO k (a, b) VALUES ('z', 1)",
            "UPDATE k SET b = b + 1 ORDER BY b DESC", "UPDATE k SET v = NULL WHERE a = 'y'",
        )  # fmt: skip
        pipeline.run()
        judged()
        pipeline.execute("UPDATE t SET id = 3 WHERE id = 4", "UPDATE k SET a = 'x' WHERE a = 'X'",
                         "DELETE FROM t WHERE id > 9", "DELETE FROM k WHERE a = 'z'")  # fmt: skip
    ran = pipeline.run()
    judged()
    assert ran.rejected == 0


def _plain(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(repr(bytes(value) if isinstance(value, memoryview) else value) for value in row)


def test_a_sink_that_needs_whole_rows_stops_at_the_session_that_changed_the_image(
    mariadb: MySql, tmp_path: Path
) -> None:
    pipeline = InProcessPipeline(
        tmp_path, mariadb, "images_file", {"type": "file", "path": str(tmp_path / "out"), "format": "canal-json"}
    )  # fmt: skip
    pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 1, 1)")
    pipeline.run()
    pipeline.execute("SET SESSION binlog_row_image = MINIMAL", "UPDATE t SET a = 2")
    with pytest.raises(ConfigError, match=r"images_file\.t is in the log without b") as stopped:
        pipeline.run()
    assert "SET GLOBAL binlog_row_image = 'FULL'" in stopped.value.hint
