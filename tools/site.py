"""What `make site` needs beside MkDocs: pages from outside of docs/, links to them, and Markdown as GitHub reads it.

MkDocs loads this file as a hook. Its Markdown wants an empty line before a list, a table and a code block; pages are
written for GitHub, which does not. No page has a list in a list.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File

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
_LINK: Final = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")
_ITEM: Final = re.compile(r"([-*]|\d+\.) ")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside, and the records of decisions, which no menu has."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return the page's text as MkDocs wants it."""
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
        yield line
        before = "" if line.startswith("```") else line
        if line.startswith("```") and not fence:
            yield ""
