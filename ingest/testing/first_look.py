"""A first look at topics: what is in them, and which format their messages have.

In: a pipeline that reads them. Out: a `FirstLook`. Nothing is written, and no offset is committed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from ingest.testing.sampling import SampledCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.model.record import Record

REGISTERED: Final = "registry"
"""Name for messages that seem to have a schema in a registry: only the registry knows their format."""
_CONFLUENT: Final = 5
"""Bytes in front of a message with a schema in a registry: a zero, and the schema's id."""


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Contents of some topics."""

    topics: tuple[str, ...]
    splits: int
    waiting: int
    """Records that are there."""
    looked_at: int
    formats: dict[str, int]
    """How many of the records that were looked at are of each format, the most frequent first."""
    json_keys: bool
    """True if the records have keys, and all of them are JSON objects."""

    @property
    def format(self) -> str | None:
        """The format that most records have; None where there are no records with values."""
        return next(iter(self.formats), None)


def first_look(pipeline: Pipeline, tell: Callable[[str], None] = lambda _: None) -> FirstLook:
    """Look at a sample of what a pipeline reads. `tell` gets warnings. Raises IngestError."""
    name = pipeline.pipeline.name
    with ExitStack() as resources:
        real = pipeline.source.coordinator(name, tell)
        resources.callback(real.close)
        sampled = SampledCoordinator(pipeline.source, real, name)
        sampled.connect()
        starts = sampled.start({}, {}, "init", None)
        records = [record for chunk in sampled.sample.chunks for record in chunk.messages]
        values = [value for record in records if (value := record.value()) is not None]
        return FirstLook(
            topics=tuple(sorted(sampled.ids)),
            splits=len(starts),
            waiting=sampled.sample.waiting,
            looked_at=len(records),
            formats=guessed(values),
            json_keys=_json_keys(records),
        )


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


def _json_keys(records: Sequence[Record]) -> bool:
    keys = [record.key() for record in records]
    return bool(keys) and all(key is not None and _is_object(key) for key in keys)


def _is_object(key: bytes) -> bool:
    try:
        return isinstance(orjson.loads(key), dict)
    except orjson.JSONDecodeError:
        return False
