"""Records that a test gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.model.record import Headers


@dataclass(slots=True)
class MemoryRecord:
    """A record that a test gives. `index` is its number among all of them."""

    index: int
    topic_name: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    partition_number: int = 0
    position: int = 0
    millis: int | None = None
    sent: Headers = field(default_factory=list)

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.value_bytes

    def topic(self) -> str:
        """Return the topic."""
        return self.topic_name

    def partition(self) -> int:
        """Return the partition."""
        return self.partition_number

    def offset(self) -> int:
        """Return the position in the partition."""
        return self.position

    def timestamp(self) -> tuple[int, int]:
        """Return what kind of time the record has, and the time in milliseconds since 1970."""
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> Headers:
        """Return the headers' names and values."""
        return self.sent

    def leader_epoch(self) -> int:
        """Return the first epoch."""
        return 0
