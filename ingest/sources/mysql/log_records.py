"""Records of the log in the making: those of transactions that ended, and behind them those of the open one.

The reference. Native code has the same (`LogRecords` of native/log_decoder.pyx), without an object for each record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ingest.model.record import Headers


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One row change of the binary log, as a `Record` (ingest/model/record.py)."""

    data: bytes
    position: int
    millis: int

    def key(self) -> None:
        """Return None: the key is in the row."""

    def value(self) -> bytes:
        """Return the envelope, behind the id of its table's entry in the history of schemas."""
        return self.data

    def topic(self) -> str:
        """Return the name that stands for a topic in positions and rejects."""
        return "binlog"

    def partition(self) -> int:
        """Return the number that stands for a partition in positions and rejects."""
        return 0

    def offset(self) -> int:
        """Return the position in the log."""
        return self.position

    def timestamp(self) -> tuple[int, int]:
        """Return (1, time of the change in milliseconds since 1970); 1 stands for a creation time."""
        return 1, self.millis

    def headers(self) -> Headers:
        """Return an empty list: a row change has no headers."""
        return []

    def leader_epoch(self) -> None:
        """Return None: there is no such thing."""


def entry_of(value: bytes) -> int:
    """Return the id of the entry in the history of schemas that a record was decoded by."""
    return int.from_bytes(value[1:5], "big")


class PendingRecords:
    """Records that were not given on yet. `ended`: the number of those whose transactions ended."""

    def __init__(self) -> None:
        self._records: list[LogRecord] = []
        self.ended = 0
        self.size = 0
        """Bytes of all of them."""

    def __len__(self) -> int:
        return len(self._records)

    def add(self, value: bytes, position: int, millis: int) -> None:
        """Add a record of the open transaction."""
        self._records.append(LogRecord(value, position, millis))
        self.size += len(value)

    def end(self) -> None:
        """Release the records of the transaction that ended."""
        self.ended = len(self._records)

    def drop(self, start: int, but: Collection[int] = ()) -> None:
        """Drop the records from `start` on, except those of the entries `but` of the history of schemas."""
        kept = [record for record in self._records[start:] if entry_of(record.data) in but]
        self.size -= sum(len(record.data) for record in self._records[start:]) - sum(len(one.data) for one in kept)
        self._records[start:] = kept

    def place(self, start: int, position: int, room: int) -> None:
        """Spread the records from `start` on over the `room` positions that begin at `position`."""
        before = self._records[start:]
        if not before:
            return
        self._records[start:] = [
            LogRecord(value, position + at, before[0].millis)
            for at, value in enumerate(spread([one.data for one in before], room))
        ]
        self.size += sum(len(one.data) for one in self._records[start:]) - sum(len(one.data) for one in before)

    def since(self, start: int) -> list[LogRecord]:
        """Return the records from `start` on."""
        return self._records[start:]

    def take(self, count: int) -> list[LogRecord]:
        """Return the first `count` records, and keep the others."""
        taken, self._records = self._records[:count], self._records[count:]
        self.ended = max(self.ended - count, 0)
        self.size -= sum(len(record.data) for record in taken)
        return taken


def spread(values: Sequence[bytes], room: int) -> Sequence[bytes]:
    """Return values as at most `room` records: where there are more, several are one record with several changes.

    Such a record has an array, each of whose members is a change with the `id` of its entry.
    """
    if len(values) <= room:
        return values
    size = -(-len(values) // room)
    return [_together(values[at : at + size]) for at in range(0, len(values), size)]


def _together(values: Sequence[bytes]) -> bytes:
    members = (b'{"id":%d,' % entry_of(value) + value[6:] for value in values)
    return values[0][:5] + b"[" + b",".join(members) + b"]"
