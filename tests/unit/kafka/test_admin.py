"""What the client says of offsets that it does not know."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, TopicPartition

from ingest.errors import Unavailable
from ingest.kafka import admin
from ingest.kafka.admin import AdminConnection, Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence


class Client:
    """The client's answers, one request after the other: brokers give no such answer whenever one wants it."""

    def __init__(self, answers: Sequence[int]) -> None:
        self.answers = [*answers]

    def list_offsets(self, request: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        offset = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        futures = {split: Future[Any]() for split in request}
        for future in futures.values():
            future.set_result(SimpleNamespace(offset=offset))
        return futures

    def poll(self, _: float) -> None:
        pass


def cluster(monkeypatch: pytest.MonkeyPatch, *answers: int) -> Cluster:
    monkeypatch.setattr(admin, "SETTLE_S", 0.5)
    client = Client(answers)
    monkeypatch.setattr(AdminConnection, "client", client)
    return Cluster({"bootstrap.servers": "nowhere:1"})


def test_a_partition_without_a_leader_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster(monkeypatch, OFFSET_INVALID, 7).earliest([("t", 0)]) == {("t", 0): 7}


def test_a_partition_that_stays_without_a_leader_is_no_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=r"ask for the offsets of t\[0\].*Leader not available"):
        cluster(monkeypatch, OFFSET_INVALID).latest([("t", 0)])


def test_a_time_after_the_last_record_has_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster(monkeypatch, OFFSET_END).at_time([("t", 0)], 1) == {("t", 0): OFFSET_END}
