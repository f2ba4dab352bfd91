"""The files that keep the rows of upsert topics."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from ingest.errors import Unavailable
from ingest.task.changelog import SplitRows

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_are_kept_up_to_the_position_of_a_commit(tmp_path: Path) -> None:
    rows = SplitRows(tmp_path / "rows.db")
    assert rows.position is None
    rows.put(1, b"a", b"1")
    rows.put(2, b"b", b"2")
    assert rows.find([b"a", b"b", b"c"]) == {b"a": b"1", b"b": b"2"}
    rows.commit(2)
    rows.put(2, b"a", None)
    assert rows.find([b"a", b"b"]) == {}
    rows.commit(3)
    rows.close()
    again = SplitRows(tmp_path / "rows.db")
    assert again.position == 3
    assert again.find([b"a", b"b"]) == {}
    again.close()


def test_what_is_no_such_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "rows.db").write_bytes(b"something else, and more than the hundred bytes of a header" * 10)
    rows = SplitRows(tmp_path / "rows.db")
    assert rows.position is None
    rows.commit(7)
    rows.close()
    again = SplitRows(tmp_path / "rows.db")
    assert again.position == 7
    again.close()


def test_a_file_that_somebody_else_writes_is_left_alone(tmp_path: Path) -> None:
    rows = SplitRows(tmp_path / "rows.db")
    rows.put(1, b"a", b"1")
    rows.commit(2)
    other = sqlite3.connect(tmp_path / "rows.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    rows._file.execute("PRAGMA busy_timeout=10")
    with pytest.raises(Unavailable, match="database is locked"):
        rows.commit(3)
    other.execute("ROLLBACK")
    other.close()
    rows.close()
    again = SplitRows(tmp_path / "rows.db")
    assert again.find([b"a"]) == {b"a": b"1"}
    again.close()


def test_a_damaged_file_goes(tmp_path: Path) -> None:
    rows = SplitRows(tmp_path / "rows.db")
    for i in range(2000):
        rows.put(i, b"%d" % i, b"x" * 100)
    rows.commit(2000)
    rows.close()
    text = bytearray((tmp_path / "rows.db").read_bytes())
    text[4096 * 2 :] = b"\xff" * (len(text) - 4096 * 2)
    (tmp_path / "rows.db").write_bytes(bytes(text))
    damaged = SplitRows(tmp_path / "rows.db")
    with pytest.raises(Unavailable, match="malformed"):
        damaged.find([b"%d" % i for i in range(2000)])
    damaged.close()
    again = SplitRows(tmp_path / "rows.db")
    assert again.position is None
    again.close()
