"""The progress of a shard's writing, as notes that are committed together with what it wrote.

A note is the metadata of an offset that is committed for the partition of the progress topic that has the shard's
number; brokers take up to 4,096 bytes. It holds the positions of some splits, as distances from where their ranges
begin: whoever has the plan of a batch can read it, nobody else needs to. Where a shard has more splits, their notes go
under further groups. Pure: asks no broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ingest.errors import ConfigError
from ingest.model.commit import ResumePoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.model.record import Split

_T = TypeVar("_T")
TOPIC: Final = "ingest-progress"
"""Holds no record: an offset can only be committed for a partition that exists on the sink's cluster."""
PARTITIONS: Final = 16
"""The number of partitions that the topic is made with; it gets more where a pipeline has more shards."""
SPLITS_PER_NOTE: Final = 200


class ProgressNote(msgspec.Struct, omit_defaults=True):
    """One note of how far a shard has written."""

    run: int
    batch: int = 0
    planned: int = 0
    at: list[int] = []
    """The positions of the splits, counted from the beginnings of their ranges."""
    final: bool = False
    tally: msgspec.Raw = msgspec.Raw(b"null")


class Owner(msgspec.Struct):
    """The owner of a prefix: the run that writes under it."""

    pipeline: str
    checkpoint: str
    run: int
    shards: int
    time: int
    """The time of the note, in milliseconds since 1970."""


_read_note = msgspec.json.Decoder(ProgressNote).decode
_read_owner = msgspec.json.Decoder(Owner).decode


def transactional_id(prefix: str, who: int | str) -> str:
    """Return the id that all attempts at a shard share, so that a newer one fences the older."""
    return f"{prefix}/{who}"


def group_of(prefix: str, scope: str, part: int = 0) -> str:
    """Return the consumer group under which the notes of all shards are committed: the first ones, or further ones."""
    return f"{prefix}/{scope}/{part}" if part else f"{prefix}/{scope}"


def parts(starts: Mapping[Split, int]) -> int:
    """Return how many notes the positions of so many splits take."""
    return max(1, -(-len(starts) // SPLITS_PER_NOTE))


def pack(note: ProgressNote, starts: Mapping[Split, int], positions: Mapping[Split, int]) -> list[str]:
    """Return the notes that say so, for the groups from the first on. The first one has the tally."""
    splits = sorted(starts)
    out = []
    for part in range(parts(starts)):
        first = part * SPLITS_PER_NOTE
        at = [positions[split] - starts[split] for split in splits[first : first + SPLITS_PER_NOTE]]
        tally = msgspec.Raw(b"null") if part else note.tally
        out.append(encode(ProgressNote(note.run, note.batch, note.planned, at, note.final, tally)))
    return out


def encode(note: ProgressNote | Owner) -> str:
    """Return the text of a note as it is committed."""
    return msgspec.json.encode(note).decode()


def read_note(text: str, group: str) -> ProgressNote:
    """Return a note; raises ConfigError for something else in its place."""
    return _read(_read_note, text, group)


def read_owner(text: str, group: str) -> Owner:
    """Return the owner's note; raises as `read_note` does."""
    return _read(_read_owner, text, group)


def _read(decode: Callable[[str], _T], text: str, group: str) -> _T:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeError) as exc:
        msg = f"consumer group {group} holds something else than this tool's notes: {text[:100]!r}"
        raise ConfigError(msg, "choose another sink.transactional-id-prefix") from exc


def unpack(
    notes: Sequence[ProgressNote | None], starts: Mapping[Split, int], batch: int, planned: int
) -> ResumePoint | None:
    """Return what the notes say of a batch; None where they are not of this batch as it was planned by that run."""
    head = notes[0]
    if head is None or (head.batch, head.planned) != (batch, planned):
        return None
    # All notes are committed together, so the further ones are of this batch, too
    distances = [distance for note in notes if note is not None for distance in note.at]
    splits = sorted(starts)
    positions = {split: starts[split] + distance for split, distance in zip(splits, distances, strict=True)}
    tally = bytes(head.tally)
    return ResumePoint(positions, b"" if tally == b"null" else tally, head.final)
