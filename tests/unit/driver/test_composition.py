"""The house rules of main street: no circle of imports, no parent that holds state, few attributes."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ingest

ROOT = Path(ingest.__file__).parent
MAX_ATTRIBUTES = 10


@cache
def modules(package: str) -> dict[str, ast.Module]:
    return {
        f"ingest.{package}.{path.stem}": ast.parse(path.read_text(encoding="utf-8"))
        for path in (ROOT / package).glob("*.py")
    }


@pytest.mark.parametrize("package", ["driver", "testing"])
def test_modules_import_each_other_in_no_circle_not_even_for_types(package: str) -> None:
    found = modules(package)
    graph = {
        name: {
            module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module is not None
            for module in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if module in found
        }
        for name, tree in found.items()
    }
    assert len([*TopologicalSorter(graph).static_order()]) == len(found)


def attributes(node: ast.ClassDef) -> set[str]:
    """Names of a class's fields, and of whatever its methods set on `self`."""
    fields = {i.target.id for i in node.body if isinstance(i, ast.AnnAssign) and isinstance(i.target, ast.Name)}
    stored = {
        found.attr
        for found in ast.walk(node)
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Store)
        if isinstance(found.value, ast.Name) and found.value.id == "self"
    }
    return fields | stored


def test_classes_of_the_driver_have_few_attributes_and_no_parent_but_protocols() -> None:
    for name, tree in modules("driver").items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parents = [ast.unparse(base) for base in node.bases]
                assert parents in ([], ["Protocol"]), f"{name}.{node.name}"
                assert len(attributes(node)) <= MAX_ATTRIBUTES, f"{name}.{node.name}"


def test_main_street_can_be_read_in_one_look() -> None:
    assert len((ROOT / "driver" / "driver.py").read_text(encoding="utf-8").splitlines()) <= 80
