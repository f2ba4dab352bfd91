"""The native Kafka client tells what librdkafka does as the reference tells it. Needs no broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from harness import free_port

from ingest.kafka import handle, reference
from ingest.kafka.failures import error_of

if TYPE_CHECKING:
    from ingest.kafka.native.producer import Producer

pytestmark = pytest.mark.compiled("client")
NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def make(**conf: Any) -> Producer:
    from ingest.kafka.native.producer import Producer

    return Producer({**NOWHERE, **conf})


@pytest.mark.parametrize("conf", [
    {"linger.ms": "soon"}, {"no.such": "property"}, {"transactional.id": "t", "enable.idempotence": False},
    {"security.protocol": "ssl", "ssl.ca.location": "/no/such/file"},
])  # fmt: skip
def test_what_librdkafka_refuses_is_said_as_confluent_kafka_does(conf: dict[str, Any]) -> None:
    said = []
    for producer in (make, lambda **conf: reference.Producer({**NOWHERE, **conf})):
        with pytest.raises(KafkaException) as caught:
            producer(**conf)
        error = error_of(caught.value)
        said.append((error.code(), error.str()))
    assert said[0] == said[1]


def test_what_librdkafka_tells_waits_for_whoever_asks() -> None:
    nobody: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{free_port()}",
        "log_level": 4,
        "statistics.interval.ms": 100,
    }
    for made in (make(**nobody), reference.Producer(nobody)):
        errors: list[KafkaError] = []
        lines: list[Any] = []
        statistics = None
        limit = time.monotonic() + 20
        while not (errors and lines and statistics) and time.monotonic() < limit:
            made.poll()
            errors += made.errors()
            lines += made.log()[0]
            statistics = statistics or made.statistics()
            time.sleep(0.05)
        assert {error.code() for error in errors} & {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
        assert any("Connection refused" in text for _, _, text in lines), lines
        assert {level for level, _, _ in lines} <= {2, 3, 4}
        assert (statistics or b"").startswith(b"{")
        assert made.failures() == (0, None)
        assert made.close(10)


def test_there_are_no_statistics_that_nobody_asked_for() -> None:
    producer = make()
    for _ in range(5):
        producer.poll()
        time.sleep(0.05)
    assert producer.statistics() is None
    assert producer.close(10)


def test_a_version_that_was_not_tested_is_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from ingest.kafka.native import library

    assert library.load() == confluent_kafka.libversion()[0]
    handle.unusable.cache_clear()
    try:
        monkeypatch.setattr(library, "load", refuse)
        assert "was not tested" in handle.unusable()
        made = handle.make_producer(NOWHERE)
        assert isinstance(made, reference.Producer)
        handle.unusable.cache_clear()
        monkeypatch.setenv("INGEST_NATIVE", "off")
        assert handle.unusable() == "INGEST_NATIVE=off"
    finally:
        monkeypatch.undo()
        handle.unusable.cache_clear()
    assert handle.unusable() == ""


def refuse() -> str:
    msg = "librdkafka 9.9.9 was not tested"
    raise LookupError(msg)
