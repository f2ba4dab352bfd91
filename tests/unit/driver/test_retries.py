"""Brokers that are away are waited for, and whoever watches sees that the run is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from driverparts import A, Hands, StopAfter, Told, context, retries

from ingest.driver.availability import GIVE_UP_S, RETRY_S, Retries
from ingest.driver.context import TOUCH_S, LivenessFile
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
    assert retries(told).until_answered(Broker(5).ends) == {A: 1}
    assert told.warnings == ["the broker does not answer; waiting"]


def test_a_run_that_is_told_to_stop_waits_no_longer() -> None:
    with pytest.raises(Unavailable):
        retries(Told(), StopAfter(2)).until_answered(Broker(5).ends)


def test_retries_end() -> None:
    tries = int(GIVE_UP_S / RETRY_S) + 1
    hands = Hands()
    assert retries(Told(), hands=hands).until_answered(Broker(tries).ends) == {A: 1}, "it is tried once more at the end"
    assert hands.at == 1000.0 + tries * RETRY_S
    with pytest.raises(Unavailable):
        retries(Told()).until_answered(Broker(tries + 1).ends)


def test_the_liveness_file_is_touched_while_a_broker_is_away(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    Retries(context(Told()), StopAfter(), LivenessFile(file, Told())).until_answered(Broker(1).ends)
    assert file.exists()


def test_the_liveness_file_is_touched_now_and_then(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    hands = Hands()
    alive = LivenessFile(file, Told(), hands.clock)
    alive.touch()
    file.unlink()
    hands.move(TOUCH_S)
    alive.touch()
    assert not file.exists(), "it was touched a moment ago"
    hands.move(0.1)
    alive.touch()
    assert file.exists()
    LivenessFile(tmp_path / "no" / "such" / "folder", Told()).touch()
    LivenessFile(None, Told()).touch()
