"""A class of `ingest` has a name of its own, or the glossary says why it has not."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
NATIVE_CLASS = re.compile(r"^ *(?:cdef|ctypedef) (?:class|struct|enum|union) (\w+)", re.MULTILINE)


def classes(path: Path) -> list[str]:
    """The names of the classes, structs and enums of a file in Python or Cython."""
    text = path.read_text()
    if path.suffix == ".py":
        return [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    return NATIVE_CLASS.findall(text)


def shared_names(folder: Path) -> dict[str, list[str]]:
    """Names that classes of several modules have, with these modules; but for names with an underscore in front."""
    modules = defaultdict(set)
    for path in folder.rglob("*"):
        if path.suffix in {".py", ".pyx", ".pxd"}:
            for name in classes(path):
                modules[name].add(path.relative_to(folder).with_suffix("").as_posix())
    return {name: sorted(of) for name, of in modules.items() if len(of) > 1 and not name.startswith("_")}


def explained_names() -> set[str]:
    """Names of which the glossary says why more than one class has them."""
    _, _, part = (ROOT / "docs" / "glossary.md").read_text().partition("## Names of more than one class\n")
    rows = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_a_class_has_a_name_of_its_own() -> None:
    shared = shared_names(ROOT / "ingest")
    assert {name: of for name, of in shared.items() if name not in explained_names()} == {}
    assert explained_names() <= shared.keys(), "the glossary explains names that are not shared any more"


def test_shared_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Row: ...\nclass _Own: ...\nclass Alone: ...\n")
    (tmp_path / "b.pyx").write_text(
        "cdef class Row:\n    pass\ncdef class _Own:\n    pass\ncdef class Cell:\n    pass\n"
    )
    (tmp_path / "b.pxd").write_text("cdef class Cell:\n    cdef int size\n")
    assert shared_names(tmp_path) == {"Row": ["a", "b"]}
