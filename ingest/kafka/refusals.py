"""Records that a topic does not take: what is told of them, and the search for them by sending records one by one.

A broker refuses a whole request for one record in it. So where one was refused, the records since the last commit come
again (ingest/task/rejects.py), a chunk at a time. They are held until its commit and sent as usual; if one is
refused again, each is sent by itself, and those are at fault that are refused alone. Rules:
docs/spec/dirty-data.md#rows-that-the-sink-refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ingest.errors import ConfigError
from ingest.kafka.failures import INVALID_TIMESTAMP, REFUSED
from ingest.model.commit import RefusedRow, RowsRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import KafkaError

    from ingest.kafka.handle import EncodedRecords
    from ingest.model.record import Headers

Shorter: TypeAlias = "tuple[bytes | None, Headers]"
"""Key and headers of a record without a value, which stands for one that its topic does not take."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record with headers and a time that is no row, and those that may stand for it, the best first."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None
    instead: Sequence[Shorter] = ()
    untimed: Headers = field(default_factory=list)
    """Headers that say the time of the record, where the letter has another one."""

    def shorter(self, exc: RowsRefused) -> Letter:
        """Return the one that stands for it where it is refused; raises ConfigError where there is none."""
        if exc.for_time and self.timestamp is not None:
            more = [header for header in self.untimed if header not in self.headers]
            return replace(self, headers=[*self.headers, *more], timestamp=None)
        if not self.instead:
            msg = f"{exc.message}; it was a dead letter, of which nothing can be left out any more"
            raise ConfigError(msg, "change the settings of the topic of dead letters, or name another one") from exc
        (key, headers), *rest = self.instead
        return replace(self, key=key, value=None, headers=headers, instead=rest)


Held: TypeAlias = "EncodedRecords | Letter"
"""Records that were written together, or a letter."""


_Single: TypeAlias = "Letter | list[tuple[Any, bytes | None, bytes | None]]"
"""A letter, or one record."""


class Sending(Protocol):
    """A producer as the search needs it."""

    def queue(self, held: Held) -> None:
        """Queue records, or a letter; raises RowsRefused for a record that the client itself refuses."""

    def wait(self) -> None:
        """Wait until all is delivered; raises RowsRefused where a topic does not take a record."""


def refused(error: KafkaError, topic: str) -> RowsRefused:
    """Return the error of a writer for records that a topic does not take."""
    msg = f"topic {topic} does not take {REFUSED[error.code()]}: {error.str()}"
    refusal = RowsRefused(msg, "change the topic's settings, or leave such records out")
    refusal.for_time = error.code() == INVALID_TIMESTAMP
    return refusal


def deliver(held: Sequence[Held], to: Sending, start_over: Callable[[], Sending], *, atomic: bool) -> bool:
    """Deliver what is held; raises RowsRefused with the records that are refused alone, if there are any.

    `start_over` is called after each refusal, and returns what to send by from then on. `atomic`: it gives up what was
    written before. Returns whether all was taken alone that was not taken together: it was too much for a request.
    """
    try:
        for records in held:
            to.queue(records)
        to.wait()
    except RowsRefused:
        search = _Search([*_singly(held)], start_over, atomic=atomic)
        search.run()
        return not search.shortened
    return False


class _Search:
    """Sends records one by one, to find those that a topic refuses."""

    def __init__(self, alone: list[_Single], start_over: Callable[[], Sending], *, atomic: bool) -> None:
        self._alone = alone
        self._start_over = start_over
        self._atomic = atomic
        self._to = start_over()
        self.shortened = False
        """True if a letter was refused alone."""

    def run(self) -> None:
        """Deliver each by itself; once more where that gave up what was delivered before. Raises RowsRefused."""
        while self._pass():
            self._to = self._start_over()

    def _pass(self) -> bool:
        """Deliver each by itself; returns whether what was delivered was given up in between."""
        rows, again = [], False
        for i, held in enumerate(self._alone):
            exc = self._refusal(held)
            if exc is not None and not isinstance(held, Letter):
                ((destination, key, value),) = held
                size = len(key or b"") + len(value or b"")
                rows.append(RefusedRow(destination, key, value, f"{exc.message} ({size:,} bytes)"))
            while exc is not None and isinstance(held, Letter):
                held = self._alone[i] = held.shorter(exc)  # noqa: PLW2901  (what stands for it)
                self.shortened = True
                exc = self._refusal(held)
                again = self._atomic
        if rows:
            self._start_over()
            raise RowsRefused(rows[0].reason, "change the topic's settings, or leave such records out", rows)
        return again

    def _refusal(self, held: _Single) -> RowsRefused | None:
        """Deliver one record or letter; returns why it is refused, None if it is not."""
        try:
            self._to.queue(held)
            self._to.wait()
        except RowsRefused as exc:
            self._to = self._start_over()
            return exc
        return None


def _singly(held: Sequence[Held]) -> Iterator[_Single]:
    """Yield each letter, and each record as a list of one."""
    for records in held:
        if isinstance(records, Letter):
            yield records
            continue
        for destination, key, value in records:
            yield [(destination, key, None if value is None else bytes(value))]
