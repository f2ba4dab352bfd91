"""Tables of a database against the sink, while both go on: what is right, what is behind, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from examples import own_name
from lake_tables import overwrite
from mysql_servers import PASSWORD, USER
from verified import FilePipeline, found

from ingest.errors import ConfigError
from ingest.sources.mysql.log_model import LogFiles, LogPlace, ServerIdentity
from ingest.sources.mysql.state import Piece, State, TableSnapshot
from ingest.verify import verification
from ingest.verify.expected import unread
from ingest.verify.lakes import DeltaReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mysql_servers import MySql


class _Shop:
    """A database of a test's own, and a pipeline from it to Delta."""

    def __init__(self, server: MySql, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.database = own_name("v")
        server.execute(f"CREATE DATABASE {self.database}")
        self.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(20,4), at TIMESTAMP(6) NULL,"
            " day DATE, small TINYINT UNSIGNED, old INT)",
            "INSERT INTO orders SELECT seq, CONCAT('n', seq), seq / 3, '2026-03-29 01:30:00.000001', '2026-01-01',"
            " seq % 256, seq FROM seq_1_to_50",
            "CREATE TABLE names (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
            "INSERT INTO names SELECT CONCAT('k', seq), seq FROM seq_1_to_20",
        )
        source = {
            "type": "mysql", "hostname": "127.0.0.1", "port": server.port, "username": USER, "password": PASSWORD,
            "tables": rf"{self.database}.\.*", "scan.incremental.snapshot.chunk.size": 7,
        }  # fmt: skip
        self.pipeline = FilePipeline(folder, {"type": "delta", "warehouse": str(folder / "lake")}, source)

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def change(self, n: int) -> None:
        """Change some rows, and let the pipeline read that."""
        statements = (
            "UPDATE orders SET old = @n WHERE id IN (1, 20)", "DELETE FROM orders WHERE id = @n + 40",
            "INSERT INTO names VALUES (CONCAT('new', @n), @n)",
            "UPDATE names SET k = CONCAT('K', @n) WHERE k = CONCAT('k', @n)",
        )  # fmt: skip
        self.execute(f"SET @n = {n}", *statements)


@pytest.fixture
def shop(mariadb: MySql, tmp_path: Path) -> _Shop:
    made = _Shop(mariadb, tmp_path)
    made.pipeline.run()
    return made


def test_tables_that_are_right_and_every_planted_fault(shop: _Shop) -> None:
    report = shop.pipeline.verify()
    assert report.equal, report
    assert sum(table.counts.compared for table in report.tables) == 70
    shop.change(1)
    shop.pipeline.run()
    report = shop.pipeline.verify()
    assert report.equal, report

    def plant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        by_id = {row["id"]: row for row in rows}
        by_id[2]["name"] = "N2"
        by_id[3]["price"] += type(by_id[3]["price"])("0.0001")
        by_id[4]["at"] = by_id[4]["at"].replace(microsecond=0)
        by_id[5]["name"] = None
        del by_id[6]
        return [*by_id.values(), {**by_id[7], "id": 1000}, by_id[8]]

    overwrite(shop.folder / "lake", (shop.database, "orders"), plant)
    report = shop.pipeline.verify()
    assert found(report) == {"other": 4, "missing": 1, "extra": 1, "duplicate": 1}
    assert {one.key["id"] for table in report.tables for one in table.differences} == set("2345678") - {"7"} | {"1000"}


def test_changes_that_the_pipeline_has_not_read_are_behind(shop: _Shop) -> None:
    shop.change(2)
    overwrite(shop.folder / "lake", (shop.database, "orders"), lambda rows: [row for row in rows if row["id"] != 30])
    report = shop.pipeline.verify()
    assert found(report) == {"missing": 1}
    assert sum(table.counts.behind for table in report.tables) == 3 + 3


def test_beside_a_pipeline_that_runs(shop: _Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, left = DeltaReader.rows, [3, 4]

    def read(self: DeltaReader, tables: Any) -> Iterator[Any]:
        there = list(rows(self, tables))
        if left:
            shop.change(left.pop(0))
            shop.pipeline.run()
        return iter(there)

    running: Callable[[Any], Any] = lambda _: {"state": "running", "command": "run"}  # noqa: E731
    monkeypatch.setattr(DeltaReader, "rows", read)
    monkeypatch.setattr(verification, "status", running)
    report = shop.pipeline.verify()
    assert report.equal, report
    assert sum(table.twice for table in report.tables) == 6


def test_a_column_that_the_database_has_no_longer_is_left_out(shop: _Shop) -> None:
    shop.execute("ALTER TABLE orders DROP COLUMN old", "ALTER TABLE orders ADD COLUMN more INT")
    shop.execute("INSERT INTO orders (id, more) VALUES (60, 1)")
    shop.pipeline.run()
    report = shop.pipeline.verify()
    assert report.equal, report
    notes = [note for table in report.tables for note in table.notes]
    assert notes == ["columns that the source has no longer are not compared: old"]


def test_a_snapshot_that_goes_on_is_waited_for(shop: _Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "unread", lambda _: ["shop.orders"])
    with pytest.raises(ConfigError, match=r"not all read yet, of shop\.orders"):
        shop.pipeline.verify()


@pytest.mark.parametrize(
    "options",
    [
        {"sink.delete-strategy": "soft"},
        {"sink.delete-strategy": "ignore"},
        {"sink.delete-strategy": "soft", "sink.sequence-by": "old"},
        {"sink.write-mode": "append"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_what_a_database_has_forgotten_is_not_judged(options: dict[str, str], shop: _Shop, tmp_path: Path) -> None:
    lake = tmp_path / "other"
    pipeline = FilePipeline(lake, {"type": "delta", "warehouse": str(lake / "lake"), **options}, shop.pipeline.source)
    pipeline.run()
    for n in (1, 2):
        changes = "DELETE FROM orders WHERE id = 10 + @n", "UPDATE orders SET old = 2 - @n WHERE id = 20"
        shop.execute(f"SET @n = {n}", *changes)
        pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert sum(table.counts.unjudged for table in report.tables) >= 2
    overwrite(lake / "lake", (shop.database, "orders"), lambda rows: [row for row in rows if row["id"] != 30])
    assert found(pipeline.verify()) == {"missing": 1}


def test_tables_of_which_not_all_rows_are_read() -> None:
    def table(name: str, *marks: int | None, rest: bool = False) -> TableSnapshot:
        return TableSnapshot(("shop", name), [Piece((str(n),), mark) for n, mark in enumerate(marks)], rest=rest)

    files = LogFiles((ServerIdentity(1),))
    state = State(files, LogPlace("b.1", 4, 0), [table("done", 5, 7), table("a", 5, None), table("b", 5, rest=True)])
    assert unread(state.to_json()) == ["shop.a", "shop.b"]
    assert unread(None) == []


def test_another_server_is_refused_until_the_pipeline_has_gone_there(
    shop: _Shop, mysql5: MySql, tmp_path: Path
) -> None:
    mysql5.execute(f"CREATE DATABASE {shop.database}")
    source = {**shop.pipeline.source, "port": mysql5.port}
    moved = FilePipeline(tmp_path, shop.pipeline.sink, source)
    with pytest.raises(ConfigError, match="the pipeline reads the log of"):
        moved.verify()
