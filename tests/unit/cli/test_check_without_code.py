"""`ingest check --no-code` imports nothing that a pipeline file names, and still says what else is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from commands import called

if TYPE_CHECKING:
    from pathlib import Path

FUNCTION = "pipeline: {user-defined-function: [{name: f, python: 'MODULE:f'}]}\n"
SINK = "sink: {type: kafka, properties.bootstrap.servers: 'b:1', topic: t, sink.partitioner: 'MODULE:P'}\n"
SOURCE = "source: {type: file, path: x, value.format: debezium-json}\n"


@pytest.mark.parametrize(("name", "text"), [
    ("theirs_one", f"{SOURCE}sink: {{type: print}}\n{FUNCTION}"),
    ("theirs_two", SOURCE + SINK),
])  # fmt: skip
def test_code_of_others_does_not_run(tmp_path: Path, name: str, text: str) -> None:
    ran = tmp_path / "ran"
    (tmp_path / f"{name}.py").write_text(
        f"open({str(ran)!r}, 'w').close()\ndef f(x: int) -> int:\n    return x\nclass P: pass\n"
    )
    (tmp_path / "p.yaml").write_text(text.replace("MODULE", name))
    before = [*sys.path]
    called("check", "--no-code", str(tmp_path / "p.yaml"))
    assert not ran.exists()
    assert sys.path == before
    wrong = called("check", "--no-code", str(tmp_path / "none.yaml"))
    assert (wrong.code, "cannot read the file" in wrong.out) == (78, True)
    called("check", str(tmp_path / "p.yaml"))
    assert ran.exists(), "without the option it does"
