"""Upkeep of tables of a lake: few files instead of many, no old snapshots, and the same rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from lake_sink import LakeSink, lake_schema

from ingest.sinks.iceberg import commit, upkeep
from ingest.sinks.iceberg.upkeep import COMPACTED, expire, is_due

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyiceberg.table import Table

TABLE = ("shop", "t")
SCHEMA = lake_schema("id BIGINT", "n INT", "text STRING")
KEYS = 300


class Busy:
    """A table with a row for each key, and what it should have after batches of random changes."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.sink = LakeSink(folder, **more)
        self.sink.side.declare({TABLE: SCHEMA})
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
    def table(self) -> Table:
        return self.sink.lake.table(*TABLE)

    def check(self) -> None:
        found = self.sink.lake.ask("SELECT id, n, text FROM {} ORDER BY id", *TABLE)
        assert found == [(key, n, f"row {key}") for key, n in sorted(self.rows.items())]
        assert self.table.scan().to_arrow().num_rows == len(self.rows)

    def total(self, what: str) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return int(snapshot.summary[f"total-{what}"] or 0)


def test_after_some_snapshots_there_are_few_files_and_the_same_rows(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 5})
    for _ in range(8):
        busy.change(3)
        busy.check()
    operations = [one.summary.operation.value for one in busy.table.metadata.snapshots if one.summary]
    assert operations.count("replace") == 5
    assert busy.total("data-files") <= 6
    assert busy.total("delete-files") <= 5
    assert busy.sink.warnings == []


def test_big_files_stay_and_their_deletes_become_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 6})
    (first,) = [task.file for task in busy.table.scan().plan_files()]
    big = [first.file_path]
    monkeypatch.setattr(upkeep, "SMALL", first.file_size_in_bytes)  # the others are smaller
    busy.change(5)
    busy.check()
    assert busy.total("delete-files") == 1
    assert busy.total("data-files") == 2
    assert set(big) < {task.file.file_path for task in busy.table.scan().plan_files()}
    busy.change(30)
    busy.check()
    busy.write({key: 99 for key in range(KEYS) if key % 7})
    busy.change(6)
    busy.check()
    assert not set(big) & {task.file.file_path for task in busy.table.scan().plan_files()}, "most of it is dead"


def test_without_compaction_files_stay(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.enabled": False, "sink.compaction.commit.interval": 2})
    busy.change(5)
    busy.check()
    assert busy.total("data-files") == 6
    assert is_due(busy.table, 5)
    assert not is_due(busy.table, 7)


def test_old_snapshots_and_their_files_are_removed(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 4})
    with busy.table.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    busy.change(25)
    busy.check()
    assert len(busy.table.metadata.snapshots) <= 5
    there = {path.name for path in (tmp_path / "lake").rglob("*.parquet")}
    named = {
        entry.data_file.file_path.rsplit("/", 1)[1]
        for snapshot in busy.table.metadata.snapshots
        for manifest in snapshot.manifests(busy.table.io)
        for entry in manifest.fetch_manifest_entry(busy.table.io, discard_deleted=True)
    }
    assert there == named
    for snapshot in busy.table.metadata.snapshots:  # each that is kept can be read
        busy.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_after_a_rollback_the_files_of_all_snapshots_that_stay_are_kept(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.enabled": False})
    busy.change(3)
    before = busy.table.current_snapshot()
    rows = dict(busy.rows)
    assert before is not None
    upkeep.compact(busy.table)
    busy.table.manage_snapshots().set_current_snapshot(before.snapshot_id).commit()
    busy.rows = rows
    busy.check()
    with busy.table.transaction() as transaction:
        transaction.set_properties({
            "history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "1"
        })  # fmt: skip
    for _ in range(3):
        assert expire(busy.table)
        busy.change(1)
        busy.check()
        for snapshot in busy.table.metadata.snapshots:
            busy.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_a_table_with_branches_keeps_its_snapshots_and_says_so(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 3})
    snapshot = busy.table.current_snapshot()
    assert snapshot is not None
    busy.table.manage_snapshots().create_tag(snapshot.snapshot_id, "first").commit()
    with busy.table.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "0"})
    busy.change(9)
    busy.check()
    assert busy.table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == KEYS
    assert not expire(busy.table)
    assert len(busy.sink.warnings) == 1
    assert "branches or tags" in busy.sink.warnings[0]


def test_another_writer_in_between_leaves_the_compaction_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 4})
    found, row = commit.deletes_files, busy.table.scan(row_filter="id == 1").to_arrow()

    def late(*arguments: Any) -> Any:
        busy.table.append(row.set_column(0, row.schema.field(0), [[5000]]))
        return found(*arguments)

    monkeypatch.setattr(upkeep, "SMALL", 1)
    monkeypatch.setattr(upkeep, "deletes_files", late)
    busy.change(3)
    busy.rows[5000] = 0
    assert busy.sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(len(busy.rows),)]
    assert COMPACTED not in busy.table.properties
    monkeypatch.undo()
    busy.change(1)
    assert COMPACTED in busy.table.properties
    assert busy.sink.lake.ask("SELECT count(*) FROM {}", *TABLE) == [(len(busy.rows),)]


def test_a_compaction_that_fails_is_said_once_and_the_rows_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Busy(tmp_path / "lake", **{"sink.compaction.commit.interval": 2})

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(upkeep, "dead_positions", full)
    busy.change(6)
    busy.check()
    assert len(busy.sink.warnings) == 1
    assert "No space left on device" in busy.sink.warnings[0]
