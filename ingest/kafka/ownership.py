"""The driver's side of exactly-once into Kafka: which run writes under a prefix, and that no older one does any more.

What is open under the ids of older runs is ended, and their producers are fenced, before a new run reads how far they
came. The tasks' side is `transactions.py`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import CommitOutcomeUnknown
from ingest.kafka import progress
from ingest.kafka.progress import Owner, ProgressNote, transactional_id
from ingest.kafka.transactions import Channel, Groups, Notes, persistently
from ingest.model.commit import begun_already, taken_over

if TYPE_CHECKING:
    from collections.abc import Mapping

_AT_ONCE: Final = 8
"""Shards that a starting driver takes over at the same time."""


class Ownership:
    """The driver's side: one run at a time writes under a prefix."""

    def __init__(self, conf: Mapping[str, str], prefix: str, pipeline: str) -> None:
        """Connect to nothing yet."""
        self._conf = conf
        self._prefix = prefix
        self._pipeline = pipeline
        self._group = transactional_id(prefix, "driver")
        self._notes = Notes(conf, self._group)
        self._channel: Channel | None = None
        self._owner = Owner(pipeline, "", 0, 0, 0)
        self._before: Owner | None = None

    def acquire(self, checkpoint: str, run: int) -> Owner | None:
        """Fence the drivers of older runs; returns who wrote last. Raises IngestError.

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
        self._channel = Channel(self._conf, self._prefix, "driver")

    def _read(self) -> Owner | None:
        text = self._notes.read(0)
        return progress.read_owner(text, self._group) if text else None

    def _note(self, batch: int) -> None:
        assert self._channel is not None
        self._owner.time = int(time.time() * 1000)
        self._channel.begin()
        self._channel.commit(0, [(self._notes, progress.encode(self._owner))], batch)

    def fence(self, scope: str, shards: int, parts: int) -> list[list[ProgressNote | None]]:
        """End what tasks of older runs left open, in so many shards at least; returns the first notes of each shard.

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
        """Write this run's note, so that a task of an older run finds it and stops; returns the notes before."""
        channel = Channel(self._conf, self._prefix, shard)
        try:
            notes = groups.read(shard, parts)
            head, run = notes[0] or ProgressNote(0), self._owner.run
            claimed = [head, *(note for note in notes[1:] if note is not None)]
            texts = [progress.encode(msgspec.structs.replace(note, run=run)) for note in claimed]
            channel.begin()
            channel.commit(shard, [*zip(groups.notes(len(texts)), texts, strict=True)], head.batch)
        finally:
            channel.close()
        return notes

    def begin_batch(self, batch: int, shards: int) -> None:
        """Say that a batch is about to be written, in so many shards; raises Fenced where a newer run has begun."""
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
