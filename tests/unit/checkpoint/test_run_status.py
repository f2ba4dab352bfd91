"""What a checkpoint says of its runs: which one runs, how others ended, how far behind they were."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from backfills import BackfillShop
from commands import called
from driverparts import Hands

from ingest.checkpoint.checkpoint import KEEP_RUNS, Batch, Checkpoint, Progress
from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import RunEnd, has_notes, note_end, note_failed_start, note_start, now_ms, status
from ingest.checkpoint.storage import LocalStorage, MemoryStorage, holder
from ingest.cli.status import lines
from ingest.config.redaction import SEEN
from ingest.driver.backlog import WaitingNotes
from ingest.errors import CheckpointError, CheckpointInUse, ConfigError
from ingest.observe.events import OptionChanged, Pending

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_790_000_000_000


def seen(folder: Path) -> dict[str, Any]:
    with opened(str(folder), {}, write=False) as checkpoint:
        return status(checkpoint)


def at(folder: Path, name: str, time: int, **more: Any) -> None:
    """Give a file of a checkpoint another time, and other values."""
    file = folder / name
    file.write_text(json.dumps(json.loads(file.read_text()) | {"time": time} | more))


def test_a_run_that_goes_on_is_running_until_it_ends(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    checkpoint = Checkpoint(storage)
    checkpoint.bind({"source": {"cluster": "c"}})
    checkpoint.begin({})
    note_start(checkpoint, "run")
    found = seen(tmp_path)
    assert (found["state"], found["run"], found["last_batch"], found["waiting"]) == ("running", 1, None, None)
    checkpoint.done(Progress(1, {("t", 0): 5}, {}, {("t", 0): 0}, 1), {}, 1_204)
    checkpoint.plan(Batch(2, 1, {}, {("t", 0): (5, 9)}, 0, {("t", 0): 0}, None, AT - 2_000))
    at(tmp_path, "starts/1", AT - 3 * 3_600_000, host="node", process=4711)
    at(tmp_path, "batches/1.1.done", AT - 4_000)
    found = seen(tmp_path) | {"pipeline": "shop", "process": "4711"}
    assert [*lines(found, AT / 1000)] == [
        "shop: running for 3 h 0 min (run 1, run, process 4711 on node)",
        "  last batch: 1, stored 4 s ago",
        "  backlog:    1,204 records, after the last batch, 4 s ago",
        "  in work:    batch 2, planned 2 s ago",
        "  rejected:   1 record",
        "  last error: none noted",
        "  last write: 2 s ago",
    ]
    assert "a run holds it: process " in called("checkpoint", "show", str(tmp_path)).out
    storage.close()
    found = seen(tmp_path) | {"pipeline": "shop"}
    killed, *_, in_work, _, _, _ = lines(found, AT / 1000)
    assert killed == ("shop: KILLED: nothing runs, and the run that began 3 h 0 min ago has noted no end (run 1, run)")
    assert in_work == "  in work:    batch 2, planned 2 s ago; the next run does it again"
    shown = called("checkpoint", "show", str(tmp_path)).out
    assert "no run holds it; last written 2026-" in shown
    note_end(checkpoint, RunEnd(AT - 60_000, 75, "unavailable", "no answer from the broker\nat b:1", 7))
    failed, batch, waiting, *_, error, write = lines(seen(tmp_path) | {"pipeline": "shop"}, AT / 1000)
    assert failed == "shop: FAILED 1 min ago with exit code 75 (run 1, run)"
    assert batch == "  last batch: 1, stored 4 s ago"
    assert waiting == "  backlog:    1,204 records, after the last batch, 4 s ago", "that is newer than the end here"
    assert error == "  last error: 1 min ago, run 1, exit code 75 (unavailable): no answer from the broker"
    assert write == "  last write: 2 s ago"


def test_runs_leave_when_they_began_and_how_they_ended(tmp_path: Path) -> None:
    shop = BackfillShop(tmp_path)
    for key in range(3):
        shop.add("c", key, key)
    shop.go()
    found = seen(tmp_path / "c")
    assert [found[name] for name in ("state", "run", "command", "exit_code", "waiting", "last_error")] == [
        "ended", 1, "run --once", 0, 0, None,
    ]  # fmt: skip
    SEEN.add("s3cret")
    try:
        with pytest.raises(ConfigError):
            shop.go(["s3cret.orders"])
    finally:
        SEEN.discard("s3cret")
    found = seen(tmp_path / "c")
    assert (found["state"], found["command"], found["exit_code"]) == ("failed", "backfill", 78)
    assert "********.orders" in found["last_error"]["message"]
    shop.add("c", 9, 9)
    shop.go(dies=2)
    assert seen(tmp_path / "c")["state"] == "killed"
    shop.go()
    found = seen(tmp_path / "c")
    assert (found["state"], found["last_error"]["run"]) == ("ended", 2), "an error stays to be seen"


def test_options_that_change_are_told(tmp_path: Path) -> None:
    shop = BackfillShop(tmp_path)
    for value in (True, True):
        shop.go(source={"ingestion.ignore-errors": value})
        assert not [event for event in shop.events if isinstance(event, OptionChanged)]
    shop.go(source={"ingestion.ignore-errors": False})
    assert [event.now for event in shop.events if isinstance(event, OptionChanged)] == ["false"]


def test_a_run_counts_what_waits_while_no_batch_ends(tmp_path: Path) -> None:
    storage, hands, told = LocalStorage(tmp_path), Hands(), list[Any]()
    checkpoint = Checkpoint(storage)
    checkpoint.bind({"source": {"cluster": "c"}})
    checkpoint.begin({})
    note_start(checkpoint, "run")
    checkpoint.done(Progress(1, {("t", 0): 5}, {}, {("t", 0): 0}), {}, 3)
    at(tmp_path, "batches/1.1.done", AT - 90_000)
    tell = WaitingNotes(checkpoint, told.append, hands.clock.now)
    events = [Pending({("t", 0): 1_000 * n, ("t", 1): n}) for n in range(1, 41)]
    for event in events:
        hands.move(2.0)
        tell(event)
        if event is events[13]:
            assert not (tmp_path / "waiting").exists(), "not more often than needed"
    assert told == events
    at(tmp_path, "waiting", AT - 12_000)
    found = seen(tmp_path)
    assert (found["waiting"], found["waiting_counted_by"]) == (30_030, "run")
    assert "  backlog:    30,030 records, counted 12 s ago" in [*lines(found | {"pipeline": "p"}, AT / 1000)]
    at(tmp_path, "batches/1.1.done", AT - 2_000)
    assert "  backlog:    3 records, after the last batch, 2 s ago" in [
        *lines(seen(tmp_path) | {"pipeline": "p"}, AT / 1000)
    ]
    note_end(checkpoint, RunEnd(AT - 1_000, 0, "", "", 8))
    storage.close()
    assert "  backlog:    8 records, when the run ended, 1 s ago" in [
        *lines(seen(tmp_path) | {"pipeline": "p"}, AT / 1000)
    ]
    WaitingNotes(Checkpoint(MemoryStorage()), told.append, lambda: 1e9)(Pending({}))


def test_an_error_before_a_run_has_a_number_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(b"")
    good = "source: {type: file, path: in.jsonl}\nsink: {type: file, path: out}\n"
    file = tmp_path / "p.yaml"
    file.write_text(good)
    assert called("run", "p.yaml", "--once", "--from-timestamp", "5").code == 78
    (first,) = json.loads(called("status", "--format", "json").out)
    assert (first["pipeline"], first["state"], first["run"]) == ("p", "not started", None), "it has never run"
    assert "from-timestamp is not possible" in first["last_error"]["message"]
    shown = called("status").out.splitlines()
    assert shown[0].startswith("p: FAILED ")
    assert shown[0].endswith(" s ago with exit code 78, before a run began")
    assert (shown[1], "before a run began, exit code 78 (configuration): --from" in shown[3]) == (
        "  last batch: none yet",
        True,
    )
    LocalStorage(tmp_path / ".ingest" / "p").close()

    checkpoint = Checkpoint(LocalStorage(tmp_path / ".ingest" / "p"))
    for _ in range(3):
        checkpoint.begin({})
        note_start(checkpoint, "run")
        note_end(checkpoint, RunEnd(now_ms(), 0, "", "", None))
    checkpoint.storage.close()
    (later,) = json.loads(called("status", "--format", "json").out)
    assert (later["state"], later["last_error"]["run"]) == ("ended", None), "an error stays to be seen"
    at(tmp_path / ".ingest" / "p", "ends/3", now_ms() - 60_000)
    at(tmp_path / ".ingest" / "p", "starts/3", now_ms() - 61_000)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert called("run", "p.yaml", "--metrics", str(taken.getsockname()[1])).code == 78
    (no_port,) = json.loads(called("status", "--format", "json").out)
    assert (no_port["state"], "cannot be had for metrics" in no_port["last_error"]["message"]) == ("not started", True)
    file.write_text(good.replace("path: out", "path: out, nonsense: 1"))
    assert called("run", "p.yaml").code == 78
    assert called("plan", "p.yaml").code == 78
    (refused,) = json.loads(called("status", "--format", "json").out)
    assert refused["state"] == "not started"
    assert "p.yaml:2:" in refused["last_error"]["message"]
    assert "(the last one that did: run 3, run, 1 min ago)" in called("status").out
    assert (
        "no run holds it" in called("checkpoint", "show", ".ingest/p").out
        or "no checkpoint" in called("checkpoint", "show", ".ingest/p").err
    )


def test_a_number_that_cannot_be_taken_leaves_the_end_of_the_run_before(tmp_path: Path) -> None:
    shop = BackfillShop(tmp_path)
    shop.go()
    (tmp_path / "c" / "runs" / "1").write_text("{")
    with pytest.raises(CheckpointError):
        shop.go()
    found = seen(tmp_path / "c")
    assert (found["exit_code"], found["state"], found["last_error"]["code"]) == (0, "not started", "checkpoint")


def test_a_place_without_a_checkpoint_may_have_notes() -> None:
    nothing, begun, failed = (Checkpoint(MemoryStorage()) for _ in range(3))
    begun.begin({})
    note_start(begun, "run")
    note_failed_start(failed.storage, RunEnd(AT, 78, "configuration", "no", None))
    assert [has_notes(one) for one in (nothing, begun, failed)] == [False, True, True]
    assert not any(one.exists for one in (nothing, begun, failed))
    assert status(failed)["state"] == "not started"


def test_notes_of_old_runs_are_forgotten() -> None:
    checkpoint = Checkpoint(MemoryStorage())
    for _ in range(KEEP_RUNS + 5):
        checkpoint.begin({})
        note_start(checkpoint, "run")
        note_end(checkpoint, RunEnd(AT, 0, "", "x" * 5_000, None))
    assert sorted(map(int, checkpoint.storage.names("ends"))) == [*range(6, KEEP_RUNS + 6)]
    assert len(checkpoint.storage.read("ends/25") or b"") < 2_200
    assert len(checkpoint.storage.names("starts")) == KEEP_RUNS


def test_a_checkpoint_without_notes_of_its_runs_says_what_it_knows(tmp_path: Path) -> None:
    (tmp_path / "batches").mkdir()
    (tmp_path / "checkpoint.json").write_text('{"format": 1, "id": "x", "keys": 2, "fingerprint": {}}')
    done = {
        "ids": {},
        "errors": 0,
        "positions": [["t", 0, 5, 0]],
        "marks": [],
        "time": AT,
        "waiting": None,
        "lag": None,
    }
    (tmp_path / "batches" / "3.1.done").write_text(json.dumps(done))
    found = seen(tmp_path)
    assert [*lines(found | {"pipeline": "p"}, AT / 1000 + 4)] == [
        "p: nothing runs here",
        "  last batch: 3, stored 4 s ago",
        "  backlog:    not known",
        "  rejected:   0 records",
        "  last error: none noted",
        "  last write: 4 s ago",
    ]
    assert "None" not in called("checkpoint", "show", str(tmp_path)).out


def test_a_look_takes_the_lock_from_nobody(tmp_path: Path) -> None:
    assert holder(tmp_path) is None
    storage = LocalStorage(tmp_path)
    held = holder(tmp_path)
    assert held is not None
    assert held.isdigit()
    with pytest.raises(CheckpointInUse, match=f"process {held}"):
        LocalStorage(tmp_path)
    storage.close()
    assert holder(tmp_path) is None
    LocalStorage(tmp_path).close()


@pytest.mark.parametrize("file", ["starts/1", "ends/1", "waiting", "failed-start"])
def test_a_damaged_note_is_said(tmp_path: Path, file: str) -> None:
    checkpoint = Checkpoint(MemoryStorage())
    checkpoint.storage.write(file, b"[]")
    with pytest.raises(CheckpointError, match=f"damaged: {file}"):
        status(checkpoint)


def test_status_looks_at_all_checkpoints_of_a_folder(tmp_path: Path) -> None:
    nothing = called("status", str(tmp_path))
    assert (nothing.code, f"no checkpoint in {tmp_path}" in nothing.err) == (78, True)
    for name in ("b", "a"):
        (tmp_path / ".ingest" / name).mkdir(parents=True)
        (tmp_path / ".ingest" / name / "checkpoint.json").write_text(
            '{"format": 1, "id": "x", "keys": 2, "fingerprint": {}}'
        )
    for place in (tmp_path, tmp_path / ".ingest"):
        found = called("status", str(place))
        assert (found.code, [line for line in found.out.splitlines() if line[:1].strip()]) == (
            0,
            ["a: nothing runs here", "b: nothing runs here"],
        )
    one = json.loads(called("status", str(tmp_path / ".ingest" / "a"), "--format", "json").out)
    assert [(found["pipeline"], found["state"]) for found in one] == [("a", "unknown")]
    (tmp_path / ".ingest" / "a" / "checkpoint.json").write_text("{")
    damaged = called("status", str(tmp_path))
    assert (damaged.code, "b: nothing runs here" in damaged.out, "is damaged" in damaged.err) == (78, True, True)
