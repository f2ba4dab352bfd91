"""Pages that tell a reader what to do, done as they stand. `make package` does the tutorial, with its installation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pages import WALKED
from walkthrough import apart, compare, steps, walk

from ingest import paths
from ingest.sandbox import broker as sandbox
from ingest.sandbox import mysql

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("page", [page for page in WALKED if page != "tutorial"])
def test_a_page_is_done_as_it_stands(page: str, tmp_path: Path) -> None:
    folder, cache = tmp_path / "shop", tmp_path / "cache"
    folder.mkdir()
    instead, environment = apart(cache)
    path = f"{Path(sys.executable).parent}:{paths.java().removesuffix('/java')}:/usr/bin:/bin"
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    try:
        walk(text, folder, instead, {**environment, "PATH": path})
    finally:
        mysql.shop_down(cache / "sandbox")
        mysql.down(cache / "sandbox", wipe=True)
        sandbox.down(cache / "sandbox", wipe=True)


def test_a_walk_finds_what_is_not_so(tmp_path: Path) -> None:
    page = '```sh title="a.txt"\none\n```\n```sh\ncat a.txt\nfalse  # ends with exit code 1\n```\n```text\no…e\n```\n'
    assert walk(page, tmp_path, {}, {}) == ["one\n", ""]
    with pytest.raises(AssertionError, match="does not say 'two'"):
        walk(page.replace("o…e", "two"), tmp_path, {}, {})
    with pytest.raises(AssertionError, match=r"cat a\.txt"):
        walk(page.replace("code 1", "code 2"), tmp_path, {}, {})
    with pytest.raises(AssertionError, match=r"cat a\.txt"):
        walk(page, tmp_path, {"false ": "true "}, {})
    with pytest.raises(ValueError, match="neither a file nor a command"):
        steps("```text\nx\n```\n")
    with pytest.raises(ValueError, match="no command uses"):
        steps('```sh title="a"\nx\n```\n')
    with pytest.raises(ValueError, match="no language"):
        steps("```sh\nx\n```\n```\ny\n```\n")
    assert steps("```sh\nx\n```\n```text\na\n```\n```text\nb\n```\n")[0].lines == ("a", "b")
    for lines, output in ((("b", "a"), "a\nb\n"), (("1 rejected",), "11 rejected"), (("a",), "ab")):
        with pytest.raises(AssertionError, match="does not say"):
            compare(lines, output, "")
    compare(("a…c", "1 x"), "a b c\n 1 x\n", "")
