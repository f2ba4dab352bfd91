"""The read half of a task: it reads ranges of splits, decodes, encodes, and knows when the task ends.

A split stops at the first record that does not fit its table's schema: a drift. What the task sees from there on it
does not write: it only observes schemas, for the driver to merge, until that brings nothing new.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from contextlib import closing
from dataclasses import dataclass, field
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, Final

from ingest.encode.coercer import check_before
from ingest.encode.encode import stage_of
from ingest.errors import DataLoss, IngestError, InternalError
from ingest.model.change import LONE_TOMBSTONE, TOMBSTONE, Change, Decoded, Reject
from ingest.model.commit import reports
from ingest.model.numbers import Numbers
from ingest.model.record import Headers, Record, Split, offset_of
from ingest.model.reject import RowError
from ingest.schema.infer import observe, reasons_of
from ingest.task.changelog import Changelog
from ingest.task.encoding import ChunkDecoder, ChunkEncoder, EncodedPart, NativeStage
from ingest.task.rejects import RecordReject, RejectLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from ingest.encode.upsert_encoder import Record as Written
    from ingest.schema.evolve import Schemas
    from ingest.sources import Reader
    from ingest.task.task import Setup, Task, TaskProgress, TaskResult, Telemetry
    from ingest.task.worker import WorkerState


LOOK_S: Final = 2.0
QUIET_S: Final = 0.2
"""Looking ahead ends after `LOOK_S` seconds, or when so many or `Setup.look_ahead` records bring nothing new."""
_BEFORE: Final = 8
"""Records among which the delete of a tombstone is searched: it is right before it, unless two connectors write."""
_DELETES: Final = re.compile(rb'"op"\s*:\s*"d"|\x02d').search
_READ_BEFORE_S: Final = 5.0


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
    raise InternalError(f"{split[0]}[{split[1]}]: the record at offset {offset} could not be read again")


class SchemaObserver:
    """The schemas that a task observes, beside those that it knows."""

    def __init__(self, setup: Setup, schemas: Schemas, progress: TaskProgress) -> None:
        """`schemas`: those that the task knows."""
        self._setup = setup
        self._schemas = schemas
        self._progress = progress

    def see(self, changes: Sequence[Change]) -> bool | Reject:
        """Add what the changes of one message show; return whether anything was new.

        Returns the reject instead, and has observed nothing, if no schema takes one of the changes.
        """
        before = self._progress.observed
        if len(changes) > 1:
            self._progress.observed = dict(before)
        new = False
        for change in changes:
            try:
                new |= self._see(change)
            except RowError as exc:
                self._progress.observed = before
                return Reject(exc.code, str(exc), change.table)
        return new

    def _see(self, change: Change) -> bool:
        """Add what one change shows; return whether that was new. Raises RowError if no schema takes it."""
        setup, known_sources = self._setup, self._schemas.sources
        table = change.table
        source = known_sources.get(table)
        if source is None and len(known_sources) >= setup.max_tables:
            raise RowError("too-many-tables", f"there are {setup.max_tables} tables already (pipeline.max-tables)")
        inference, observed = setup.inference, self._progress.observed
        known = observed.get(table) or (None if source is None else source.schema)
        stored = self._schemas.number_types(table) if inference.numbers is Numbers.STORED else {}
        merged = observe(
            change,
            inference,
            known,
            stored,
            fixed=inference.static and known is not None,
            key_columns=() if source is None else source.key_columns,
        )
        if merged == known:
            if table in observed:
                observed[table] = merged  # a value may be larger than all before
            return False
        if source is None and not setup.rules.primary_key(table):
            # Later rows of such a table are rejects, so its first one is no reason to stop the run, nor to have no key
            if inference.keyed and not merged.primary_key:
                raise RowError("null-key", "the record's key tells no column of the primary key (key.format)")
            check_before(merged.primary_key, {column.name for column in merged.columns}, change.declared)
            missing = [name for name in merged.primary_key if all(c.name != name for c in merged.columns)]
            if missing:
                raise RowError("null-key", f"primary key column {missing[0]!r} is null or missing")
        observed[table] = merged
        for name, value in reasons_of(change, known, merged, inference).items():
            self._progress.widening.setdefault((table, name), value)
        return True


class LookAhead:
    """The splits that have stopped at a drift, and what the task still looks for in them."""

    def __init__(self, observer: SchemaObserver, limit: RejectLimit, look_ahead: int, progress: TaskProgress) -> None:
        """`look_ahead`: how many records may bring nothing new."""
        self.stopped: set[Split] = set()
        self._observer = observer
        self._limit = limit
        self._look_ahead = look_ahead
        self._progress = progress
        self._looked = 0
        """Records since the last one that brought something new."""
        self._last_news = 0.0
        self._until = 0.0

    def stop(self, split: Split, message: Record, changes: Sequence[Change]) -> RecordReject | None:
        """Stop a split at a message that does not fit.

        Returns the reject, and does not stop the split for a drift, if no schema takes the message.
        """
        seen = self._observer.see(changes)
        if isinstance(seen, Reject):
            stage = stage_of(seen)
            return RecordReject(message, stage, seen, passed=self._limit.allows(stage, seen))
        if not self.stopped:
            self._until = time.monotonic() + LOOK_S
        self.stopped.add(split)
        self._progress.drifted = True
        self._looked, self._last_news = 0, time.monotonic()
        return None

    def look(self, changes: Sequence[Decoded]) -> None:
        """Observe what else is new in messages of a split that has stopped."""
        for decoded in changes:
            if not isinstance(decoded, (Change, list)):
                continue
            self._looked += 1
            if self._looked > self._look_ahead:
                return
            seen = self._observer.see(decoded if isinstance(decoded, list) else [decoded])
            if isinstance(seen, Reject):
                continue  # it will be a reject when its turn comes
            if seen:
                self._looked, self._last_news = 0, time.monotonic()
            if self._looked % 100 == 0 and time.monotonic() > self._until:
                return

    def ended(self, now: float) -> bool:
        """Return whether a split has stopped, and looking ahead has brought all that it will."""
        if not self.stopped:
            return False
        return self._looked >= self._look_ahead or now - self._last_news > QUIET_S or now > self._until


class LoneTombstones:
    """Tombstones that repeat no delete, in a format whose deletes tombstones repeat: all that compaction keeps of one.

    They are counted by a reason of their own. A message says by its `op`, in JSON or in Avro, that it is a delete, so
    that nothing is decoded twice. Rules: docs/spec/debezium-json.md#messages.
    """

    def __init__(self, setup: Setup) -> None:
        """Read nothing yet."""
        self._setup = setup
        self._repeats = setup.source.format.capabilities.repeats_deletes
        self._last: dict[Split, tuple[bytes | None, bytes | None]] = {}
        """The key and the value of the last record of each split so far."""

    def tell(self, chunk: ReadChunk, part: EncodedPart) -> None:
        """Count the tombstones of a part apart that are alone."""
        if not self._repeats or not part.messages:
            return
        if TOMBSTONE.reason in part.skipped:
            _count_lone(part, {place for place in _tombstones(part) if self._is_alone(chunk, place)})
        if part.stop == len(part.messages):
            self._last[chunk.split] = part.messages[-1].key(), part.messages[-1].value()

    def _is_alone(self, chunk: ReadChunk, place: int) -> bool:
        messages = chunk.messages
        key = messages[place].key()
        if key is None or messages[place].value() is not None:
            return False
        known = [
            (messages[at].key(), messages[at].value()) for at in range(place - 1, max(-1, place - 1 - _BEFORE), -1)
        ]
        if not known and chunk.split in self._last:
            known = [self._last[chunk.split]]
        elif not known:
            read = self._read_before(chunk.split, offset_of(messages[0]))
            if read is None:
                return False
            known = [(record.key(), record.value()) for record in reversed(read)]
        name = _packed(key)
        found = next((value for of, value in known if of is not None and _packed(of) == name), b"")
        return found is not None and _DELETES(found) is None

    def _read_before(self, split: Split, at: int) -> list[Record] | None:
        """Return the records before an offset that are there; None where that cannot be known, or never were any."""
        if not at:
            return None
        for count in (_BEFORE, 1):
            first = max(0, at - count)
            try:
                reader = self._setup.source.reader(self._setup.pipeline)
                if reader.is_sample:
                    return None
                return [*self._records(reader, split, first, at)]
            except DataLoss:
                continue
            except IngestError:
                return None
        return []

    @staticmethod
    def _records(reader: Reader, split: Split, first: int, end: int) -> Iterator[Record]:
        deadline = time.monotonic() + _READ_BEFORE_S
        with closing(reader), closing(reader.read({split: (first, end)})) as chunks:
            for chunk in chunks:
                if chunk is not None:
                    yield from chunk.messages
                elif time.monotonic() > deadline:
                    return


def _packed(key: bytes) -> bytes:
    """Return a key without white space, which a JSON key may have or not."""
    return key.translate(None, b" \t\r\n")


def _tombstones(part: EncodedPart) -> list[int]:
    """Return the places of the tombstones in the part's chunk."""
    natively = [place for place, reason in part.skips if reason == TOMBSTONE.reason]
    changes = part.changes[: part.stop - part.start]
    return natively or [part.start + at for at, change in enumerate(changes) if change is TOMBSTONE]


def _count_lone(part: EncodedPart, lone: Iterable[int]) -> None:
    lone = {*lone}
    if not lone:
        return
    counts = {TOMBSTONE.reason: part.skipped[TOMBSTONE.reason] - len(lone), LONE_TOMBSTONE.reason: len(lone)}
    part.skipped = {reason: count for reason, count in {**part.skipped, **counts}.items() if count}
    part.skips = [(at, LONE_TOMBSTONE.reason if at in lone else reason) for at, reason in part.skips]
    part.changes = [LONE_TOMBSTONE if part.start + at in lone else one for at, one in enumerate(part.changes)]


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
