"""The faults of `make chaos` in short: a few thousand changes, and each fault once or twice.

A driver that is killed with at-least-once is in test_failures.py, at 20 moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from binlogs import mysql_to_changelog, mysql_to_delta, mysql_to_iceberg, mysql_to_postgres, mysql_to_topics
from databases import postgres_around_commits, postgres_gone
from kills import driver_killed, executor_stopped, worker_killed
from lakes import delta_around_commits, lake_killed
from storm import Scale
from storms import answers_lost, cut_off, two_drivers_shared

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storm import Report

pytestmark = [pytest.mark.usefixtures("java"), pytest.mark.timeout(600)]
SHORT = Scale(changes=6000, moments=2, seed=7)


@pytest.mark.parametrize(
    ("storm", "guarantee"),
    [
        (driver_killed, "exactly-once"),
        (worker_killed, "exactly-once"),
        (executor_stopped, "exactly-once"),
        (cut_off, "exactly-once"),
        (answers_lost, "exactly-once"),
        (two_drivers_shared, "exactly-once"),
        (lake_killed, "exactly-once"),
        (delta_around_commits, "exactly-once"),
        (postgres_around_commits, "exactly-once"),
        (postgres_gone, "exactly-once"),
        (mysql_to_topics, "exactly-once"),
        (mysql_to_postgres, "exactly-once"),
        (mysql_to_iceberg, "exactly-once"),
        (mysql_to_delta, "exactly-once"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_fault_is_survived(
    storm: Callable[[Path, str, Scale], Report],
    guarantee: str,
    tmp_path: Path,
    bootstrap: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("storm.SHARED", bootstrap)
    folder = tmp_path / storm.__name__.replace("_", "-")
    folder.mkdir()
    report = storm(folder, guarantee, SHORT)
    assert report.survived, report


def test_a_storm_over_mysql_leaves_each_change_once(
    tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shortest form that has a killed run, a killed server and changed tables; the others wait for the night."""
    monkeypatch.setattr("storm.SHARED", bootstrap)
    report = mysql_to_changelog(tmp_path, "exactly-once", Scale(changes=1000, moments=1, seed=7))
    assert report.survived, report
