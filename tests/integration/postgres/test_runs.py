"""Pipelines into a real PostgreSQL: tables that grow while rows come, deaths, and a server that goes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from postgres_shop import Shop


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
