"""Rows that foreign keys change, of which the log has nothing: the sink ends with what the database has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from harness import time_with
from lake import Lake
from mysql_in_process import InProcessPipeline, texts

from ingest.sources.mysql import log_history

if TYPE_CHECKING:
    from pathlib import Path

    from mysql_servers import MySql

TABLES = {
    "child": "p INT, FOREIGN KEY (p) REFERENCES {other}.parent (id) ON DELETE CASCADE ON UPDATE CASCADE",
    "grandchild": "p INT, FOREIGN KEY (p) REFERENCES child (id) ON DELETE CASCADE",
    "cleared": "p INT, FOREIGN KEY (p) REFERENCES {other}.parent (id) ON DELETE SET NULL",
    "coded": "p INT, FOREIGN KEY (p) REFERENCES {other}.parent (code) ON UPDATE CASCADE",
    "tree": "p INT, FOREIGN KEY (p) REFERENCES tree (id) ON DELETE CASCADE",
    "owner": "p INT",
    "owned": "p INT, FOREIGN KEY (p) REFERENCES owner (id) ON UPDATE SET NULL",
    "aside": "p INT, FOREIGN KEY (p) REFERENCES {other}.parent (id)",
}
"""Tables that are read; what they refer to in another database is not."""


class Family:
    """A pipeline from tables that refer to each other into a lake."""

    def __init__(self, folder: Path, server: MySql, base: str) -> None:
        warehouse = {"type": "iceberg", "catalog.properties.warehouse": str(folder / "lake")}
        self.pipeline, self.lake = InProcessPipeline(folder, server, base, warehouse), Lake(folder / "lake")
        self.other = f"{base}_other"
        self.execute(
            f"DROP DATABASE IF EXISTS {self.other}", f"CREATE DATABASE {self.other}",
            f"CREATE TABLE {self.other}.parent (id INT PRIMARY KEY, code INT, note VARCHAR(40), UNIQUE (code))",
            "INSERT INTO OTHER.parent VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd'), (5, 50, 'e')",
            *(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, {columns.format(other=self.other)}) ENGINE = InnoDB"
                for name, columns in TABLES.items()
            ),
            "INSERT INTO child VALUES (1, 1), (2, 2), (3, 3), (4, 4)", "INSERT INTO grandchild VALUES (1, 1), (2, 2)",
            "INSERT INTO cleared VALUES (1, 1), (2, 2)", "INSERT INTO coded VALUES (1, 20), (2, 40)",
            "INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)", "INSERT INTO owner VALUES (1, 1), (2, 2)",
            "INSERT INTO owned VALUES (1, 1), (2, 2)", "INSERT INTO aside VALUES (1, 5)",
        )  # fmt: skip
        self.run()

    def execute(self, *statements: str) -> None:
        self.pipeline.execute(*(statement.replace("OTHER", self.other) for statement in statements))

    def run(self) -> set[str]:
        """Run, and compare all tables; the tables that were read again for a foreign key."""
        self.pipeline.run()
        return {one.split(":")[0].split(".")[1] for one in self.pipeline.warnings if "read again beside the log" in one}

    def differs(self) -> set[str]:
        base = self.pipeline.database
        return {
            name for name in TABLES
            if texts(self.lake.rows(base, name, columns="id, p")) != self.pipeline.rows(name, "id, p")
        }  # fmt: skip


@pytest.mark.parametrize("kind", ["mariadb", "mysql5"])
def test_tables_whose_rows_foreign_keys_change_are_read_again(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = Family(tmp_path, request.getfixturevalue(kind), f"family_{kind}")
    assert family.differs() == set()
    # two levels, SET NULL, a key that others refer to by another column, a tree, a parent that is read itself
    family.execute(
        "DELETE FROM OTHER.parent WHERE id = 1", "UPDATE OTHER.parent SET code = 21 WHERE id = 2",
        "DELETE FROM tree WHERE id = 1", "UPDATE owner SET id = 11 WHERE id = 1",
    )  # fmt: skip
    assert family.run() == {"child", "grandchild", "cleared", "coded", "tree", "owned"}
    assert family.differs() == set()
    assert family.pipeline.marked() == []
    # nothing cascades: no column that others refer to, no checks, rows that nobody refers to by such a key
    monkeypatch.setattr(log_history, "PAUSE_S", 0)
    family.execute(
        "UPDATE OTHER.parent SET note = 'x', id = id", "UPDATE owner SET p = 5",
        "INSERT INTO OTHER.parent VALUES (9, 90, '')", "SET foreign_key_checks = 0",
        "DELETE FROM OTHER.parent WHERE id = 3", "UPDATE OTHER.parent SET id = 44 WHERE id = 4",
    )  # fmt: skip
    assert family.run() == set()
    assert family.differs() == set()


def test_a_table_is_read_again_for_that_once_an_hour(mariadb: MySql, tmp_path: Path) -> None:
    family = Family(tmp_path, mariadb, "family_hour")
    family.execute("DELETE FROM OTHER.parent WHERE id = 1")
    family.run()
    family.execute("UPDATE OTHER.parent SET id = 44 WHERE id = 4")
    assert family.run() == set()
    assert family.differs() == {"child"}
    assert family.pipeline.marked() == ["family_hour.child"]
    said = family.pipeline.warnings[0]
    assert "UPDATE in family_hour_other.parent: its foreign key child_ibfk_1 says CASCADE; it is read again" in said
    now = time.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_history, "time", time_with(time=lambda: now + 3600))
        assert family.run() == {"child"}
    assert family.differs() == set()
    assert family.pipeline.marked() == []


@pytest.mark.parametrize("kind", ["mariadb", "mariadb11"])
def test_a_row_of_a_versioned_table_that_ends_is_deleted(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The log has an UPDATE of it, in which only the time of its end is another one."""
    family = Family(tmp_path, request.getfixturevalue(kind), f"family_versions_{kind}")
    family.execute(
        "CREATE TABLE OTHER.kept (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
        "INSERT INTO OTHER.kept VALUES (1, 1), (2, 2), (5, 5)",
        "ALTER TABLE aside DROP FOREIGN KEY aside_ibfk_1,"
        " ADD CONSTRAINT x FOREIGN KEY (p) REFERENCES OTHER.kept (id) ON DELETE CASCADE",
        "INSERT INTO aside VALUES (2, 2)",
    )  # fmt: skip
    family.run()
    family.execute("UPDATE OTHER.kept SET v = 3")
    assert family.run() == set()
    family.execute("DELETE FROM OTHER.kept WHERE id = 2")
    assert family.run() == {"aside"}
    assert family.differs() == set()


def test_statements_make_and_drop_foreign_keys(mariadb: MySql, tmp_path: Path) -> None:
    """Also of tables that are not read, under other names; XA counts where it is committed."""
    family = Family(tmp_path, mariadb, "family_made")
    family.execute(
        "ALTER TABLE cleared DROP FOREIGN KEY cleared_ibfk_1", "DELETE FROM grandchild",
        "CREATE TABLE OTHER.between_ (id INT PRIMARY KEY, p INT REFERENCES parent (id) ON DELETE CASCADE)",
        "INSERT INTO OTHER.between_ VALUES (1, 2), (2, 5)",
        "ALTER TABLE aside DROP FOREIGN KEY aside_ibfk_1,"
        " ADD CONSTRAINT x FOREIGN KEY (id) REFERENCES OTHER.between_ (id) ON DELETE CASCADE",
        "INSERT INTO aside VALUES (2, 2)", "RENAME TABLE OTHER.parent TO OTHER.elder",
    )  # fmt: skip
    assert family.run() == set()
    assert family.differs() == set()
    family.execute("XA START 'f'", "DELETE FROM OTHER.elder WHERE id = 5", "XA END 'f'", "XA PREPARE 'f'")
    family.run()
    assert family.differs() == set()
    family.execute("XA COMMIT 'f'")
    assert family.run() == {"aside", "child", "grandchild"}
    assert family.differs() == set()
