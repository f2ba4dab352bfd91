"""A task's side of dead letters as a source: reads ranges of their topic, and gives what is selected."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ingest.deadletter.dead_letter import DeadLetter
from ingest.deadletter.letter import LEFT_OUT, PREFIX
from ingest.errors import DataLoss
from ingest.model.record import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from ingest.deadletter.source import LetterSource
    from ingest.kafka.reader import RangeReader
    from ingest.model.client_report import ClientReport
    from ingest.model.record import Record, Split
    from ingest.sources import Reader


GONE_ROW: Final = "the letter was written without its {}: `ingest backfill FILE --table T` reads the row again"
GONE: Final = "the letter was written without its {}, and the record is not where it came from any more"


@dataclass(slots=True)
class LetterChunk:
    """Consecutive selected letters of one split whose originals were of one topic."""

    split: Split
    topic: str
    messages: list[Any]
    """Dead letters, or rows that were made of them."""
    gone: str = ""
    """Why these letters stand for no record any more; empty where they do."""


@dataclass(slots=True)
class LetterReader:
    """Reads ranges of the topic, and gives what is selected."""

    source: LetterSource
    reader: RangeReader
    originals: Originals | None
    """The records of letters that are not whole; None where letters are taken as they are."""
    as_row: Callable[[DeadLetter], Any] | None = None
    """Makes a record of the source of a letter, where that has no messages."""

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[LetterChunk | None]:
        """Yield chunks of selected letters, and None when there is none among those that came."""
        reading = self.reader.read(ranges)
        try:
            for chunk in reading:
                if chunk is None:
                    yield None
                    continue
                found = [letter for m in chunk.messages if (letter := self._selected(chunk.split, m)) is not None]
                if not found:
                    yield None
                for (topic, missing), group in groupby(found, key=lambda letter: (letter.topic(), letter.missing)):
                    letters: list[Any] = [*group]
                    letters = letters if self.as_row is None else [*map(self.as_row, letters)]
                    gone = GONE if self.as_row is None else GONE_ROW
                    yield LetterChunk(chunk.split, topic, letters, gone.format(missing) if missing else "")
        finally:
            reading.close()

    def _selected(self, split: Split, message: Record) -> DeadLetter | None:
        reject = {
            name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
            for name, value in message.headers() or []
            if name.startswith(PREFIX)
        }
        source = self.source
        if reject.get("pipeline", source.pipeline) != source.pipeline or "topic" not in reject:
            return None
        offset = message.offset() or 0
        if not source.selection.matches(reject) or any(replay.has(split, offset, reject) for replay in source.earlier):
            return None
        find = None if self.originals is None or LEFT_OUT not in reject else self.originals.find
        return DeadLetter(message, reject, find)

    def position(self, split: Split) -> int:
        """Return the next position that this split's range would give."""
        return self.reader.position(split)

    def report(self) -> ClientReport | None:
        """Return what the client told since the last call; None where that is nothing."""
        return self.reader.report()

    def first(self, split: Split) -> int:
        """Return the first position that a split still has."""
        return self.reader.first(split)

    def close(self) -> None:
        """Release the connections."""
        self.reader.close()
        if self.originals is not None:
            self.originals.close()


class Originals:
    """The records of letters that their topic did not take whole, where they came from."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        """`make` makes a reader of the pipeline's source; it is called when a record is asked for first."""
        self._make = make
        self._reader: Reader | None = None

    def find(self, letter: DeadLetter) -> Record | None:
        """Return the record, or None where it is gone; raises IngestError where the source does not answer.

        A record of another time is another one: its topic was made again. Who gave it its time does not matter.
        """
        if self._reader is None:
            self._reader = self._make()
        at = letter.origin
        split, offset = (at.topic(), at.partition()), at.offset()
        try:
            found = [
                record
                for chunk in self._reader.read({split: (offset, offset + 1)})
                for record in (() if chunk is None else chunk.messages)
                if offset_of(record) == offset
            ]
        except DataLoss:
            return None
        return next((record for record in found if record.timestamp()[1] == letter.timestamp()[1]), None)

    def close(self) -> None:
        """Release the connections."""
        if self._reader is not None:
            self._reader.close()
