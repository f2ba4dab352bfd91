"""The file sink's lines are whole: also after a full disk, and after a task that was killed while it wrote."""

from __future__ import annotations

import json
import resource
import signal
from typing import TYPE_CHECKING

import pytest

from ingest.errors import Unavailable
from ingest.sinks.file import FileWriter

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [b'{"id":%d,"text":"%b"}' % (i, b"x" * 1000) for i in range(20)]


def write(folder: Path, rows: list[bytes]) -> None:
    writer = FileWriter(folder, 1)
    writer.write([("t", b"", row) for row in rows])
    writer.commit({}, b"", final=True)


def test_a_disk_that_is_full_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    write(tmp_path, ROWS[:5])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (7500, before[1]))
    try:
        with pytest.raises(Unavailable, match="cannot write"):
            write(tmp_path, ROWS[5:10])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    write(tmp_path, ROWS[5:10])
    assert (tmp_path / "t.1.jsonl").read_bytes().splitlines() == ROWS[:10]


def test_a_value_with_line_breaks_is_one_line(tmp_path: Path) -> None:
    write(tmp_path, [b'{"id":1,"list":[1,\r\n2],"text":"a\\nb"}'])
    assert [json.loads(line) for line in (tmp_path / "t.1.jsonl").read_text().splitlines()] == [
        {"id": 1, "list": [1, 2], "text": "a\nb"}
    ]


@pytest.mark.parametrize("left", [b"", ROWS[1] + b"\n"])
@pytest.mark.parametrize("torn", [b'{"id":7,"te', b"x" * 200_000])
def test_what_a_killed_task_left_of_a_line_does_not_spoil_the_next_one(
    tmp_path: Path, left: bytes, torn: bytes
) -> None:
    path = tmp_path / "t.1.jsonl"
    path.write_bytes(left + torn)
    write(tmp_path, ROWS[2:4])
    lines = path.read_bytes().splitlines()
    assert lines == [*left.splitlines(), *ROWS[2:4]]
    assert all(json.loads(line) for line in lines)
