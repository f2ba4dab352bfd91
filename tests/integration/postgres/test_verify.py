"""`ingest verify` on a database: every planted fault is found, and nothing else is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from planted import DDL, EMPTY_NAMES, FAULTS, differences, planted, row, text_of
from postgres_sink import VALUES
from psycopg import sql
from psycopg.rows import dict_row
from verified import FilePipeline, change_orders, found

from ingest.sinks.postgres import stored_rows

if TYPE_CHECKING:
    from pathlib import Path

    from postgres import Database

_SOURCE = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": DDL}


def _pipeline(
    postgres: Database, folder: Path, name: str, kind: str, source: dict[str, Any] | None = None, **more: Any
) -> FilePipeline:
    sink = {
        "type": kind, "endpoint": f"127.0.0.1:{postgres.port}", "dbname": "postgres", "username": "ingest",
        "password": "of-the-tests", "sink.default-schema": name, **more,
    }  # fmt: skip
    return FilePipeline(folder, sink, source)


@pytest.mark.parametrize("kind", ["postgres", "hologres"])
def test_planted_faults_in_a_database(
    kind: str, postgres: Database, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_rows.rows_by_key, "__defaults__", (5,))  # several chunks
    pipeline = _pipeline(postgres, tmp_path, name, kind, _SOURCE)
    lines = [row(one, name=None if one in EMPTY_NAMES else "Zoë") for one in (*FAULTS, "right", "gone")]
    with (tmp_path / "shop.in").open("w") as file:
        file.writelines(f'{{"key":{{"code":"{one["code"]}"}},"value":{text_of(one)}}}\n' for one in lines)
    pipeline.add(({"code": "gone"}, None))
    pipeline.run()
    assert pipeline.verify().equal
    wanted = {fault: what for fault, (_, what) in FAULTS.items()}
    with postgres.connection() as connection:
        table = sql.Identifier(name, "shop")
        with connection.cursor(row_factory=dict_row) as cursor:
            by_key = {one["code"]: [one] for one in cursor.execute(sql.SQL("SELECT * FROM {}").format(table))}
        rows = planted(by_key, wanted)
        for (index,) in connection.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass", (f"{name}.shop",)
        ).fetchall():
            connection.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(table, sql.Identifier(index)))
        connection.execute(sql.SQL("TRUNCATE {}").format(table))
        names = sql.SQL(", ").join(map(sql.Identifier, rows[0]))
        places = sql.SQL(", ").join(sql.Placeholder() for _ in rows[0])
        with connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(table, names, places),
                [tuple(one.values()) for one in rows],
            )
    report = pipeline.verify(limit=1000)
    assert differences(report) == wanted
    assert found(report) == {"missing": 2, "extra": 3, "other": len(wanted) - 6, "duplicate": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"sink.delete-strategy": "soft"},
        {"sink.delete-strategy": "ignore", "sink.sequence-by": "v"},
        {"sink.delete-strategy": "soft", "sink.sequence-by": "v"},
        {"sink.write-mode": "history"},
        {"sink.write-mode": "history", "sink.delete-strategy": "ignore"},
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_what_a_run_wrote_is_right_by_every_rule(
    options: dict[str, str], postgres: Database, name: str, tmp_path: Path
) -> None:
    route = [{"source-table": "shop.orders", "sink-table": f"{name}.orders"}]
    pipeline = _pipeline(postgres, tmp_path, name, "postgres", None, **options)
    pipeline = FilePipeline(tmp_path, pipeline.sink, route=route)
    change_orders(pipeline)
    pipeline.run()
    old = {"id": 1, "name": "older", "v": 0}
    pipeline.change("u", {**old, "v": -1}, old)
    pipeline.change("d", {"id": 5, "name": "n5", "v": 5}, None)
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    postgres.ask(f"UPDATE {name}.orders SET name = 'wrong' WHERE id = 30")
    assert found(pipeline.verify()) == {"other": 1}


def test_values_of_all_types_are_what_the_database_has(postgres: Database, name: str, tmp_path: Path) -> None:
    columns = {f"c{n}": kind for n, kind in enumerate(VALUES)}
    listed = ", ".join(f"{one} {kind}" for one, kind in columns.items())
    ddl = f"CREATE TABLE shop (id BIGINT, {listed}, PRIMARY KEY (id))"
    source = {"value.format": "json", "key.format": "json", "scan.value.initial-schemas.ddls": ddl}
    pipeline = _pipeline(postgres, tmp_path, name, "postgres", source)
    with (tmp_path / "shop.in").open("w") as file:
        for n in range(4):
            cells = ",".join(f'"{one}":{(VALUES[kind] + ["null"] * 4)[n]}' for one, kind in columns.items())
            file.write(f'{{"key":{{"id":{n}}},"value":{{"id":{n},{cells}}}}}\n')
    pipeline.run()
    report = pipeline.verify()
    assert report.equal, report
    assert report.rejected == 0
    assert report.tables[0].counts.compared == 4
