"""Records that a reader of a source hands to a task at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.record import Record, Split


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of one split and of one topic, or what stands for it."""

    split: Split
    topic: str
    messages: Sequence[Record]
    """The records: a list, or native code's `Messages` (ingest/native/records.pxd)."""
    more: bool = False
    """True if they are a part of something that has one position: the split stays at it."""
    place: Any = None
    """Where a source without messages has them, as its dead letters say it."""
    gone: str = ""
    """Why these records stand for nothing any more; empty where they do."""
