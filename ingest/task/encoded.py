"""The result for a part of a chunk: the value that encoding gives back, natively or by the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.model.record import offset_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.change import Decoded
    from ingest.model.record import Record
    from ingest.task.rejects import RecordReject


@dataclass(slots=True)
class EncodedPart:
    """The result of encoding `messages[start:stop]`: encoded records, rejects, and messages that stand for no row."""

    messages: Sequence[Record]
    """All messages of the chunk."""
    start: int
    stop: int
    """The index of the first message that was not taken."""
    position: int
    """The position of the split after this part."""
    records: Sequence[Written] = ()
    rejects: Sequence[RecordReject] = ()
    """The rejects in their order. If the last one does not pass, the task stops at it: at `stop`."""
    skipped: dict[str, int] = field(default_factory=dict)
    """By reason: messages that stand for no row."""
    changes: Sequence[Decoded] = ()
    """The changes of each message, from `start` on; nothing if native code has decoded them."""
    marks: Sequence[int] = ()
    """The number of records before each of these changes, where that is asked for."""
    full: bool = False
    """True if it ends only because it is full: native code goes on at `stop`."""
    skips: Sequence[tuple[int, str]] = ()
    """The index and the reason of each message that stands for no row; nothing where `changes` say so."""

    @property
    def end(self) -> int:
        """The position behind the last message that was taken, which the split is only at when all of it are."""
        return offset_of(self.messages[self.stop - 1]) + 1 if self.stop > self.start else self.position

    @property
    def within(self) -> bool:
        """True if the last message that was taken has one position with others, and not all of them were."""
        return self.position < self.end
