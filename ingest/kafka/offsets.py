"""Parsers of offsets and times in a pipeline file or on the command line. They never ask a broker."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ingest.model.text import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.model.record import Split

_FIELDS: Final = re.compile(r"\s*(\w+)\s*:\s*([^,;]*?)\s*(?:,|$)")
_MAX_OFFSET: Final = (1 << 63) - 1


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
            msg = f"topic {topic!r} is not one of this source's: {', '.join(topics)}"
            raise TextError(msg, at, len(part))
        split = (topic, _number(fields, "partition", part, at, (1 << 31) - 1))
        if split in out:
            msg = f"partition {split[1]} of topic {topic} is named twice"
            raise TextError(msg, at, len(part))
        out[split] = _number(fields, "offset", part, at, _MAX_OFFSET)
    if not out:
        msg = "no partition is named: write partition:0,offset:42;partition:1,offset:300"
        raise TextError(msg, 0, len(text))
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
        found = _FIELDS.match(part, position)
        if found is None or found.group(1) not in {"topic", "partition", "offset"} or found.group(1) in fields:
            msg = f"cannot read {part[position:]!r}: write partition:P,offset:O"
            raise TextError(msg, at + position, len(part) - position)
        fields[found.group(1)] = found.group(2)
        position = found.end()
    return fields


def _number(fields: dict[str, str], name: str, part: str, at: int, most: int) -> int:
    value = fields.get(name)
    if value is None:
        msg = f"{name} is missing in {part!r}"
        raise TextError(msg, at, len(part))
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
        msg = f"{text!r} is neither milliseconds since 1970 nor a time like 2026-01-31T12:00:00Z"
        raise ValueError(msg) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
