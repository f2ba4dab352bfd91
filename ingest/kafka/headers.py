"""`scan.header-filter`: which records to read, by their headers.

`key:value` terms joined by `&` and `|`, each after at most one `!`, worked off from left to right; no brackets.
Reference: alibaba-kafka.txt, `scan.header-filter`; decisions, "Sources". Starts no client and imports none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]] | None"

_TOKEN: Final = re.compile(r"[&|]")
_MAX_TERMS: Final = 100


class _Term:
    """One `key:value`, wanted or (`!`) not."""

    __slots__ = ("key", "negated", "value")

    def __init__(self, key: str, value: bytes, *, negated: bool) -> None:
        self.key, self.value, self.negated = key, value, negated

    def holds(self, headers: Headers) -> bool:
        """Whether a header of this name has this value; one without a value counts as empty."""
        found = any(name == self.key and (value or b"") == self.value for name, value in headers or ())
        return found is not self.negated


def parse(text: str) -> tuple[tuple[str, _Term], ...]:
    """The terms with the operator before each (the first one's is `|`); raises TextError."""
    terms = []
    operator, start = "|", 0
    while True:
        found = _TOKEN.search(text, start)
        end = len(text) if found is None else found.start()
        terms.append((operator, _term(text, start, end)))
        if found is None:
            break
        operator, start = found.group(), found.end()
    if len(terms) > _MAX_TERMS:
        msg = f"more than {_MAX_TERMS} headers"
        raise TextError(msg, 0, len(text))
    return tuple(terms)


def _term(text: str, start: int, end: int) -> _Term:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    for i in range(start, end):
        if text[i] in "()":
            msg = "brackets are not supported: operators are worked off from left to right"
            raise TextError(msg, i)
    negated = text[start:end].startswith("!")
    at = start + negated
    while at < end and text[at].isspace():
        at += 1
    if at == end:
        msg = "a header is missing here: write key:value"
        raise TextError(msg, min(at, max(len(text) - 1, 0)))
    if text[at] == "!":
        msg = "'!' may stand only once before a header"
        raise TextError(msg, at)
    key, colon, value = text[at:end].partition(":")
    if not colon:
        msg = f"{key!r} has no ':'; write key:value, or key: for a header without a value"
        raise TextError(msg, at, end - at)
    if not key:
        msg = "a header has no name before its ':'"
        raise TextError(msg, at)
    return _Term(key, value.encode(), negated=negated)


def compile_filter(text: str) -> Callable[[Headers], bool]:
    """Whether a record with these headers is wanted; raises TextError."""
    terms = parse(text)

    def wanted(headers: Headers) -> bool:
        result = False
        for operator, term in terms:
            if result is (operator == "&"):  # otherwise the term cannot change it
                result = term.holds(headers)
        return result

    return wanted
