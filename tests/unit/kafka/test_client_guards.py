"""The client's native code refuses to be entered again, and keeps no more destinations than it may. Needs no broker."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from ingest.kafka import direct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.kafka._client import Client

pytestmark = pytest.mark.compiled("client")
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


class Asked:
    """What the client asks; something happens each time."""

    def __init__(self) -> None:
        self.then: Callable[[], object] = lambda: None
        self.resolved = 0
        self.checked = threading.Event()

    def resolve(self, destination: Any) -> tuple[str, int, Any]:
        self.resolved += 1
        self.then()
        return destination[0], 0, [("h", b"1")]

    def refused(self, code: int, topic: str, size: int) -> None:
        raise ValueError(code, topic, size)

    def check(self, _client: Any) -> None:
        self.then()


@pytest.fixture
def writing() -> Iterator[tuple[Client, Asked, Any]]:
    conf: Any = {**NOWHERE, "queue.buffering.max.messages": 50_000, **direct.plugin()}
    producer, asked = Producer(conf), Asked()
    client = direct.attach(producer, asked)
    assert client is not None
    yield client, asked, producer
    asked.then = lambda: None
    client.close()
    producer.purge()
    producer.flush(1)


def test_a_client_is_not_entered_again_from_what_it_asks(writing: tuple[Client, Asked, Any]) -> None:
    client, asked, _ = writing
    calls: list[Callable[[], Any]] = [
        lambda: client.write([(("t",), b"k", b"v")]), lambda: client.send("t", b"k", b"v", None, None), client.close,
    ]  # fmt: skip
    refused: list[str] = []

    def again() -> None:
        for call in calls:
            with pytest.raises(RuntimeError) as caught:
                call()
            refused.append(str(caught.value))
        client.failures()
        client.notes()
        assert not client.busy()

    asked.then = again
    client.write([(("one",), b"k", b"v"), (("one",), b"k", b"v")])
    assert asked.resolved == 1
    assert [("writing already" in said, "in use" in said) for said in refused] == [(True, False)] * 2 + [(False, True)]
    client.write([(("one",), b"k", b"v")])


def test_a_list_that_changes_while_it_is_written(writing: tuple[Client, Asked, Any]) -> None:
    client, asked, _ = writing
    records: list[Any] = [((f"t{i}",), bytes(100), bytes(100)) for i in range(10)]
    asked.then = records.clear
    client.write(records)
    assert asked.resolved == 1

    class Failing(list[Any]):
        def __iter__(self) -> Any:
            raise LookupError

    with pytest.raises(LookupError):
        client.send("t", None, b"", Failing([("h", b"")]), None)


def test_a_client_is_not_entered_by_another_thread_while_it_waits_for_room() -> None:
    conf: Any = {**NOWHERE, "queue.buffering.max.messages": 1, **direct.plugin()}
    producer, asked = Producer(conf), Asked()
    client = direct.attach(producer, asked)
    assert client is not None
    ended = threading.Event()

    class Enough(Exception):
        pass

    def stop() -> None:
        if ended.is_set():
            raise Enough

    asked.then = stop
    raised: list[BaseException] = []

    def write() -> None:
        try:
            client.write([(("t",), b"k", b"v")] * 2)
        except Enough as exc:
            raised.append(exc)

    thread = threading.Thread(target=write)
    thread.start()
    limit = time.monotonic() + 20
    while len(producer) < 1 and time.monotonic() < limit:
        time.sleep(0.01)
    calls: list[Callable[[], Any]] = [
        lambda: client.write([(("u",), b"k", b"v")]), lambda: client.send("u", b"", b"", None, None), client.close,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match=r"already|in use"):
            call()
    ended.set()
    while thread.is_alive() and time.monotonic() < limit:  # a broker that is away is news, again and again
        thread.join(0.1)
        client.notes()
        if not raised and thread.is_alive():
            producer.purge()
    assert not thread.is_alive()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.write([(("t",), b"k", b"v")])
    producer.purge()
    producer.flush(1)


def test_a_client_is_not_closed_while_a_thread_waits_for_records() -> None:
    conf: Any = {**NOWHERE, "group.id": "g", **direct.plugin()}
    consumer = Consumer(conf)
    client = direct.attach(consumer)
    assert client is not None
    done: list[Any] = []
    threads = [threading.Thread(target=lambda: done.append(client.consume(10, 700))) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    with pytest.raises(RuntimeError, match="in use"):
        client.close()
    for thread in threads:
        thread.join()
    assert [found for found, _ in done] == [[], []]
    for most, millis in ((1 << 62, 1), (-1, 1), (0, 1), (1, -5), (1, 1 << 40)):
        with pytest.raises(TypeError, match="consume"):
            client.consume(most, millis)
    client.close()
    consumer.close()


def test_destinations_that_are_made_for_records_do_not_stay(writing: tuple[Client, Asked, Any]) -> None:
    client, asked, _ = writing
    count = 20_100
    client.write([(("t", i), None, b"v") for i in range(count)])
    assert asked.resolved == count
    client.write([(("t", count - 1), None, b"v"), (("t", 20_000), None, b"v")])
    assert asked.resolved == count, "the last ones are known"
    client.write([(("t", 0), None, b"v")])
    assert asked.resolved == count + 1, "the first ones are not"


def test_there_is_no_client_half_made() -> None:
    assert direct.plugin()
    from ingest.kafka import _client

    with pytest.raises(TypeError):
        _client.Client.__new__(_client.Client)
    with pytest.raises(RuntimeError, match="no client was made"):
        _client.Client(None, None)
