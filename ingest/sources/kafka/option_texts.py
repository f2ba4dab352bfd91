"""Texts of options and of the command line: offsets of splits, times, and filters of headers. Asks no broker.

Rules: docs/spec/sources.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from ingest.model.record import Split
from ingest.model.text import TextError

_FIELDS: Final = re.compile(r"\s*(\w+)\s*:\s*([^,;]*?)\s*(?:,|$)")
_MAX_OFFSET: Final = (1 << 63) - 1
Headers: TypeAlias = "Sequence[tuple[str, bytes | None]] | None"

_TOKEN: Final = re.compile(r"[&|]")
MAX_TERMS: Final = 1000
"""Terms of one filter, at most."""


def parse_offsets(text: str, topics: tuple[str, ...] | None) -> dict[Split, int]:
    """Return the offsets of a text like `partition:0,offset:42;partition:1,offset:300`, by split.

    Each part begins with `topic:NAME,` where the source has several topics. `topics` are those of the source, or None
    where a pattern chooses them. Raise TextError.
    """
    out: dict[Split, int] = {}
    for at, part in _parts(text):
        fields = _fields(part, at)
        topic = fields.get("topic")
        if topic is None:
            if topics is None or len(topics) != 1:
                msg = "which topic? write topic:NAME,partition:P,offset:O where there is not exactly one"
                raise TextError(msg, at, len(part))
            topic = topics[0]
        elif topics is not None and topic not in topics:
            raise TextError(f"topic {topic!r} is not one of this source's: {', '.join(topics)}", at, len(part))
        split = (topic, _number(fields, "partition", part, at, (1 << 31) - 1))
        if split in out:
            raise TextError(f"partition {split[1]} of topic {topic} is named twice", at, len(part))
        out[split] = _number(fields, "offset", part, at, _MAX_OFFSET)
    if not out:
        raise TextError("no partition is named: write partition:0,offset:42;partition:1,offset:300", 0, len(text))
    return out


def _parts(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for part in text.split(";"):
        stripped = part.strip()
        if stripped:
            yield at + part.index(stripped), stripped
        at += len(part) + 1


def _fields(part: str, at: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(part):
        match = _FIELDS.match(part, position)
        if match is None or match.group(1) not in {"topic", "partition", "offset"} or match.group(1) in fields:
            msg = f"cannot read {part[position:]!r}: write partition:P,offset:O"
            raise TextError(msg, at + position, len(part) - position)
        fields[match.group(1)] = match.group(2)
        position = match.end()
    return fields


def _number(fields: dict[str, str], name: str, part: str, at: int, most: int) -> int:
    value = fields.get(name)
    if value is None:
        raise TextError(f"{name} is missing in {part!r}", at, len(part))
    if not (value.isascii() and value.isdigit()) or int(value) > most:
        msg = f"{name} {value!r} is not a whole number from 0 to {most}"
        raise TextError(msg, at + part.index(value) if value else at, len(value))
    return int(value)


def parse_time(text: str) -> int:
    """Return a time in milliseconds since 1970.

    `text` is this number itself, or an ISO 8601 time, which is UTC where it names no zone. Raise ValueError for
    anything else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither milliseconds since 1970 nor a time like 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


class _Term(NamedTuple):
    """One `key:value`, wanted or (`!`) not."""

    header: tuple[str, bytes]
    negated: bool


def parse_filter(text: str) -> tuple[tuple[str, _Term], ...]:
    """Return the terms of `scan.header-filter` with the operator before each (the first one's is `|`).

    `key:value` terms joined by `&` and `|`, each after at most one `!`, worked off from left to right; no brackets, so
    nothing nests. Raise TextError.
    """
    terms: list[tuple[str, _Term]] = []
    operator, start = "|", 0
    while True:
        operator_match = _TOKEN.search(text, start)
        end = len(text) if operator_match is None else operator_match.start()
        if len(terms) == MAX_TERMS:
            raise TextError(f"more than {MAX_TERMS:,} headers; this is the first one too many", start, end - start)
        terms.append((operator, _term(text, start, end)))
        if operator_match is None:
            return tuple(terms)
        operator, start = operator_match.group(), operator_match.end()


def _term(text: str, start: int, end: int) -> _Term:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    for i in range(start, end):
        if text[i] in "()":
            raise TextError("brackets are not supported: operators are worked off from left to right", i)
    negated = text[start:end].startswith("!")
    at = start + negated
    while at < end and text[at].isspace():
        at += 1
    if at == end:
        raise TextError("a header is missing here: write key:value", min(at, max(len(text) - 1, 0)))
    if text[at] == "!":
        raise TextError("'!' may stand only once before a header", at)
    key, colon, value = text[at:end].partition(":")
    if not colon:
        raise TextError(f"{key[:60]!r} has no ':'; write key:value, or key: for a header without a value", at, end - at)
    if not key:
        raise TextError("a header has no name before its ':'", at)
    return _Term((key, value.encode()), negated)


def compile_filter(text: str) -> Callable[[Headers], bool]:
    """Return whether a record with these headers is wanted; raises TextError.

    The time that a record takes grows with the number of its headers plus that of the terms, not with their product.
    """
    terms = parse_filter(text)

    def wanted(headers: Headers) -> bool:
        # A header without a value counts as empty
        present = {(name, value or b"") for name, value in headers or ()}
        result = False
        for operator, term in terms:
            if result is (operator == "&"):  # otherwise the term cannot change it
                result = (term.header in present) is not term.negated
        return result

    return wanted
