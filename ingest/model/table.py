r"""Table ids, and the one matcher that route, transform and topic mapping share.

A table id is `namespace.schema.table` with one to three parts. A selector is a regular expression over the whole
id in which an unescaped `.` is the separator, `\.` is the regex dot, and `,` means *or*. It runs on RE2, whose
time is linear in its input: neither a pipeline file nor a table name from a message can make it explode.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from ingest.model.pattern import PatternError, whole

TableId: TypeAlias = tuple[str, ...]

MAX_PARTS = 3
"""Parts of a table id, at most."""

MAX_ID = 1024
"""Longest id, in characters, that a selector looks at: names come from messages."""


def show(table: TableId) -> str:
    """`shop.orders`, for people and for topic names."""
    return ".".join(table)


def table_id(text: str) -> TableId:
    """`shop.orders` as an id; a text of more than three parts is one part."""
    parts = tuple(text.split("."))
    return parts if len(parts) <= MAX_PARTS else (text,)


class SelectorError(ValueError):
    """A selector that is no regular expression; the text says why, in one line."""


def to_regex(selector: str) -> str:
    """Translate a selector to RE2 syntax; raises nothing, what is wrong shows when it is compiled."""
    out: list[str] = []
    brackets = braces = 0
    i = 0
    while i < len(selector):
        c = selector[i]
        if c == "\\" and i + 1 < len(selector):
            following = selector[i + 1]
            out.append("." if following == "." and not brackets else c + following)
            i += 2
            continue
        if c == "[" and not brackets:
            brackets = 1
        elif c == "]" and brackets:
            brackets = 0
        elif not brackets:
            braces += (c == "{") - (c == "}")
        if c == "." and not brackets:
            out.append(r"\.")
        elif c == "," and not brackets and not braces:
            out.append("|")
            while i + 1 < len(selector) and selector[i + 1].isspace():
                i += 1
            while out[-2:-1] and out[-2].isspace():
                del out[-2]
        else:
            out.append(c)
        i += 1
    return "".join(out).strip()


class Selector:
    """A compiled selector; `match` gives its groups, with the whole id first, or None."""

    __slots__ = ("_match", "text")

    def __init__(self, text: str) -> None:
        """Compile; raises SelectorError."""
        self.text = text
        try:
            self._match = whole(to_regex(text))
        except PatternError as exc:
            raise SelectorError(str(exc)) from exc

    def match(self, table: TableId) -> tuple[str, ...] | None:
        """The whole id and the capture groups (empty where one took no part), or None."""
        text = show(table)
        if len(text) > MAX_ID:
            return None
        found = self._match(text)
        return None if found is None else (text, *(group or "" for group in found.groups()))


@lru_cache(maxsize=1024)
def selector(text: str) -> Selector:
    """A selector, compiled once per process; raises SelectorError."""
    return Selector(text)
