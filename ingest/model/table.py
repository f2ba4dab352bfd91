r"""Table ids, and the selector that routes, transforms and topic mappings share.

A table id is `namespace.schema.table` with one to three parts. A selector is a regular expression for the whole id: an
unescaped `.` is the separator, `\.` is the regex dot, and `,` means *or*. It runs on RE2, whose time is linear in its
input: no selector and no table name from a message can make it slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias, TypeVar

from ingest.model.pattern import PatternError, whole

TableId: TypeAlias = tuple[str, ...]

MAX_PARTS = 3
"""Number of parts that a table id has at most."""

MAX_ID = 1024
"""Number of characters of the longest id that a selector can match. Names come from messages, so they need a limit."""


def show(table: TableId) -> str:
    """Return a table id as `shop.orders`, for people and for names of topics."""
    return ".".join(table)


_T = TypeVar("_T")


class ByName(Mapping[TableId, _T]):
    """What belongs to tables that a person has named: an id is looked up by its parts, else by how it reads.

    The topic `covdb.t1` is a table of one part, which a DDL without backquotes names in two.
    """

    def __init__(self, of: Mapping[TableId, _T]) -> None:
        """Keep what belongs to each table."""
        self._of = dict(of)
        self._by_name = {show(table): value for table, value in of.items()}

    def __getitem__(self, table: TableId) -> _T:
        """Return what belongs to a table. Raise KeyError."""
        return self._of[table] if table in self._of else self._by_name[show(table)]

    def __iter__(self) -> Iterator[TableId]:
        """Iterate over the ids as they were written."""
        return iter(self._of)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._of)


def table_id(text: str) -> TableId:
    """Return the table id of a text like `shop.orders`. A text of more than three parts becomes an id of one part."""
    parts = tuple(text.split("."))
    return parts if len(parts) <= MAX_PARTS else (text,)


def table_in(database: str | None, name: str) -> TableId:
    """Return the id of a table in a database, which may be empty. The database `a.b` is two parts of the id."""
    return (*(part for part in (database or "").split(".", 1) if part), name)


class SelectorError(ValueError):
    """Error about a selector that is no regular expression. Its text says why, in one line."""


def to_regex(selector: str) -> str:
    """Return a selector in the syntax of RE2. Raise nothing: mistakes show when the result is compiled."""
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
    """A compiled selector."""

    __slots__ = ("_match", "text")

    def __init__(self, text: str) -> None:
        """Compile the selector. Raise SelectorError."""
        self.text = text
        try:
            self._match = whole(to_regex(text))
        except PatternError as exc:
            raise SelectorError(str(exc)) from exc

    def match(self, table: TableId) -> tuple[str, ...] | None:
        """Return the whole id, followed by the capture groups (empty where a group did not take part).

        Return None where the id does not match, or is longer than MAX_ID characters.
        """
        text = show(table)
        if len(text) > MAX_ID:
            return None
        found = self._match(text)
        return None if found is None else (text, *(group or "" for group in found.groups()))


@lru_cache(maxsize=1024)
def selector(text: str) -> Selector:
    """Return the compiled selector of a text. It is compiled once in a process. Raise SelectorError."""
    return Selector(text)
