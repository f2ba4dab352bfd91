"""The package of tasks stays a row of parts: no class inherits, no part knows the row, one name is global."""

from __future__ import annotations

import ast
from pathlib import Path

import ingest.task

FILES = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in Path(ingest.task.__path__[0]).glob("*.py")}


def imports(tree: ast.Module) -> set[str]:
    """Return the modules of the package that a module needs at run time."""
    found = set()
    for node in tree.body:  # those for types stand in an `if`
        if isinstance(node, ast.ImportFrom) and node.module == "ingest.task":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ingest.task."):
            found.add((node.module or "").rsplit(".", 1)[1])
    return found


def test_the_row_of_stages_is_above_all_parts() -> None:
    assert "pipeline" in FILES
    assert "pipeline" not in {name for tree in FILES.values() for name in imports(tree)}


def test_classes_are_put_together_and_inherit_nothing() -> None:
    bases = {
        ast.unparse(base)
        for tree in FILES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }
    assert bases <= {"Protocol", "NamedTuple"}


def test_one_name_lives_as_long_as_the_process() -> None:
    found = {
        (name, *node.names) for name, tree in FILES.items() for node in ast.walk(tree) if isinstance(node, ast.Global)
    }
    assert found == {("worker", "_state")}
