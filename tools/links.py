"""`make check`: find links between Markdown pages, and citations of pages in code, that lead nowhere.

A link is `[text](path#anchor)`; a citation is `docs/….md#anchor` in a file of code. An anchor is that of a heading, as
GitHub makes it. Names of scenarios in docs/spec have to be names of test files, and names of files of code in the pages
about the code those of files, or the ends of their paths. Exit code 1 where one is wrong.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parent.parent
CODE: Final = frozenset({".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".toml", ".yaml", ".sh"})
_LINK: Final = re.compile(r"\]\(([^()\s]+)\)")
_CITATION: Final = re.compile(r"(?<![\w./-])((?:docs|bench|schemas)/[\w./-]*\.md(?:#[\w-]+)?)")
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]+`")
_SCENARIOS: Final = re.compile(r"^Scenarios: (.*?)\.$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`([\w./-]+\.(?:py|pyx|pxd|c|h|sh))`")
_OF_THE_CODE: Final = frozenset({"docs/architecture.md", "CONTRIBUTING.md"})
_ANCHOR: Final = re.compile(r'<a id="([\w-]+)">')


def files() -> list[Path]:
    """Return the repository's files, those that are new included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings."""
    text = page.read_text(encoding="utf-8")
    found: dict[str, int] = {}
    out = set(_ANCHOR.findall(text))
    for line in _FENCE.sub("", text).splitlines():
        if line.startswith("#"):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
            name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            times = found[name] = found.get(name, -1) + 1
            out.add(f"{name}-{times}" if times else name)
    return frozenset(out)


def dead(source: Path, target: str, start: Path) -> str | None:
    """Say why a link from a file leads nowhere; None where it leads somewhere."""
    path, _, anchor = target.partition("#")
    page = source if not path else (start / path).resolve()
    if not page.exists():
        return f"{target}: there is no such file"
    if anchor and page.suffix == ".md" and anchor not in anchors(page):
        return f"{target}: there is no such heading"
    return None


def problems(found: list[Path]) -> Iterator[str]:
    """Yield a line for each link, citation, and name of a scenario or a file that leads nowhere."""
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in found]
    stems = {re.sub(r"^\d+-", "", path.stem) for path in found if "tests" in path.parts and path.suffix == ".yaml"}
    for source in found:
        if source.suffix != ".md" and source.suffix not in CODE:
            continue
        name = source.relative_to(ROOT).as_posix()
        text = source.read_text(encoding="utf-8")
        targets = [(target, ROOT) for target in _CITATION.findall(text)] if source.suffix in CODE else []
        if source.suffix == ".md":
            plain = _CODE.sub("", _FENCE.sub("", text))
            targets = [(t, source.parent) for t in _LINK.findall(plain) if not re.match(r"[a-z]+:", t)]
        for target, start in targets:
            why = dead(source, target, start)
            if why is not None:
                yield f"{name}: {why}"
        if name in _OF_THE_CODE:
            for file in _FILE.findall(text):
                if not any(path.endswith(f"/{file}") for path in paths):
                    yield f"{name}: there is no file {file}"
        if name.startswith("docs/spec/"):
            for line in _SCENARIOS.findall(text):
                yield from (
                    f"{name}: there is no scenario {stem}"
                    for stem in re.findall(r"`([^`]+)`", line)
                    if stem not in stems
                )


def main() -> int:
    """Print what is wrong; return 1 where something is."""
    wrong = [*problems(files())]
    for line in wrong:
        print(line)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
