"""Pipelines into tables of both lakes, read by DuckDB: tables grow, drivers die at every moment, changes come late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from any_lake import lake_at, place_of
from lake_runs import MOMENTS, LakePipeline

if TYPE_CHECKING:
    from pathlib import Path

    from shared_java import SharedJava


@pytest.fixture
def shop(kind: str, tmp_path: Path, shared_java: SharedJava) -> LakePipeline:
    return LakePipeline(tmp_path, shared_java, lake_at(kind, tmp_path / "lake"), place_of(kind, tmp_path / "lake"))


def test_tables_are_made_and_grow_while_rows_come(shop: LakePipeline) -> None:
    shop.grow()


@pytest.mark.parametrize("fault", MOMENTS)
def test_a_driver_that_dies_loses_and_doubles_nothing(shop: LakePipeline, fault: str) -> None:
    shop.die_and_go_on(fault)


@pytest.mark.parametrize("fault", ["after-decide:1", "after-add:1"])
def test_rows_that_move_between_partitions_are_there_once_and_are_the_newest(
    kind: str, tmp_path: Path, shared_java: SharedJava, fault: str
) -> None:
    options = {**place_of(kind, tmp_path / "lake"), "sink.sequence-by": "n", "sink.delete-strategy": "soft"}
    shop = LakePipeline(tmp_path, shared_java, lake_at(kind, tmp_path / "lake"), options)
    rules = "transform:\n  - {source-table: shop.\\.*, partition-keys: part}\n"
    shop.file.write_text(shop.file.read_text() + rules)
    newest: dict[int, tuple[int, int]] = {}

    def send(numbers: range) -> None:
        for number in numbers:
            key = number * 7 % 50
            order = number if number % 3 else number // 2  # every third change is one that was made long before
            part = number % 4
            shop.add("c", None, {"id": key, "n": order, "part": part})
            if key not in newest or order >= newest[key][0]:
                newest[key] = order, part

    send(range(300))
    assert shop.run().code == 0
    send(range(300, 600))
    died = shop.run_on_spark(fault=fault)
    assert died.code == -9, died.err
    send(range(600, 700))
    ran = shop.run()
    assert ran.code == 0, ran.err
    assert shop.rows(columns="id, n, part") == [(key, *newest[key]) for key in sorted(newest)]
    assert shop.run().code == 0
    assert len(shop.rows()) == 50
