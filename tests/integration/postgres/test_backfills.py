"""Tables of a server that are read once more: the last states stay, and a history is filled only while it is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from backfills import BackfillShop
from mysql_in_process import BEGINNINGS, KEYS, InProcessPipeline, change, dies_and_goes_on, dying, make, texts

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.driver.ledger import Ledger
from ingest.driver.sink_tables import SinkTables
from ingest.errors import ConfigError
from ingest.sinks.postgres.writer import PostgresWriter

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from mysql_in_process import Death
    from mysql_servers import MySql
    from postgres import Database


def sections(postgres: Database, name: str, target: str, **more: Any) -> dict[str, Any]:
    sink = {
        "type": "postgres", "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
        "password": "of-the-tests", "sink.transactional-id-prefix": name, **more,
    }  # fmt: skip
    return {"sink": sink, "route": [{"source-table": "shop.orders", "sink-table": f"{name}.{target}"}]}


def filled(tmp_path: Path) -> BackfillShop:
    shop = BackfillShop(tmp_path, own_sink=True)
    for key in range(6):
        shop.add("c", key, key)
    shop.add("d", 2)
    return shop


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
@pytest.mark.parametrize("dies", [2, 0])
def test_a_backfill_ends_with_the_last_states(
    postgres: Database, name: str, tmp_path: Path, kind: str, dies: int
) -> None:
    shop = filled(tmp_path)
    shop.go(**sections(postgres, name, "orders", type=kind))
    shop.add("u", 3, 300)
    new = sections(postgres, name, "orders2", type=kind)
    shop.go(**new)
    assert "ingest backfill pipeline.yaml --table shop.orders" in shop.warnings[-1]
    assert postgres.rows(f"{name}.orders2", "id, n") == [(3, 300)]
    if dies:
        shop.go(["shop.orders"], dies=dies, at_once=3, **new)
        shop.add("d", 4)
        shop.go(**new)
    shop.go(["shop.orders"], **new)
    left = [(0, 0), (1, 1), (3, 300), *([] if dies else [(4, 4)]), (5, 5)]
    assert sorted(postgres.rows(f"{name}.orders2", "id, n")) == left


def test_a_history_is_filled_only_while_it_is_empty(postgres: Database, name: str, tmp_path: Path) -> None:
    shop = filled(tmp_path)
    old = sections(postgres, name, "orders", **{"sink.write-mode": "history"})
    shop.go(**old)
    with pytest.raises(ConfigError, match=rf"table {name}\.orders has rows, and keeps all states"):
        shop.go(["shop.orders"], **old)
    new = sections(postgres, name, "orders2", **{"sink.write-mode": "history"})
    shop.go(["shop.orders"], **new)
    shop.add("u", 3, 300)
    shop.go(**new)
    assert sorted(postgres.rows(f"{name}.orders2", "id, n, valid_to IS NULL")) == [
        (0, 0, True), (1, 1, True), (2, 2, False), (3, 3, False), (3, 300, True), (4, 4, True), (5, 5, True),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
@pytest.mark.parametrize("deletes", ["hard", "soft", "ignore"])
def test_rows_that_a_database_lacks_leave_its_tables(
    mariadb: MySql, postgres: Database, name: str, tmp_path: Path, kind: str, deletes: str
) -> None:
    """The server compares keys, as values of its columns; rows that a sink marks or keeps stay."""
    base = f"again_{kind}_{deletes}"
    given = sections(postgres, name, "t", type=kind, **{"sink.delete-strategy": deletes})
    route = [{"source-table": rf"{base}.\.*", "sink-table": f"{name}.<>", "replace-symbol": "<>"}]
    pipeline = InProcessPipeline(tmp_path, mariadb, base, given["sink"], route=route)
    make(pipeline, **KEYS)
    pipeline.run()
    change(pipeline, **KEYS)
    pipeline.run(*KEYS)
    for table in KEYS:
        found = sorted(row[0] for row in postgres.rows(f"{name}.{table}", "v"))
        there = sorted(row[0] for row in pipeline.execute(f"SELECT v FROM {table}"))
        if deletes == "soft":
            gone = [row[0] for row in postgres.rows(f"{name}.{table}", "v, _deleted") if row[1]]
            assert gone == [0], table
        assert found == (there if deletes == "hard" else sorted([0, *there])), table
    pipeline.execute("DELETE FROM whole WHERE v = 100", "INSERT INTO whole VALUES (1, 5)")
    pipeline.run()
    flag = ", _deleted" if deletes == "soft" else ""
    rows = [row[:2] for row in postgres.rows(f"{name}.whole", f"k, v{flag}") if not (flag and row[2])]
    expected = [row for row in rows if row != (2, 100)] if deletes == "ignore" else rows
    assert texts(expected) == pipeline.rows("whole", "k, v")


DEATHS: Final[dict[str, Death]] = {
    "planned": (Checkpoint, "plan", 1, "after"),
    "rows are written": (PostgresWriter, "_write_rows", 1, "after"),
    "rows are committed": (PostgresWriter, "_commit", 1, "after"),
    "before rows are deleted": (SinkTables, "keep_only", 1, "before"),
    "rows are deleted": (SinkTables, "keep_only", 1, "after"),
    "before it is stored": (Ledger, "store", 1, "before"),
}


def goes_on(
    mariadb: MySql, postgres: Database, target: tuple[str, str], folder: Path, beginning: str,
    dies: AbstractContextManager[None],
) -> None:  # fmt: skip
    """The same for tables of a database. `target`: a product and a schema."""
    kind, name = target
    base = f"again_dying_{kind}"
    route = [{"source-table": rf"{base}.\.*", "sink-table": f"{name}.<>", "replace-symbol": "<>"}]
    pipeline = InProcessPipeline(folder, mariadb, base, sections(postgres, name, "t", type=kind)["sink"], route=route)
    dies_and_goes_on(pipeline, beginning, dies, lambda table: postgres.rows(f"{name}.{table}", "k, v"))


@pytest.mark.parametrize(
    ("death", "beginning", "kind"),
    [("rows are committed", "request", "postgres"), ("rows are written", "tables", "hologres"),
     ("rows are deleted", "all", "postgres")],
)  # fmt: skip
def test_tables_that_are_read_again_are_read_by_the_next_run_where_one_dies(
    mariadb: MySql, postgres: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    death: str, beginning: str, kind: str,
) -> None:  # fmt: skip
    goes_on(mariadb, postgres, (kind, name), tmp_path, beginning, dying(monkeypatch, DEATHS[death]))


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("death", DEATHS)
def test_tables_at_each_death(
    mariadb: MySql, postgres: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    kind: str, beginning: str, death: str,
) -> None:  # fmt: skip
    goes_on(mariadb, postgres, (kind, name), tmp_path, beginning, dying(monkeypatch, DEATHS[death]))


def test_a_key_that_the_server_cannot_have_keeps_no_row_and_stops_nothing(
    mariadb: MySql, postgres: Database, name: str, tmp_path: Path
) -> None:
    given = sections(postgres, name, "t")
    source = {"source-table": "again_nul.t", "sink-table": f"{name}.t"}
    pipeline = InProcessPipeline(tmp_path, mariadb, "again_nul", given["sink"], route=[source])
    pipeline.source["ingestion.ignore-errors"] = True
    pipeline.execute("CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, v INT)", "INSERT INTO t VALUES ('a', 1), ('b', 2)")
    pipeline.run()
    pipeline.unlogged("DELETE FROM t WHERE k = 'a'", "INSERT INTO t VALUES (CONCAT('x', CHAR(0)), 3)")
    pipeline.run("t")
    assert postgres.rows(f"{name}.t", "k, v") == [("b", 2)]
