"""Which topics are other ones than those that were read, by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import inmemory
import pytest

from ingest.errors import DataLoss
from ingest.kafka.admin import Topic
from ingest.model.record import NO_ID
from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

if TYPE_CHECKING:
    from collections.abc import Iterable


class Broker:
    """A cluster with one topic, of which each partition has ten records."""

    def __init__(self, topic_id: str) -> None:
        self.id = topic_id

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: Topic(name, self.id, 1) for name in names}

    def earliest(self, splits: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(splits, 0)

    def latest(self, splits: Iterable[tuple[str, int]], *, committed: bool) -> dict[tuple[str, int], int]:
        return dict.fromkeys(splits, 10)


def coordinator(before: str, now: str) -> KafkaSourceCoordinator:
    """The driver's side of a run that has read a topic of the id `before`, which has the id `now`."""
    made = cast("Any", inmemory.pipeline().source).coordinator("p", lambda _: None)
    assert isinstance(made, KafkaSourceCoordinator)
    made.ids, made._cluster = {"topic": before}, cast("Any", Broker(now))
    return made


@pytest.mark.parametrize(("before", "now"), [("1", "1"), (NO_ID, NO_ID), (NO_ID, "1"), ("1", NO_ID)])
def test_a_topic_is_the_same_where_no_id_says_otherwise(before: str, now: str) -> None:
    made = coordinator(before, now)
    assert made.ends({("topic", 0): 3}) == {("topic", 0): 10}
    assert made.check({("topic", 0): 3}) == {("topic", 0): 3}
    assert made.ids == {"topic": now}


def test_a_topic_of_another_id_is_lost_data() -> None:
    for look in ("ends", "check"):
        with pytest.raises(DataLoss, match="topic topic was deleted and created again during the run"):
            getattr(coordinator("1", "2"), look)({("topic", 0): 3})
