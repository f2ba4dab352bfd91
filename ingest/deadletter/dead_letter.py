"""Dead letters as the records that they were; only their position is the letter's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.deadletter.letter import LEFT_OUT, PREFIX, TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.model.record import Headers, Record


@dataclass(slots=True)
class DeadLetter:
    """A letter, as the record that it was."""

    letter: Record
    reject: Mapping[str, str]
    """The reject that it is of, by the names of our headers without their prefix."""
    find: Callable[[DeadLetter], Record | None] | None = None
    """Reads the record of a letter where it came from, None where it is gone; None if the letter has all of it."""
    _found: Record | None = None

    @property
    def _record(self) -> Record:
        """The record, from where it came from if the letter does not have all of it. Raise IngestError."""
        if self.find is not None:
            self._found, self.find = self.find(self), None
        return self._found or self.letter

    @property
    def missing(self) -> str:
        """What of the record is not there any more, neither here nor where it came from. Raise IngestError."""
        return self.reject.get(LEFT_OUT, "") if self._record is self.letter else ""

    def key(self) -> bytes | None:
        """Return the original key."""
        return self._record.key()

    def value(self) -> bytes | None:
        """Return the original value."""
        return self._record.value()

    def topic(self) -> str:
        """Return the original topic."""
        return self.reject.get("topic", "")

    def partition(self) -> int | None:
        """Return the letter's partition."""
        return self.letter.partition()

    def offset(self) -> int | None:
        """Return the letter's position."""
        return self.letter.offset()

    def timestamp(self) -> tuple[int, int]:
        """Return the original time."""
        kind, millis = self.letter.timestamp()
        told = self.reject.get(TIME, "")
        return kind, int(told) if told.isdigit() else millis

    def headers(self) -> Headers:
        """Return the original headers."""
        return [(name, value) for name, value in self._record.headers() or [] if not name.startswith(PREFIX)]

    def leader_epoch(self) -> None:
        """Return None: it is not kept."""
        return

    @property
    def origin(self) -> Origin:
        """The record as it stood when it was rejected."""
        return Origin(self)


@dataclass(frozen=True, slots=True)
class Origin:
    """A letter's record, where it stood when it was rejected."""

    letter: DeadLetter

    def key(self) -> bytes | None:
        """Return the original key."""
        return self.letter.key()

    def value(self) -> bytes | None:
        """Return the original value."""
        return self.letter.value()

    def topic(self) -> str:
        """Return the original topic."""
        return self.letter.topic()

    def partition(self) -> int:
        """Return the original partition."""
        return _number(self.letter.reject.get("partition"))

    def offset(self) -> int:
        """Return the original offset."""
        return _number(self.letter.reject.get("offset"))

    def timestamp(self) -> tuple[int, int]:
        """Return the original time."""
        return self.letter.timestamp()

    def headers(self) -> Headers:
        """Return the original headers."""
        return self.letter.headers()

    def leader_epoch(self) -> None:
        """Return nothing: it is not kept."""
        return


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
