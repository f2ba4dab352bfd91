"""`make bench`: how long a change takes from the producer to a reader of the sink topic of a running pipeline.

Prints the median and the 99th percentile at a steady rate, the delay of the first record after a time of idleness, and
what planning a batch over many partitions costs. See README.md here.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from setting import options_of, own_broker, pipeline_file, save, start

from ingest.kafka.admin import Cluster
from ingest.sources.kafka.options import KafkaSource

if TYPE_CHECKING:
    import argparse
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

PARTITIONS = 4
_MESSAGE = (
    '{"before":null,"after":{"id":%d,"sent":%d,"status":"NEW","amount":12.5,"note":"customer asked for gift wrap"},'
    '"source":{"connector":"mysql","name":"shop","ts_ms":1,"db":"shop","table":"orders"},"op":"c","ts_ms":1}'
)


class Feed:
    """Produces at a rate, and knows when."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Connect."""
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10})
        self.topic = topic
        self.sent = 0

    def run(self, rate: int, seconds: float) -> None:
        """Send `rate` messages a second, each with the time at which it was sent, in microseconds."""
        started, count = time.time(), 0
        while (now := time.time()) < started + seconds:
            while count < (now - started) * rate:
                self.one()
                count += 1
            self.pause()
        self.flush()

    def pause(self) -> None:
        """Let a millisecond pass."""
        self.producer.poll(0.001)

    def flush(self) -> None:
        """Wait until all that was sent is there."""
        self.producer.flush()

    def one(self) -> None:
        """Send one message."""
        key = self.sent
        self.sent += 1
        value = _MESSAGE % (key, time.time() * 1e6)
        self.producer.produce(self.topic, value, b'{"id":%d}' % key, partition=key % PARTITIONS)


def load(make: Callable[[], Feed], first: int, rate: int, seconds: float) -> tuple[int, float]:
    """Send at a rate, in a process of its own: it shall not compete with the reader for Python.

    Returns how many were sent until now, and when it began, after the feed had connected.
    """
    spawn = get_context("spawn")  # Kafka clients do not survive a fork
    sent = spawn.Queue()
    process = spawn.Process(target=_load, args=(make, first, rate, seconds, sent))
    process.start()
    result: tuple[int, float] = sent.get()
    process.join()
    return result


def _load(make: Callable[[], Feed], first: int, rate: int, seconds: float, sent: Any) -> None:
    feed = make()
    feed.sent = first
    for _ in range(PARTITIONS):
        feed.one()
    feed.flush()  # connected
    begun = time.time()
    feed.run(rate, seconds)
    sent.put((feed.sent, begun))


class Reader:
    """Reads the sink topic as anybody would, and notes how old each row is when it comes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        """Begin to read, in a thread."""
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "latency", "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100, "topic.metadata.refresh.interval.ms": 500, "enable.auto.commit": False,
        })  # fmt: skip
        self.consumer.subscribe([topic])
        self.delays: list[tuple[float, float]] = []
        self.ended = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        """Read until somebody says that it is over."""
        while not self.ended:
            for message in self.consumer.consume(1000, 0.01):
                if message.error() is None:
                    sent = int((message.value() or b"").split(b'"sent":', 1)[1].split(b",", 1)[0]) / 1e6
                    self.delays.append((sent, time.time() - sent))
        self.consumer.close()


def measure(bootstrap: str, folder: Path, options: argparse.Namespace, guarantee: str) -> None:
    """The whole measurement for a guarantee, in one run of the pipeline."""
    topic = f"latency-{guarantee}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    sink = f"  sink.delivery-guarantee: {guarantee}\n"
    file = pipeline_file(folder, bootstrap, topic, f"{topic}.out", PARTITIONS, sink=sink)
    make = partial(Feed, bootstrap, topic)
    with observed(bootstrap, file, folder / guarantee, make) as (pipeline, reader, feed):
        delays = delays_of(pipeline, reader, feed, make, options)
        percent = quantiles(delays, n=100)
        print(
            f"{guarantee}, end to end at {options.rate:,} messages/s for {options.seconds} s: "
            f"p50 {median(delays) * 1e3:.0f} ms, p99 {percent[98] * 1e3:.0f} ms, longest {max(delays) * 1e3:.0f} ms"
        )
        time.sleep(options.idle)
        feed.one()
        feed.flush()
        wait(lambda: len(reader.delays) >= feed.sent, pipeline, 60)
        print(f"{guarantee}, first record after {options.idle} s of idleness: {reader.delays[-1][1]:.2f} s")
        found = {
            f"{guarantee}, p50, ms": [median(delays) * 1e3],
            f"{guarantee}, p99, ms": [percent[98] * 1e3],
            f"{guarantee}, first record after idleness, s": [reader.delays[-1][1]],
        }
        save(options, "latency", found)


@contextmanager
def observed(
    bootstrap: str, file: Path, folder: Path, make: Callable[[], Feed]
) -> Iterator[tuple[subprocess.Popen[bytes], Reader, Feed]]:
    """A pipeline that runs into topics named like its file, a reader of `orders` there, and a feed that has begun."""
    feed = make()
    feed.run(100, 1)
    folder.mkdir()
    pipeline = start(file, folder)
    reader = Reader(bootstrap, f"{file.stem}.orders")
    try:
        wait(lambda: len(reader.delays) >= feed.sent, pipeline, 60)
        yield pipeline, reader, feed
    finally:
        pipeline.terminate()
        pipeline.wait(60)
        reader.ended = True
        reader.thread.join()


def delays_of(
    pipeline: subprocess.Popen[bytes], reader: Reader, feed: Feed, make: Callable[[], Feed], options: argparse.Namespace
) -> list[float]:
    """The delays of all records at a rate, in seconds, after the pipeline was warmed up."""
    feed.sent, _ = load(make, feed.sent, options.rate, 5)
    feed.sent, begun = load(make, feed.sent, options.rate, options.seconds)
    wait(lambda: len(reader.delays) >= feed.sent, pipeline, 60)
    return [delay for sent, delay in reader.delays if sent >= begun]


def wait(until: Any, pipeline: subprocess.Popen[bytes], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        if pipeline.poll() is not None or time.monotonic() > deadline:
            sys.exit("the pipeline ended, or records did not come")
        time.sleep(0.01)


def planning(bootstrap: str, options: argparse.Namespace) -> None:
    """What the driver asks Kafka for one batch, over 1,000 partitions of 50 topics."""
    from ingest.driver import pacing

    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"many{i}" for i in range(50)]
    for future in admin.create_topics([NewTopic(name, 20, 1) for name in names]).values():
        future.result()
    cluster = Cluster({"bootstrap.servers": bootstrap})
    cluster.wait_until(lambda: len(cluster.topics(names)) == len(names), 30)
    source = KafkaSource.model_validate({
        "type": "kafka", "topic": ";".join(names), "properties.*": {"bootstrap.servers": bootstrap},
        "scan.startup.mode": "earliest-offset",
    }).coordinator("bench", print)  # fmt: skip
    source.connect()
    time.sleep(5)  # a thousand leaders are elected
    positions = source.start({}, {}, "bench")
    shards: dict[tuple[str, int], int] = {}
    took = []
    for _ in range(20):
        started = time.perf_counter()
        ends = source.ends(positions)
        shards = pacing.assign_shards(positions, shards, 2)
        pacing.even_ranges(positions, {**ends, (names[0], 0): ends[names[0], 0] + 1}, shards, 20_000)
        took.append(time.perf_counter() - started)
    source.close()
    print(f"planning a batch over {len(positions):,} partitions of {len(names)} topics: {median(took) * 1e3:.0f} ms")
    save(options, "latency", {"planning a batch over 1,000 partitions, ms": [seconds * 1e3 for seconds in took]})


def main() -> None:
    """Measure, and print."""
    arguments = options_of(rate=5_000)
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--idle", type=float, default=120)
    options = arguments.parse_args()
    with own_broker() as (bootstrap, folder):
        for guarantee in ("at-least-once", "exactly-once"):
            measure(bootstrap, folder, options, guarantee)
        planning(bootstrap, options)


if __name__ == "__main__":
    main()
