"""Checkpoints of older versions are gone on with. `tests/upgrade` has them, of each kind of sink, as runs left them.

At a release, a folder of the version is added: `tools/upgrade.py`. That of PostgreSQL is gone on with in
postgres/test_runs.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commands import called
from delta_lake import DeltaLake
from lake import Lake
from upgrades import AFTER, FILES, OLD, ORDERS, PLACE, gone_on, left, restore

if TYPE_CHECKING:
    from pathlib import Path

    from harness import Kafka
    from shared_java import SharedJava


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    files = sorted(folder.glob(f"{table}.*.jsonl"))
    return [json.loads(line)["after"] for path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize("crashed", [False, True], ids=["between batches", "in a batch"])
def test_a_checkpoint_of_a_run_into_files_is_gone_on_with(
    crashed: bool, tmp_path: Path, shared_java: SharedJava
) -> None:
    with left("file", crashed=crashed):
        before = rows(PLACE / "out", "shop.orders")
        assert [row["id"] for row in before] == [1, 2]
        done = gone_on(shared_java, tmp_path)
        (began,) = (event for event in done.events if event["event"] == "run started")
        assert began["lag"] == (6 if crashed else 3)
        times = 2 if crashed else 1  # at-least-once: what was written and not stored is written again
        new = [{"id": 3, "v": 3.5, "late": None, "more": "y"}, {"id": 1, "v": 4.5, "late": None, "more": None}]
        assert rows(PLACE / "out", "shop.orders") == [*before * times, *new]
        assert rows(PLACE / "out", "shop.users") == [*[{"id": 1, "name": "a"}] * times, {"id": 2, "name": "b"}]
        told = called("schema", "history", str(PLACE / "checkpoint")).out
        assert [line for line in told.splitlines() if "shop.orders" in line and "more" in line], told


def test_there_is_a_checkpoint_of_each_kind() -> None:
    assert {path.name for path in OLD.iterdir()} == FILES.keys()


@pytest.mark.parametrize("kind", ["upsert-kafka", "exactly-once"])
def test_a_checkpoint_of_a_run_into_kafka_is_gone_on_with(
    kind: str, kafka: Kafka, tmp_path: Path, shared_java: SharedJava
) -> None:
    with left(kind):
        restore(kafka)
        kafka.send(f"{kafka.name}.in", *AFTER)
        gone_on(shared_java, tmp_path, bootstrap=kafka.bootstrap)
    rows = kafka.table(f"{kafka.name}.orders").values()
    assert sorted((row["id"], row["v"], row.get("late"), row.get("more")) for row in rows) == ORDERS
    # At-least-once, the batch that was written and not stored is written again
    assert len(kafka.read(f"{kafka.name}.orders")) == (4 if kind == "exactly-once" else 6)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_checkpoint_of_a_run_into_a_lake_is_gone_on_with(kind: str, tmp_path: Path, shared_java: SharedJava) -> None:
    with left(kind):
        done = gone_on(shared_java, tmp_path)
        assert not [event for event in done.events if event["event"] == "option changed"]
        lake = Lake(PLACE / "lake") if kind == "iceberg" else DeltaLake(PLACE / "lake")
        assert lake.rows("shop", "orders", columns="id, v, late, more") == ORDERS
        assert lake.rows("shop", "users") == [(1, "a"), (2, "b")]
        assert isinstance(lake, DeltaLake) or len(lake.table("shop", "users").snapshots()) == 2  # one of each version
        assert isinstance(lake, Lake) or len(lake.active("shop", "users")) == 2
