"""Upkeep of Delta tables: few files instead of many, no files of old versions, and the same rows."""

from __future__ import annotations

import os
import random
import re
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from delta_lake import DeltaSinkSide, other_rows
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableOptimizer
from lake_sink import lake_schema
from lake_values import VALUES

from ingest.sinks.delta import coordinator, upkeep
from ingest.sinks.delta.upkeep import COMPACTED

if TYPE_CHECKING:
    from pathlib import Path

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT", "text STRING")
KEYS = 300
DAY_S = 86_400
_REMOVED = re.compile(r'("deletionTimestamp":)(\d+)')


class BusyTable:
    """A table with a row for each key, and what it should have after batches of random changes."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.sink = DeltaSinkSide(folder, **more)
        self.sink.side.declare({TABLE: SCHEMA})
        self.place = folder / "shop" / "t"
        self.rows: dict[int, int] = {}
        self._random = random.Random(7)
        self.write(dict.fromkeys(range(KEYS), 0))

    def write(self, rows: dict[int, int | None]) -> None:
        texts = [
            (f'{{"id":{key}}}', None if n is None else f'{{"id":{key},"n":{n},"text":"row {key}"}}')
            for key, n in rows.items()
        ]
        self.sink.write(TABLE, SCHEMA, *texts)
        for key, n in rows.items():
            self.rows.pop(key, None)
            if n is not None:
                self.rows[key] = n

    def change(self, batches: int) -> None:
        for number in range(batches):
            keys = self._random.sample(range(KEYS + 20), 12)
            self.write({key: None if key % 7 == 0 else number for key in keys})

    @property
    def table(self) -> DeltaTable:
        return self.sink.lake.table(*TABLE)

    def compact(self) -> None:
        upkeep.compact(self.table, self.sink.lake.warehouse.files(TABLE))

    def check(self) -> None:
        found = self.sink.lake.ask("SELECT id, n, text FROM {} ORDER BY id", *TABLE)
        assert found == [(key, n, f"row {key}") for key, n in sorted(self.rows.items())]
        assert self.table.transaction_version("checkpoint") == self.sink.batch

    def operations(self) -> list[str]:
        return [str(one["operation"]) for one in self.table.history()]

    def on_disk(self) -> set[str]:
        return {path.name for path in self.place.glob("*.parquet")}

    def grow_old(self, days: float) -> None:
        """Let all files be older, and their removal from the table longer ago."""
        for path in self.place.glob("*.parquet"):
            os.utime(path, (time.time() - days * DAY_S,) * 2)
        for path in (self.place / "_delta_log").glob("*.json"):
            text = path.read_text()
            path.write_text(_REMOVED.sub(lambda found: f"{found[1]}{int(found[2]) - int(days * DAY_S * 1000)}", text))


def test_after_some_versions_there_are_few_files_and_the_same_rows(tmp_path: Path) -> None:
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.commit.interval": 5})
    for number in range(8):
        busy.change(3)
        busy.write({1000 + number: number})
        busy.check()
        assert len(busy.sink.lake.active(*TABLE)) <= 7
    assert busy.operations().count("OPTIMIZE") >= 5
    assert busy.sink.warnings == []


def test_a_batch_notes_that_upkeep_is_due_and_upkeep_keeps_all_notes(tmp_path: Path) -> None:
    """The library writes no notes with a compaction, and takes none away."""
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.commit.interval": 3})
    busy.write({1: 1})
    assert busy.table.transaction_version(COMPACTED) is None
    busy.write({500: 1})
    assert busy.table.transaction_version(COMPACTED) == 3
    assert busy.operations() == ["OPTIMIZE", "WRITE", "WRITE", "WRITE", "CREATE TABLE"]
    files = busy.sink.files(TABLE, SCHEMA, (('{"id":1}', '{"id":1,"n":7,"text":"row 1"}'),))
    busy.rows[1], busy.sink.batch = 7, busy.sink.batch + 1
    for _ in range(2):
        busy.sink.driver().add("checkpoint", busy.sink.batch, files)
        busy.table.optimize.compact()
        busy.check()


def test_an_upkeep_that_a_crash_left_out_follows_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.commit.interval": 3})
    busy.write({400: 1})
    files = busy.sink.files(TABLE, SCHEMA, (('{"id":500}', '{"id":500,"n":7,"text":"row 500"}'),))
    busy.rows[500], busy.sink.batch = 7, busy.sink.batch + 1

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(coordinator, "compact", dies)
    with pytest.raises(KeyboardInterrupt):
        busy.sink.side.add("checkpoint", busy.sink.batch, files)
    monkeypatch.undo()
    assert "OPTIMIZE" not in busy.operations()
    for _ in range(2):
        busy.sink.driver().add("checkpoint", busy.sink.batch, files)
        assert busy.operations().count("OPTIMIZE") == 1
        busy.check()


def test_without_compaction_files_stay(tmp_path: Path) -> None:
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.enabled": False, "sink.compaction.commit.interval": 2})
    for number in range(5):
        busy.write({1000 + number: 1})
    busy.check()
    assert len(busy.sink.lake.active(*TABLE)) == 6
    assert set(busy.operations()) == {"CREATE TABLE", "WRITE"}
    assert busy.table.transaction_version(COMPACTED) is None


@pytest.mark.parametrize(("retention", "days", "stay"), [
    ("interval 1 hours", 2, False), ("interval 3 days", 2, True), (None, 2, True), (None, 8, False),
    ("interval 0 hours", 0.9, True), ("interval 0 hours", 1.1, False),
])  # fmt: skip
@pytest.mark.parametrize("log", [False, True])
def test_files_of_old_versions_are_removed_when_the_table_says(
    tmp_path: Path, retention: str | None, days: float, stay: bool, log: bool
) -> None:
    """But none that is younger than a day, as a task may be about to hand it over.

    `log`: after a checkpoint of the log, which forgets old files. Files of tasks that died are removed as well.
    """
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.enabled": False})
    if retention is not None:
        busy.table.alter.set_table_properties({"delta.deletedFileRetentionDuration": retention})
    busy.change(5)
    busy.compact()
    (busy.place / "died-rows.parquet").write_bytes(b"PAR1")
    old = busy.on_disk()
    busy.grow_old(days)
    files = busy.sink.files(TABLE, SCHEMA, (('{"id":9}', '{"id":9,"n":5,"text":"row 9"}'),))
    waiting = busy.on_disk() - old
    if log:
        busy.table.create_checkpoint()
    upkeep.vacuum(busy.table)
    assert busy.on_disk() == (old | waiting if stay else {*busy.sink.lake.active(*TABLE)} | waiting)
    assert ("VACUUM END" in busy.operations()) is not stay, "no version where there is nothing to remove"
    busy.rows[9], busy.sink.batch = 5, busy.sink.batch + 1
    busy.sink.side.add("checkpoint", busy.sink.batch, files)
    busy.check()


def test_rows_are_found_in_files_that_the_library_wrote(tmp_path: Path) -> None:
    """Ends of long keys in statistics are cut: they have to be on the right side of the keys."""
    sink = DeltaSinkSide(tmp_path / "lake", **{"sink.compaction.enabled": False})
    schema = lake_schema("id STRING", "n INT")
    keys = ["x" * 100 + last for last in "abc"] + ["\U0010ffff" * 70, "\u00e9" * 90, "", "\ud7ff" * 80 + "z"]
    sink.side.declare({TABLE: schema})
    for key in keys:
        sink.write(TABLE, schema, (f'{{"id":"{key}"}}', f'{{"id":"{key}","n":0}}'))
    upkeep.compact(sink.lake.table(*TABLE), sink.lake.warehouse.files(TABLE))
    assert len(sink.lake.active(*TABLE)) == 1
    for number in (1, 2):
        for key in keys:
            sink.write(TABLE, schema, (f'{{"id":"{key}"}}', f'{{"id":"{key}","n":{number}}}'))
            upkeep.compact(sink.lake.table(*TABLE), sink.lake.warehouse.files(TABLE))
        assert sorted(sink.lake.rows(*TABLE)) == sorted((key, number) for key in keys)


@pytest.mark.parametrize("kind", ["DATE", "DECIMAL(38,18)", "BYTES", "TIMESTAMP", "FLOAT", "BOOLEAN", "BIGINT"])
def test_rows_are_found_by_keys_of_each_type_in_files_that_the_library_wrote(sink: DeltaSinkSide, kind: str) -> None:
    schema = lake_schema(f"id {kind}", "n INT")
    sink.side.declare({TABLE: schema})
    for number in range(3):
        for text in VALUES[kind]:
            sink.write(TABLE, schema, (f'{{"id":{text}}}', f'{{"id":{text},"n":{number}}}'))
        upkeep.compact(sink.lake.table(*TABLE), sink.lake.warehouse.files(TABLE))
    assert sink.lake.rows(*TABLE, columns="n") == [(2,)] * len(VALUES[kind])


@pytest.mark.parametrize("act", ["append", "batch"])
def test_a_compaction_beside_another_writer_loses_nothing(tmp_path: Path, act: str) -> None:
    """Of two that write one file anew the later one fails; rows that were only added stay."""
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.enabled": False})
    for number in range(4):
        busy.write({1000 + number: 1})
    old = busy.table
    if act == "append":
        rows = other_rows((5000, 0)).append_column("text", [["row 5000"]])
        write_deltalake(busy.sink.lake.warehouse.path(TABLE), rows, mode="append")
        busy.rows[5000] = 0
    else:
        busy.write({1: 9, 1002: None})
    with nullcontext() if act == "append" else pytest.raises(CommitFailedError):
        upkeep.compact(old, busy.sink.lake.warehouse.files(TABLE))
    busy.check()
    busy.change(3)
    busy.check()


def test_a_compaction_that_fails_is_said_once_and_the_rows_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.commit.interval": 2})

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TableOptimizer, "compact", full)
    busy.change(6)
    busy.check()
    (warning,) = busy.sink.warnings
    assert "No space left on device" in warning
    assert "said once" in warning


def test_a_compaction_that_is_late_is_left_out_until_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = BusyTable(tmp_path / "lake", **{"sink.compaction.commit.interval": 3})

    def late(*_: Any, **__: Any) -> Any:
        msg = "another one was faster"
        raise CommitFailedError(msg)

    monkeypatch.setattr(TableOptimizer, "compact", late)
    busy.change(4)
    monkeypatch.undo()
    assert busy.table.transaction_version(COMPACTED) == 3
    assert "OPTIMIZE" not in busy.operations()
    busy.write({700: 1})
    busy.check()
    assert "OPTIMIZE" in busy.operations()
    assert busy.sink.warnings == []
