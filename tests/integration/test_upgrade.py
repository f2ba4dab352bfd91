"""A checkpoint of an older version is gone on with. `tests/upgrade` has one of each version, as a run of it left it.

At a release, a folder of the version is added: its run of `p.yaml` with `--once --checkpoint checkpoint`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from commands import called
from harness import INGEST, finished

if TYPE_CHECKING:
    from shared_java import SharedJava

OLD = sorted((Path(__file__).parents[1] / "upgrade").iterdir())
NEW = '{{"op":"c","before":null,"after":{{"id":{id},{more}}},"source":{{"db":"shop","table":"{table}"}}}}\n'


def rows(folder: Path, table: str) -> list[dict[str, object]]:
    files = sorted(folder.glob(f"{table}.*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize("in_hand", [False, True], ids=["between batches", "in a batch"])
@pytest.mark.parametrize("old", OLD, ids=lambda path: path.name)
def test_a_checkpoint_of_an_older_version_is_gone_on_with(
    old: Path, in_hand: bool, tmp_path: Path, shared_java: SharedJava
) -> None:
    folder = tmp_path / "old"
    shutil.copytree(old, folder)
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
