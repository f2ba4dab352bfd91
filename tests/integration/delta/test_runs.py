"""Pipelines into Delta tables, read by DuckDB: tables that grow while rows come, and deaths at every moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from delta_lake import DeltaLake
from lake_runs import MOMENTS, LakePipeline

if TYPE_CHECKING:
    from pathlib import Path

    from shared_java import SharedJava


@pytest.fixture
def shop(tmp_path: Path, shared_java: SharedJava) -> LakePipeline:
    options = {"type": "delta", "warehouse": str(tmp_path / "lake")}
    return LakePipeline(tmp_path, shared_java, DeltaLake(tmp_path / "lake"), options)


def test_tables_are_made_and_grow_while_rows_come(shop: LakePipeline) -> None:
    shop.grow()


@pytest.mark.parametrize("fault", MOMENTS)
def test_a_driver_that_dies_loses_and_doubles_nothing(shop: LakePipeline, fault: str) -> None:
    shop.die_and_go_on(fault)
