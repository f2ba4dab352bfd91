"""What `make check` finds in pages: dead links and citations, scenarios that are not there, tables that are stale."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import pytest
from pages import ROOT, tool
from storms import STORMS

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

DOCS = "docs"
"""Apart from what follows: the names of pages in this file are no citations."""
PAGE = "# Title\n\n## One `word`, two\n\n```\n# no heading\n```\n## One `word`, two\n"


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = tool("links")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def found(links: ModuleType, root: Path, **texts: str) -> list[str]:
    paths = []
    for name, text in {"page.md": PAGE, **texts}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path)
    return [*links.problems(paths)]


def test_links_lead_somewhere(links: ModuleType, tmp_path: Path) -> None:
    text = "[a](page.md) [b](page.md#one-word-two) [c](page.md#one-word-two-1) [d](#here) [e](https://x)\n# Here\n"
    assert found(links, tmp_path, **{"other.md": text}) == []


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("gone.md", "no such file"), ("page.md#two", "no such heading"), ("page.md#no-heading", "no such heading"),
        ("#here", "no such heading"), ("page.md#one-word-two-2", "no such heading"),
    ],
)  # fmt: skip
def test_dead_links_are_found(links: ModuleType, tmp_path: Path, target: str, why: str) -> None:
    assert found(links, tmp_path, **{"other.md": f"[x]({target})"}) == [f"other.md: {target}: there is {why}"]


def test_links_in_code_are_examples(links: ModuleType, tmp_path: Path) -> None:
    assert found(links, tmp_path, **{"other.md": "`[x](gone.md)`\n```\n[x](gone.md)\n```\n"}) == []


def test_citations_in_code_are_checked(links: ModuleType, tmp_path: Path) -> None:
    code = f'"""Rules: {DOCS}/spec/a.md#title and {DOCS}/spec/a.md#gone; {DOCS}/b.md."""'
    assert found(links, tmp_path, **{f"{DOCS}__spec__a.md": PAGE, "code.py": code}) == [
        f"code.py: {DOCS}/spec/a.md#gone: there is no such heading",
        f"code.py: {DOCS}/b.md: there is no such file",
    ]


def test_scenarios_that_pages_name_are_there(links: ModuleType, tmp_path: Path) -> None:
    page = "# T\n\nScenarios: `there`, `moved`,\n`gone`.\n"
    files = {f"{DOCS}__spec__a.md": page, "tests__spec__12-there.yaml": "", "tests__scenarios__keys__moved.yaml": ""}
    assert found(links, tmp_path, **files) == [f"{DOCS}/spec/a.md: there is no scenario gone"]


def test_files_that_pages_about_the_code_name_are_there(links: ModuleType, tmp_path: Path) -> None:
    page = "# T\n\n`a/there.py`, `there.py`, `ingest/a/there.py`; `ere.py`, `gone/there.py` and `a/gone.pyx`\n"
    files = {"ingest__a__there.py": "", f"{DOCS}__architecture.md": page, "other.md": "`gone.py`\n"}
    assert found(links, tmp_path, **files) == [
        f"{DOCS}/architecture.md: there is no file {name}" for name in ("ere.py", "gone/there.py", "a/gone.pyx")
    ]


def test_a_page_that_is_not_what_its_files_say_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tool("pages")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {"README.md": pages.figures})
    figure = {"median": 1.234, "low": 1.0, "high": 2.0, "runs": 3, "commit": "abc", "date": "2026-01-31"}
    (tmp_path / "targets.json").write_text(json.dumps({"speed": {"fast": {"least": 1.5}, "slow": {"most": 1.5}}}))
    (tmp_path / "speed.json").write_text(json.dumps({"fast": figure, "slow": figure}))
    page = tmp_path / "README.md"
    page.write_text(f"before\n{pages.BEGIN}\n{pages.END}\nafter\n")
    monkeypatch.setattr(sys, "argv", ["pages.py", "--check"])
    assert pages.main() == 1
    assert "README.md is not what its files say" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["pages.py"])
    assert pages.main() == 0
    assert page.read_text().startswith("before\n")
    assert "| speed | fast | 1.23 | 1 to 2 | 3 | **≥ 1.5, missed** | abc | 2026-01-31 |" in page.read_text()
    assert "| speed | slow | 1.23 | 1 to 2 | 3 | ≤ 1.5 | abc | 2026-01-31 |" in page.read_text()
    monkeypatch.setattr(sys, "argv", ["pages.py", "--check"])
    assert pages.main() == 0


def test_every_fault_has_a_result_and_the_page_says_what_it_is() -> None:
    results = json.loads((ROOT / "bench" / "results" / "chaos.json").read_text())
    said = {name: found["about"] for name, found in results.items()}
    assert said == {f"{storm.__name__} {g}": storm.__doc__ for storm, guarantees in STORMS.items() for g in guarantees}


def test_the_map_of_support_names_each_of_its_modules() -> None:
    support = ROOT / "tests" / "support"
    named = set(re.findall(r"`(\w+)`", (support / "README.md").read_text()))
    assert {path.stem for path in support.glob("*.py")} - named == set()
