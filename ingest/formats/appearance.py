"""What a sample of messages looks like: their format, and for a first pipeline a key, kinds of events, a header line.

Only the author of messages knows; so whoever writes a file offers these guesses, each with what it rests on.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import orjson

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


_LEAST: Final = 3
"""The fewest messages from which a sample is judged."""
_MOST_KINDS: Final = 20
_LIKE_KEYS: Final = ("id", "_id", "key", "uuid", "number", "no", "code")
_LIKE_KINDS: Final = ("event_type", "eventtype", "event", "type", "kind", "table", "entity", "name")
_HEADER: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of messages that tells their kinds apart."""

    name: str
    kinds: tuple[str, ...]
    """Its values."""
    messages: int
    """How many messages were looked at."""


@dataclass(frozen=True, slots=True)
class UniqueField:
    """A field whose value is unique in a sample of messages: a candidate for the key."""

    name: str
    messages: int
    """How many messages were looked at."""


def objects(values: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects among these values."""
    json_objects = []
    for value in values:
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if isinstance(parsed, dict):
            json_objects.append(parsed)
    return json_objects


def unique_field(rows: Sequence[Mapping[str, Any]]) -> UniqueField | None:
    """Return the field that is most likely a key: unique, in each row, a text or an integer. None where none is."""
    if len(rows) < _LEAST:
        return None
    candidates = [name for name in rows[0] if _is_plain(name) and _is_unique([row.get(name) for row in rows])]
    candidates.sort(key=lambda name: (_rank(name, _LIKE_KEYS), [*rows[0]].index(name)))
    return UniqueField(candidates[0], len(rows)) if candidates else None


def _is_plain(name: str) -> bool:
    """Return whether a name can stand in a list with commas, in one line."""
    return name.isprintable() and "," not in name and name == name.strip() != ""


def _is_unique(values: list[Any]) -> bool:
    plain = all(isinstance(value, (str, int)) and not isinstance(value, bool) for value in values)
    return plain and len({*values}) == len(values)


def event_field(rows: Sequence[Mapping[str, Any]]) -> EventField | None:
    """Return the field by whose values the other fields of messages differ; None where no field does that."""
    if len(rows) < _LEAST:
        return None
    candidates = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        kinds = Counter(value for value in values if isinstance(value, str))
        if sum(kinds.values()) < len(rows) or not 1 < len(kinds) <= min(_MOST_KINDS, len(rows) - 1):
            continue
        shapes: dict[str, set[frozenset[str]]] = {}
        for row in rows:
            shapes.setdefault(row[name], set()).add(frozenset(row))
        of_kinds: list[frozenset[str]] = [frozenset[str]().union(*of) for of in shapes.values()]
        differ = all(one != other for one, other in combinations(of_kinds, 2))
        apart = all(len(one & other) < min(len(one), len(other)) for one, other in combinations(of_kinds, 2))
        if apart or (differ and _rank(name, _LIKE_KINDS) <= len(_LIKE_KINDS)):
            candidates.append(EventField(name, tuple(kinds), len(rows)))
    candidates.sort(key=lambda one: (_rank(one.name, _LIKE_KINDS), len(one.kinds)))
    return candidates[0] if candidates else None


def _rank(name: str, liked: Sequence[str]) -> int:
    """Return the rank of a name: its place among the usual names, then names that end with one, then all others."""
    plain = name.lower()
    if plain in liked:
        return liked.index(plain)
    ends = [place for place, word in enumerate(liked) if plain.endswith(word)]
    return len(liked) + min(ends, default=len(liked))


def says_mysql_types(values: Iterable[bytes]) -> bool:
    """Return whether Canal's messages of rows, as far as there are any, say the types of MySQL."""
    rows = [message for message in objects(values) if message.get("data") and not message.get("isDdl")]
    return bool(rows) and all(isinstance(row.get("mysqlType"), dict) and row["mysqlType"] for row in rows)


def delimiter_of(values: Sequence[bytes]) -> str:
    """Return the character that is between the fields of CSV."""
    texts = [value.decode(errors="replace") for value in values]
    for mark in (",", ";", "\t", "|"):
        if texts and all(mark in text for text in texts) and len({text.count(mark) for text in texts}) == 1:
            return mark
    return ","


def header_of(first: bytes, others: Sequence[bytes], delimiter: str) -> tuple[str, ...]:
    """Return the column names of a CSV header line in a split's first message; empty if that is no header.

    It is one if its cells are different words, and some column of all others has numbers where it has a word.
    """
    names = _cells(first[:_HEADER], delimiter)
    rows = cells(others, delimiter)
    if not rows or len({*names}) != len(names) or not all(_is_word(name) for name in names):
        return ()
    if any(len(row) != len(names) for row in rows):
        return ()
    numbers = [all(_is_number(row[i]) for row in rows) for i in range(len(names))]
    return tuple(names) if any(numbers) else ()


def cells(values: Iterable[bytes], delimiter: str) -> list[list[str]]:
    """Return the fields of lines of CSV."""
    return [_cells(value[:_HEADER], delimiter) for value in values]


def _cells(value: bytes, delimiter: str) -> list[str]:
    text = value.decode(errors="replace")
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])]
    except csv.Error:
        return []


def _is_word(text: str) -> bool:
    plain = text.replace("_", "a").replace(" ", "a").replace("-", "a")
    return plain.isalnum() and not plain[0].isdigit()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
