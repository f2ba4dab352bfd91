"""Users with exactly the rights that docs/mysql.md gives them: all that a pipeline does works with these."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from lake import Lake
from mysql_in_process import InProcessPipeline, texts
from mysql_servers import PASSWORD
from verified import FilePipeline, found

from ingest.driver.context import Settings
from ingest.errors import AccessError
from ingest.sources.mysql.catalogue import unreadable
from ingest.sources.mysql.connection import connect
from ingest.sources.mysql.server import MySqlServer, Tls

if TYPE_CHECKING:
    from mysql_servers import MySql

PAGE: Final = (Path(__file__).parents[3] / "docs/mysql.md").read_text()
GRANTS: Final = [line.split(";")[0] for line in PAGE.splitlines() if line.startswith("GRANT ")]
"""On the tables, on the log, the same in MariaDB; then what options need."""
KINDS: Final = ["mariadb", "mariadb11", "mysql5"]


class LeastPipeline(InProcessPipeline):
    """A pipeline whose user has the rights of the page, but for those that are left out."""

    def __init__(self, folder: Path, server: MySql, base: str, *more: str, without: str = "-", **sections: Any) -> None:
        super().__init__(folder, server, base, {"type": "iceberg", "catalog.properties.warehouse": str(folder / "l")})
        self.sections |= sections
        self.user = base[-30:]
        self.drop()
        rights, log, log_of_mariadb, *_ = GRANTS
        server.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{PASSWORD}'")
        for grant in (rights, log_of_mariadb if server.kind.is_mariadb else log, *more):
            kept = [part for part in re.split(r"(?<=GRANT )|, (?=[A-Z])|(?= ON )", grant) if part != without]
            given = kept[0] + ", ".join(kept[1:-1]) + kept[-1]
            if len(kept) > 2:
                server.execute(given.replace("shop.*", f"{base}.*").replace("'ingest'", f"'{self.user}'"))
        self.source |= {"username": self.user}

    def drop(self) -> None:
        self.server.execute(
            f"GRANT USAGE ON *.* TO '{self.user}'@'%' IDENTIFIED BY 'x'", f"DROP USER '{self.user}'@'%'"
        )

    def make(self) -> None:
        self.execute(
            "CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1), (2)",
            "CREATE TABLE whole (k INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES parent (id) ON DELETE CASCADE)",
            "INSERT INTO whole VALUES (1, 1), (2, 2), (3, NULL), (4, 2)",
            "CREATE TABLE texts (k VARCHAR(20) PRIMARY KEY, v INT)", "INSERT INTO texts VALUES ('a', 1), ('ü', 2)",
        )  # fmt: skip

    def differs(self) -> list[str]:
        """The tables that the sink has otherwise."""
        there = Lake(self.folder / "l")
        return [
            name for name in ("whole", "texts")
            if texts(there.rows(self.database, name, columns="k, v")) != self.rows(name, "k, v")
        ]  # fmt: skip


def test_the_page_gives_no_right_that_can_lock_but_for_the_option_that_asks_for_it() -> None:
    assert len(GRANTS) == 4
    assert not [one for one in GRANTS[:3] if re.search(r"LOCK|RELOAD|FLUSH|SUPER|ALL", one)]
    assert "LOCK TABLES" in GRANTS[3]
    assert "scan.snapshot.keyless: lock" in PAGE


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_log_backfill_and_verify(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue(kind)
    pipeline = LeastPipeline(tmp_path, server, f"least_{kind}")
    try:
        pipeline.make()
        pipeline.run()
        pipeline.execute(
            "UPDATE texts SET v = 5", "DELETE FROM parent WHERE id = 2", "ALTER TABLE texts ADD COLUMN w INT"
        )
        pipeline.run()
        assert pipeline.differs() == []
        pipeline.unlogged("DELETE FROM texts WHERE k = 'a'")
        pipeline.run("texts")
        assert pipeline.differs() == []
        files = FilePipeline(tmp_path / "f", pipeline.sections["sink"], pipeline.source)
        files.settings = Settings(str(tmp_path / "c"), tmp_path, once=True)
        report = files.verify()
        assert {table.table.split(".")[-1] for table in report.tables} >= {"whole", "texts"}
        assert found(report) == {}
    finally:
        pipeline.drop()


@pytest.mark.parametrize("kind", ["mariadb", "mariadb11"])
def test_what_a_role_may_read_is_readable(kind: str, request: pytest.FixtureRequest) -> None:
    """A user's rights are those of the role that it has by default, too."""
    server, base = request.getfixturevalue(kind), f"role_{kind}"
    user, role = f"{base}_user", f"{base}_reads"
    server.execute(
        f"CREATE DATABASE {base}", f"CREATE TABLE {base}.a (v INT)", f"CREATE TABLE {base}.b (v INT)",
        f"CREATE ROLE {role}", f"GRANT SELECT ON {base}.a TO {role}",
        f"CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'", f"GRANT {role} TO '{user}'@'%'",
        f"SET DEFAULT ROLE {role} FOR '{user}'@'%'", f"GRANT INSERT ON {base}.b TO '{user}'@'%'",
    )  # fmt: skip
    try:
        with closing(connect(MySqlServer("127.0.0.1", server.port, user, PASSWORD, Tls("disabled")))) as connection:
            assert unreadable(connection, [(base, "a"), (base, "b")]) == [(base, "b")]
    finally:
        server.execute(f"DROP USER '{user}'@'%'", f"DROP ROLE {role}", f"DROP DATABASE {base}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_a_key(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """In MySQL also by a lock, which needs a right of its own that the error names."""
    server = request.getfixturevalue(kind)
    sections: dict[str, Any] = {"sink": {"type": "print"}}
    pipeline = LeastPipeline(tmp_path, server, f"keyless_{kind}", **sections)
    try:
        pipeline.execute("CREATE TABLE t (v INT)", "INSERT INTO t VALUES (1), (1)")
        assert pipeline.run().records == 2
        pipeline.source["scan.snapshot.keyless"] = "lock"
        if kind == "mysql5":
            with pytest.raises(AccessError) as denied:
                pipeline.run("t")
            grant = re.search(r"GRANT LOCK TABLES ON `keyless_mysql5`\.\* TO '\w+'@'%'", denied.value.hint)
            assert grant is not None
            server.execute(grant[0])
    finally:
        pipeline.drop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", ["SELECT", "REPLICATION SLAVE", "REPLICATION CLIENT", "BINLOG MONITOR"])
def test_what_is_missing_is_named_with_the_grant_that_mends_it(
    kind: str, right: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = request.getfixturevalue(kind)
    if right == ("BINLOG MONITOR" if kind == "mysql5" else "REPLICATION CLIENT"):
        return  # the other product's
    more = [f"GRANT INSERT ON lacks_{kind}.* TO 'ingest'@'%'"] if right == "SELECT" else []
    pipeline = LeastPipeline(tmp_path, server, f"lacks_{kind}", *more, without=right)
    try:
        pipeline.make()
        with pytest.raises(AccessError, match="may not read") as denied:
            pipeline.run()
        server.execute(*re.findall(rf"GRANT [^;]*{right}[^;]* TO '\w+'@'%'", denied.value.hint))
        pipeline.run()
        assert pipeline.differs() == []
    finally:
        pipeline.drop()
