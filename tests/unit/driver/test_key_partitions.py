"""Keys are hashed over the partitions that a topic had when the checkpoint first wrote to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driverparts import Told, context

from ingest.checkpoint.checkpoint import Checkpoint, KeptPartitions
from ingest.checkpoint.inspect import apply_reset, plan_reset
from ingest.checkpoint.storage import MemoryStorage
from ingest.driver.dispatcher import PartitionBroadcast
from ingest.driver.sink_tables import LOOK_S, KeyPartitions
from ingest.errors import CheckpointError, ConfigError, Unavailable
from ingest.kafka.admin import Topic
from ingest.model.record import NO_ID
from ingest.observe.events import TopicGrown
from ingest.sinks import SinkCoordinator
from ingest.testing.in_process import InProcessRunner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.model.table import TableId

A, B = ("a",), ("b",)


class Topics(SinkCoordinator):
    """A sink that hashes keys over the partitions of these topics."""

    def __init__(self, **topics: tuple[str, int]) -> None:
        self.topics = self
        self.now = topics
        self.away = False

    def connect(self) -> str:
        return "sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        return

    def topics_of(self, tables: Iterable[TableId]) -> set[str]:
        return {table for (table,) in tables}

    def missing(self, _tables: Iterable[TableId]) -> set[str]:
        return set()

    def hashed(self, tables: Iterable[TableId], *, again: bool = False) -> dict[str, Topic]:
        if again and self.away:
            msg = "no answer"
            raise Unavailable(msg)
        return {t: Topic(t, *self.now[t]) for (t,) in tables if t in self.now}


class Run:
    """One run over a checkpoint."""

    def __init__(self, sink: Topics, checkpoint: Checkpoint) -> None:
        self.told, self.time = Told(), 0.0
        checkpoint.begin()
        self.keys = KeyPartitions(context(self.told), sink, checkpoint, lambda: self.time)

    @property
    def grown(self) -> list[TopicGrown]:
        return [event for event in self.told.events if isinstance(event, TopicGrown)]


@pytest.fixture
def checkpoint() -> Checkpoint:
    made = Checkpoint(MemoryStorage())
    made.bind({})
    return made


def test_the_number_of_the_first_run_stays(checkpoint: Checkpoint) -> None:
    sink = Topics(a=("1", 3))
    first = Run(sink, checkpoint)
    first.keys.take([A, B])
    assert (first.keys.counts, first.told.events) == ({"a": 3}, [])
    sink.now = {"a": ("1", 5), "b": ("2", 1)}
    second = Run(sink, checkpoint)
    second.keys.take([A])
    second.keys.take([B])
    assert second.keys.counts == {"a": 3, "b": 1}
    assert second.grown == [TopicGrown("a", 2)]
    (warning,) = second.told.warnings
    assert warning.startswith("topic a has 5 partitions by now, and keys go to the first 3, which it had when")
    assert "ingest checkpoint reset FILE --partitions a" in warning
    assert "co-partitioning" in warning


def test_a_topic_that_was_made_again_has_its_own_number(checkpoint: Checkpoint) -> None:
    Run(Topics(a=("1", 3)), checkpoint).keys.take([A])
    run = Run(Topics(a=("2", 5)), checkpoint)
    run.keys.take([A])
    assert (run.keys.counts, run.told.events) == ({"a": 5}, [])
    assert checkpoint.partitions() == {"a": KeptPartitions("2", 5)}


def test_a_topic_without_an_id_is_another_one_only_with_fewer_partitions(checkpoint: Checkpoint) -> None:
    Run(Topics(a=(NO_ID, 3)), checkpoint).keys.take([A])
    grown = Run(Topics(a=(NO_ID, 5)), checkpoint)
    grown.keys.take([A])
    assert (grown.keys.counts, grown.grown) == ({"a": 3}, [TopicGrown("a", 2)])
    upgraded = Run(Topics(a=("1", 5)), checkpoint)
    upgraded.keys.take([A])
    assert upgraded.keys.counts == {"a": 3}, "the cluster gives ids from an upgrade on: the keys stay where they are"
    assert checkpoint.partitions() == {"a": KeptPartitions("1", 3)}
    between = Run(Topics(a=(NO_ID, 5)), checkpoint)
    between.keys.take([A])
    assert checkpoint.partitions() == {"a": KeptPartitions("1", 3)}, "a broker of the older version answered"
    fewer = Run(Topics(a=(NO_ID, 2)), checkpoint)
    fewer.keys.take([A])
    assert (fewer.keys.counts, fewer.told.events) == ({"a": 2}, [])


def test_a_run_looks_now_and_then_and_says_each_growth_once(checkpoint: Checkpoint) -> None:
    sink = Topics(a=("1", 3))
    run = Run(sink, checkpoint)
    run.keys.take([A])
    before = run.keys.counts
    sink.now = {"a": ("1", 4)}
    run.keys.look()
    assert not run.told.events
    for moment in range(1, 4):
        run.time = moment * LOOK_S
        run.keys.look()
    assert run.grown == [TopicGrown("a", 1)]
    assert run.keys.counts is before, "workers get it again only where it is another one"
    sink.away, run.time = True, 5 * LOOK_S
    run.keys.look()
    sink.away, sink.now, run.time = False, {"a": ("2", 9)}, 7 * LOOK_S
    run.keys.look()
    assert run.grown == [TopicGrown("a", 1), TopicGrown("a", 0)]
    assert run.keys.counts == {"a": 9}
    assert len(run.told.warnings) == 1


def test_a_reset_takes_the_number_of_now(checkpoint: Checkpoint) -> None:
    Run(Topics(a=("1", 3), b=("2", 1)), checkpoint).keys.take([A, B])
    with pytest.raises(ConfigError, match="over the partitions of topic 'c'"):
        plan_reset(checkpoint, None, None, None, None, errors=False, partitions=["c"])
    planned = plan_reset(checkpoint, None, None, None, None, errors=False, partitions=["a"])
    assert planned.partitions == {"a": 3}
    apply_reset(checkpoint, planned)
    assert checkpoint.partitions() == {"b": KeptPartitions("2", 1)}
    run = Run(Topics(a=("1", 5), b=("2", 1)), checkpoint)
    run.keys.take([A, B])
    assert (run.keys.counts, run.told.events) == ({"a": 5, "b": 1}, [])


def test_workers_get_the_numbers_once(checkpoint: Checkpoint) -> None:
    sink = Topics(a=("1", 3), b=("2", 1))
    run = Run(sink, checkpoint)
    sent = PartitionBroadcast(InProcessRunner(lambda: (None, None)), run.keys)
    assert sent.newest() is None, "no topic is known"
    run.keys.take([A])
    first = sent.newest()
    assert first is not None
    assert first.value == {"a": 3}
    assert sent.newest() is first
    run.keys.take([B])
    newest = sent.newest()
    assert newest is not None
    assert newest.value == {"a": 3, "b": 1}


def test_numbers_that_cannot_be_read_are_damage(checkpoint: Checkpoint) -> None:
    for text in (b"[", b"[1]", b'{"a":3}', b'{"a":["1","many"]}'):
        checkpoint.storage.write("partitions.json", text)
        with pytest.raises(CheckpointError, match=r"damaged: partitions\.json"):
            checkpoint.partitions()
