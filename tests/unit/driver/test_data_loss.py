"""Records that are not there any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from driverparts import A, B, Hands, Told, backlog, retries

from ingest.driver.availability import RETRY_S
from ingest.driver.batch_checks import CHECK_S, UNEXPLAINED, DataLossCheck
from ingest.errors import ConfigError, DataLoss
from ingest.testing.in_memory import InMemoryCoordinator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.driver.backlog import Backlog
    from ingest.model.record import Split


class Expiring(InMemoryCoordinator):
    """A source whose positions are other ones when it is asked, and perhaps its topic, too."""

    def __init__(self, now: Mapping[Split, int], topic_id: str = "memory", end: int = 20) -> None:
        super().__init__({})
        self.ids = {"t": "memory"}
        self.now = dict(now)
        self.topic_id = topic_id
        self.end = end

    def check(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        self.ids = {"t": self.topic_id}
        return dict(self.now)

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        return dict.fromkeys(positions, self.end)


def of(source: InMemoryCoordinator, some: Backlog, hands: Hands | None = None) -> DataLossCheck:
    return DataLossCheck(source, some, retries(Told(), hands=hands))


def test_a_loss_that_the_source_confirms_is_passed_over_however_often() -> None:
    source = Expiring({A: 7})
    some = backlog({A: 3}, {A: 10})
    data_loss = of(source, some)
    for _ in range(3 * UNEXPLAINED):
        data_loss.tolerate(DataLoss("gone"))
        assert some.positions == {A: 7}
        some.positions[A] = 3


def test_a_loss_that_nobody_confirms_ends_the_run_after_some_looks() -> None:
    hands = Hands()
    data_loss = of(Expiring({A: 3}), backlog({A: 3}, {A: 10}), hands)
    for looks in range(1, UNEXPLAINED + 1):
        data_loss.tolerate(DataLoss("gone"))
        assert hands.at == 1000.0 + looks * RETRY_S, "others may not know yet"
    with pytest.raises(DataLoss, match="gone"):
        data_loss.tolerate(DataLoss("gone"))


def test_a_run_that_gets_on_begins_to_count_anew() -> None:
    data_loss = of(Expiring({A: 3}), backlog({A: 3}, {A: 10}))
    for _ in range(3 * UNEXPLAINED):
        data_loss.tolerate(DataLoss("gone"))
        data_loss.explained()


def test_other_failures_are_not_tolerated() -> None:
    with pytest.raises(ConfigError):
        of(Expiring({A: 7}), backlog({A: 3}, {A: 10})).tolerate(ConfigError("no"))


def test_a_topic_that_was_made_again_is_drained_to_its_own_end() -> None:
    some = backlog({A: 3, B: 3}, {A: 10, B: 10}, drain=True)
    assert of(Expiring({A: 0, B: 0}, "another", end=4), some).recheck()
    assert some.targets == {A: 4, B: 4}
    kept = backlog({A: 3, B: 3}, {A: 10, B: 10}, drain=True)
    assert of(Expiring({A: 5}), kept).recheck()
    assert kept.targets == {A: 10}, "a split that is gone has no end to wait for"


def test_there_is_doubt_now_and_then_and_where_a_split_got_shorter() -> None:
    some = backlog({A: 3}, {A: 10})
    hands = Hands()
    data_loss = of(Expiring({A: 3}), some, hands)
    assert data_loss.doubtful(), "nobody has looked yet"
    assert not data_loss.recheck()
    hands.move(CHECK_S)
    assert not data_loss.doubtful()
    hands.move(0.1)
    assert data_loss.doubtful()
    assert not data_loss.recheck()
    some.see({A: 2})
    assert data_loss.doubtful()
    some.see({A: 10})
    data_loss.suspect()
    assert data_loss.doubtful()
