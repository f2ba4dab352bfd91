"""A disk that is full while files of a lake are written: the run ends, and the one that follows loses nothing."""

from __future__ import annotations

import random
import shutil
import string
from typing import TYPE_CHECKING

import pytest
from delta_lake import DeltaLake
from harness import INGEST, finished
from lake import Lake
from lake_runs import change

if TYPE_CHECKING:
    from pathlib import Path

KEYS, CHANGES = 20_000, 24_000
SCRIPT = """
mount -t tmpfs -o size=1m tmpfs lake || exit 99
"$0" run pipeline.yaml --once --checkpoint checkpoint > first.out 2> first.err
echo $? > first.code
mount -o remount,size=64m lake || exit 99
"$0" run pipeline.yaml --once --checkpoint checkpoint > second.out 2> second.err
echo $? > second.code
cp -r lake kept
"""
"""Two runs in a namespace of mounts of their own, where nobody has to be root for a small disk."""


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_full_disk_ends_a_run_that_can_go_on_later(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    pick = random.Random(1)
    with (tmp_path / "in.jsonl").open("w") as file:
        for n in range(CHANGES):
            row = {"id": n % KEYS, "n": n, "text": "".join(pick.choices(string.ascii_letters, k=120))}
            file.write(change("c", None, row, "t"))
    option = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
    (tmp_path / "pipeline.yaml").write_text(
        "pipeline: {name: p}\nsource:\n  type: file\n  path: in.jsonl\n  file.envelope: true\n"
        f"  value.format: debezium-json\nsink:\n  type: {kind}\n  {option}: {folder}\n"
    )
    ran = finished(["unshare", "-rm", "sh", "-c", SCRIPT, INGEST], None, tmp_path, cwd=tmp_path)
    assert ran.code == 0, ran.err
    first = (tmp_path / "first.err").read_text()
    assert (tmp_path / "first.code").read_text() == "75\n", first
    assert "No space left on device" in first
    assert "nothing is lost" in first
    assert "Traceback" not in first
    assert (tmp_path / "second.code").read_text() == "0\n", (tmp_path / "second.err").read_text()
    # What is mounted in a namespace is gone with it, and tables have whole paths
    shutil.copytree(tmp_path / "kept", folder, dirs_exist_ok=True)
    lake = Lake(folder) if kind == "iceberg" else DeltaLake(folder)
    newest = [*range(KEYS, CHANGES), *range(CHANGES - KEYS, KEYS)]
    assert lake.ask("SELECT count(*), count(DISTINCT id), sum(n) FROM {}", "shop", "t") == [(KEYS, KEYS, sum(newest))]
