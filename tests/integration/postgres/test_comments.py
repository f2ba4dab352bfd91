"""Comments of a database's tables and columns go to the sinks that keep any, and are never more than a text there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from delta_lake import DeltaLake
from lake import Lake
from mysql_in_process import InProcessPipeline

if TYPE_CHECKING:
    from pathlib import Path

    from mysql_servers import MySql
    from postgres import Database

TEXT: Final = 'it\'s "x" %s {} $$; \\\\ DROP TABLE t; -- ü'
SQL: Final = TEXT.replace("\\", "\\\\").replace("'", "''")
SINKS: Final = ["iceberg", "delta", "postgres"]


class Commented(InProcessPipeline):
    """A pipeline that takes comments, and what its sink has of them."""

    def __init__(self, kind: str, folder: Path, server: MySql, base: str, request: pytest.FixtureRequest) -> None:
        sink: dict[str, Any] = {
            "type": kind,
            "warehouse" if kind == "delta" else "catalog.properties.warehouse": str(folder),
        }
        self.kind, self.lake, self.postgres = kind, (Lake if kind == "iceberg" else DeltaLake)(folder), None
        if kind == "postgres":
            database: Database = request.getfixturevalue("postgres")
            self.postgres = database
            sink = {
                "type": "postgres", "endpoint": f"127.0.0.1:{database.port}", "dbname": "postgres",
                "username": "ingest", "password": "of-the-tests", "sink.transactional-id-prefix": base,
            }  # fmt: skip
        super().__init__(folder, server, base, sink)
        self.source["include-comments.enabled"] = True

    def found(self, table: str) -> tuple[str, dict[str, str]]:
        """The comment of a table, and those of its columns."""
        lake: Any = self.lake
        if self.postgres is not None:
            rows = self.postgres.ask(
                "SELECT attname, col_description(attrelid, attnum), obj_description(attrelid, 'pg_class') "
                "FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0", f"{self.database}.{table}",
            )  # fmt: skip
            return rows[0][2] or "", {name: text for name, text, _ in rows if text}
        there = lake.table(self.database, table)
        if self.kind == "iceberg":
            columns = {one.name: one.doc for one in there.schema().fields if one.doc}
            return there.properties.get("comment", ""), columns
        columns = {one.name: one.metadata["comment"] for one in there.schema().fields if one.metadata.get("comment")}
        return there.metadata().description or "", columns


@pytest.mark.parametrize("kind", SINKS)
def test_comments_follow_the_database(
    kind: str, mariadb: MySql, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pipeline = Commented(kind, tmp_path, mariadb, f"comments_{kind}", request)
    pipeline.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY COMMENT '{SQL}', v SMALLINT COMMENT 'two\nlines', w INT) COMMENT '{SQL}'",
        "CREATE TABLE plain (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1, 1, 1)", "INSERT INTO plain VALUES (1)",
    )  # fmt: skip
    pipeline.run()
    assert pipeline.found("t") == (TEXT, {"id": TEXT, "v": "two\nlines"})
    assert pipeline.found("plain") == ("", {})
    pipeline.execute(
        "ALTER TABLE t MODIFY id INT, MODIFY v BIGINT COMMENT 'a type, too', ADD n INT COMMENT 'new', COMMENT 'later'",
        "CREATE TABLE made (id INT PRIMARY KEY COMMENT 'm')", "INSERT INTO t VALUES (2, 3000000000, 2, 2)",
    )  # fmt: skip
    pipeline.run()
    assert pipeline.found("t") == ("later", {"v": "a type, too", "n": "new"})
    assert pipeline.found("made") == ("", {"id": "m"})
    pipeline.execute("ALTER TABLE t COMMENT '', ALGORITHM = INPLACE")
    pipeline.run()
    assert pipeline.found("t") == ("", {"v": "a type, too", "n": "new"})
    assert not [text for text in pipeline.warnings if "comments" in text]


def test_sinks_without_a_place_for_comments_say_so(mariadb: MySql, tmp_path: Path) -> None:
    pipeline = InProcessPipeline(tmp_path, mariadb, "comments_none", {"type": "print"})
    pipeline.source["include-comments.enabled"] = True
    pipeline.execute(
        "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'c')", "CREATE TABLE u (id INT PRIMARY KEY COMMENT 'c')"
    )
    pipeline.run()
    said = [text for text in pipeline.warnings if "comments" in text]
    assert said == ["comments of comments_none.t and its columns are left out: the sink keeps none (said once)"]
    pipeline.source["include-comments.enabled"] = False
    pipeline.run()
    assert not [text for text in pipeline.warnings if "comments" in text]
