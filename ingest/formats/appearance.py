"""The format that messages look like, for whoever has named none, or the wrong one.

In: values of records. Out: names of formats. What a message looks like is a guess: only its author knows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

REGISTERED: Final = "registry"
"""Name for messages that seem to have a schema in a registry: only the registry knows their format."""
_CONFLUENT: Final = 5
"""Bytes in front of a message with a schema in a registry: a zero, and the schema's id."""


def guessed(values: Iterable[bytes]) -> dict[str, int]:
    """Return how many values look like each format, the most frequent first."""
    return dict(Counter(map(looks_like, values)).most_common())


def looks_like(value: bytes) -> str:
    """Return the format that a value looks like: a name of a format, or `REGISTERED`."""
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        if value[:1] == b"\0" and len(value) > _CONFLUENT:
            return REGISTERED
        return "csv" if _is_lines_of_cells(value) else "raw"
    return _of_json(found) if isinstance(found, dict) else "raw"


def _of_json(message: dict[str, Any]) -> str:
    """Return the format of a JSON object, by the names that each format's messages always have."""
    inner = message.get("payload")
    envelope = inner if "schema" in message and isinstance(inner, dict) else message
    if "op" in envelope and ("after" in envelope or "before" in envelope):
        return "debezium-json"
    if "op_type" in message and "table" in message:
        return "ogg-json"
    if {"type", "table", "data", "database"} <= message.keys():
        data = message["data"]
        return "maxwell-json" if isinstance(data, dict) and "isDdl" not in message else "canal-json"
    return "json"


def _is_lines_of_cells(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() and ("," in text or ";" in text)
