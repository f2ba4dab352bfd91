"""Exactly-once into Kafka, without faults: what is visible, what is remembered, who is let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness import message

if TYPE_CHECKING:
    from harness import Kafka, Pipeline

pytestmark = pytest.mark.kafka
EXACTLY = "  sink.delivery-guarantee: exactly-once\n"


def ids(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[int]:
    """The ids of the rows in a topic, in the order of its partitions, each as often as it is there."""
    return [int((record.key or b"")[6:-1]) for record in kafka.read(topic, isolation)]


def test_everything_arrives_once_over_several_runs(kafka: Kafka, pipeline: Pipeline) -> None:
    pipeline.write(sink=EXACTLY)
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(1000)])
    assert pipeline.run().code == 0
    kafka.send(pipeline.topic, *[message("c", None, {"id": i}) for i in range(1000, 1500)], partition=1)
    done = pipeline.run()
    assert done.code == 0, done.err
    assert sorted(ids(kafka, pipeline.out("orders"))) == [*range(1500)]
