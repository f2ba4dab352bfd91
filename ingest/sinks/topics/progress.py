"""Exactly-once into Kafka: how far each shard is written, which run writes under a prefix, and that no older one does.

    transactional ids   <prefix>/<shard>, <prefix>/driver   a newer producer of an id fences the older one
    progress            <prefix>/<scope>                    a consumer group's offsets; what they say is in their notes
    ownership           <prefix>/driver                     the same, of the driver

A note is the metadata of an offset that is committed for the partition of the progress topic that has the shard's
number; brokers take up to 4,096 bytes. It holds the positions of some splits, as distances from where their ranges
begin: whoever has the plan of a batch can read it, nobody else needs to. Where a shard has more splits, their notes go
under further groups. The tasks' side is `transactions.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from ingest.errors import CommitOutcomeUnknown, ConfigError
from ingest.kafka.transactions import Channel, Notes, persistently
from ingest.model.commit import ResumePoint, begun_already, taken_over
from ingest.model.record import Split

_T = TypeVar("_T")
PARTITIONS: Final = 16
"""The number of partitions that the topic is made with; it gets more where a pipeline has more shards."""
SPLITS_PER_NOTE: Final = 200
_AT_ONCE: Final = 8
"""Shards that a starting driver takes over at the same time."""


class ProgressNote(msgspec.Struct, omit_defaults=True):
    """A note of how far a shard is written: of all its splits, or of up to SPLITS_PER_NOTE of them."""

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
    """Return the consumer group whose offsets carry notes of all shards. `part`: number of a shard's note, from 0."""
    return f"{prefix}/{scope}/{part}" if part else f"{prefix}/{scope}"


def parts(starts: Mapping[Split, int]) -> int:
    """Return the number of notes that hold the positions of these splits."""
    return max(1, -(-len(starts) // SPLITS_PER_NOTE))


def pack(note: ProgressNote, starts: Mapping[Split, int], positions: Mapping[Split, int]) -> list[str]:
    """Return the texts of a shard's notes with these positions, by part. Only the first has the tally."""
    splits = sorted(starts)
    out = []
    for part in range(parts(starts)):
        first = part * SPLITS_PER_NOTE
        at = [positions[split] - starts[split] for split in splits[first : first + SPLITS_PER_NOTE]]
        tally = msgspec.Raw(b"null") if part else note.tally
        out.append(encode(ProgressNote(note.run, note.batch, note.planned, at, note.final, tally)))
    return out


def encode(note: ProgressNote | Owner) -> str:
    """Return a note as JSON text, the metadata of a committed offset."""
    return msgspec.json.encode(note).decode()


def read_note(text: str, group: str) -> ProgressNote:
    """Parse a shard's note. Raises ConfigError for a text that is none."""
    return _read(_read_note, text, group)


def read_owner(text: str, group: str) -> Owner:
    """Parse the owner's note. Raises as `read_note` does."""
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
    """Return a shard's written positions from its notes; None for notes of another batch or another plan."""
    head = notes[0]
    if head is None or (head.batch, head.planned) != (batch, planned):
        return None
    # All notes are committed together, so the further ones are of this batch, too
    distances = [distance for note in notes if note is not None for distance in note.at]
    splits = sorted(starts)
    positions = {split: starts[split] + distance for split, distance in zip(splits, distances, strict=True)}
    tally = bytes(head.tally)
    return ResumePoint(positions, b"" if tally == b"null" else tally, head.final)


class Groups:
    """The notes of one scope, in its consumer groups, whose clients stay connected."""

    def __init__(self, conf: Mapping[str, str], prefix: str, scope: str) -> None:
        self._conf, self._prefix, self.scope = conf, prefix, scope
        self._known: list[Notes] = []

    def notes(self, count: int) -> list[Notes]:
        """Return the first `count` groups."""
        while len(self._known) < count:
            name = group_of(self._prefix, self.scope, len(self._known))
            self._known.append(Notes(self._conf, name))
        return self._known[:count]

    def read(self, shard: int, count: int) -> list[ProgressNote | None]:
        """Return the first `count` notes of a shard, None for a missing one. Raises IngestError."""
        out = []
        for i, notes in enumerate(self.notes(count)):
            text = notes.read(shard)
            out.append(read_note(text, group_of(self._prefix, self.scope, i)) if text else None)
        return out

    def close(self) -> None:
        """Release the connections."""
        for notes in self._known:
            notes.close()
        self._known = []


class Ownership:
    """Ownership of a transactional-id prefix by one run at a time, for the driver.

    A new run first aborts the open transactions of older runs and fences their producers. Then it reads their progress.
    """

    def __init__(self, conf: Mapping[str, str], prefix: str, pipeline: str) -> None:
        self._conf = conf
        self._prefix = prefix
        self._pipeline = pipeline
        self._group = transactional_id(prefix, "driver")
        self._notes = Notes(conf, self._group)
        self._channel: Channel | None = None
        self._owner = Owner(pipeline, "", 0, 0, 0)
        self._before: Owner | None = None

    def acquire(self, checkpoint: str, run: int) -> Owner | None:
        """Fence the drivers of older runs. Return the owner before this run, if there was one. Raises IngestError.

        When this returns, no older run can begin another batch.
        """
        return persistently(lambda: self._acquire(checkpoint, run))

    def _acquire(self, checkpoint: str, run: int) -> Owner | None:
        newest = self._read()
        if newest is not None and newest.checkpoint == checkpoint and newest.run > run:
            raise begun_already(newest.run, run)
        self._open()
        before = self._read()
        if before is None or before != self._owner:  # not our own, of the try before
            self._before = before
            self._owner = Owner(self._pipeline, checkpoint, run, 0 if before is None else before.shards, 0)
        self._note(0)
        return self._before

    def _drop(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _open(self) -> None:
        self._drop()
        self._channel = Channel(self._conf, self._group)

    def _read(self) -> Owner | None:
        text = self._notes.read(0)
        return read_owner(text, self._group) if text else None

    def _note(self, batch: int) -> None:
        assert self._channel is not None
        self._owner.time = int(time.time() * 1000)
        self._channel.begin()
        self._channel.commit(0, [(self._notes, encode(self._owner))], batch)

    def fence(self, scope: str, shards: int, parts: int) -> list[list[ProgressNote | None]]:
        """Abort the open transactions of older runs, in `shards` shards at least. Return each shard's first notes.

        When this returns, no task of an older run can commit anything any more. Raises IngestError.
        """
        groups = Groups(self._conf, self._prefix, scope)
        groups.notes(parts)
        try:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                everyone = range(max(shards, self._owner.shards))
                return list(threads.map(lambda s: persistently(lambda: self._claim(groups, s, parts)), everyone))
        finally:
            groups.close()

    def _claim(self, groups: Groups, shard: int, parts: int) -> list[ProgressNote | None]:
        """Write this run's number into a shard's notes, so that tasks of older runs stop. Return the previous notes."""
        channel = Channel(self._conf, transactional_id(self._prefix, shard))
        try:
            notes = groups.read(shard, parts)
            head, run = notes[0] or ProgressNote(0), self._owner.run
            claimed = [head, *(note for note in notes[1:] if note is not None)]
            texts = [encode(msgspec.structs.replace(note, run=run)) for note in claimed]
            channel.begin()
            channel.commit(shard, [*zip(groups.notes(len(texts)), texts, strict=True)], head.batch)
        finally:
            channel.close()
        return notes

    def begin_batch(self, batch: int, shards: int) -> None:
        """Record that a batch is about to be written, in `shards` shards. Raises Fenced where a newer run has begun."""
        self._owner.shards = max(self._owner.shards, shards)
        persistently(lambda: self._begin_batch(batch))

    def _begin_batch(self, batch: int) -> None:
        if self._channel is None:
            # Whose turn it is now is in the note: asking for the id again would fence a newer run
            now = self._read()
            if now is not None and (now.checkpoint, now.run) != (self._owner.checkpoint, self._owner.run):
                who = f"pipeline {now.pipeline}, checkpoint {now.checkpoint}, run {now.run}"
                raise taken_over(self._prefix, who)
            self._open()
        try:
            self._note(batch)
        except CommitOutcomeUnknown:
            self._drop()
            raise

    def close(self) -> None:
        """Release the connections."""
        self._drop()
        self._notes.close()
