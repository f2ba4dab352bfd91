"""Reading: the first stage of a task. In: ranges of splits. Out: chunks of the records that the pipeline wants."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from ingest.errors import InternalError
from ingest.model.record import offset_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from ingest.model.record import Headers, Record, Split
    from ingest.sources import Reader
    from ingest.task.result import Telemetry


@dataclass(slots=True)
class ReadChunk:
    """Consecutive records of one split, without those that the pipeline does not want."""

    split: Split
    topic: str
    messages: Sequence[Record]
    end: int
    """The position of the split after the chunk."""
    left_out: Sequence[Record] = field(default_factory=list)
    """The records that the pipeline does not want."""
    gone: str = ""
    """Why there is nothing of the messages to decode; empty where there is."""
    more: bool = False
    """True if more records of the position of the last one follow: the split stays at it until all are there."""
    place: Any = None
    """What the source says of the place of the messages, beside their offsets; see `RowLetters.as_letter`."""

    def position(self, index: int) -> int:
        """Return the position of the split after `messages[:index]`."""
        return self.end if index == len(self.messages) else offset_of(self.messages[index])

    def left_out_before(self, position: int) -> Sequence[Record]:
        """Return those of the records left out that are before a position."""
        return self.left_out[: bisect_left(self.left_out, position, key=offset_of)] if self.left_out else ()


class RangeReading:
    """A reader of ranges, and the condition on headers that records have to meet."""

    def __init__(self, reader: Reader, wanted: Callable[[Headers | None], bool] | None, telemetry: Telemetry) -> None:
        """`wanted`: whether a record with these headers is to be read; None if all are."""
        self._reader = reader
        self._telemetry = telemetry
        self._wanted = wanted

    def chunks(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[ReadChunk | None]:
        """Yield chunks until every range is read, and None when nothing came for a moment. Raises IngestError."""
        wanted = self._wanted
        with closing(self._reader.read(ranges)) as chunks:
            for chunk in chunks:
                if chunk is None:
                    yield None
                    continue
                messages, end = chunk.messages, offset_of(chunk.messages[-1]) + (not chunk.more)
                self._telemetry.read(messages)
                kept = () if wanted is None else [wanted(message.headers()) for message in messages]
                if all(kept):
                    yield ReadChunk(
                        chunk.split, chunk.topic, messages, end, gone=chunk.gone, more=chunk.more, place=chunk.place
                    )
                else:
                    left_out = [*compress(messages, map(not_, kept))]
                    yield ReadChunk(chunk.split, chunk.topic, [*compress(messages, kept)], end, left_out)

    def position(self, split: Split) -> int:
        """Return the next position that the range of a split would give."""
        return self._reader.position(split)


def read_again(reader: Reader, split: Split, offset: int) -> Record:
    """Return the record at an offset; raises InternalError if it is not there any more."""
    for chunk in reader.read({split: (offset, offset + 1)}):
        if chunk is not None:
            for message in chunk.messages:
                if offset_of(message) == offset:
                    return message
    msg = f"{split[0]}[{split[1]}]: the record at offset {offset} could not be read again"
    raise InternalError(msg)
