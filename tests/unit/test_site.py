"""The documentation as a site: it builds without a warning, and its pages are what GitHub shows of the same text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from pages import ROOT, tool

from ingest import __version__

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PARTS = ("li", "ol", "ul", "tr", "pre", "h1", "h2", "h3")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return tool("site")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does: a dead link or anchor fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


def counted(html: str) -> dict[str, int]:
    return {part: len(re.findall(rf"<{part}[\s>]", html)) for part in PARTS}


def article(page: Path) -> str:
    """A page's own text, without menus."""
    (found,) = re.findall(r"<article.*?</article>", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def test_each_page_has_the_lists_tables_and_blocks_that_github_shows(built: Path, hook: ModuleType) -> None:
    github = MarkdownIt("commonmark").enable("table")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 60
    for name in (*pages, *hook.OUTSIDE):
        text = (ROOT / (name if name in hook.OUTSIDE else f"docs/{name}")).read_text(encoding="utf-8")
        shown = built / name.replace("README.md", "index.html").replace(".md", ".html")
        assert counted(article(shown)) == counted(github.render(text)), name


def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?https?://(?!127)", text), page


def test_search_ranks_guides_before_rules_and_decisions(built: Path) -> None:
    found = json.loads((built / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    boosts = {one["location"]: one.get("boost", 1) for one in found if "#" not in one["location"]}
    guides = [boosts[f"{name}.html"] for name in ("from-debezium", "schemas", "deployment", "tutorial")]
    others = [boost for at, boost in boosts.items() if at.startswith(("spec/", "adr/"))]
    assert len(others) > 50
    assert min(guides) > max(others)


def test_a_reader_sees_the_version_the_drawing_and_no_word_for_editors(built: Path) -> None:
    first = (built / "index.html").read_text(encoding="utf-8")
    assert f"ingest {__version__}" in first
    assert "pipeline.svg" in article(built / "index.html")
    assert "ingest run shop.yaml --once" in re.sub(r"<[^>]+>", "", article(built / "index.html"))
    for page in built.rglob("*.html"):
        assert "do not edit" not in re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL), page


def test_output_is_set_apart_from_commands(built: Path) -> None:
    blocks = re.findall(r'<div class="([^"]*highlight[^"]*)">', article(built / "tutorial.html"))
    outputs = [block for block in blocks if "output" in block]
    assert len(outputs) > 8
    assert all("no-copy" in block for block in outputs)
    assert len(outputs) < len(blocks)


def test_a_repository_is_linked_where_it_is_known(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for url, linked in (("https://example.org/team/ingest", "https://example.org/team/ingest"), ("", None)):
        config = MkDocsConfig()
        config.load_dict({"site_name": "ingest"})
        config.validate()
        monkeypatch.setenv("REPOSITORY_URL", url)
        monkeypatch.setattr(hook, "_origin", lambda: "")
        assert hook.on_config(config).repo_url == linked


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        ("git@example.org:team/ingest.git", "https://example.org/team/ingest"),
        ("https://example.org/team/ingest.git", "https://example.org/team/ingest"),
        ("https://user:token@example.org/team/ingest.git", ""),
        ("/srv/git/ingest.git", ""),
    ],
)
def test_the_link_is_what_a_browser_opens(
    hook: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: str, shown: str
) -> None:
    for command in (["init", "-q"], ["remote", "add", "origin", origin]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)  # noqa: S607  # the git of PATH, as the hook
    monkeypatch.setattr(hook, "ROOT", tmp_path)
    assert hook._origin() == shown


@pytest.mark.parametrize(
    ("text", "page", "mended"),
    [
        ("[b](../bench/README.md#figures)", "sinks.md", "[b](bench/README.md#figures)"),
        ("[b](../../bench/README.md)", "adr/x.md", "[b](../bench/README.md)"),
        ("[d](../docs/sinks.md)", "bench/README.md", "[d](../sinks.md)"),
        ("[r](../README.md)", "kafka.md", "[r](index.md)"),
        ("[`a.py`](../ingest/a.py) [it](../ingest/a.py)", "kafka.md", "`a.py` `ingest/a.py`"),
        ("[o](#here) [e](https://example.org/x.md)", "kafka.md", "[o](#here) [e](https://example.org/x.md)"),
        ("one\n- a\n- b\n  more\n\n- c\ntwo\n| t |\n", "kafka.md", "one\n\n- a\n- b\n  more\n\n- c\ntwo\n\n| t |\n"),
        ("![p](pipeline.svg) ![q](../docs/x.svg)", "index.md", "![p](pipeline.svg) ![q](../docs/x.svg)"),
        ("```text\nout\n```\n", "kafka.md", "``` { .text .output .no-copy }\nout\n```\n\n"),
        ("one\n```sh\n- a\n```\ntwo", "kafka.md", "one\n\n```sh\n- a\n```\n\ntwo"),
    ],
)
def test_links_and_blocks_are_mended(hook: ModuleType, text: str, page: str, mended: str) -> None:
    assert hook.for_site(text, page) == mended
