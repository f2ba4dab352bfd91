from __future__ import annotations

import ast

from pages import only

import ingest.api


def imported(code: str) -> dict[str, set[str]]:
    """Return the names that code imports from each module of `ingest`."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ingest":
            found.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update({alias.name: set() for alias in node.names if alias.name.split(".")[0] == "ingest"})
    return found


def test_the_package_of_the_documentation_imports_the_public_names_only() -> None:
    code = only("docs/extending.md", "python").text
    found = imported(code)
    assert set(found) == {"ingest.api"}
    assert found["ingest.api"]
    assert found["ingest.api"] <= set(ingest.api.__all__)


def test_every_public_name_is_there() -> None:
    assert [name for name in ingest.api.__all__ if not hasattr(ingest.api, name)] == []
    assert list(ingest.api.__all__) == sorted(
        ingest.api.__all__, key=lambda name: (not name.isupper(), name.islower(), name)
    )
