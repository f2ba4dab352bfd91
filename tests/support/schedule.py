"""Which worker of pytest-xdist runs which tests, and in what order.

Tests of a file stay together, as they share what the file starts: a broker, a Java, a process that has loaded all
packages. What takes longest is begun first, so that the workers end at about the same time. `make times` measures it.

Groups by marks, which pytest-xdist has for this, have no effect: it appends the group's name to a private attribute
(`Item._nodeid`) that pytest does not have any more since 9.2.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

TOGETHER: Final = ("tests/integration/security",)
"""Folders whose files share a broker: all tests in them stay together."""
ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).parents[1] / "seconds.json"
SECONDS: Final[dict[str, float]] = json.loads(FILE.read_text(encoding="utf-8"))
"""How long the tests of each file and of each such folder took when that was measured last."""
NIGHTLY: Final = frozenset(
    line
    for line in (Path(__file__).parents[1] / "nightly.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
)
"""The files, tests and cases that `make test` leaves to `make nightly`."""


def unit(nodeid: str) -> str:
    """What stays together with a test: its file, or its folder."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def at_night(nodeid: str) -> bool:
    """Return whether `make test` leaves a test to `make nightly`: it, all its cases or its whole file."""
    return not NIGHTLY.isdisjoint((nodeid, nodeid.partition("[")[0], nodeid.partition("::")[0]))


def turn(nodeid: str) -> float:
    """When a test is to begin: a lower number is earlier. What nobody has measured begins first."""
    return -SECONDS.get(unit(nodeid), math.inf)


class Times:
    """A plugin that measures, and rewrites the file at the end: what did not run keeps its time."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[unit(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        measured = {name: round(seconds, 1) for name, seconds in self._seconds.items()}
        there = {name: seconds for name, seconds in (SECONDS | measured).items() if (ROOT / name).exists()}
        longest = dict(sorted(there.items(), key=lambda item: (-item[1], item[0])))
        FILE.write_text(json.dumps(longest, indent=1) + "\n", encoding="utf-8")


def longest_first(config: pytest.Config, log: Any) -> Any:
    """A scheduler that hands units out in the order of the tests, which workers have put in order by their turn."""
    scheduler = LoadFileScheduling(config, log)
    scheduler._split_scope = unit
    config.option.loadscopereorder = False  # the order would be that of the number of tests
    return scheduler
