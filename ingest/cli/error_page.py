"""The page of errors, docs/errors.md: what it says of each code, for `ingest explain`. A built package has the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ingest import errors

_PACKAGED: Final = Path(errors.__file__).with_suffix(".md")
_REPOSITORY: Final = Path(errors.__file__).parent.parent / "docs" / "errors.md"
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)#]*)(#[^)]*)?\)")


def page() -> str:
    """Return the page; an empty text where there is none."""
    for place in (_PACKAGED, _REPOSITORY):
        if place.is_file():
            return place.read_text(encoding="utf-8")
    return ""


def _told(link: re.Match[str]) -> str:
    """Return a link as plain text: with its page, where that is another one."""
    text, page = link[1], link[2]
    return f"{text} (docs/{page})" if page else text


def explanations() -> dict[str, str]:
    """Return what the page says of each code, as plain text, with lines as the page has them."""
    found = {}
    for section in re.split(r"^### ", page(), flags=re.MULTILINE)[1:]:
        code, _, text = section.partition("\n")
        text = text.partition("\n## ")[0]
        found[code.strip()] = _LINK.sub(_told, text).replace("**", "").strip()
    return found
