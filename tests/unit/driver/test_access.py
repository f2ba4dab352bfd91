"""A run's checkpoint, from as early as it can be opened until everything else has ended."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ingest.checkpoint.checkpoint import Checkpoint
from ingest.checkpoint.location import CheckpointAccess, CheckpointLocation, MemoryLocation
from ingest.checkpoint.storage import LocalStorage, MemoryStorage
from ingest.driver.engine import refuse_speculation
from ingest.errors import CheckpointError, CheckpointInUse, ConfigError
from ingest.testing.in_process import InProcessRunner


def test_a_local_checkpoint_is_ours_until_the_end(tmp_path: Path) -> None:
    where = str(tmp_path / "c")
    with CheckpointAccess(CheckpointLocation(where)) as access:
        assert access.early is not None
        assert access.lock is not None
        with pytest.raises(CheckpointInUse, match="in use by another run"):
            CheckpointAccess(CheckpointLocation(where))
    LocalStorage(Path(where)).close()


def test_a_damaged_checkpoint_is_given_back(tmp_path: Path) -> None:
    LocalStorage(tmp_path).close()
    (tmp_path / "checkpoint.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="is damaged"):
        CheckpointAccess(CheckpointLocation(str(tmp_path)))
    LocalStorage(tmp_path).close()


def test_a_remote_checkpoint_waits_for_java() -> None:
    with CheckpointAccess(CheckpointLocation("hdfs://host/c")) as access:
        assert access.early is None
        assert access.lock is None


def test_a_dry_run_leaves_a_checkpoint_as_it_is(tmp_path: Path) -> None:
    where = tmp_path / "c"
    with CheckpointAccess(CheckpointLocation(str(where), read_only=True)) as access:
        assert access.early is not None
        access.early.bind({})
        assert access.early.exists
    assert not where.exists()


def test_a_checkpoint_in_memory_keeps_what_a_run_needs() -> None:
    storage = MemoryLocation().open(None)
    assert isinstance(storage, MemoryStorage)
    checkpoint = Checkpoint(storage)
    assert checkpoint.begin({"a": "1"}) == {}
    assert Checkpoint(storage).begin({"a": "2"}) == {"a": "1"}
    assert sorted(storage.names("runs")) == ["1", "2"]
    assert not storage.create("runs/2", b"")
    storage.remove("runs/2")
    storage.remove("runs/2")
    assert storage.read("runs/2") is None
    assert storage.create("runs/2", b"")
    storage.write("runs/2", b"again")
    assert storage.read("runs/2") == b"again"


def test_a_task_must_not_run_twice_at_a_time_where_rows_are_written_exactly_once() -> None:
    careless = InProcessRunner(lambda: (None, None), speculates=True)
    refuse_speculation(careless, None)
    refuse_speculation(InProcessRunner(lambda: (None, None)), "mine")
    with pytest.raises(ConfigError, match=r"spark\.speculation"):
        refuse_speculation(careless, "mine")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"format": 2}, "was written by a newer version (format 2)"),
        ({"keys": 1}, "was written by a version before 0.1.0"),
        ({"keys": None}, "was written by a version before 0.1.0"),
    ],
)
def test_a_checkpoint_of_another_format_is_refused(changed: dict[str, object], told: str, tmp_path: Path) -> None:
    with CheckpointAccess(CheckpointLocation(str(tmp_path))) as access:
        assert access.early is not None
        access.early.bind({})
    meta = tmp_path / "checkpoint.json"
    stored = json.loads(meta.read_text()) | changed
    meta.write_text(json.dumps({name: value for name, value in stored.items() if value is not None}))
    with pytest.raises(CheckpointError, match=re.escape(told)):
        CheckpointAccess(CheckpointLocation(str(tmp_path)))
