"""Pages of the documentation: their blocks of code, and the programs that make and check them."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from types import ModuleType

ROOT: Final = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
WALKED: Final = ("tutorial", "from-mysql", "from-debezium", "from-canal", "from-flink-cdc")
"""Pages of docs/ that `tests/integration/cli/test_walkthroughs.py` does as they stand."""


class Block(NamedTuple):
    """A block of a page."""

    page: str
    line: int
    language: str
    """An empty text for one that is only moved in."""
    title: str
    """Name of a file, where the block is one; else an empty text."""
    text: str

    def __str__(self) -> str:
        """Return its place, as the name of a test."""
        return f"{self.page}:{self.line}"


@cache
def blocks() -> tuple[Block, ...]:
    """Return the blocks of all pages that are for users and contributors."""
    parser = MarkdownIt("commonmark").enable("table")
    others = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "bench/README.md")]
    found = []
    for page in [*others, *sorted((ROOT / "docs").rglob("*.md"))]:
        for token in parser.parse(page.read_text(encoding="utf-8")):
            if token.type in {"fence", "code_block"} and token.map is not None:
                language, _, more = token.info.partition(" ")
                title = more.removeprefix('title="').removesuffix('"')
                place = page.relative_to(ROOT).as_posix()
                found.append(Block(place, token.map[0] + 1, language, title, token.content))
    return tuple(found)


def only(page: str, language: str, part: str = "") -> Block:
    """Return the one block of a page in a language, that has a text in it."""
    (found,) = (one for one in blocks() if (one.page, one.language) == (page, language) and part in one.text)
    return found


def walked(block: Block) -> bool:
    """Whether the block's page is done by a test as it stands."""
    return re.fullmatch(rf"docs/({'|'.join(WALKED)})\.md", block.page) is not None


def needs_java(block: Block) -> bool:
    """Whether the block is a test of a pipeline with expressions: `test_commands_of_pages.py` has these."""
    return block.language == "yaml" and "\nmessages:" in block.text and "projection:" in block.text


def tool(name: str) -> ModuleType:
    """A program of tools/, as a module of its own."""
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
