"""`ingest plan`, `tap` and `checkpoint` with a pipeline from a server: rows one by one, by their place in the log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from commands import called

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from mysql_servers import MySql


def tapped(*arguments: str) -> list[dict[str, Any]]:
    done = called("tap", *arguments, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def written(folder: Path, server: MySql, name: str, **more: Any) -> str:
    file = folder / f"{name}.yaml"
    options = {"tables": r"looked.\.*", "scan.incremental.snapshot.chunk.size": 10, **more}
    file.write_text(server.source(**options) + "sink: {type: print}\n")
    return str(file)


def test_rows_of_tables_and_of_the_log(mariadb: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mariadb.execute("DROP DATABASE IF EXISTS looked", "CREATE DATABASE looked")
    before = mariadb.position()[1]
    mariadb.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_25",
        "UPDATE t SET n = 7 WHERE id = 3", database="looked",
    )  # fmt: skip
    file, end = mariadb.position()
    initial = written(tmp_path, mariadb, "initial")
    shown = called("plan", initial).out
    assert f"source: the log from {file}:{end} on, to read: about " in shown
    assert " rows of 1 table; 25 rows were sampled" in shown
    rows = tapped(initial, "-n", "4")
    assert len(rows) == 4
    assert all(len(row["rows"]) == 1 for row in rows), "not a whole chunk at once"
    (first,) = [row for row in rows if json.loads(row["value"])["after"]["id"] == 1]
    assert json.loads(first["value"]) == {
        "before": None, "after": {"id": 1, "n": 0}, "source": {"db": "looked", "table": "t"}, "op": "r",
    }  # fmt: skip
    log = written(
        tmp_path, mariadb, "log",
        **{"scan.startup.mode": "specific-offset", "scan.startup.specific-offset.file": file,
           "scan.startup.specific-offset.pos": before},
    )  # fmt: skip
    found = tapped(log, "-n", "26")
    assert [json.loads(one["value"])["op"] for one in found] == ["c"] * 25 + ["u"]
    place = found[-1]["place"]
    assert place.startswith(f"{file}:")
    wrong = called("tap", log, "--at", f"{file}:{end}")
    assert (wrong.code, "has read no" in wrong.err) == (78, True), wrong.err
    mariadb.execute(
        "SET sql_mode = ''", "CREATE TABLE looked.d (id INT PRIMARY KEY, d DATE)", "INSERT INTO looked.d VALUES (1, 0)"
    )
    strict = written(tmp_path, mariadb, "strict", **{"jdbc.properties.zeroDateTimeBehavior": "EXCEPTION"})
    refused = called("plan", strict, "--format", "json")
    (reject,) = json.loads(refused.out)["rejects"]
    assert (refused.code, reject["example"]["record"].partition(",")[0]) == (65, '{"before":null')
