"""What is done about a Kafka client beside its use."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import Consumer

from ingest.kafka import waiting


def test_a_client_that_does_not_close_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging:
        """As a consumer is whose broker has gone: that cannot be brought about at will."""

        entered, released = threading.Event(), threading.Event()

        def close(self) -> None:
            self.entered.set()
            self.released.wait()

    monkeypatch.setattr(waiting, "CLOSE_S", 0.05)
    hanging: Any = Hanging()
    waiting.close(hanging)
    assert hanging.entered.is_set()
    hanging.released.set()


def test_a_client_is_closed_and_may_be_again() -> None:
    consumer = Consumer({"group.id": "g", "log_level": 0})
    waiting.close(consumer)
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    waiting.close(consumer)
