"""Faults of runs into a table of a lake, which DuckDB reads: its rows have to be the last of each key, once."""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from delta_lake import DeltaLake
from kills import add
from lake import Lake
from rig import Rig
from storm import Report, Scale, broker
from table_reader import TableReader

if TYPE_CHECKING:
    from pathlib import Path

POINTS = ("before-decide:2", "after-decide:1", "before-add:1", "after-add:2", "before-done:2", "after-plan:1")


def lake_rig(folder: Path, bootstrap: str, scale: Scale, rate: int, kind: str) -> Rig:
    """A pipeline into a table of a lake, with a commit every half a second and a compaction after each five."""
    rig = Rig(folder, bootstrap, "exactly-once", total=scale.changes, seed=scale.seed, rate=rate)
    text = rig.file.read_text()
    head, rest = text.split("sink:\n", 1)
    name = rest.split("pipeline:\n", 1)[1]
    option = "catalog.properties.warehouse" if kind == "iceberg" else "warehouse"
    rig.file.write_text(
        f"{head}sink:\n  type: {kind}\n  {option}: {folder / 'lake'}\n"
        f"  sink.commit-interval: 500 ms\n  sink.compaction.commit.interval: 5\npipeline:\n{name}"
    )
    lake = Lake(folder / "lake") if kind == "iceberg" else DeltaLake(folder / "lake")
    rig.reader = TableReader(lambda: lake.ask("SELECT id, n FROM {}", "shop", "orders"))  # type: ignore[assignment]
    return rig


def lake_killed(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into Iceberg: `kill -9` of the driver, or of a worker, at random moments, in turn."""
    return _killed(folder, scale, "iceberg")


def delta_killed(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into Delta: `kill -9` of the driver, or of a worker, at random moments, in turn."""
    return _killed(folder, scale, "delta")


def lake_around_commits(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into Iceberg: the driver dies around what it stores of a batch, and around the commit of the table."""
    return _around_commits(folder, scale, "iceberg")


def delta_around_commits(folder: Path, _guarantee: str, scale: Scale) -> Report:
    """Into Delta: the driver dies around what it stores of a batch, and around the commit of the table."""
    return _around_commits(folder, scale, "delta")


def _killed(folder: Path, scale: Scale, kind: str) -> Report:
    with broker(folder) as bootstrap:
        rig = lake_rig(folder, bootstrap, scale, rate=500, kind=kind)
        rig.begin()
        for i in range(scale.moments):
            rig.progress()
            rig.moment(2.0)
            process = rig.process
            assert process is not None
            if i % 2:
                rig.until(lambda: bool(rig.workers()), "there are workers")
                victim = rig.chance.choice(sorted(rig.workers(), key=lambda p: p.pid))
                with suppress(psutil.Error):
                    victim.kill()
                    rig.strike(f"killed worker {victim.pid}")
                continue
            process.kill()
            rig.strike(f"killed driver {process.pid}")
            rig.started_again(process)
        return rig.finish()


def _around_commits(folder: Path, scale: Scale, kind: str) -> Report:
    with broker(folder) as bootstrap:
        rig = lake_rig(folder, bootstrap, scale, rate=1_000_000, kind=kind)
        rig.fill()
        for i in range(max(scale.moments, len(POINTS))):
            point = POINTS[i % len(POINTS)]
            rig.with_faults(driver=point)
            code = rig.once()
            if code == -signal.SIGKILL:
                rig.strike(f"the driver died {point}")
            add(rig, 2000)
        rig.with_faults()
        rig.once()
        return rig.read_all()
