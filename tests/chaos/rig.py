"""What every fault works on: numbered changes, a run that is started again when it dies, and a reader that counts.

Each change has a number of its own and is of one of some hundred keys, whose numbers grow. A reader of committed
records notes each number it sees: so it shows what is missing, what is there twice, and whether a key's order was kept.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from harness import INGEST
from storm import Report

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = 500
FAULTS = Path(__file__).parent.parent / "support" / "faults"
PATIENCE_S = 180.0


class Load(threading.Thread):
    """Sends numbered changes at a rate, more slowly the fewer are left, and the rest at once when told to finish."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, total: int, rate: int, **conf: Any) -> None:
        super().__init__(daemon=True)
        self.topic, self.partitions, self.total, self.rate = topic, partitions, total, rate
        self.sent = 0
        self._hurry = threading.Event()
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True,
            "message.timeout.ms": 300_000, "log_level": 0, **conf,
        })  # fmt: skip

    def run(self) -> None:
        while self.sent < self.total:
            left = self.total - self.sent
            # Slower towards the end: a fault needs something that is under way
            count = left if self._hurry.is_set() else max(1, min(self.rate // 20, left // 400))
            for number in range(self.sent, min(self.total, self.sent + count)):
                self._one(number)
            self.sent = min(self.total, self.sent + count)
            self._producer.poll(0)
            self._hurry.wait(0.05)
        assert self._producer.flush(300) == 0

    def _one(self, number: int) -> None:
        key = number % KEYS
        after = {"id": key, "n": number}
        source = {"connector": "mysql", "name": "s", "ts_ms": 1, "db": "shop", "table": "orders"}
        value = json.dumps({"before": None, "after": after, "source": source, "op": "u", "ts_ms": 1})
        while True:
            try:
                self._producer.produce(self.topic, value, b'{"id":%d}' % key, partition=key % self.partitions)
            except BufferError:
                self._producer.poll(0.1)
                continue
            return

    def finish(self) -> None:
        """Send what is left."""
        self._hurry.set()
        self.join()


class Reader(threading.Thread):
    """Reads what is committed, and notes the numbers in the order in which they come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.seen: Counter[int] = Counter()
        self.disorder = 0
        self.columns: Counter[str] = Counter()
        """How often a row had a value in a column that is not one of all rows."""
        self.ended = False
        self._last: dict[int, int] = {}
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "chaos-reader", "enable.auto.commit": False, "log_level": 0,
            "isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 2000,
        })  # fmt: skip

    def run(self) -> None:
        assigned = 0
        while not self.ended:
            if not assigned:
                with suppress(Exception):
                    found = self._consumer.list_topics(self.topic, timeout=2).topics[self.topic]
                    assigned = 0 if found.error else len(found.partitions)
                    self._consumer.assign([TopicPartition(self.topic, p, 0) for p in range(assigned)])
                time.sleep(0.1)
                continue
            for message in self._consumer.consume(5000, 0.1):
                if message.error() is None and message.value() is not None:
                    row = json.loads(message.value() or b"")
                    self.seen[row["n"]] += 1
                    if row["n"] <= self._last.get(row["id"], -1):
                        self.disorder += 1
                    self._last[row["id"]] = row["n"]
                    self.columns.update(name for name in row if name not in {"id", "n"} and row[name] is not None)
        self._consumer.close()


class Rig:
    """A pipeline under load, which is started again whenever it dies of what a fault does."""

    def __init__(
        self, folder: Path, bootstrap: str, guarantee: str, *, total: int, seed: int, rate: int = 1500,
        partitions: int = 4, replicas: int = 1, sink: str = "", sink_bootstrap: str = "", rest: str = "",
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.bootstrap, self.guarantee = folder, bootstrap, guarantee
        self.chance = random.Random(seed)
        self.name = f"chaos-{folder.name}-{os.getpid()}"
        self.topic, self.out = f"{self.name}.in", f"{self.name}.out"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        topics = [NewTopic(name, partitions, replicas) for name in (self.topic, self.out)]
        for future in admin.create_topics(topics).values():
            future.result(30)
        self.file = folder / "pipe.yaml"
        self.file.write_text(
            f"source:\n  type: kafka\n  properties.bootstrap.servers: {bootstrap}\n  topic: {self.topic}\n"
            "  scan.startup.mode: earliest-offset\n"
            f"sink:\n  type: upsert-kafka\n  properties.bootstrap.servers: {sink_bootstrap or bootstrap}\n"
            f"  sink.delivery-guarantee: {guarantee}\n{sink}"
            f"route:\n  - {{source-table: '\\.*', sink-table: {self.out}}}\npipeline:\n  name: {self.name}\n{rest}"
        )
        self.checkpoint = str(folder / "checkpoint")
        self.master = "local[2]"
        self.more: list[str] = []
        self.env = {**os.environ}
        self.program = [INGEST]
        self.load = Load(bootstrap, self.topic, partitions, total, rate)
        self.reader = Reader(bootstrap, self.out)
        self.report = Report(folder.name, guarantee, total)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._keeping = False
        self._keeper: threading.Thread | None = None
        self._began = time.monotonic()

    # -- the run -----------------------------------------------------------------------------------------------------

    def command(self, *arguments: str) -> list[str]:
        where = ["--checkpoint", self.checkpoint, "--master", self.master]
        return [*self.program, "run", str(self.file), *where, *self.more, *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the pipeline; its log is added to the file `log`."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(*arguments), stdout=log, stderr=log, env=self.env)
        self.starts += 1
        return self.process

    def begin(self) -> None:
        """Load, reader, and a run that is kept up; returns when the first changes have come through."""
        self.load.start()
        self.reader.start()
        self.start()
        self._keeping = True
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        self.until(lambda: len(self.reader.seen) > 0, "the first change comes through")

    def fill(self) -> None:
        """Send all changes before anything runs."""
        self.load.start()
        self.load.finish()

    def _keep(self) -> None:
        """As a supervisor does: a run that was killed, or that says that trying again may help, is started again."""
        while self._keeping:
            process = self.process
            if process is not None and process.poll() is not None:
                if process.returncode not in {-signal.SIGKILL, 75}:
                    self.wrong(f"a run ended with {process.returncode}")
                    return
                self.start()
            time.sleep(0.05)

    def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
        """Wait for something; raises AssertionError with the end of the log where it does not happen."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")[-3000:]
                raise AssertionError(f"{self.report.fault}: {what}: not within {seconds:.0f} s\n{log}")
            time.sleep(0.05)

    def progress(self, count: int = 1) -> None:
        """Wait until so many more changes have come through, or all have."""
        goal = min(len(self.reader.seen) + count, self.load.total)
        self.until(lambda: len(self.reader.seen) >= goal, f"{count} more changes come through")

    def started_again(self, before: subprocess.Popen[bytes]) -> None:
        """Wait until a run that died is followed by another one."""
        self.until(lambda: self.process is not before, "the run is started again")

    def strike(self, what: str) -> None:
        """Note that a fault happened."""
        self.report.struck += 1
        self.report.notes.append(f"{time.monotonic() - self._began:.2f} s: {what}")

    def wrong(self, what: str) -> None:
        """Note that something was not as the fault wants it."""
        self.report.wrong += 1
        self.report.notes.append(what)

    def moment(self, most: float) -> None:
        """Let a random time pass."""
        time.sleep(self.chance.uniform(0.0, most))

    def finish(self) -> Report:
        """Send the rest, wait for all of it, stop the run, and count."""
        self.load.finish()
        try:
            self.until(lambda: len(self.reader.seen) >= self.load.total, "all changes come through")
        except AssertionError as exc:
            self.wrong(str(exc)[-1500:])
        self.stop()
        time.sleep(2)  # what would be there twice has time to show
        self.reader.ended = True
        self.reader.join()
        return self.count()

    def stop(self) -> None:
        """End the run as an operator does."""
        self._keeping = False
        if self._keeper is not None:
            self._keeper.join()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                code = self.process.wait(90)
            except subprocess.TimeoutExpired:
                self.process.kill()
                code = self.process.wait()
            if code not in {0, -signal.SIGTERM}:  # it may have begun so late that it does not listen yet
                self.wrong(f"the run ended with {code} when it was told to stop")

    def count(self) -> Report:
        """What the reader saw, against what was sent."""
        report = self.report
        report.missing = len(set(range(self.load.total)) - self.reader.seen.keys())
        report.twice = sum(count - 1 for count in self.reader.seen.values())
        report.disorder = self.reader.disorder
        report.seconds = time.monotonic() - self._began
        return report

    def once(self, seconds: float = PATIENCE_S) -> int:
        """Run to the end of what is there; the exit code. Raises TimeoutExpired where that takes longer."""
        return self.start("--once").wait(seconds)

    def read_all(self) -> Report:
        """Read the sink's topic to its end, and count."""
        self.load.finish()
        if not self.reader.is_alive():
            self.reader.start()
        with suppress(AssertionError):
            self.until(lambda: len(self.reader.seen) >= self.load.total, "all changes come through", 30)
        time.sleep(2)
        self.reader.ended = True
        self.reader.join()
        return self.count()

    def with_faults(self, *, worker: str = "", driver: str = "") -> None:
        """Make the next run die at a point (`tests/support/faults`); without, it lives."""
        self.program, self.more, self.env = [INGEST], [], {**os.environ}
        if worker:
            folder = self.folder / f"fault-{self.starts}"
            folder.mkdir()
            path = os.pathsep.join(p for p in (str(FAULTS), os.environ.get("PYTHONPATH", "")) if p)
            self.env |= {"PYTHONPATH": path, "INGEST_FAULT": f"{worker}:{folder}"}
            self.more = ["--conf", "spark.python.daemon.module=faulty_daemon"]
        if driver:
            self.env |= {"INGEST_DRIVER_FAULT": driver}
            self.program = [sys.executable, str(FAULTS / "faulty_driver.py")]

    # -- processes ---------------------------------------------------------------------------------------------------

    def workers(self) -> list[psutil.Process]:
        """The Python workers of the run, without the daemon that forks them."""
        if self.process is None or self.process.poll() is not None:
            return []
        return workers_below(self.process.pid)


def workers_below(pid: int) -> list[psutil.Process]:
    """The Python workers below a process."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                parent = process.parent()
                if parent is not None and _is_daemon(process) and _is_daemon(parent):
                    found.append(process)
    return found


def _is_daemon(process: psutil.Process) -> bool:
    return any(name in process.cmdline() for name in ("ingest.task.daemon", "faulty_daemon"))


def executors_below(pid: int) -> list[psutil.Process]:
    """The executors of Spark below a process."""
    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                    found.append(process)
    return found
