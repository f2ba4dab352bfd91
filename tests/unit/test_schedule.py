"""The order of `make test`: what stays together, and who begins with what."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import schedule
from schedule import LONGEST, TOGETHER, longest_first, turn, unit
from xdist.remote import Producer

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_what_has_a_turn_is_there() -> None:
    assert [name for name in (*LONGEST, *TOGETHER) if not (ROOT / name).exists()] == []
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if unit(f"{name}::test") != name and name not in TOGETHER] == []


class Worker:
    """A worker of pytest-xdist, as its scheduler sees one."""

    def __init__(self) -> None:
        self.gateway = SimpleNamespace(id="gw")
        self.shutting_down = False
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_tests_of_a_file_and_of_a_folder_go_to_one_worker_and_the_longest_begin(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr(schedule, "TOGETHER", ("tests/b",))
    monkeypatch.setattr(schedule, "LONGEST", ("tests/test_z.py", "tests/b"))
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _: [1, 2])
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True, raising=False)
    names = [
        "tests/b/test_1.py::test_x", "tests/b/test_2.py::test_x", "tests/test_a.py::test_x[a::b]",
        "tests/test_a.py::test_y", "tests/test_z.py::test_x", "tests/b/test_1.py::Class::test_y",
    ]  # fmt: skip
    collected = sorted(names, key=turn)
    scheduler, workers = longest_first(pytestconfig, Producer("", enabled=False)), [Worker(), Worker()]
    for worker in workers:
        node: Any = worker
        scheduler.add_node(node)
        scheduler.add_node_collection(node, collected)
    scheduler.schedule()
    given = [[collected[index] for index in worker.given] for worker in workers]
    files = [[name.partition("::")[0] for name in names] for names in given]
    assert files == [
        ["tests/test_z.py", "tests/test_a.py", "tests/test_a.py"],
        ["tests/b/test_1.py", "tests/b/test_2.py", "tests/b/test_1.py"],
    ]
