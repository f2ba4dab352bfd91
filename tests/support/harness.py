"""What the tests work with: topics of their own, a shop's changes as Debezium sends them, runs of the command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from examples import own_name
from warm import forked

from ingest.errors import Unavailable
from ingest.kafka.admin import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared_java import SharedJava

INGEST = str(Path(sys.executable).with_name("ingest"))
Row = dict[str, Any]


EXACTLY = "  sink.delivery-guarantee: exactly-once\n"
FAULTS = Path(__file__).parent / "faults"


def time_with(**instead: Callable[..., Any]) -> SimpleNamespace:
    """The module `time` with other functions, for the module under test alone.

    Patched in `time` itself, a function is another one for each thread of the process: a loop that some other test has
    left in one no longer sleeps, or never ends.
    """
    return SimpleNamespace(**{**vars(time), **instead})


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Record:
    """What a reader of a topic sees."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int
    """Milliseconds since 1970."""


class Kafka:
    """A test's own topics on the broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = own_name("t")
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.cluster = Cluster({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        for future in self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
            future.result(10)
        assert self.cluster.wait_until(lambda: topic in self.cluster.topics([topic]), 10)
        return topic

    def clear(self) -> None:
        """Delete every topic of the broker."""
        deadline = time.monotonic() + 30
        while names := [name for name in self.admin.list_topics(timeout=10).topics if not name.startswith("__")]:
            for future in self.admin.delete_topics(names).values():
                future.exception(10)
            assert time.monotonic() < deadline, names
            time.sleep(0.05)

    def producer(self, **conf: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **conf})

    def send(self, topic: str, *messages: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
        producer = self.producer()
        for key, value in messages:
            producer.produce(topic, value, key, partition=partition)
        assert producer.flush(20) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """Everything in a topic, by partition and offset."""
        consumer = Consumer({
            "bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False,
            "isolation.level": isolation, "auto.offset.reset": "earliest",
        })  # fmt: skip
        out = []
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            found = {p: watermarks(consumer, TopicPartition(topic, p)) for p in partitions}
            ends = {p: end for p, (first, end) in found.items() if first < end}
            splits = [TopicPartition(topic, p, found[p][0]) for p in ends]
            consumer.assign(splits)
            while any(split.offset < ends[split.partition] for split in consumer.position(splits)):
                message = consumer.poll(0.05)
                while message is not None:
                    assert message.error() is None
                    headers = message.headers() or []
                    at = message.partition() or 0, message.offset() or 0
                    out.append(Record(*at, message.key(), message.value(), list(headers), message.timestamp()[1]))
                    message = consumer.poll(0)  # what is here already
        finally:
            consumer.close()
        return sorted(out, key=lambda record: (record.partition, record.offset))

    def table(self, topic: str) -> dict[str, Row]:
        """What a compacted topic holds: by key, the last value."""
        rows: dict[str, Row] = {}
        for record in self.read(topic):
            key = (record.key or b"").decode()
            rows.pop(key, None)
            if record.value is not None:
                rows[key] = json.loads(record.value)
        return rows

    def ids(self, topic: str) -> set[int]:
        """The ids of the rows that a compacted topic holds."""
        return {row["id"] for row in self.table(topic).values()}

    def end(self, topic: str) -> int:
        """How many offsets a topic has used."""
        deadline = time.monotonic() + 30
        while True:
            try:
                splits = [(topic, p) for p in range(self.cluster.topics([topic])[topic].partitions)]
                return sum(self.cluster.latest(splits, committed=False).values())
            except (Unavailable, KeyError):  # the broker was restarted a moment ago
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def watermarks(consumer: Consumer, split: TopicPartition) -> tuple[int, int]:
    """Where a partition begins and ends; a topic that was just made has its leader in a moment."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return consumer.get_watermark_offsets(split, timeout=10)
        except KafkaException as exc:
            error = exc.args[0]
            assert isinstance(error, KafkaError)
            leaderless = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError._NOENT}
            if error.code() not in leaderless or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def debezium(
    op: str, before: Row | None, after: Row | None, table: str = "orders", db: str = "shop", **extra: Any
) -> bytes:
    """A change message without the schema envelope."""
    source = {"connector": "mysql", "name": "s", "ts_ms": 1, "db": db, "table": table}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, **extra}).encode()


def message(op: str, before: Row | None, after: Row | None, table: str = "orders") -> tuple[bytes, bytes]:
    """Key and value of a change, keyed by `id`."""
    key = json.dumps({"id": (after or before or {})["id"]}).encode()
    return key, debezium(op, before, after, table)


@dataclass
class Result:
    """What a run of the command left."""

    code: int
    out: str
    err: str
    events: list[dict[str, Any]] = field(default_factory=list)


class Background:
    """A command in the background; its output goes to files: a pipe that nobody reads is soon full."""

    def __init__(self, command: list[str], env: Mapping[str, str], folder: Path, cwd: Path | None = None) -> None:
        name = own_name("run-")
        self._files = [folder / f"{name}.out", folder / f"{name}.err"]
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            warm = forked(command, env, cwd or Path.cwd(), out.fileno(), err.fileno())
            self._process = warm or subprocess.Popen(command, stdout=out, stderr=err, env=env, cwd=cwd)
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, or None where the command has not ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0)
        return self._process.returncode

    @property
    def returncode(self) -> int:
        """The exit code of a command that has ended."""
        code = self.poll()
        assert code is not None
        return code

    def wait(self, timeout: float | None = None) -> int:
        return self._process.wait(timeout)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def said(self) -> str:
        """What is on standard error so far."""
        return self._files[1].read_text()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; stdout and stderr as text."""
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()  # it would slow the tests after this one
            self.wait()
            raise
        out, err = (file.read_text() for file in self._files)
        return out, err


class Pipeline:
    """A pipeline file of a test and its checkpoint."""

    def __init__(self, folder: Path, kafka: Kafka, topic: str, java: SharedJava | None = None) -> None:
        self.kafka, self.topic, self.java = kafka, topic, java
        self.file = folder / "pipe.yaml"
        self.checkpoint = folder / "checkpoint"
        self.prefix = f"{kafka.name}.out"
        self.write()

    def write(
        self, source: str = "", sink: str = "", rest: str = "", *, route: bool = True, mode: str = "earliest-offset"
    ) -> None:
        """Write the file; each part is more lines of its section."""
        routes = f"route:\n  - {{source-table: '\\.*', sink-table: {self.prefix}.<>, replace-symbol: <>}}\n"
        self.file.write_text(
            f"source:\n  type: kafka\n  properties.bootstrap.servers: {self.kafka.bootstrap}\n"
            f"  topic: {self.topic}\n{f'  scan.startup.mode: {mode}' if mode else ''}\n{source}"
            f"sink:\n  type: upsert-kafka\n  properties.bootstrap.servers: {self.kafka.bootstrap}\n{sink}"
            f"{routes if route else ''}{rest}"
        )

    def command(self, *arguments: str) -> list[str]:
        return [
            INGEST, "run", str(self.file), "--checkpoint", str(self.checkpoint), "--master", "local[2]", *arguments,
        ]  # fmt: skip

    def begin(self, *arguments: str) -> Background:
        """Run in the background, in a Java that such runs share; a run in the foreground may join another one."""
        assert self.java is not None
        return self.java.beside(lambda env: Background(self.command(*arguments), env, self.file.parent))

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Background:
        """Run in the background with a Java of its own."""
        return Background(self.command(*arguments), {**os.environ, **(env or {})}, self.file.parent)

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Result:
        """Run with --once to the end; without properties of Spark, in the Java that tests share."""
        return self.finished(self.command("--once", *arguments), None if "--conf" in arguments else self.java, env)

    def plan(self, *arguments: str) -> Result:
        """Show what a run would do."""
        command = [INGEST, "plan", str(self.file), "--checkpoint", str(self.checkpoint), *arguments]
        return self.finished(command, self.java)

    def finished(self, command: list[str], java: SharedJava | None, env: Mapping[str, str] | None = None) -> Result:
        """Run a command to its end."""
        return finished(command, java, self.file.parent, env)

    def out(self, table: str) -> str:
        """The topic of a table."""
        return f"{self.prefix}.{table}"


def until(condition: Callable[[], bool], seconds: float, process: Background | subprocess.Popen[str]) -> None:
    """Wait for something that a run in the background does; where it does not, fail with what the run said."""
    deadline = time.monotonic() + seconds
    while not condition():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            process.kill()
            said = process.communicate()[1]
            msg = f"{'the run ended' if ended else f'it did not happen within {seconds} s'}:\n{said[-5000:]}"
            raise AssertionError(msg)
        time.sleep(0.2)


def finish(process: Background | subprocess.Popen[str], timeout: float = 300) -> Result:
    """Wait for a run, which is ended if it hangs, and take its log apart."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    return Result(process.returncode, out, err, events)


def finished(
    command: list[str],
    java: SharedJava | None,
    folder: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    fault: str = "",
) -> Result:
    """Run a command to its end, in the Java that tests share or in its own; what it says is kept in the folder.

    `fault`: where the driver dies, as `faults/faulty_driver.py` has it.
    """
    dies = {}
    if fault:
        command = [sys.executable, str(FAULTS / "faulty_driver.py"), *command[1:]]
        dies = {"INGEST_DRIVER_FAULT": fault}
    if java is None:
        return finish(Background(command, {**os.environ, **(env or {}), **dies}, folder, cwd))
    shared = java.of(env, cwd)
    try:
        return finish(Background(command, {**shared.joined(), **dies}, folder, cwd))
    finally:
        shared.left()


def ids(kafka: Kafka, topic: str, isolation: str = "read_committed") -> list[int]:
    """The ids of the rows in a topic, in the order of its partitions, each as often as it is there."""
    return [int((record.key or b"")[6:-1]) for record in kafka.read(topic, isolation)]


def faulty(pipeline: Pipeline, folder: Path, *, worker: str = "", driver: str = "", replay: bool = False) -> Result:
    """Run to the end, or replay dead letters, with a death of a worker or of the driver."""
    command = pipeline.command() if replay else pipeline.command("--once")
    if replay:
        command[1] = "replay"
    if worker:
        folder.mkdir(exist_ok=True)
        faults = {
            "spark.python.daemon.module": "faulty_daemon", "spark.executorEnv.PYTHONPATH": FAULTS,
            "spark.executorEnv.INGEST_FAULT": f"{worker}:{folder}",
        }  # fmt: skip
        command += [word for name, value in faults.items() for word in ("--conf", f"{name}={value}")]
    return finished(command, pipeline.java, pipeline.file.parent, fault=driver)
