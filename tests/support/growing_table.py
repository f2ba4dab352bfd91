"""A table that gets a column between two runs, whatever format its rows are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness import message

if TYPE_CHECKING:
    from harness import Kafka, Pipeline

UPSERTS: Final[list[Any]] = [
    ({"id": 1}, {"id": 1, "name": "a"}),
    ({"id": 1}, {"id": 1, "name": "b", "n": 1.5}),
    ({"id": 1}, None),
    ({"id": 2}, {"id": 2, "name": None}),
    ({"id": 2}, None),
    ({"id": 3}, {"id": 3, "name": "c", "n": None}),
]
"""Keys and values of the records that `run_twice` leaves, by their keys: of one key the order counts."""


def run_twice(kafka: Kafka, pipeline: Pipeline) -> str:
    """Run a pipeline over `shop.orders`, which has one column more the second time. Return the topic of its records."""
    first, grown = {"id": 1, "name": "a"}, {"id": 1, "name": "b", "n": 1.5}
    kafka.send(pipeline.topic, message("c", None, first), message("c", None, {"id": 2, "name": None}))
    done = pipeline.run()
    assert done.code == 0, done.err
    kafka.send(pipeline.topic, message("u", first, grown))
    kafka.send(pipeline.topic, message("u", {"id": 2, "name": None}, {"id": 3, "name": "c", "n": None}))
    kafka.send(pipeline.topic, message("d", grown, None))
    done = pipeline.run()
    assert done.code == 0, done.err
    return pipeline.out("orders")
