"""Pipelines into tables with partitions, whose rows have an order: a driver dies, and older changes come late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delta_lake import DeltaLake
from lake import Lake
from lake_runs import LakePipeline

if TYPE_CHECKING:
    from pathlib import Path

    from shared_java import SharedJava


@pytest.fixture(params=["iceberg", "delta"])
def shop(request: pytest.FixtureRequest, tmp_path: Path, shared_java: SharedJava) -> LakePipeline:
    place = str(tmp_path / "lake")
    where = {"delta": {"warehouse": place}, "iceberg": {"catalog.properties.warehouse": place}}[request.param]
    lake = DeltaLake(tmp_path / "lake") if request.param == "delta" else Lake(tmp_path / "lake")
    options = {"type": request.param, "sink.sequence-by": "n", "sink.delete-strategy": "soft", **where}
    made = LakePipeline(tmp_path, shared_java, lake, options)
    rules = "transform:\n  - {source-table: shop.\\.*, partition-keys: part}\n"
    made.file.write_text(made.file.read_text() + rules)
    return made


@pytest.mark.parametrize("fault", ["after-decide:1", "after-add:1"])
def test_rows_that_move_between_partitions_are_there_once_and_are_the_newest(shop: LakePipeline, fault: str) -> None:
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
