"""What `make site` needs beside MkDocs: pages from outside of docs/, links to them, and Markdown as GitHub reads it.

Search ranks guides before rules and decision records. Blocks of output have no button that copies them. The heading
names the version, and the repository is linked where it is known: by the variable REPOSITORY_URL, or as git's `origin`.

MkDocs loads this file as a hook. Its Markdown wants an empty line before a list, a table and a code block; pages are
written for GitHub, which does not. No page has a list in a list.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

from ingest import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
OUTSIDE: Final = (
    "bench/README.md", "bench/CHAOS.md", "schemas/options.md", "schemas/types.md", "CHANGELOG.md", "CONTRIBUTING.md",
)  # fmt: skip
"""Pages that are not in docs/, which the site has under the same names."""
_SELDOM: Final = ("spec/", "adr/", "bench/", "CHANGELOG", "CONTRIBUTING", "architecture")
"""Beginnings of pages that somebody who searches seldom means: rules, decisions, figures."""
_LINK: Final = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
_ITEM: Final = re.compile(r"([-*]|\d+\.) ")


OUTPUT: Final = "``` { .text .output .no-copy }"
"""The beginning of a block of output, which nobody types."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the version, and the repository if it is known."""
    config.site_name = f"ingest {__version__}"  # also where a page is built again
    config.repo_url = os.environ.get("REPOSITORY_URL") or _origin() or None
    if config.repo_url:
        config.repo_name = posixpath.basename(config.repo_url)
    return config


def _origin() -> str:
    """Return the address of the repository that this clone is of, as a browser opens it; empty if it is of none."""
    asked = ["git", "remote", "get-url", "origin"]
    try:
        url = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
    url = re.sub(r"^git@([^:/]+):", r"https://\1/", url).removesuffix(".git")
    return url if re.fullmatch(r"https://[^/@\s]+/\S+", url) else ""  # a name or token before the host is not shown


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside, and the records of decisions, which no menu has."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return the page's text as MkDocs wants it, and say how search ranks the page."""
    page.meta["search"] = {"boost": 0.3 if page.file.src_uri.startswith(_SELDOM) else 2}
    return for_site(markdown, page.file.src_uri)


def for_site(markdown: str, page: str) -> str:
    """Return the text of a page, by its place in the site, with links of the site and Markdown of Python's library."""
    source = page if page in OUTSIDE else f"docs/{page}"
    return "\n".join(_spaced(_linked(markdown, source, page)))


def _linked(markdown: str, source: str, page: str) -> str:
    def mended(found: re.Match[str]) -> str:
        text, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found.group(0)
        path, _, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if there in {"README.md", "docs"}:
            place = "index.md"
        elif there.endswith(".md") and (there in OUTSIDE or there.startswith("docs/")):
            place = there.removeprefix("docs/")
        else:
            return text if "`" in text else f"`{there}`"  # a file of the repository, which is no page
        link = posixpath.relpath(place, posixpath.dirname(page) or ".")
        return f"[{text}]({link}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(mended, markdown)


def _spaced(markdown: str) -> Iterator[str]:
    """Yield the lines of a page, with an empty one before each list, table and code block."""
    fence = items = False
    before = ""
    for line in markdown.split("\n"):
        if line.startswith("```"):
            fence = not fence
            items = False
            yield from ([""] if fence and before.strip() else [])
        elif not fence:
            item = _ITEM.match(line) is not None
            row = line.startswith("|")
            if before.strip() and ((item and not items) or (row and not before.startswith("|"))):
                yield ""
            items = item or (items and not row and (line.startswith(" ") or before.strip() != ""))
        yield OUTPUT if fence and line == "```text" else line
        before = "" if line.startswith("```") else line
        if line.startswith("```") and not fence:
            yield ""
