"""Tombstones that repeat no delete: all that a compacted topic keeps of one.

In: the parts of chunks. Out: the same, with these tombstones counted by a reason of their own. A message says by its
`op`, in JSON or in Avro, that it is a delete, so that nothing is decoded twice. Rules:
docs/spec/debezium-json.md#messages.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ingest.errors import DataLoss, IngestError
from ingest.model.change import LONE_TOMBSTONE, TOMBSTONE
from ingest.model.record import offset_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ingest.model.record import Record, Split
    from ingest.sources import Reader
    from ingest.task.encoding import EncodedPart
    from ingest.task.read_half import ReadChunk
    from ingest.task.task import Setup

_BEFORE: Final = 8
"""Records among which the delete of a tombstone is searched: it is right before it, unless two connectors write."""
_DELETES: Final = re.compile(rb'"op"\s*:\s*"d"|\x02d').search
_WAIT_S: Final = 5.0


class LoneTombstones:
    """What a task needs to know which tombstones are alone, in a format whose deletes tombstones repeat."""

    def __init__(self, setup: Setup) -> None:
        """Read nothing yet."""
        self._setup = setup
        self._repeats = setup.source.format.capabilities.repeats_deletes
        self._last: dict[Split, tuple[bytes | None, bytes | None]] = {}
        """The key and the value of the last record of each split so far."""

    def tell(self, chunk: ReadChunk, part: EncodedPart) -> None:
        """Count the tombstones of a part apart that are alone."""
        if not self._repeats or not part.messages:
            return
        if TOMBSTONE.reason in part.skipped:
            _count(part, {place for place in _tombstones(part) if self._is_alone(chunk, place)})
        if part.stop == len(part.messages):
            self._last[chunk.split] = part.messages[-1].key(), part.messages[-1].value()

    def _is_alone(self, chunk: ReadChunk, place: int) -> bool:
        messages = chunk.messages
        key = messages[place].key()
        if key is None or messages[place].value() is not None:
            return False
        known = [
            (messages[at].key(), messages[at].value()) for at in range(place - 1, max(-1, place - 1 - _BEFORE), -1)
        ]
        if not known and chunk.split in self._last:
            known = [self._last[chunk.split]]
        elif not known:
            read = self._read_before(chunk.split, offset_of(messages[0]))
            if read is None:
                return False
            known = [(record.key(), record.value()) for record in reversed(read)]
        name = _packed(key)
        found = next((value for of, value in known if of is not None and _packed(of) == name), b"")
        return found is not None and _DELETES(found) is None

    def _read_before(self, split: Split, at: int) -> list[Record] | None:
        """Return the records before an offset that are there; None where that cannot be known, or never were any."""
        if not at:
            return None
        for count in (_BEFORE, 1):
            first = max(0, at - count)
            try:
                reader = self._setup.source.reader(self._setup.pipeline)
                if reader.is_sample:
                    return None
                return [*self._records(reader, split, first, at)]
            except DataLoss:
                continue
            except IngestError:
                return None
        return []

    @staticmethod
    def _records(reader: Reader, split: Split, first: int, end: int) -> Iterator[Record]:
        deadline = time.monotonic() + _WAIT_S
        with closing(reader), closing(reader.read({split: (first, end)})) as chunks:
            for chunk in chunks:
                if chunk is not None:
                    yield from chunk.messages
                elif time.monotonic() > deadline:
                    return


def _packed(key: bytes) -> bytes:
    """Return a key without white space, which a JSON key may have or not."""
    return key.translate(None, b" \t\r\n")


def _tombstones(part: EncodedPart) -> list[int]:
    """Return the places of the tombstones in the part's chunk."""
    natively = [place for place, reason in part.skips if reason == TOMBSTONE.reason]
    changes = part.changes[: part.stop - part.start]
    return natively or [part.start + at for at, change in enumerate(changes) if change is TOMBSTONE]


def _count(part: EncodedPart, lone: Iterable[int]) -> None:
    lone = {*lone}
    if not lone:
        return
    counts = {TOMBSTONE.reason: part.skipped[TOMBSTONE.reason] - len(lone), LONE_TOMBSTONE.reason: len(lone)}
    part.skipped = {reason: count for reason, count in {**part.skipped, **counts}.items() if count}
    part.skips = [(at, LONE_TOMBSTONE.reason if at in lone else reason) for at, reason in part.skips]
    part.changes = [LONE_TOMBSTONE if part.start + at in lone else one for at, one in enumerate(part.changes)]
