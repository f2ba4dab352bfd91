"""Runs from a real server into other places, judged by what the server itself has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness import INGEST, finished

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka, Result
    from mysql_servers import MySql
    from shared_java import SharedJava


class MySqlPipeline:
    """A pipeline from a database of a test's own."""

    def __init__(self, folder: Path, server: MySql, java: SharedJava, database: str) -> None:
        self.folder, self.server, self.java, self.database = folder, server, java, database
        server.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}")

    def write(self, sink: str, rest: str = "", **source: Any) -> None:
        options = {"tables": rf"{self.database}.\.*", **source}
        (self.folder / "p.yaml").write_text(self.server.source(**options) + f"sink: {sink}\n{rest}")

    def run(self, *more: str) -> Result:
        command = [INGEST, "run", str(self.folder / "p.yaml"), "--once", "--checkpoint", str(self.folder / "c"),
                   "--master", "local[2]", *more]  # fmt: skip
        ran = finished(command, self.java, self.folder)
        assert ran.code == 0, ran.err
        return ran

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=self.database)


def rows_of(kafka: Kafka, topic: str) -> dict[str, dict[str, Any]]:
    """The rows that a reader of an upsert topic ends with, by their keys."""
    out: dict[str, dict[str, Any]] = {}
    for record in kafka.read(topic):
        key = (record.key or b"").decode()
        if record.value is None:
            out.pop(key, None)
        else:
            out[key] = json.loads(record.value)
    return out


def test_rows_and_changes_of_tables_become_upserts(
    kafka: Kafka, mariadb: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    pipeline = MySqlPipeline(tmp_path, mariadb, shared_java, "skeleton")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'skeleton.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"scan.incremental.snapshot.chunk.size": 7},
    )
    pipeline.execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET latin1, price DECIMAL(10,2))",
        "CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "CREATE TABLE nothing (k BIGINT UNSIGNED PRIMARY KEY, d DATE)",
        "INSERT INTO orders VALUES (1, 'Åsa', 1.5), (2, 'b', NULL), (3, 'c', 3)",
        "INSERT INTO names SELECT CONCAT('k', seq), seq FROM seq_0_to_49",
    )
    pipeline.run()
    assert rows_of(kafka, f"{kafka.name}.orders") == {
        '{"id":1}': {"id": 1, "name": "Åsa", "price": 1.50},
        '{"id":2}': {"id": 2, "name": "b", "price": None},
        '{"id":3}': {"id": 3, "name": "c", "price": 3.00},
    }
    assert {row["v"] for row in rows_of(kafka, f"{kafka.name}.names").values()} == {*range(50)}
    assert kafka.read(f"{kafka.name}.nothing") == [], "a table without rows has its topic"

    pipeline.execute(
        "UPDATE orders SET name = 'Ü', id = 9 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
        "ALTER TABLE orders ADD COLUMN note TEXT, DROP COLUMN price",
        "INSERT INTO orders VALUES (4, 'd', 'new')",
        "CREATE TABLE later (id INT PRIMARY KEY, at TIMESTAMP(3) NULL)",
        "INSERT INTO later VALUES (1, FROM_UNIXTIME(0.5))",
        "UPDATE names SET v = v + 100 WHERE v < 3",
        "FLUSH BINARY LOGS",
        "DELETE FROM names WHERE v BETWEEN 10 AND 48",
    )
    pipeline.run()
    assert rows_of(kafka, f"{kafka.name}.orders") == {
        '{"id":9}': {"id": 9, "name": "Ü", "price": 1.50},
        '{"id":3}': {"id": 3, "name": "c", "price": 3.00},
        '{"id":4}': {"id": 4, "name": "d", "price": None, "note": "new"},
    }
    assert rows_of(kafka, f"{kafka.name}.later") == {'{"id":1}': {"id": 1, "at": "1970-01-01 00:00:00.5Z"}}
    left = sorted(row["v"] for row in rows_of(kafka, f"{kafka.name}.names").values())
    assert left == [*range(3, 10), 49, 100, 101, 102]


def test_a_table_is_read_again_after_changes_that_no_log_has(
    kafka: Kafka, mysql5: MySql, tmp_path: Path, shared_java: SharedJava
) -> None:
    """As after purged logs: rows that are gone are gone in the sink, and the log goes on behind."""
    pipeline = MySqlPipeline(tmp_path, mysql5, shared_java, "unlogged")
    pipeline.write(
        f"{{type: upsert-kafka, properties.bootstrap.servers: '{kafka.bootstrap}'}}",
        rf"route: [{{source-table: 'unlogged.\.*', sink-table: {kafka.name}.<>, replace-symbol: <>}}]",
        **{"scan.incremental.snapshot.chunk.size": 3},
    )
    pipeline.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b LIKE a",
        "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)", "INSERT INTO b VALUES (1, 1), (2, 2)",
    )  # fmt: skip
    pipeline.run()
    pipeline.execute(
        "SET sql_log_bin = 0", "DELETE FROM a WHERE id < 3", "UPDATE a SET v = 40 WHERE id = 4",
        "INSERT INTO a VALUES (9, 9)", "DELETE FROM b WHERE id = 1", "SET sql_log_bin = 1", "UPDATE b SET v = 20",
        "UPDATE a SET v = 50 WHERE id = 5",
    )  # fmt: skip
    command = [INGEST, "backfill", str(tmp_path / "p.yaml"), "--table", "unlogged.a", "--checkpoint",
               str(tmp_path / "c"), "--master", "local[2]"]  # fmt: skip
    ran = finished(command, shared_java, tmp_path)
    assert ran.code == 0, ran.err
    a, b = (
        {row["id"]: row["v"] for row in rows_of(kafka, f"{kafka.name}.{table}").values()} for table in ("a", "b")
    )  # fmt: skip
    assert a == dict(pipeline.execute("SELECT id, v FROM a")) == {3: 3, 4: 40, 5: 50, 9: 9}
    assert b == {1: 1, 2: 20}, "the other table has its changes, and nothing else"
    pipeline.execute("DELETE FROM a WHERE id = 9", "UPDATE a SET v = 30 WHERE id = 3")
    pipeline.run()
    assert {row["id"]: row["v"] for row in rows_of(kafka, f"{kafka.name}.a").values()} == {3: 30, 4: 40, 5: 50}
    wrong = finished([*command[:4], "unlogged.c", *command[5:]], shared_java, tmp_path)
    assert (wrong.code, "knows no source table 'unlogged.c'" in wrong.err) == (78, True), wrong.err
