"""A command that asks the run which uses its checkpoint, and that run's answers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import inmemory
import pytest
from commands import called

from ingest.checkpoint.backfills import Answer, BackfillRequest, answer, answered, ask, asked, withdraw
from ingest.checkpoint.storage import LocalStorage
from ingest.driver import backfill
from ingest.driver.context import Settings
from ingest.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ingest.checkpoint.storage import Storage

SOURCE = {"type": "mysql", "hostname": "h", "username": "u", "password": "p", "tables": r"shop.\.*"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "POLL_S", 0.01)


class Run:
    """A process that holds a checkpoint, and does one thing with the first request."""

    def __init__(self, folder: Path, does: Callable[[Storage, str], None]) -> None:
        self._storage, self._does = LocalStorage(folder), does
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        while not (found := asked(self._storage)):
            time.sleep(0.01)
        self._does(self._storage, found[0][0])

    def end(self) -> None:
        self._thread.join()
        self._storage.close()


def beside(folder: Path, *tables: str, **source: Any) -> list[str] | None:
    pipeline = inmemory.pipeline(source=source or SOURCE)
    return backfill.beside(pipeline, Settings(str(folder), folder), tables, lambda _: None)


def test_the_answer_of_the_run_is_the_commands(tmp_path: Path) -> None:
    run = Run(tmp_path, lambda storage, name: answer(storage, name, Answer(3, ["shop.a"])))
    assert beside(tmp_path, "shop.a") == ["shop.a"]
    run.end()
    assert LocalStorage(tmp_path, lock=False).names("requests") == []


def test_a_refusal_is_a_configuration_error_with_the_runs_reason(tmp_path: Path) -> None:
    run = Run(tmp_path, lambda storage, name: answer(storage, name, Answer(3, refused="it has rows", hint="empty it")))
    with pytest.raises(ConfigError) as caught:
        beside(tmp_path, "shop.a")
    run.end()
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == ("it has rows", "empty it", 78)


def test_a_run_that_ends_first_leaves_it_to_the_command(tmp_path: Path) -> None:
    run = Run(tmp_path, lambda storage, _: storage.close())
    assert beside(tmp_path, "shop.a") is None
    run.end()
    assert LocalStorage(tmp_path, lock=False).names("requests") == []


def test_without_a_run_and_of_topics_nothing_is_asked(tmp_path: Path) -> None:
    assert beside(tmp_path, "shop.a") is None
    storage = LocalStorage(tmp_path)
    assert beside(tmp_path, "shop.a", **inmemory.BASE["source"]) is None
    storage.close()
    assert not (tmp_path / "requests").exists()


def test_requests_come_in_their_order_and_answers_once(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    names = [ask(storage, BackfillRequest([table])) for table in ("a", "b", "c")]
    withdraw(storage, names[1])
    assert [(name, one.tables) for name, one in asked(storage)] == [(names[0], ["a"]), (names[2], ["c"])]
    answer(storage, names[0], Answer(1, ["a"]))
    assert [name for name, _ in asked(storage)] == [names[2]]
    assert answered(storage, names[0]) == Answer(1, ["a"])
    assert answered(storage, names[0]) is None
    for _ in range(30):  # nobody takes these
        answer(storage, ask(storage, BackfillRequest([])), Answer(1))
    assert len(storage.names("requests")) == 21
    storage.write("requests/1-1.request", b"{")
    with pytest.raises(CheckpointError, match=r"is damaged: requests/1-1\.request"):
        asked(storage)
    storage.close()


@pytest.mark.parametrize("words", [[], ["--all", "--table", "shop.a"]])
def test_tables_are_named_or_all_of_them(words: list[str]) -> None:
    ran = called("backfill", "p.yaml", *words)
    assert ran.code == 2
    assert "give --table TABLE, or --all" in " ".join(ran.err.split())
