"""The read half of a task: it reads ranges of splits, decodes, encodes, and knows when the task ends."""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from ingest.errors import InternalError
from ingest.model.commit import reports
from ingest.model.record import offset_of
from ingest.task.changelog import Changelog
from ingest.task.drift import LookAhead, SchemaObserver
from ingest.task.encoding import ChunkDecoder, ChunkEncoder
from ingest.task.tombstones import LoneTombstones

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.model.record import Headers, Record, Split
    from ingest.sources import Reader
    from ingest.task.counters import Telemetry
    from ingest.task.encoding import EncodedPart, NativeStage
    from ingest.task.rejects import RejectLimit
    from ingest.task.task import Task, TaskResult
    from ingest.task.worker import WorkerState


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


class ReadHalf:
    """A shard's reader, its decoders and encoders, and the rows of its changelog."""

    def __init__(
        self,
        task: Task,
        state: WorkerState,
        native: NativeStage | None,
        limit: RejectLimit,
        result: TaskResult,
        deadline: float,
        *,
        marked: bool,
        refused: Callable[[Sequence[Written]], str | None] | None = None,
    ) -> None:
        """`deadline`: when the task ends, in seconds of the monotonic clock.

        `marked`, `refused`: see `ChunkEncoder`.
        """
        setup, reader, progress = state.setup, state.clients.reader(), result.progress
        decoder = ChunkDecoder(setup.source, state.columns)
        self._task = task
        self._state = state
        self._result = result
        self._deadline = deadline
        self._reader = reader
        self._tombstones = LoneTombstones(setup)
        self.within = False
        """True if what was read last has one position with what follows, so that a commit would be no progress."""
        self._reading = RangeReading(reader, setup.source.wanted, result.telemetry)
        self.changelog = Changelog(setup.scope, task.ids, reader, decoder) if setup.changelog else None
        """None if inserts and updates need not be told apart."""
        self._ahead = LookAhead(SchemaObserver(setup, state.schemas, progress), limit, setup.look_ahead, progress)
        self._encoder = ChunkEncoder(
            native, decoder, self.changelog, state.records.cache, self._ahead, limit, marked=marked, refused=refused
        )

    def prepare(self, positions: dict[Split, int]) -> None:
        """Bring the changelog to where the task begins. That may take long, and does not count. Raises IngestError."""
        if self.changelog is not None:
            self.changelog.prepare(positions)
            self._deadline = time.monotonic() + self._task.seconds

    def read(self, positions: Mapping[Split, int], ends: Mapping[Split, int]) -> Generator[ReadChunk | None]:
        """Yield chunks from positions on up to others, and None when nothing came for a moment. Raises IngestError."""
        return self._reading.chunks({split: (positions[split], end) for split, end in ends.items()})

    def encode(self, chunk: ReadChunk) -> Generator[EncodedPart]:
        """Yield what becomes of a chunk, part by part: see `ChunkEncoder.parts`."""
        self.within = chunk.more
        for part in self._encoder.parts(chunk):
            self._tombstones.tell(chunk, part)
            if part.changes:
                taken = part.stop - part.start
                messages = part.messages[part.start : part.stop]
                self._result.telemetry.decoded(messages, part.changes[:taken], self._state.schemas.sources)
            yield part

    @property
    def stopped(self) -> bool:
        """True if a split has stopped before the end of its range, at a reject or at a drift."""
        return self._result.progress.stopped_by_reject or bool(self._ahead.stopped)

    def ended(self) -> bool:
        """Return whether the task is to end here: at a reject too many, at its time, or when nothing more is new."""
        now = time.monotonic()
        late = now > self._deadline and not self.within
        return self._result.progress.stopped_by_reject or late or self._ahead.ended(now)

    def pass_gaps(self, positions: dict[Split, int]) -> None:
        """Move the positions over gaps at the end of ranges: no record there shows how far they were read."""
        if self._result.progress.stopped_by_reject:
            return
        for split, position in positions.items():
            if split not in self._ahead.stopped:
                positions[split] = max(position, self._reading.position(split))

    def keep_rows(self, positions: dict[Split, int]) -> None:
        """Keep the rows of the changelog up to these positions, if there is one. Raises Unavailable."""
        if self.changelog is not None:
            self.changelog.commit(positions)

    def close(self) -> None:
        """Close the changelog; what of it was not committed is forgotten. Keep the reports of the reader's client."""
        self._result.telemetry.reports += reports(self._reader.reporting)
        if self.changelog is not None:
            self.changelog.close()
