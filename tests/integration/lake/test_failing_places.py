"""What a task and the driver say of a lake whose place only reads, is full, lacks files, or is locked by others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import finished

PROGRAM = Path(__file__).parents[2] / "support" / "failing_places.py"
DENIED = ("AccessError", 78, "Read-only file system")
ROOM = ("Unavailable", 75, "No space left on device")
FINE = ("", 0, "")


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_each_fault_of_a_place_has_its_error(tmp_path: Path, kind: str) -> None:
    """All of them in one process in a namespace of mounts, where nobody has to be root."""
    done = finished(["unshare", "-rm", sys.executable, str(PROGRAM), kind, str(tmp_path)], None, tmp_path)
    assert done.code == 0, done.err
    said: dict[tuple[str, str], list[Any]] = {(fault, step): rest for fault, step, *rest in json.loads(done.out)}
    gone = "No such file" if kind == "iceberg" else "somebody has removed files"
    expected = {
        ("read_only", "start"): ("ConfigError", 78, f"{tmp_path}/read_only cannot be written to"),
        ("read_only", "change"): DENIED, ("read_only", "task"): DENIED, ("read_only", "commit"): DENIED,
        ("full", "task"): ROOM, ("full", "commit"): ROOM, ("full", "again"): FINE,
        ("missing", "commit"): ("ConfigError", 78, gone),
    }  # fmt: skip
    if kind == "iceberg":
        expected |= {("locked", "commit"): ("Unavailable", 75, "database is locked"), ("locked", "again"): FINE}
    assert {at: tuple(found[:2]) for at, found in said.items()} == {at: wanted[:2] for at, wanted in expected.items()}
    for at, (*_, text) in said.items():
        assert expected[at][2] in text
        assert not text or "table shop.t" in text or at == ("read_only", "start") or "of a batch is gone" in text
