"""Faults of processes: drivers, workers and executors that are killed or stopped."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from brokers import Standalone
from rig import Rig, executors_below
from storm import Report, Scale, broker

if TYPE_CHECKING:
    from pathlib import Path


def driver_killed(folder: Path, guarantee: str, scale: Scale) -> Report:
    """`kill -9` of the driver at random moments, with all that it started left to itself."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=500)
        rig.begin()
        for _ in range(scale.moments):
            rig.progress()
            rig.moment(2.0)
            process = rig.process
            assert process is not None
            process.kill()
            rig.strike(f"killed driver {process.pid}")
            rig.started_again(process)
        return rig.finish()


def worker_killed(folder: Path, guarantee: str, scale: Scale) -> Report:
    """`kill -9` of a Python worker at random moments."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed)
        rig.begin()
        for _ in range(scale.moments):
            rig.progress()
            rig.moment(1.5)
            rig.until(lambda: bool(rig.workers()), "there are workers")
            victim = rig.chance.choice(sorted(rig.workers(), key=lambda p: p.pid))
            with suppress(psutil.Error):
                victim.kill()
                rig.strike(f"killed worker {victim.pid}")
        return rig.finish()


def executor_killed(folder: Path, guarantee: str, scale: Scale) -> Report:
    """`kill -9` of an executor, on a standalone cluster of two workers."""
    with broker(folder) as bootstrap:
        cluster = Standalone(folder, workers=2)
        try:
            rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=800)
            on_cluster(rig, cluster)
            rig.begin()
            for _ in range(scale.moments):
                rig.progress()
                rig.until(lambda: len(executors(cluster)) == 2, "both executors run")
                rig.moment(1.5)
                victim = rig.chance.choice(executors(cluster))
                victim.kill()
                rig.strike(f"killed executor {victim.pid}")
                time.sleep(0.5)
            return rig.finish()
        finally:
            cluster.stop()


def on_cluster(rig: Rig, cluster: Standalone, *conf: str) -> None:
    rig.master = cluster.url
    for setting in ("spark.driver.host=127.0.0.1", "spark.deploy.maxExecutorRetries=-1", *conf):
        rig.more += ["--conf", setting]


def executors(cluster: Standalone) -> list[psutil.Process]:
    found = [e for process in cluster.processes[1:] for e in executors_below(process.pid)]
    return sorted(found, key=lambda process: process.pid)


def executor_stopped(folder: Path, guarantee: str, scale: Scale) -> Report:
    """SIGSTOP of an executor with its workers until its tasks were done elsewhere, then SIGCONT."""
    with broker(folder) as bootstrap:
        cluster = Standalone(folder, workers=2)
        try:
            rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=800)
            quick = ("spark.network.timeout=6s", "spark.executor.heartbeatInterval=1s",
                     "spark.network.timeoutInterval=1s", "spark.storage.blockManagerHeartbeatTimeoutMs=5s")  # fmt: skip
            on_cluster(rig, cluster, *quick)
            rig.begin()
            for _ in range(max(2, scale.moments // 4)):
                rig.until(lambda: len(executors(cluster)) == 2, "both executors run")
                rig.progress()
                rig.moment(1.0)
                victim = rig.chance.choice(executors(cluster))
                stopped = [victim, *workers_and_daemons(victim.pid)]
                for process in stopped:
                    process.suspend()
                rig.progress(800)
                for process in stopped:
                    with suppress(psutil.Error):
                        process.resume()
                rig.strike(f"stopped executor {victim.pid} and {len(stopped) - 1} Python processes of its")
                time.sleep(1)
            return rig.finish()
        finally:
            cluster.stop()


def workers_and_daemons(pid: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def around_commits(folder: Path, guarantee: str, scale: Scale) -> Report:
    """A worker dies between the last write and the commit, or between the commit and its answer to the driver."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=1_000_000)
        rig.fill()
        for i in range(scale.moments):
            point = ("before-commit", "after-commit")[i % 2]
            nth = rig.chance.randrange(1, 3)
            # Each run starts with another share of the load, so that there is something to commit
            rig.with_faults(worker=f"{point}:{nth}")
            code = rig.once()
            if [*rig.folder.glob(f"fault-{rig.starts - 1}/struck")]:
                rig.strike(f"a worker died {point} number {nth}; the run ended with {code}")
            add(rig, 2000)
        rig.with_faults()
        rig.once()
        return rig.read_all()


def add(rig: Rig, count: int) -> None:
    """More changes, after those that were sent."""
    first = rig.load.total
    rig.load.total = rig.report.sent = first + count
    for number in range(first, first + count):
        rig.load._one(number)
    assert rig.load._producer.flush(60) == 0


def around_batches(folder: Path, guarantee: str, scale: Scale) -> Report:
    """The driver dies between the tasks' commits and the batch's done record, or between plan and tasks."""
    with broker(folder) as bootstrap:
        rig = Rig(folder, bootstrap, guarantee, total=scale.changes, seed=scale.seed, rate=1_000_000)
        rig.fill()
        for i in range(scale.moments):
            # The first done of a fresh checkpoint is of no batch: it says where the pipeline starts
            point = ("before-done:2", "after-plan:1", "before-done:1")[i % 3]
            rig.with_faults(driver=point)
            code = rig.once()
            if code == -signal.SIGKILL:
                rig.strike(f"the driver died {point}")
            add(rig, 2000)
        rig.with_faults()
        rig.once()
        return rig.read_all()
