"""How far a shard has written, as notes that are committed together with what it wrote.

A note is the metadata of a committed offset; brokers take up to 4,096 bytes of it. One note holds the positions of
some splits, as distances from where their ranges begin: whoever has the plan of a batch can read it, nobody else needs
to. Pure: asks no broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import ConfigError
from ingest.model.portion import Resumed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.kafka.admin import Split

TOPIC: Final = "ingest-progress"
"""Holds no record: an offset can only be committed for a partition that exists on the sink's cluster."""
PARTITIONS: Final = 16
SPLITS_PER_NOTE: Final = 32
MAX_TALLY: Final = 1500
"""Bytes of a note that counters may take."""


class Note(msgspec.Struct, omit_defaults=True):
    """What one note says."""

    run: int
    batch: int = 0
    planned: int = 0
    at: list[int] = []
    """How far beyond the beginnings of their ranges the splits were written."""
    final: bool = False
    tally: msgspec.Raw = msgspec.Raw(b"")


class Owner(msgspec.Struct):
    """Who writes under a prefix."""

    pipeline: str
    checkpoint: str
    run: int
    shards: int
    time: int
    """When that was noted, in milliseconds since 1970."""


_read_note = msgspec.json.Decoder(Note).decode
_read_owner = msgspec.json.Decoder(Owner).decode


def transactional_id(prefix: str, who: int | str) -> str:
    """The id that all attempts at a shard share, so that a newer one fences the older."""
    return f"{prefix}/{who}"


def group_of(prefix: str, scope: str, shard: int) -> str:
    """The consumer group under which a shard's notes are committed."""
    return f"{prefix}/{scope}/{shard}"


def pack(note: Note, starts: Mapping[Split, int], positions: Mapping[Split, int], partitions: int) -> list[str]:
    """The notes that say so, one for each partition of the topic from the first on."""
    splits = sorted(starts)
    size = max(SPLITS_PER_NOTE, -(-len(splits) // partitions))
    out = []
    for first in range(0, max(len(splits), 1), size):
        at = [positions[split] - starts[split] for split in splits[first : first + size]]
        tally = note.tally if not first and len(note.tally) <= MAX_TALLY else msgspec.Raw(b"null")
        part = Note(note.run, note.batch, note.planned, at, note.final, tally)
        out.append(msgspec.json.encode(part).decode())
    return out


def read_note(text: str, group: str) -> Note:
    """A note; raises ConfigError for something else in its place."""
    try:
        return _read_note(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        msg = f"consumer group {group} holds something else than this tool's progress: {text[:100]!r}"
        raise ConfigError(msg, "choose another sink.transactional-id-prefix") from exc


def read_owner(text: str, group: str) -> Owner:
    """The owner's note; raises as `read_note` does."""
    try:
        return _read_owner(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        msg = f"consumer group {group} holds something else than this tool's notes: {text[:100]!r}"
        raise ConfigError(msg, "choose another sink.transactional-id-prefix") from exc


def unpack(notes: list[Note], starts: Mapping[Split, int], batch: int, planned: int) -> Resumed | None:
    """What the notes say of a batch; None where they are not of this batch as it was planned by that run."""
    if not notes or (notes[0].batch, notes[0].planned) != (batch, planned):
        return None
    distances = [distance for note in notes for distance in note.at if (note.batch, note.planned) == (batch, planned)]
    splits = sorted(starts)
    if len(distances) != len(splits):
        return None
    positions = {split: starts[split] + distance for split, distance in zip(splits, distances, strict=True)}
    tally = bytes(notes[0].tally)
    return Resumed(positions, b"" if tally == b"null" else tally, notes[0].final)
