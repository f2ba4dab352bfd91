"""Pipelines into a real PostgreSQL: tables that grow while rows come, deaths, and a server that goes away."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from harness import FAULTS, INGEST, finished

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Result
    from postgres import Database
    from shared_java import SharedJava


def change(op: str, before: Any, after: Any, table: str) -> str:
    """A change as Debezium tells it, under its key."""
    row = before if after is None else after
    value = {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}}
    return json.dumps({"key": {"id": row["id"]}, "value": value}) + "\n"


class Shop:
    """A pipeline from a file to the database."""

    def __init__(self, folder: Path, postgres: Database, java: SharedJava) -> None:
        self._folder, self._java = folder, java
        self.table = f"t{os.urandom(5).hex()}"
        self.postgres = postgres
        self.lines = folder / "in.jsonl"
        self.file = folder / "pipeline.yaml"
        self.file.write_text(
            f"pipeline: {{name: {self.table}}}\nsource:\n  type: file\n  path: in.jsonl\n  file.envelope: true\n"
            f"  value.format: debezium-json\n  scan.max.pre.fetch.records: 0\n{postgres.sink()}"
        )

    def add(self, op: str, before: Any, after: Any) -> None:
        with self.lines.open("a") as file:
            file.write(change(op, before, after, self.table))

    def run(self, *more: str, fault: str = "") -> Result:
        command = [INGEST, "run", str(self.file), "--once", "--checkpoint", str(self._folder / "c"), *more]
        env = {**os.environ, "PYTHONPATH": str(FAULTS)}
        if not fault:
            return finished(command, self._java, self._folder, cwd=self._folder)
        env["INGEST_DRIVER_FAULT"] = fault
        command = [sys.executable, str(FAULTS / "faulty_driver.py"), *command[1:]]
        return finished(command, None, self._folder, cwd=self._folder, env=env)

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        return self.postgres.rows(f"shop.{self.table}", columns)


@pytest.fixture
def shop(tmp_path: Path, postgres: Database, shared_java: SharedJava) -> Shop:
    return Shop(tmp_path, postgres, shared_java)


def test_tables_are_made_and_grow_while_rows_come(shop: Shop) -> None:
    shop.add("c", None, {"id": 1, "name": "Ada", "n": 1})
    shop.add("c", None, {"id": 2, "name": "Grace \\ \n", "n": 2})
    shop.add("u", {"id": 2}, {"id": 3, "name": "Grace", "n": 3})
    first = shop.run()
    assert first.code == 0, first.err
    assert shop.rows() == [(1, "Ada", 1), (3, "Grace", 3)]
    shop.add("c", None, {"id": 4, "name": None, "n": 4.5, "more": {"a": [1]}})
    shop.add("d", {"id": 1, "name": "Ada", "n": 1}, None)
    shop.add("c", None, {"id": 30_000_000_000, "name": 5, "n": "text"})
    second = shop.run()
    assert second.code == 0, second.err
    assert shop.rows() == [
        (3, "Grace", "3", None), (4, None, "4.5", '{"a":[1]}'), (30_000_000_000, "5", "text", None),
    ]  # fmt: skip
    assert shop.run().code == 0
    assert len(shop.rows()) == 3


@pytest.mark.parametrize("fault", ["before-done:1", "after-plan:1", "before-store:1", "after-store:1"])
def test_a_driver_that_dies_loses_and_doubles_nothing(shop: Shop, fault: str) -> None:
    for number in range(500):
        shop.add("c", None, {"id": number % 100, "n": number, **({"late": 1} if number >= 250 else {})})
    died = shop.run(fault=fault)
    assert died.code == -9, died.err
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows("id, n, late") == [(key, 400 + key, 1) for key in range(100)]
    (positions,) = {str(one) for (one,) in shop.postgres.ask(
        "SELECT positions FROM ingest_progress WHERE prefix = %s AND final", f"ingest-{shop.table}"
    )}  # fmt: skip
    assert "500" in positions


def test_a_server_that_goes_away_ends_the_run_to_be_tried_again(shop: Shop) -> None:
    shop.add("c", None, {"id": 1, "n": 1})
    assert shop.run().code == 0
    shop.add("c", None, {"id": 2, "n": 2})
    shop.postgres.stop("immediate")
    try:
        away = shop.run()
    finally:
        shop.postgres.start()
    assert away.code == 75, away.err
    assert "cannot connect at the database" in away.err
    assert "Traceback" not in away.err
    assert shop.run().code == 0
    assert shop.rows() == [(1, 1), (2, 2)]


def test_a_change_that_loses_something_stops_the_run(shop: Shop) -> None:
    shop.add("c", None, {"id": 1, "n": 2**62 + 1})
    assert shop.run().code == 0
    shop.postgres.ask(f"ALTER TABLE shop.{shop.table} ALTER COLUMN n TYPE uuid USING NULL")
    shop.add("c", None, {"id": 2, "n": "text"})
    refused = shop.run()
    assert refused.code == 78, refused.err
    assert "its column 'n' is uuid" in refused.err
    assert "of-the-tests" not in refused.err + refused.out
    assert shop.rows("id") == [(1,)]
