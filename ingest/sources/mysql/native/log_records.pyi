from collections.abc import Collection, Sequence
from typing import overload

from ingest.model.record import Record
from ingest.native.records import Messages
from ingest.sources.mysql.log_records import LogRecord

class PendingRecords:
    """See `PendingRecords` of ingest/sources/mysql/log_records.py."""

    ended: int

    def __init__(self, with_metadata: bool = False) -> None: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all of them."""

    def add(self, value: bytes, position: int, millis: int) -> None:
        """Add a record of the open transaction."""

    def end(self) -> None:
        """Note that the open transaction ended, and all of it counts."""

    def drop(self, start: int, but: Collection[int] = ()) -> None:
        """Drop the records from `start` on, but those of some entries of the history of schemas."""

    def place(self, start: int, position: int, room: int) -> None:
        """Give the records from `start` on positions of their own, of which there are so many from one on."""

    def since(self, start: int) -> list[LogRecord]:
        """Return the records from `start` on."""

    def take(self, count: int) -> Sequence[Record]:
        """Return the first `count` records, and keep the others."""

class LogRecords(Messages, Sequence[Record]):
    """Consecutive records of the log."""

    @overload
    def __getitem__(self, at: int, /) -> Record: ...
    @overload
    def __getitem__(self, at: slice, /) -> Sequence[Record]: ...
