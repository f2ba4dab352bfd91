"""Brokers that are away are waited for, and whoever watches sees that the run gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from driverparts import A, Hands, StopAfter, Told, context, patience

from ingest.driver.life import LIFE_S, LifeFile
from ingest.driver.patience import AGAIN_S, PATIENCE_S, Patience
from ingest.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path


class Broker:
    """A broker that is away for so many questions."""

    def __init__(self, away: int) -> None:
        self.away = away

    def ends(self) -> dict[tuple[str, int], int]:
        self.away -= 1
        if self.away >= 0:
            msg = "the broker does not answer"
            raise Unavailable(msg)
        return {A: 1}


def test_a_broker_that_comes_back_is_waited_for_with_one_warning() -> None:
    told = Told()
    assert patience(told).ask(Broker(5).ends) == {A: 1}
    assert told.warnings == ["the broker does not answer; waiting"]


def test_a_run_that_is_told_to_stop_waits_no_longer() -> None:
    with pytest.raises(Unavailable):
        patience(Told(), StopAfter(2)).ask(Broker(5).ends)


def test_patience_ends() -> None:
    tries = int(PATIENCE_S / AGAIN_S) + 1
    hands = Hands()
    assert patience(Told(), hands=hands).ask(Broker(tries).ends) == {A: 1}, "it is tried once more at the end"
    assert hands.at == 1000.0 + tries * AGAIN_S
    with pytest.raises(Unavailable):
        patience(Told()).ask(Broker(tries + 1).ends)


def test_the_life_file_is_touched_while_a_broker_is_away(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    Patience(context(Told()), StopAfter(), LifeFile(file, Told())).ask(Broker(1).ends)
    assert file.exists()


def test_the_life_file_is_touched_now_and_then(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    hands = Hands()
    alive = LifeFile(file, Told(), hands.clock)
    alive.touch()
    file.unlink()
    hands.move(LIFE_S)
    alive.touch()
    assert not file.exists(), "it was touched a moment ago"
    hands.move(0.1)
    alive.touch()
    assert file.exists()
    LifeFile(tmp_path / "no" / "such" / "folder", Told()).touch()
    LifeFile(None, Told()).touch()
