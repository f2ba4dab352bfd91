"""Checkpoints of older versions are gone on with. `tests/upgrade` has them, of each kind of sink, as runs left them.

At a release, a folder of the version is added: `tools/upgrade.py`. That of PostgreSQL is gone on with in
postgres/test_runs.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import called
from delta_lake import DeltaLake
from harness import INGEST, finished
from lake import Lake
from upgrades import AFTER, FILES, OLD, ORDERS, PLACE, gone_on, left, restore

if TYPE_CHECKING:
    from harness import Kafka
    from shared_java import SharedJava

FILE = Path(__file__).parents[1] / "upgrade" / "0.1.0-ee3f093" / "file"
NEW = '{{"op":"c","before":null,"after":{{"id":{id},{more}}},"source":{{"db":"shop","table":"{table}"}}}}\n'


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    files = sorted(folder.glob(f"{table}.*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize("in_hand", [False, True], ids=["between batches", "in a batch"])
def test_a_checkpoint_of_a_run_into_files_is_gone_on_with(
    in_hand: bool, tmp_path: Path, shared_java: SharedJava
) -> None:
    folder = tmp_path / "old"
    shutil.copytree(FILE, folder)
    before = rows(folder / "out", "shop.orders")
    assert [row["id"] for row in before] == [1, 2]
    if in_hand:  # as after a crash between what was written and what was stored
        max((folder / "checkpoint" / "batches").glob("*.done"), key=lambda path: int(path.name.split(".")[0])).unlink()
    with (folder / "in.1.jsonl").open("a") as file:
        file.write(NEW.format(id=3, more='"v":"text"', table="orders"))
    (folder / "in.2.jsonl").write_text(NEW.format(id=2, more='"name":"b"', table="users"))
    done = finished(
        [INGEST, "run", "p.yaml", "--once", "--checkpoint", "checkpoint"], shared_java, folder, None, folder
    )
    assert done.code == 0, done.err
    (began,) = (event for event in done.events if event["event"] == "run started")
    assert (began["run"], began["resumed"], began["lag"]) == (2, True, 5 if in_hand else 2)
    times = 2 if in_hand else 1  # at-least-once: what was written and not stored is written again
    assert rows(folder / "out", "shop.orders") == [*before * times, {"id": 3, "v": "text", "late": None}]
    assert rows(folder / "out", "shop.users") == [*[{"id": 1, "name": "a"}] * times, {"id": 2, "name": "b"}]
    told = called("schema", "history", str(folder / "checkpoint")).out
    assert [line for line in told.splitlines() if "shop.orders" in line and "STRING" in line], told


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
