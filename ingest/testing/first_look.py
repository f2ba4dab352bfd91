"""A first look at topics: what is in them, and which format their messages have.

In: a pipeline that reads them. Out: a `FirstLook`. Nothing is written, and no offset is committed.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from ingest.formats.appearance import guessed
from ingest.testing.sampling import SampledCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.model.record import Record, Split


_FIRST: Final = 50


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
    values: tuple[bytes, ...] = ()
    """The values of the records that were looked at."""
    first: tuple[tuple[Split, int, tuple[bytes, ...]], ...] = ()
    """Of each split: where it begins, and the values of its first records that were looked at."""

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
            values=tuple(values),
            first=tuple(
                (chunk.split, starts[chunk.split], tuple(one.value() or b"" for one in chunk.messages[:_FIRST]))
                for chunk in sampled.sample.to_come()
            ),
        )


def _json_keys(records: Sequence[Record]) -> bool:
    keys = [record.key() for record in records]
    return bool(keys) and all(key is not None and _is_object(key) for key in keys)


def _is_object(key: bytes) -> bool:
    try:
        return isinstance(orjson.loads(key), dict)
    except orjson.JSONDecodeError:
        return False
