"""Statements on a real server, into a lake: what tables are in the end is what the server's own client says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from commands import called
from delta_lake import DeltaLake
from mysql_in_process import InProcessPipeline, texts

from ingest.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from mysql_servers import MySql


def test_a_person_answers_a_statement_that_is_not_understood(mariadb: MySql, tmp_path: Path) -> None:
    """Names in brackets; a later statement is about the table, so that the server cannot be asked."""
    pipeline = InProcessPipeline(
        tmp_path, mariadb, "answered", {"type": "delta", "warehouse": str(tmp_path / "lake")}
    )  # fmt: skip
    pipeline.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    pipeline.run()
    pipeline.execute(
        "INSERT INTO t VALUES (3, 3)", "SET sql_mode = 'MSSQL'", "ALTER TABLE t ADD [bc] VARCHAR(9)",
        "SET sql_mode = ''", "INSERT INTO t VALUES (4, 4, 'x')", "ALTER TABLE t DROP COLUMN a",
        "INSERT INTO t VALUES (5, 'y')",
    )  # fmt: skip
    for _ in range(2):  # it stops each time, and nothing is skipped
        with pytest.raises(ConfigError, match="is not understood") as stopped:
            pipeline.run()
    assert "ALTER TABLE t ADD [bc] VARCHAR(9)" in stopped.value.message
    assert "ALTER TABLE t DROP COLUMN a" in stopped.value.message
    assert "ingest schema set FILE --table 'answered.t' 'CREATE TABLE …'" in stopped.value.hint
    answer = "CREATE TABLE t (id INT PRIMARY KEY, a INT, bc VARCHAR(9))"
    said = called("schema", "set", str(tmp_path / "c"), "--table", "answered.t", answer)
    assert said.code == 0, said.err
    pipeline.run()
    lake: Any = DeltaLake(tmp_path / "lake")
    found = texts(lake.rows("answered", "t", columns="id, a, bc"))
    assert found == [
        ("1", "1", None), ("2", "2", None), ("3", "3", None), ("4", "4", "x"), ("5", None, "y"),
    ]  # fmt: skip


GROUPS: Final = (
    (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20))",
        (
            "CREATE TABLE p (id INT PRIMARY KEY, a INT)"
            " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
        ),
        "INSERT INTO t SELECT seq, seq, CONCAT('b', seq) FROM seq_1_to_9",
        "INSERT INTO p SELECT seq, 1 FROM seq_5_to_15",
        "CREATE TABLE u LIKE t", "CREATE TABLE v (PRIMARY KEY (id)) AS SELECT id, a * 2 AS c FROM t",
    ),
    (
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 7 FIRST", "UPDATE t SET a = a + 1 WHERE id < 4",
        "ALTER TABLE t MODIFY a BIGINT AFTER id, DROP COLUMN b", "INSERT INTO t (id, a, c) VALUES (20, 1, 2)",
        "ALTER TABLE t CHANGE a A2 INT, RENAME COLUMN c TO d", "UPDATE t SET d = 9, id = 21 WHERE id = 20",
        "ALTER TABLE t RENAME COLUMN A2 TO d, RENAME COLUMN d TO A2", "INSERT INTO t VALUES (1, 30, 2)",
    ),
    (
        "RENAME TABLE t TO x, u TO t, x TO u", "INSERT INTO t VALUES (1, 1, 'new')", "DELETE FROM u WHERE id > 5",
        "RENAME TABLE v TO w", "INSERT INTO w VALUES (100, 100)", "DROP TABLE w", "CREATE TABLE w (id INT PRIMARY KEY)",
        "INSERT INTO w VALUES (7)", "BEGIN", "INSERT INTO w VALUES (8)", "TRUNCATE w", "INSERT INTO w VALUES (9)",
    ),
    (
        "ALTER TABLE p TRUNCATE PARTITION p0", "INSERT INTO p VALUES (3, 3)",
        "CREATE TABLE q (id INT PRIMARY KEY, a INT)",
        "INSERT INTO q VALUES (4, 40)", "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE q",
        "UPDATE p SET a = 41 WHERE id = 4",
        *(
            statement
            for at in (1, 2)
            for statement in (
                "CREATE TABLE _u_gho LIKE u", f"ALTER TABLE _u_gho ADD COLUMN g{at} INT DEFAULT {at}",
                "INSERT IGNORE INTO _u_gho (id) SELECT id FROM u LOCK IN SHARE MODE", "DELETE FROM _u_gho WHERE id = 3",
                "REPLACE INTO _u_gho (id) VALUES (2)", "RENAME TABLE u TO _u_del, _u_gho TO u", "DROP TABLE _u_del",
                "INSERT INTO u (id) SELECT MAX(id) + 1 FROM u",
                "CREATE TABLE _t_new LIKE t", "ALTER TABLE _t_new MODIFY a VARCHAR(9)",
                "INSERT LOW_PRIORITY IGNORE INTO _t_new SELECT * FROM t",
                "REPLACE INTO _t_new SELECT MAX(id) + 1, 'n', 'n' FROM t",
                "RENAME TABLE t TO _t_old, _t_new TO t", "DROP TABLE IF EXISTS _t_old",
                "UPDATE t SET b = 'z' WHERE id = 1",
            )
        ),
        "ALTER TABLE p DROP PARTITION p0", "SET STATEMENT max_statement_time = 9 FOR ALTER TABLE q ADD COLUMN z INT",
        "INSERT INTO q VALUES (8, 8, 8)",
    ),
)  # fmt: skip
"""Statements between two runs. Those about partitions leave rows in the sink, and mark the table."""


def test_tables_are_those_of_the_server_after_each_kind_of_statement(mariadb: MySql, tmp_path: Path) -> None:
    pipeline = InProcessPipeline(
        tmp_path, mariadb, "kinds_of_ddl", {"type": "delta", "warehouse": str(tmp_path / "lake")}
    )  # fmt: skip
    pipeline.source["tables.exclude"] = r"kinds_of_ddl._\.*"
    lake: Any = DeltaLake(tmp_path / "lake")
    pipeline.run()
    for group in GROUPS:
        pipeline.execute(*group)
        pipeline.run()
        marked = pipeline.marked()
        for (name,) in pipeline.execute("SHOW TABLES"):
            columns = [row[0] for row in pipeline.execute(f"SHOW COLUMNS FROM {name}")]
            found = texts(lake.rows("kinds_of_ddl", name, columns=", ".join(f'"{one}"' for one in columns)))
            wanted = pipeline.rows(name, ", ".join(columns))
            if f"kinds_of_ddl.{name}" in marked:
                assert {*wanted} <= {*found} or name == "p", (name, group)
            else:
                assert found == wanted, (name, group)
    assert marked == ["kinds_of_ddl.p", "kinds_of_ddl.v"]
