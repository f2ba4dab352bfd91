"""Table ids, the selector that routes, transforms and topic mappings share, and how a sink lays a table out.

A table id is `namespace.schema.table` with one to three parts. A selector is a regular expression for the whole id: an
unescaped `.` is the separator, a regex dot has a backslash, and `,` means *or*. Regular expressions of pipeline files
run on RE2, whose time is linear in its input: no pattern and no name from a message can make it slow. Rules of layouts:
docs/spec/sinks.md#layout-of-tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, TypeVar

import re2

from ingest.model.text import TextError


class PatternError(ValueError):
    """Error about a text that is no regular expression. Its text says why, in one line."""


@lru_cache(maxsize=1024)
def full_matcher(text: str) -> Callable[[str], re2._Match | None]:
    """Return a function that matches whole names. It is compiled once in a process. Raise PatternError."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        found: Callable[[str], re2._Match | None] = re2.compile(f"(?s:{text})", options).fullmatch
    except re2.error as exc:
        reason = exc.args[0].decode() if exc.args and isinstance(exc.args[0], bytes) else str(exc)
        raise PatternError(reason.partition(": (?s:")[0]) from exc
    return found


def checked_pattern(text: str | None) -> str | None:
    """Return the text unchanged, for the check of an option. Raise ValueError where it is no regular expression."""
    if text is not None:
        try:
            full_matcher(text)
        except PatternError as exc:
            raise ValueError(f"not a regular expression: {exc}") from None
    return text


TableId: TypeAlias = tuple[str, ...]

MAX_PARTS = 3
"""Number of parts that a table id has at most."""

MAX_ID = 1024
"""Number of characters of the longest id that a selector can match. Names come from messages, so they need a limit."""


def show(table: TableId) -> str:
    """Return a table id as `shop.orders`, for people and for names of topics."""
    return ".".join(table)


_T = TypeVar("_T")
_SWAPPED: Final = re.compile(r"\\\.|\.")
_BARE_STAR: Final = re.compile(r"((?<!\\)(?:^|[\w\])]))\.[*+]")
_SEPARATOR: Final = re.compile(r"(?<!\\)\.")
_LONGEST: Final = 200
_MOST: Final = 1_000
"""Characters of ids, and ids, that a mistake in a selector is compared with: names come from messages."""
_LITERAL: Final = re.compile(r"[\w$-]+")


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
            self._match = full_matcher(to_regex(text))
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


def selector_of(name: str) -> str:
    """Return the selector that one name matches, whatever characters it has, and no other."""
    plain = (letter if letter.isalnum() or letter in "_-." else rf"\x{{{ord(letter):x}}}" for letter in name)
    return "".join(plain)


def similar(text: str, tables: Iterable[TableId]) -> str:
    """Return a selector that is like one that matches none of the tables, and that matches one; else an empty text.

    It may be a regular expression or a wildcard as other programs write them, and have a wrong, missing or extra part.
    """
    known = [table for table in tables if len(show(table)) <= _LONGEST][:_MOST]
    literal = all(_LITERAL.fullmatch(part) for part in text.split("."))
    if literal and (longer := sorted(show(table) for table in known if show(table).endswith(f".{text}"))):
        return longer[0]
    for candidate in _candidates(text, known):
        try:
            wanted = Selector(candidate)
        except SelectorError:
            continue
        if any(wanted.match(table) is not None for table in known):
            return candidate
    names = {show(table).lower(): show(table) for table in known}
    near = get_close_matches(text.lower()[:_LONGEST], names, 1)
    return names[near[0]] if near else ""


def _candidates(text: str, tables: Sequence[TableId]) -> Iterator[str]:
    """Yield what a selector may have been meant to be."""
    any_text = r"\.*"
    if r"\." in text:
        yield _SWAPPED.sub(lambda found: "." if len(found[0]) > 1 else r"\.", text)  # `shop\..*`: a plain expression
    yield _BARE_STAR.sub(lambda found: f"{found[1]}.{any_text}", text)  # `shop.*`: all of shop
    yield _BARE_STAR.sub(lambda found: f"{found[1]}{any_text}", text)  # `shop.ord.*`
    yield re.sub(r"(?<![\\.\])])\*|%", lambda _: any_text, text)  # `shop.ord*`, `shop.ord%`
    parts = _SEPARATOR.split(text)
    for length in sorted({len(table) for table in tables}):
        same = [table for table in tables if len(table) == length]
        if length == len(parts):
            mended = [_mended(part, {table[at] for table in same}) for at, part in enumerate(parts)]
            yield ".".join(mended)
        elif length < len(parts):
            yield ".".join(parts[-length:])
        else:
            yield ".".join([*[any_text] * (length - len(parts)), *parts])


def _mended(part: str, known: Collection[str]) -> str:
    """Return the part of an id that is most like a literal part of a selector; the part itself if it is in order."""
    if not _LITERAL.fullmatch(part) or part in known:
        return part
    near = get_close_matches(part.lower(), {one.lower(): one for one in sorted(known)}, 1)
    return next((one for one in sorted(known) if near and one.lower() == near[0]), part)


TIME_TRANSFORMS: Final = ("year", "month", "day", "hour")
"""Transforms of moments, from the coarsest to the finest."""
SIZED_TRANSFORMS: Final = ("bucket", "truncate")
"""Transforms that have a number: of buckets, or of what a part is wide."""
MAX_WIDTH: Final = 2**31 - 1
_CALL: Final = re.compile(r"(\w+)\s*\((?:\s*(\d+)\s*,)?\s*(.*?)\s*\)", re.DOTALL)


class PartitionKey(NamedTuple):
    """A column by which a table is partitioned."""

    column: str
    transform: str = "identity"
    """`identity`, or one of `TIME_TRANSFORMS` and `SIZED_TRANSFORMS`."""
    width: int = 0
    """Number of buckets, or width of what is cut to; 0 for other transforms."""

    def __str__(self) -> str:
        """Return `bucket(16, id)`, as the option has it."""
        if self.transform == "identity":
            return self.column
        return f"{self.transform}({f'{self.width}, ' if self.width else ''}{self.column})"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a sink lays out a table that it makes."""

    partitions: tuple[PartitionKey, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether it says anything."""
        return bool(self.partitions or self.options)


PLAIN: Final = TableLayout()
"""The layout of tables of which the file says nothing."""


def partition_keys(text: str) -> tuple[PartitionKey, ...]:
    """Return the keys of a text: `region, day(created_at), bucket(16, id)`. Raise TextError."""
    out: dict[PartitionKey, None] = {}
    for at, part in _parts(text):
        key = _partition_key(part, at)
        if key in out:
            raise TextError(f"{part[:100]!r} is there twice", at, len(part))
        out[key] = None
    return tuple(out)


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """Yield what is between commas outside of brackets, without blanks around it, and where it begins."""
    begin = depth = 0
    for end, letter in enumerate(f"{text},"):
        depth += (letter == "(") - (letter == ")" and depth > 0)
        if letter == "," and (depth == 0 or end == len(text)):
            part = text[begin:end]
            if part.strip():
                yield begin + len(part) - len(part.lstrip()), part.strip()
            begin = end + 1


def _partition_key(text: str, at: int) -> PartitionKey:
    found = _CALL.fullmatch(text)
    if found is None:
        return PartitionKey(text)
    name, width, column = found[1].lower(), found[2], found[3]
    transform = name[:-1] if name[:-1] in TIME_TRANSFORMS and name.endswith("s") else name
    if transform not in {*TIME_TRANSFORMS, *SIZED_TRANSFORMS}:
        msg = f"{found[1][:100]!r} is no transform of partitions ({', '.join((*TIME_TRANSFORMS, *SIZED_TRANSFORMS))})"
        raise TextError(msg, at, len(found[1]))
    if not column or "," in column:
        raise TextError(f"write {transform}({'N, ' if transform in SIZED_TRANSFORMS else ''}COLUMN)", at, len(text))
    if (width is not None) != (transform in SIZED_TRANSFORMS):
        msg = f"{transform} {'needs a number: ' if width is None else 'takes no number: '}{transform}"
        raise TextError(f"{msg}({'16, ' if width is None else ''}{column[:100]})", at, len(text))
    size = int(width or 0) if len(width or "") <= len(str(MAX_WIDTH)) else MAX_WIDTH + 1
    if width is not None and not 0 < size <= MAX_WIDTH:
        raise TextError(f"{width[:20]} is no number from 1 to {MAX_WIDTH}", at, len(text))
    return PartitionKey(column, transform, size)


def table_options(text: str, delimiter: str) -> tuple[tuple[str, str], ...]:
    """Return the entries of a text: `key=value,key=value`. Raise TextError."""
    out: dict[str, str] = {}
    at = 0
    for part in text.split(delimiter):
        name, equals, value = part.partition("=")
        name = name.strip()
        if part.strip():
            if not equals or not name:
                raise TextError(f"write key=value, with {delimiter!r} between two of them", at, len(part))
            if name in out:
                raise TextError(f"{name[:100]!r} is there twice", at, len(part))
            out[name] = value.strip()
        at += len(part) + len(delimiter)
    return tuple(out.items())
