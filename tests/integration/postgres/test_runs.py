"""Pipelines into a real PostgreSQL: tables that grow while rows come, deaths, and a server that goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness import INGEST, finish, finished, free_port, until
from postgres import PASSWORD
from prometheus import get
from upgrades import DATABASE, ORDERS, PLACE, gone_on, left, rename

from ingest.model.commit import OLDER

if TYPE_CHECKING:
    from pathlib import Path

    from postgres import Database
    from postgres_shop import Shop
    from shared_java import SharedJava


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


def test_a_run_into_hologres_refuses_what_needs_another_type(shop: Shop) -> None:
    wide = {"type": "hologres", "sink.type-normalize-strategy": "BROADEN"}
    shop.write("  ingestion.ignore-errors: true\n", **wide)
    shop.add("c", None, {"id": 1, "name": "Ada", "n": 1})
    shop.add("c", None, {"id": 2, "name": "Grace", "n": 2})
    shop.add("d", {"id": 2, "name": "Grace", "n": 2}, None)
    first = shop.run()
    assert first.code == 0, first.err
    shop.add("c", None, {"id": 3, "name": "Edsger", "n": 2**40, "more": True})
    shop.add("c", None, {"id": 4, "name": "a\0b", "n": 4})
    second = shop.run()
    assert second.code == 0, second.err
    assert shop.rows() == [(1, "Ada", 1, None), (3, "Edsger", 2**40, True)]
    shop.add("c", None, {"id": 4, "name": "Alan", "n": "text"})
    refused = shop.run()
    assert refused.code == 78, refused.err
    assert "its column 'n' is bigint" in refused.err
    assert "sink.type-normalize-strategy: ONLY_BIGINT_OR_TEXT" in refused.err
    assert len(shop.rows()) == 2


@pytest.mark.parametrize("fault", ["before-done:1", "after-plan:1", "before-store:1", "after-store:1"])
def test_a_driver_that_dies_loses_and_doubles_nothing(shop: Shop, fault: str) -> None:
    for number in range(500):
        shop.add("c", None, {"id": number % 100, "n": number, **({"late": 1} if number >= 250 else {})})
    died = shop.run_on_spark(fault=fault)
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
        away = shop.run_on_spark()
    finally:
        shop.postgres.start()
    assert away.code == 75, away.err
    assert "cannot connect at the database" in away.err
    assert "Traceback" not in away.err
    assert shop.run().code == 0
    assert shop.rows() == [(1, 1), (2, 2)]


def test_a_run_waits_for_a_server_at_its_start_and_in_the_middle_of_a_batch(shop: Shop) -> None:
    port = free_port()

    def asked(path: str) -> tuple[int, str]:
        return get(f"http://127.0.0.1:{port}{path}")

    shop.add("c", None, {"id": 1})
    shop.postgres.stop("immediate")
    run = shop.begin("--metrics", str(port))
    try:
        until(lambda: asked("/readyz")[1].startswith("the sink does not answer: cannot connect"), 60, run)
        until(lambda: "; waiting" in run.said(), 60, run)
        assert asked("/livez") == (200, "ok\n")
        assert "ingest_side_answers{pipeline=" in asked("/metrics")[1]
    finally:
        shop.postgres.start()
    until(lambda: "ADD COLUMN" in run.said() or "CREATE TABLE" in run.said(), 90, run)
    until(lambda: shop.rows() == [(1,)], 60, run)
    shop.postgres.ask(
        "CREATE FUNCTION shop.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;"
        f"CREATE TRIGGER slow AFTER INSERT ON shop.{shop.table} EXECUTE FUNCTION shop.slow()"
    )
    shop.add("c", None, {"id": 2})
    asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until(lambda: bool(shop.postgres.ask(asleep)), 60, run)
    shop.postgres.stop("immediate")
    try:
        until(lambda: asked("/readyz")[0] == 503, 20, run)
        assert asked("/livez") == (200, "ok\n")
    finally:
        shop.postgres.start()
    shop.postgres.ask(f"DROP TRIGGER slow ON shop.{shop.table}")
    until(lambda: asked("/readyz") == (200, "ok\n") and len(shop.rows()) == 2, 60, run)
    run.terminate()
    ended = finish(run)
    assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
    assert shop.rows() == [(1,), (2,)]


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


def test_what_a_table_cannot_take_is_left_out_if_asked_to(shop: Shop) -> None:
    shop.write(rest="  schema.change.behavior: try_evolve\n")
    shop.postgres.ask("CREATE SCHEMA IF NOT EXISTS shop")
    columns = "id bigint PRIMARY KEY, n uuid, late date, kind boolean, small smallint"
    shop.postgres.ask(f"CREATE TABLE shop.{shop.table} ({columns})")
    shop.postgres.ask(f"CREATE VIEW shop.v{shop.table} AS SELECT small FROM shop.{shop.table}")
    shop.add("c", None, {"id": 1, "n": 7, "name": "Ada", "small": 5})
    plan = [INGEST, "plan", str(shop.file), "--checkpoint", str(shop.folder / "c")]
    planned = finished(plan, shop.java, shop.folder)
    assert planned.code == 0, planned.err
    assert f"shop.{shop.table}> ADD COLUMN n BIGINT, which cannot do it: its column 'n' is uuid" in planned.out
    first = shop.run()
    assert first.code == 0, first.err
    assert "ADD COLUMN n BIGINT is withheld from the sink, which cannot do it: its column 'n' is uuid" in first.err
    assert "values of column 'n' are left out of the sink, and counted" in first.err
    assert "ALTER COLUMN small SMALLINT -> BIGINT is withheld from the sink" in first.err
    assert "its column 'small' is smallint, not bigint: a view or a rule uses it" in first.err
    assert shop.rows("id, n, name, small") == [(1, None, "Ada", 5)]
    shop.add("c", None, {"id": 2, "n": 8, "name": "Grace", "late": True, "more": 1, "kind": True, "small": 70_000})
    second = shop.run()
    assert second.code == 0, second.err
    assert "ADD COLUMN late BOOLEAN is withheld from the sink" in second.err
    assert "values of column 'small' are left out of the sink, and counted" in second.err
    assert shop.rows("id, n, name, late, more, kind, small") == [
        (1, None, "Ada", None, None, None, 5), (2, None, "Grace", None, 1, True, None),
    ]  # fmt: skip
    shop.postgres.ask(f"ALTER TABLE shop.{shop.table} ALTER n TYPE text, DROP COLUMN late")
    shop.add("c", None, {"id": 3, "n": "now", "name": None, "late": False})
    third = shop.run()
    assert third.code == 0, third.err
    assert third.err.count("is withheld") == 1, "what the table can take by now is no longer left out"
    assert shop.rows("id, n, late")[-1] == (3, "now", False)


def test_a_column_that_was_null_at_first_is_left_out_as_others_are(shop: Shop) -> None:
    shop.write(rest="  schema.change.behavior: try_evolve\n")
    shop.postgres.ask("CREATE SCHEMA IF NOT EXISTS shop")
    shop.postgres.ask(f"CREATE TABLE shop.{shop.table} (id bigint PRIMARY KEY, n uuid)")
    shop.add("c", None, {"id": 1, "n": None})
    assert shop.run().code == 0
    shop.add("c", None, {"id": 2, "n": 7})
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows() == [(1, None), (2, None)]
    assert "its column 'n' is uuid" in ran.err
    assert "values of column 'n' are left out of the sink, and counted" in ran.err


def test_a_key_that_a_table_cannot_take_stops_the_run_all_the_same(shop: Shop) -> None:
    shop.write(rest="  schema.change.behavior: try_evolve\n")
    shop.postgres.ask("CREATE SCHEMA IF NOT EXISTS shop")
    shop.postgres.ask(f"CREATE TABLE shop.{shop.table} (id uuid PRIMARY KEY, n bigint)")
    shop.add("c", None, {"id": 1, "n": 1})
    refused = shop.run()
    assert refused.code == 78, refused.err
    assert "its column 'id' is uuid" in refused.err


def test_what_each_attempt_at_a_task_fails_with_is_told(shop: Shop) -> None:
    shop.add("c", None, {"id": 1, "n": 1})
    assert shop.run().code == 0
    shop.postgres.ask(
        "CREATE OR REPLACE FUNCTION shop.ends() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        f"CREATE TRIGGER ends AFTER INSERT ON shop.{shop.table} EXECUTE FUNCTION shop.ends()"
    )
    shop.add("c", None, {"id": 2, "n": 2})
    ran = shop.run_on_spark()
    assert ran.code == 75, ran.err
    assert f"write rows of the table shop.{shop.table} at the database" in ran.err
    assert "terminating connection due to administrator command" in ran.err
    assert "org.apache" not in ran.err


def test_options_of_a_table_are_those_that_it_is_made_with(shop: Shop) -> None:
    options = "fillfactor=70, toast.autovacuum_enabled=false"
    layout = f"transform:\n  - source-table: shop.{shop.table}\n    table-options: {options}\n"
    shop.write()
    shop.file.write_text(layout + shop.file.read_text())
    shop.add("c", None, {"id": 1, "n": 1})
    ran = shop.run()
    assert ran.code == 0, ran.err
    query = "SELECT reloptions FROM pg_class WHERE relname = %s"
    assert shop.postgres.ask(query, shop.table) == [(["fillfactor=70"],)]
    shop.file.write_text(shop.file.read_text().replace("fillfactor=70", "evil'; DROP TABLE x --=1"))
    refused = shop.run()
    assert refused.code == 78, refused.err
    assert "is no storage parameter of PostgreSQL" in refused.err


def test_changes_that_are_older_than_their_row_are_left_out_and_told(shop: Shop) -> None:
    shop.write(**{"sink.sequence-by": "v", "sink.delete-strategy": "soft"})
    order = [number * 7919 % 300 for number in range(300)]
    for number in order:
        shop.add("u", None, {"id": number % 3, "v": number, "n": number})
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows("id, v, n") == [(key, 297 + key, 297 + key) for key in range(3)]
    older = sum(
        any(other % 3 == number % 3 and other > number for other in order[:at]) for at, number in enumerate(order)
    )
    assert f"skipped: {older} {OLDER}" in ran.out, ran.out
    assert "changes that are older than the row that is there are left out and counted" in ran.err


def test_a_checkpoint_of_an_older_version_is_gone_on_with(
    postgres: Database, tmp_path: Path, shared_java: SharedJava
) -> None:
    with postgres.connection() as connection:
        connection.autocommit = True
        connection.execute("CREATE DATABASE upgrade")
    endpoint = f"127.0.0.1:{postgres.port}"
    with left("postgres"), postgres.connection("upgrade") as database:
        database.execute((PLACE / "postgres.sql").read_text().encode())
        database.commit()
        rename({DATABASE: f"{endpoint}/upgrade"})
        gone_on(shared_java, tmp_path, endpoint=endpoint, database="upgrade", password=PASSWORD)
        assert database.execute("SELECT id, v, late, more FROM shop.orders ORDER BY 1").fetchall() == ORDERS
        # What the older version had written is not written again
        read = database.execute("SELECT counters::jsonb -> 'read' FROM ingest_progress").fetchall()
    assert read == [(3,)]
