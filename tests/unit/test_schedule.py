"""The order of `make test`: what stays together, and who begins with what. And that CI tries the same each time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import schedule
from schedule import NIGHTLY, SECONDS, TOGETHER, Times, at_night, longest_first, turn, unit
from xdist.remote import Producer

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[2]


def test_what_is_measured_and_what_stays_together_is_there() -> None:
    assert [name for name in TOGETHER if not (ROOT / name).is_dir()] == []
    assert [name for name in SECONDS if unit(f"{name}::test") != name and name not in TOGETHER] == []


def test_tests_that_wait_for_the_night_or_show_a_fault_are_there() -> None:
    assert at_night("tests/integration/driver/test_restarts.py::test_of_the_file[case]")  # its whole file
    dies = "tests/integration/transform/test_transforms.py::test_exactly_once_whatever_dies"
    assert at_night(f"{dies}[after-commit:1]")
    assert not at_night(f"{dies}[before-commit:1]")
    faults = (ROOT / "tests" / "mysql_faults.txt").read_text(encoding="utf-8").splitlines()
    shown = {line for line in faults if line.startswith("tests/")}
    assert [int(line.split()[0]) for line in faults if line[:1].isdigit()] == [*range(1, 39)]
    files = sorted({name.partition("::")[0] for name in NIGHTLY | shown})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *files],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    names = {*collected, *(line.partition("[")[0] for line in collected), *files}
    assert sorted((NIGHTLY | shown) - names) == []


def test_times_are_those_of_files_and_folders_and_what_is_new_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = "tests/unit/test_schedule.py"
    monkeypatch.setattr(schedule, "FILE", tmp_path / "seconds.json")
    monkeypatch.setattr(schedule, "SECONDS", {"tests/test_gone.py": 9.0, here: 9.0, "tests/unit/test_names.py": 2.5})
    times = Times()
    for name, seconds in (("security/test_stores.py", 1.5), ("security/test_secrets.py", 1.0), (here, 0.25)):
        file = name if name == here else f"tests/integration/{name}"
        report: Any = SimpleNamespace(nodeid=f"{file}::test_x[a::b]", duration=seconds)
        times.pytest_runtest_logreport(report)
    times.pytest_sessionfinish()
    written = json.loads((tmp_path / "seconds.json").read_text())
    assert [*written.items()] == [
        ("tests/integration/security", 2.5), ("tests/unit/test_names.py", 2.5), (here, 0.2),
    ]  # fmt: skip
    names = [f"{here}::test_a", "tests/unit/test_names.py::test_b", "tests/unit/test_new.py::test_c"]
    assert sorted(names, key=turn) == [names[2], names[0], names[1]]


OTHER_EACH_TIME = re.compile(
    r"(?<![\w.])(?:os\.urandom|uuid\.uuid[14]|(?:random\.)?SystemRandom|(?:random\.)?Random\(\)|random\.[a-z]\w*\("
    r"|secrets\.\w+\(|(?<!== )hash\((?!.*==))"
)
"""What gives something else in each process. A hash that is compared is no value."""


def test_ci_tries_the_same_each_time() -> None:
    """What draws begins with a number of its own or with `seed`, and names are those of `own_name`."""
    calls = ("random.choice(a)", "random.Random()", "uuid.uuid4()", "f'{abs(hash(a))}'")
    assert all(OTHER_EACH_TIME.search(call) for call in calls)
    assert not OTHER_EACH_TIME.search("random.Random(7).choice(a), self.random.choice(a), hash(a) == hash(b)")
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "tests").rglob("*.py")}
    del files["tests/support/examples.py"], files["tests/unit/test_schedule.py"]
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    assert {name: found for name, text in texts.items() if (found := OTHER_EACH_TIME.findall(text))} == {}
    assert "ifdef CI\nexport PYTHONHASHSEED = 0\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


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
    monkeypatch.setattr(schedule, "SECONDS", {"tests/test_z.py": 9.0, "tests/b": 5.0, "tests/test_a.py": 1.0})
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


def test_no_test_changes_the_clock_of_other_threads() -> None:
    """A loop of some thread that another test had left no longer slept: it filled memory for ten minutes."""
    of_all = re.compile(r"""setattr\(\s*(?:time,|["']time\.)""")
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert [path for path in tests if of_all.search(path.read_text(encoding="utf-8"))] == []
    assert of_all.search('patch.setattr(time, "sleep", pauses.append)')
    assert of_all.search('patch.setattr("time.sleep", pauses.append)')
