"""The faults, each a function that makes one happen on a rig of its own and returns what became of it.

`Scale` says how large: the whole suite has 100,000 changes and 20 moments, its short form a few thousand and two.
"""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from binlogs import mysql_to_changelog, mysql_to_delta, mysql_to_iceberg, mysql_to_postgres, mysql_to_topics
from brokers import Nodes
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from databases import postgres_around_commits, postgres_gone, postgres_killed
from harness import free_port
from kills import add, around_batches, around_commits, driver_killed, executor_killed, executor_stopped, worker_killed
from lakes import delta_around_commits, delta_killed, lake_around_commits, lake_killed
from proxy import Proxy
from rig import Rig
from storm import Report, Scale, broker

from ingest.kafka.admin import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BOTH = ("exactly-once", "at-least-once")
EXACTLY = ("exactly-once",)
FAST_TRANSACTIONS = "  properties.transaction.timeout.ms: 10000\n"


def brokers_bounced(folder: Path, guarantee: str, scale: Scale) -> Report:
    """Three brokers, replication 3, two in sync at least: one after the other is killed, or stopped, and comes back."""
    nodes = Nodes(folder)
    try:
        Cluster({"bootstrap.servers": nodes.bootstrap}).connect(90)
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
        while len(admin.list_topics(timeout=10).brokers) < 3:
            time.sleep(0.5)
        rig = Rig(folder, nodes.bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=800, replicas=3)
        rig.begin()
        for i in range(max(2, scale.moments // 3)):
            rig.progress()
            rig.moment(2.0)
            node, hard = (2, 3, 1)[i % 3], i % 2 == 0
            (nodes.kill if hard else nodes.stop)(node)
            rig.strike(f"broker {node} was {'killed' if hard else 'stopped'}")
            time.sleep(2)
            nodes.start(node)
            rig.until(lambda: nodes.all_in_sync([rig.topic, rig.out, "__transaction_state"][:2]), "all are in sync")
        return rig.finish()
    finally:
        nodes.close()


@contextmanager
def proxied(folder: Path) -> Iterator[tuple[str, str, Proxy]]:
    """A broker, its address, and its address behind a proxy."""
    inside, outside = free_port(), free_port()
    extra = (
        f"listeners=PLAINTEXT://127.0.0.1:{{port}},PROXIED://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{{controller}}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},PROXIED://127.0.0.1:{outside}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=PLAINTEXT\n"
    )
    with broker(folder, extra) as bootstrap:
        proxy = Proxy(outside, inside)
        try:
            yield bootstrap, f"127.0.0.1:{outside}", proxy
        finally:
            proxy.close()


def cut_off(folder: Path, guarantee: str, scale: Scale) -> Report:
    """The sink's clients are cut off for twice the transaction timeout."""
    with proxied(folder) as (bootstrap, outside, proxy):
        timeout = FAST_TRANSACTIONS if guarantee == "exactly-once" else ""
        rig = Rig(
            folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=800, sink=timeout,
            sink_bootstrap=outside,
        )  # fmt: skip
        rig.begin()
        for _ in range(max(1, scale.moments // 10)):
            rig.progress()
            rig.moment(2.0)
            proxy.cut_off(20.0)
            rig.strike("cut off for 20 s, twice the transaction timeout")
            rig.progress()
        return rig.finish()


def answers_lost(folder: Path, guarantee: str, scale: Scale) -> Report:
    """The answer to EndTxn is swallowed, or comes after the next transaction has begun."""
    with proxied(folder) as (bootstrap, outside, proxy):
        rig = Rig(
            folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=800,
            sink=FAST_TRANSACTIONS + "  properties.socket.timeout.ms: 8000\n", sink_bootstrap=outside,
        )  # fmt: skip
        rig.begin()
        for i in range(max(2, scale.moments // 3)):
            rig.progress()
            rig.moment(1.0)
            before = proxy.struck
            if i % 2:
                proxy.delay_s = 15.0
                proxy.delay += 1
            else:
                proxy.drop += 1
            while proxy.struck == before:
                rig.progress()
            rig.strike("an answer to EndTxn was delayed by 15 s" if i % 2 else "an answer to EndTxn was swallowed")
            rig.progress()
        return rig.finish()


def driver_gone(folder: Path, guarantee: str, scale: Scale) -> Report:
    """Everything of a run dies in the middle of a transaction, and no run comes back: readers wait for the timeout."""
    with broker(folder, "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000\n") as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=min(scale.changes, 5000), seed=scale.seed, rate=1_000_000,
                  sink=FAST_TRANSACTIONS)  # fmt: skip
        rig.fill()
        rig.with_faults(worker="before-commit:1")
        rig.more += ["--conf", "spark.task.maxFailures=1"]
        process = rig.start("--once")
        rig.until(lambda: bool([*rig.folder.glob("fault-0/struck")]), "a worker dies before its commit")
        for child in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with suppress(psutil.Error):
                child.kill()
        process.wait()
        rig.strike("all processes of the run were killed, with a transaction open")
        marker = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        partitions = Cluster({"bootstrap.servers": bootstrap}).topics([rig.out])[rig.out].partitions
        for partition in range(partitions):
            marker.produce(rig.out, b'{"id":-1,"n":%d}' % (-1 - partition), b"marker", partition=partition)
        marker.flush()
        rig.reader.start()
        began = time.monotonic()
        rig.until(lambda: all(-1 - p in rig.reader.seen for p in range(partitions)), "readers are let on", 40)
        rig.report.notes.append(f"readers went on {time.monotonic() - began:.1f} s later (transaction timeout 10 s)")
        early = sum(1 for number in rig.reader.seen if number >= 0)
        rig.report.notes.append(f"{early} changes were visible, committed before the deaths")
        rig.with_faults()
        rig.once()
        for partition in range(partitions):
            rig.reader.seen.pop(-1 - partition)
        rig.reader.disorder = 0  # the markers' numbers
        return rig.read_all()


def two_drivers_local(folder: Path, guarantee: str, scale: Scale) -> Report:
    """A second driver on a local checkpoint is refused."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=min(scale.changes, 20_000), seed=scale.seed)
        rig.begin()
        for _ in range(2):
            done = subprocess.run(rig.command("--once"), capture_output=True, text=True, check=False, timeout=120)
            if done.returncode == 73 and "in use" in done.stderr:
                rig.strike("a second driver was refused with 73")
            else:
                rig.wrong(f"the second ended with {done.returncode}: {done.stderr[-300:]}")
        return rig.finish()


def two_drivers_shared(folder: Path, guarantee: str, scale: Scale) -> Report:
    """A second driver on a shared checkpoint takes over; the older one is fenced and stops with a clear error."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=min(scale.changes, 30_000), seed=scale.seed, rate=800)
        shared = folder / "mounted"
        shared.mkdir()
        rig.checkpoint = "viewfs://c/ck/pipe"
        rig.more = ["--conf", f"spark.hadoop.fs.viewfs.mounttable.c.link./ck=file://{shared}"]
        rig.begin()
        rig._keeping = False
        assert rig._keeper is not None
        rig._keeper.join()
        for _ in range(max(2, scale.moments // 5)):
            rig.progress()
            older = rig.process
            assert older is not None
            rig.moment(1.0)
            rig.start()
            code = older.wait(120)
            log = (folder / "log").read_text(errors="replace")
            if code == 78 and ("was taken over by" in log or "another run has taken over" in log):
                rig.strike(
                    f"driver {older.pid} was fenced by {rig.process.pid if rig.process else 0}, and ended with 78"
                )
            else:
                rig.wrong(f"the older one ended with {code}")
            rig.progress()
        return rig.finish()


def checkpoint_deleted(folder: Path, guarantee: str, scale: Scale) -> Report:
    """The checkpoint is deleted: everything is written again, with one warning, and nothing is skipped."""
    with broker(folder) as bootstrap:
        total = min(scale.changes, 20_000)
        rig = Rig(folder, bootstrap, guarantee, total=total, seed=scale.seed, rate=1_000_000)
        rig.fill()
        rig.once()
        Path(rig.checkpoint).rename(f"{rig.checkpoint}.deleted")
        rig.once()
        warned = (folder / "log").read_text(errors="replace").count("older progress of this pipeline was found")
        if warned == 1:
            rig.strike("the checkpoint was deleted; one warning said that older progress was found")
        report = rig.read_all()
        report.notes.append(f"{report.twice} of {total} changes were written again, as they should be")
        report.twice -= total
        report.disorder -= min(report.disorder, 500)  # each key's numbers start over once
        return report


def positions_expired(folder: Path, guarantee: str, scale: Scale) -> Report:
    """What was committed of a half done batch is forgotten by the brokers: the run refuses, and says what to do."""
    extra = "offsets.retention.minutes=1\noffsets.retention.check.interval.ms=1000\n"
    with broker(folder, extra) as bootstrap:
        total = min(scale.changes, 5000)
        rig = Rig(folder, bootstrap, guarantee, total=total, seed=scale.seed, rate=1_000_000)
        rig.fill()
        rig.with_faults(driver="before-done:2")
        rig.once()
        rig.with_faults()
        time.sleep(75)
        code = rig.once()
        log = (folder / "log").read_text(errors="replace")
        if code == 1 and "has been forgotten by the sink's cluster" in log and "--drop-batch" in log:
            rig.strike("the run was refused with 1, and said why")
        else:
            rig.wrong(f"it ended with {code}")
        return rig.read_all()


def restarted_otherwise(folder: Path, guarantee: str, scale: Scale) -> Report:
    """After a half committed batch: other parallelism, and new partitions of the source."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=1_000_000)
        rig.fill()
        cluster = Cluster({"bootstrap.servers": bootstrap})
        text = rig.file.read_text()
        for i in range(max(3, scale.moments // 2)):
            point = ("before-done:2", "after-plan:1")[i % 2]
            rig.with_faults(driver=point)
            if rig.once() == -signal.SIGKILL:
                parallelism = (3, 1, 2)[i % 3]
                cluster.widen(rig.topic, 5 + i)
                rig.strike(f"died {point}; then parallelism {parallelism}, {5 + i} partitions")
                rig.file.write_text(f"{text}  parallelism: {parallelism}\n")
            add(rig, 2000)
        rig.with_faults()
        rig.once()
        return rig.read_all()


def schema_changed(folder: Path, guarantee: str, scale: Scale) -> Report:
    """The driver dies in the middle of a schema change: the change is there once, before its first row."""
    with broker(folder) as bootstrap:
        total = min(scale.changes, 4000)
        rig = Rig(folder, bootstrap, guarantee, total=total, seed=scale.seed, rate=1_000_000)
        rig.fill()
        rig.once()  # the table is there, so that each column is a change of it
        points = ("before-store:1", "after-store:1")
        for i in range(4):
            key, column = i % 500, f"c{i}"
            first = rig.load.total
            rig.load.total = rig.report.sent = first + 1
            after = f'{{"id":{key},"n":{first},"{column}":1}}'
            value = f'{{"before":null,"after":{after},"source":{{"db":"shop","table":"orders"}},"op":"u"}}'
            rig.load._producer.produce(rig.topic, value, b'{"id":%d}' % key, partition=key % 4)
            rig.load._producer.flush()
            rig.with_faults(driver=points[i % 2])
            if rig.once() == -signal.SIGKILL:
                rig.strike(f"the driver died {points[i % 2]} of column {column}")
            rig.with_faults()
            rig.once()
        shown = subprocess.run(
            [rig.program[0], "schema", "history", rig.checkpoint], capture_output=True, text=True, check=False
        ).stdout
        report = rig.read_all()
        for i in range(4):
            if shown.count(f"ADD COLUMN c{i} ") != 1:
                rig.wrong(f"column c{i} was added {shown.count(f'ADD COLUMN c{i} ')} times")
            if rig.reader.columns[f"c{i}"] != 1:
                rig.wrong(f"{rig.reader.columns[f'c{i}']} rows had a value in column c{i}, and one was sent")
        return report


STORMS: dict[Callable[[Path, str, Scale], Report], tuple[str, ...]] = {
    driver_killed: BOTH,
    worker_killed: BOTH,
    executor_killed: BOTH,
    around_commits: EXACTLY,
    around_batches: BOTH,
    executor_stopped: BOTH,
    brokers_bounced: BOTH,
    cut_off: BOTH,
    answers_lost: EXACTLY,
    driver_gone: EXACTLY,
    two_drivers_local: EXACTLY,
    two_drivers_shared: EXACTLY,
    checkpoint_deleted: EXACTLY,
    positions_expired: EXACTLY,
    restarted_otherwise: EXACTLY,
    schema_changed: EXACTLY,
    lake_killed: EXACTLY,
    lake_around_commits: EXACTLY,
    delta_killed: EXACTLY,
    delta_around_commits: EXACTLY,
    postgres_killed: EXACTLY,
    postgres_around_commits: EXACTLY,
    postgres_gone: EXACTLY,
    mysql_to_topics: EXACTLY,
    mysql_to_changelog: EXACTLY,
    mysql_to_postgres: EXACTLY,
    mysql_to_iceberg: EXACTLY,
    mysql_to_delta: EXACTLY,
}
"""Each fault, and the guarantees that it is to try."""
