"""The order of the packages where the linter cannot see it: circles of modules, and what is loaded at run time."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import grimp
import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
GRAPH = grimp.build_graph("ingest", exclude_type_checking_imports=True)
(CONTRACT,) = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    if contract["name"] == "layers"
]
LAYERS: list[set[str]] = [set(layer.split(" | ")) for layer in CONTRACT["layers"]]
LOAD_BY_NAME = {
    "ingest.cli.screen": "commands are loaded when a command line names them",
    "ingest.component.plugins": "components are loaded when a pipeline names them",
    "ingest.expressions.user_code": "functions and classes of the user's are loaded when a pipeline names them",
}
"""Modules that import others by their names, and why."""


def circles() -> list[list[str]]:
    """Return groups of modules that import each other, at their heads or inside of functions (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(GRAPH.find_modules_directly_imported_by(module)):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(GRAPH.modules):
        if module not in index:
            visit(module)
    return found


def test_no_modules_import_each_other() -> None:
    assert circles() == []


def loaded_with(*steps: Sequence[str]) -> list[set[str]]:
    """Return the names of all modules that one new process has after each step, in which it imports these modules."""
    code = (
        "import importlib, json, sys\nfor modules in json.loads(sys.argv[1]):\n"
        "    for name in modules: importlib.import_module(name)\n    print(*sys.modules)"
    )
    command = [sys.executable, "-c", code, json.dumps(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return [set(line.split()) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def loaded_from_below() -> dict[str, set[str]]:
    """Return, by package, the packages that one process has after it has loaded this one and all that come before.

    It loads the lowest layer first. So a package of a layer above is there only where one that is loaded already has
    loaded it. A process for each package would load the same libraries each time.
    """
    order = [package for layer in reversed(LAYERS) for package in sorted(layer)]
    modules = {p: sorted(m for m in GRAPH.modules if f"{m}.".startswith(f"ingest.{p}.")) for p in order}
    there = loaded_with(*modules.values())
    return {
        package: {name.split(".")[1] for name in names if name.startswith("ingest.")}
        for package, names in zip(modules, there, strict=True)
    }


@pytest.mark.parametrize("package", sorted(set.union(*LAYERS)))
def test_a_package_loads_nothing_of_those_above_it(loaded_from_below: dict[str, set[str]], package: str) -> None:
    place = next(i for i, layer in enumerate(LAYERS) if package in layer)
    above = {name for layer in LAYERS[:place] for name in layer}
    packages = loaded_from_below[package]
    assert package in packages
    assert packages & above == set()


def test_a_worker_without_transforms_starts_without_arrow() -> None:
    plain, transforming = loaded_with(["ingest.task.pipeline"], ["ingest.transform.stages"])
    assert plain & {"pyarrow", "numpy", "pandas"} == set()
    assert "pyarrow" in transforming


def test_few_modules_import_others_by_name() -> None:
    """Names in texts would go around the order of the packages, which is checked by reading imports."""
    found = {
        "ingest." + ".".join(path.relative_to(ROOT / "ingest").with_suffix("").parts)
        for path in (ROOT / "ingest").rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("import_module(", "__import__("))
    }
    assert found == set(LOAD_BY_NAME)
