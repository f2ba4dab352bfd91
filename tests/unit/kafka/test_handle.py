"""The native Kafka client tells what librdkafka does as the reference tells it. Needs no broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from examples import examples
from harness import free_port
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import compiled
from ingest.kafka import handle, reference
from ingest.kafka.failures import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def partition_of(producer: Any, destination: tuple[Any, ...], key: bytes | None) -> int:
    """The partition that a record was queued for."""
    assert producer.write([(destination, key, b"v")], 0) == 1
    producer.purge()
    assert producer.flush(5) == 0
    failed = producer.failures()[1]
    assert failed is not None
    return int(failed[2])


@pytest.fixture(scope="module")
def keepers() -> Iterator[tuple[Any, Any]]:
    """A producer of each kind, with a topic whose number of partitions is kept."""
    made = make(), reference.Producer(NOWHERE)
    yield made
    for producer in made:
        assert producer.close(10)


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=20), st.integers(1, 1000))
def test_keys_are_hashed_over_the_partitions_that_are_kept(keepers: tuple[Any, Any], key: bytes, count: int) -> None:
    expected = (reference.murmur2(key) & 0x7FFFFFFF) % count
    for producer in keepers:
        counts = {"t": count}
        producer.keep_partitions(counts)
        for destination in (("t", None, -1), ("t", (("h", b"x"),), -1), ("t", None, -1, 1_700_000_000_000)):
            assert partition_of(producer, destination, key) == expected
        assert partition_of(producer, ("t", None, 7), key) == 7, "a partition that is given stays"
        assert partition_of(producer, ("t", None, (2**31 + 5).to_bytes(4, "big")), None) == (2**31 + 5) % count
        unchosen = -1 if producer is keepers[0] else 0  # as both tell of a record that the client has not placed yet
        assert partition_of(producer, ("t", None, -1), None) == unchosen, "without a key there is nothing to hash"
        assert partition_of(producer, ("other", None, -1), key) == unchosen
        producer.keep_partitions({"t": 1})
        assert partition_of(producer, ("t", None, -1), key) == 0


@pytest.mark.parametrize(("key", "hashed"), [
    (b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
])  # fmt: skip
def test_the_hash_is_that_of_the_java_client(key: bytes, hashed: int) -> None:
    """The values of the Java client's own test of `Utils.murmur2`."""
    assert reference.murmur2(key) == hashed & 0xFFFFFFFF


def test_a_number_of_partitions_that_cannot_be_is_refused() -> None:
    for count in (0, -1, 1 << 31):
        with pytest.raises(ValueError, match="cannot have"):
            make().keep_partitions({"t": count})


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
        monkeypatch.setattr(compiled, "USED", False)
        assert handle.unusable() == "INGEST_NATIVE=off"
    finally:
        monkeypatch.undo()
        handle.unusable.cache_clear()
    assert handle.unusable() == ""


def refuse() -> str:
    msg = "librdkafka 9.9.9 was not tested"
    raise LookupError(msg)
