"""`scan.header-filter`: which records to read, by their headers.

`key:value` terms joined by `&` and `|`, each after at most one `!`, worked off from left to right; no brackets, so
nothing nests. At most `MAX_TERMS` of them.
Rules: docs/spec/sources.md#filters-and-rates. Starts no client and imports none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Headers: TypeAlias = "Sequence[tuple[str, bytes | None]] | None"

_TOKEN: Final = re.compile(r"[&|]")
MAX_TERMS: Final = 1000
"""Terms of one filter, at most."""


class _Term(NamedTuple):
    """One `key:value`, wanted or (`!`) not."""

    header: tuple[str, bytes]
    negated: bool


def parse(text: str) -> tuple[tuple[str, _Term], ...]:
    """Return the terms with the operator before each (the first one's is `|`); raises TextError."""
    terms: list[tuple[str, _Term]] = []
    operator, start = "|", 0
    while True:
        found = _TOKEN.search(text, start)
        end = len(text) if found is None else found.start()
        if len(terms) == MAX_TERMS:
            msg = f"more than {MAX_TERMS:,} headers; this is the first one too many"
            raise TextError(msg, start, end - start)
        terms.append((operator, _term(text, start, end)))
        if found is None:
            return tuple(terms)
        operator, start = found.group(), found.end()


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
        msg = f"{key[:60]!r} has no ':'; write key:value, or key: for a header without a value"
        raise TextError(msg, at, end - at)
    if not key:
        msg = "a header has no name before its ':'"
        raise TextError(msg, at)
    return _Term((key, value.encode()), negated)


def compile_filter(text: str) -> Callable[[Headers], bool]:
    """Return whether a record with these headers is wanted; raises TextError.

    The time that a record takes grows with the number of its headers plus that of the terms, not with their product.
    """
    terms = parse(text)

    def wanted(headers: Headers) -> bool:
        # A header without a value counts as empty
        there = {(name, value or b"") for name, value in headers or ()}
        result = False
        for operator, term in terms:
            if result is (operator == "&"):  # otherwise the term cannot change it
                result = (term.header in there) is not term.negated
        return result

    return wanted
