"""Exports of checkpoints: what a plan goes on from elsewhere, and files that are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commands import called

from ingest.checkpoint.checkpoint import Batch, Checkpoint, Progress
from ingest.checkpoint.inspect import exported
from ingest.checkpoint.location import ExportedLocation
from ingest.checkpoint.storage import LocalStorage
from ingest.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

VERSION = {"time": 1, "sources": [], "sinks": []}


def test_an_export_is_the_end_of_the_last_finished_batch(tmp_path: Path) -> None:
    folder, file = tmp_path / "state", tmp_path / "export.json"
    storage = LocalStorage(folder)
    checkpoint = Checkpoint(storage)
    checkpoint.bind({"source": {"cluster": "c"}})
    checkpoint.begin({"source.topic": "t"})
    positions = {("t", 0): (1 << 53) + 1}
    for number, full in ((98, False), (99, True), (100, False)):
        storage.write(f"schemas/{number}.json", json.dumps(VERSION | {"full": full}).encode())
    checkpoint.done(Progress(6, ids={"t": "i"}, positions={("t", 0): 3}), {})
    checkpoint.done(Progress(7, ids={"t": "i"}, positions=positions), {})
    checkpoint.plan(Batch(8, 1, {"t": "i"}, {("t", 0): (5, 9)}, 100, {("t", 0): 0}, "p", 0))
    file.write_text(json.dumps(exported(checkpoint, None)))
    there = Checkpoint(ExportedLocation(file).open(None))
    progress, unfinished = there.progress()
    assert (progress.batch, progress.positions, unfinished) == (7, positions, None)
    assert (there.id, there.meta, there.newest_run) == (checkpoint.id, checkpoint.meta, 1)
    assert there.version_numbers() == [99, 100]
    assert there.begin() == {"source.topic": "t"}
    assert there.untouched
    assert str(file) in there.where
    checkpoint.close()


@pytest.mark.parametrize("text", ["", "[]", "7", "{}", '{"state": 7}', '{"state": null}'])
def test_a_file_that_is_no_export_is_said(text: str, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(text)
    with pytest.raises(CheckpointError, match="is no export of a checkpoint") as raised:
        ExportedLocation(file).open(None)
    assert "ingest checkpoint export" in raised.value.hint


def test_a_plan_goes_on_from_one_place(tmp_path: Path) -> None:
    lines, file = tmp_path / "in.jsonl", tmp_path / "p.yaml"
    lines.write_text('{"id":1}\n')
    file.write_text(f"source: {{type: file, path: '{lines}', value.format: json}}\nsink: {{type: print}}\n")
    none = called("plan", str(file), "--progress", str(tmp_path / "none.json"))
    assert (none.code, "cannot read" in none.err, "Traceback" in none.err) == (78, True, False)
    both = called("plan", str(file), "--progress", "x", "--checkpoint", "y")
    assert (both.code, "not both" in both.err) == (2, True)
