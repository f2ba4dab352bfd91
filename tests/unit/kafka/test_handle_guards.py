"""The native Kafka client refuses to be entered again, and keeps no more than it may. Needs no broker."""

from __future__ import annotations

import gc
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException

from ingest.kafka.failures import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.kafka.native.producer import Producer
    from ingest.native.records import EncodedBatch

pytestmark = pytest.mark.compiled("client")
NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def make(**conf: Any) -> Producer:
    from ingest.kafka.native.producer import Producer

    return Producer({**NOWHERE, **conf})


@pytest.fixture
def producer() -> Iterator[Producer]:
    made = make(**{"queue.buffering.max.messages": 50_000})
    yield made
    made.purge()
    assert made.close(10)


def dropped(producer: Producer) -> int:
    """How many records were queued; they are not any more."""
    producer.purge()
    assert producer.flush(10) == 0
    return producer.failures()[0]


class To(tuple[Any, ...]):
    """A destination; something happens when it is looked up."""

    __slots__ = ()
    looked = 0
    then: Callable[[], object] = staticmethod(lambda: None)

    def __hash__(self) -> int:
        To.looked += 1
        To.then()
        return super().__hash__()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    To.looked, To.then = 0, staticmethod(lambda: None)
    yield
    To.then = staticmethod(lambda: None)


def test_a_client_is_not_entered_again_from_what_it_calls(producer: Producer) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: producer.write([(("t", None, 0), b"k", b"v")]), lambda: producer.send("t", b"k", b"v", None, None),
        lambda: producer.close(1),
    ]  # fmt: skip
    refused: list[str] = []

    def again() -> None:
        for call in calls:
            with pytest.raises(RuntimeError) as caught:
                call()
            refused.append(str(caught.value))
        producer.failures()
        producer.errors()

    To.then = again
    assert producer.write([(To(("one", None, 0)), b"k", b"v")]) == 1
    assert {("writing already" in said, "in use" in said) for said in refused} == {(True, False), (False, True)}
    To.then = lambda: None
    assert producer.write([(("one", None, 0), b"k", b"v")]) == 1
    assert dropped(producer) == 2


def test_a_list_that_changes_while_it_is_written(producer: Producer) -> None:
    records: list[Any] = [(To((f"t{i}", None, 0)), bytes(100), bytes(100)) for i in range(10)]
    To.then = records.clear
    assert producer.write(records) == 1

    class Failing(list[Any]):
        def __iter__(self) -> Any:
            raise LookupError

    with pytest.raises(LookupError):
        producer.send("t", None, b"", Failing([("h", b"")]), None)
    assert producer.send("t", None, b"", [("h", b""), ("h", None)], 1), "it is not left as if it were writing"
    assert dropped(producer) == 2


def test_what_is_not_a_record_is_refused(producer: Producer) -> None:
    wrong: list[Any] = [
        (("t", None, 0), "text", b""), (("t", None, 0), b""), (("t", None), b"", b""), (("t", None, "0"), b"", b""),
        (("a\0b", None, 0), b"", b""), (("t", [("h",)], 0), b"", b""), (("t", [(b"h", b"")], 0), b"", b""), None,
    ]  # fmt: skip
    for record in wrong:
        with pytest.raises((TypeError, ValueError, AttributeError)):
            producer.write([record])
    with pytest.raises(ClientError) as caught:
        producer.write([(("t" * 600, None, 0), b"", b"")])
    assert "topic" in caught.value.what
    assert dropped(producer) == 0


def a_batch(count: int, destination: Any, text: str = "x") -> EncodedBatch:
    """Records that native code has made."""
    from native_tables import Message, a_table, an_encoder

    table = a_table(destination=destination)
    rows = [Message(b'{"id":%d,"a":"%b"}' % (i, text.encode())) for i in range(count)]
    batch: EncodedBatch
    batch, stop = an_encoder(lambda _: table).encode(rows, 0)
    assert stop == len(batch) == count
    return batch


def test_a_batch_of_native_code_is_written_as_a_list_is(producer: Producer) -> None:
    batch = a_batch(100, To(("t", (("h", b"1"),), 0)))
    assert batch[1][1:] == (b'{"id":1}', b'{"id":1,"a":"x"}')
    assert producer.write(batch) == 100
    assert producer.write(batch, 90) == 100
    assert producer.write([*batch]) == 100
    assert producer.write(batch, 100) == 100
    with pytest.raises(ValueError, match="place"):
        producer.write(batch, -1)
    assert dropped(producer) == 210
    with pytest.raises(ClientError) as caught:
        producer.write(a_batch(3, ("t", None, 0), "x" * 2_000_000))
    assert caught.value.what.startswith("write a record of 2000")
    assert caught.value.what.endswith(" bytes to t")
    batch.targets.clear()
    with pytest.raises(IndexError, match="no destination"):
        producer.write(batch)
    assert producer.write(a_batch(1, ("t", None, 0))) == 1, "it is not left as if it were writing"


def test_a_full_queue_ends_a_batch_where_there_is_news() -> None:
    producer = make(**{"queue.buffering.max.messages": 10})
    batch = a_batch(25, ("t", None, 0))
    done, turns = 0, 0
    while done < 10 and turns < 100:
        done = producer.write(batch, done)
        turns += 1
        assert producer.errors(), "nobody is there"
    assert done == 10
    producer.purge()
    assert producer.flush(10) == 0
    assert producer.write(batch, done) == 20, "there was room, and then what failed is to be looked at"
    assert producer.failures()[0] == 10
    producer.purge()
    assert producer.close(10)


def test_a_client_is_not_entered_by_another_thread_while_it_waits_for_room() -> None:
    producer = make(**{"queue.buffering.max.messages": 1})
    ended = threading.Event()
    left: list[int] = []

    def write() -> None:
        records: list[Any] = [(("t", None, 0), b"k", b"v")] * 2
        done = 0
        while done < 2 and not ended.is_set():  # a broker that is away is news, again and again
            done = producer.write(records, done)
            producer.errors()
        left.append(done)

    thread = threading.Thread(target=write)
    thread.start()
    limit = time.monotonic() + 20
    while producer.queued() < 1 and time.monotonic() < limit:
        time.sleep(0.01)
    calls: list[Callable[[], Any]] = [
        lambda: producer.write([(("u", None, 0), b"k", b"v")]), lambda: producer.send("u", b"", b"", None, None),
        lambda: producer.close(1),
    ]  # fmt: skip
    refused = 0
    while refused < len(calls) and time.monotonic() < limit:  # it is out for a moment after news
        try:
            calls[refused]()
        except RuntimeError as exc:
            assert "already" in str(exc) or "in use" in str(exc)  # noqa: PT017  (it may take several tries)
            refused += 1
    assert refused == len(calls)
    ended.set()
    producer.purge()
    thread.join(20)
    assert left
    producer.purge()
    assert producer.close(10)
    for call in calls[:2]:
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert producer.close(10), "again"


def test_a_client_is_not_closed_while_a_thread_waits_for_records() -> None:
    from ingest.kafka.native.consumer import Consumer

    consumer = Consumer({**NOWHERE, "group.id": "g"})
    done: list[Any] = []
    threads = [threading.Thread(target=lambda: done.append(consumer.consume(10, 700))) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    with pytest.raises(RuntimeError, match="in use"):
        consumer.close(1)
    for thread in threads:
        thread.join()
    assert [found for found, _ in done] == [[], []]
    for most, millis in ((1 << 62, 1), (-1, 1), (0, 1), (1, -5), (1, 1 << 40)):
        with pytest.raises(ValueError, match="consumed"):
            consumer.consume(most, millis)
    assert consumer.close(10)
    with pytest.raises(RuntimeError, match="closed"):
        consumer.consume(1, 1)


def test_destinations_that_are_made_for_records_do_not_stay(producer: Producer) -> None:
    count = 20_100
    headers = (("h", b"1"),)
    destinations = [To(("t", headers, i)) for i in range(count)]
    producer.write([(to, None, b"v") for to in destinations])
    before = To.looked
    producer.write([(destinations[-1], None, b"v")])
    assert To.looked == before, "the last one is known without being looked up"
    producer.write([(destinations[20_001], None, b"v")])
    known = To.looked - before
    before = To.looked
    producer.write([(destinations[0], None, b"v")])
    assert To.looked - before > known, "the first ones are created again"
    assert dropped(producer) == count + 3


def test_a_client_is_of_the_process_that_made_it() -> None:
    from ingest.kafka.native.consumer import Consumer

    made: list[Any] = [make(), Consumer({**NOWHERE, "group.id": "g"})]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (made[0].poll, lambda: made[1].consume(1, 1), lambda: made[0].close(1)):
                with pytest.raises(RuntimeError, match="forked"):
                    call()
            made.clear()
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    limit = time.monotonic() + 20
    pid, status = 0, 1
    while not pid and time.monotonic() < limit:
        pid, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    assert (pid, status) == (child, 0)
    assert made[0].close(10)
    assert made[1].close(10)


def test_there_is_no_client_half_made() -> None:
    from ingest.kafka.native.consumer import Consumer
    from ingest.kafka.native.producer import Producer

    for half in (Producer.__new__(Producer), Consumer.__new__(Consumer)):
        half.errors()
        half.log()
        assert half.statistics() is None
        assert half.close(1)
    with pytest.raises(RuntimeError, match="closed"):
        Producer.__new__(Producer).poll()
    with pytest.raises(RuntimeError, match="closed"):
        Consumer.__new__(Consumer).unassign()
    with pytest.raises(KafkaException, match="No such configuration property"):
        make(**{"no.such": "1"})
    whole = make()
    with pytest.raises(RuntimeError, match="already"):
        whole.__init__(NOWHERE)  # type: ignore[misc]
