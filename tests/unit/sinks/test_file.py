"""The file sink's lines are whole: also after a full disk, and after a task that was killed while it wrote."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from pathlib import Path

import pytest

from ingest.encode.upsert_encoder import Record
from ingest.errors import AccessError, IngestError, Unavailable
from ingest.sinks.file import FileWriter

ROWS = [b'{"id":%d,"text":"%b"}' % (i, b"x" * 1000) for i in range(20)]


def write(folder: Path, rows: list[bytes]) -> None:
    writer = FileWriter(folder, 1)
    writer.write([Record("t", b"", row) for row in rows])
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


@pytest.mark.parametrize(("code", "kind"), [
    (errno.EROFS, AccessError), (errno.EACCES, AccessError), (errno.EPERM, AccessError), (errno.ENOENT, AccessError),
    (errno.ENOTDIR, AccessError), (errno.ENOSPC, Unavailable), (errno.EIO, Unavailable),
])  # fmt: skip
def test_a_directory_that_takes_no_file_needs_somebody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[IngestError]
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), str(self))

    writer = FileWriter(tmp_path, 1)
    writer.write([Record("shop.orders", None, b"{}")])
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(kind, match=os.strerror(code)) as refused:
        writer.commit({}, b"", final=True)
    assert type(refused.value) is kind
    assert "shop.orders.1.jsonl" in refused.value.message
