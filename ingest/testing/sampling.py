"""A few records of a source, as a source of their own: what a dry run reads.

The real source is asked, and shown nothing: no offset is committed.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import orjson

from ingest.config.diagnostics import did_you_mean
from ingest.errors import ConfigError
from ingest.formats.appearance import guessed
from ingest.model.record import Chunk, Record, Split, offset_of
from ingest.sources import Reader, Source, SourceCoordinator
from ingest.testing.in_memory import MemoryRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.model.standing import Standing
    from ingest.sources.stateful import StatefulCoordinator

MOST: Final = 1_000
"""Records of one split that are looked at from where a run would start, and as many of the newest."""
MAX_OF_ALL: Final = 20_000
"""So many of all splits together, about."""
MAX_BYTES: Final = 256 << 20
_NAMED: Final = 5
"""Partitions that an error names."""
READ_S: Final = 5.0
"""The time for reading a part of the sample, at most, in seconds."""
IN_LOG: Final = -1
"""The partition of a place whose topic is a file of a database's log, and whose offset is one in that file."""
_LOG_S: Final = 60.0
"""The time for reading a file of a log up to a place, at most, in seconds."""
_ROWS: Final = 24
"""Bits of a position in the sample that tell rows of a chunk apart."""
_STATEMENTS: Final = 20
"""Times that reading goes on behind statements of a log that change tables."""


@dataclass(slots=True)
class Sample:
    """A few records of a source: the next ones that a run would read, and the newest."""

    waiting: int = 0
    """Records that a run would read, as far as positions tell; 0 of a database."""
    standing: Standing | None = None
    """What of a database a run would read; None where the source has records."""
    looked_at: int = 0
    """Those of them that are in the sample; or, where none is waiting, older ones in their place."""
    old: bool = False
    """True if nothing is waiting, and the sample holds records that a run would not read."""
    starts: dict[Split, int] = field(default_factory=dict)
    stops: dict[Split, int] = field(default_factory=dict)
    """The end of the dry run, by split: up to there the sample has every record."""
    extent: dict[Split, tuple[int, int]] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    shown: Callable[[Split, Record], tuple[bytes | None, str]] = lambda _, record: (record.value(), "")
    """Returns the value of a record as people read it, and its place where that is no offset of a topic."""
    _splits: dict[int, Split] = field(default_factory=dict)

    def between(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk]:
        """Yield the records of these ranges, split by split."""
        for chunk in self.chunks:
            start, end = ranges.get(chunk.split, (0, 0))
            messages = [message for message in chunk.messages if start <= offset_of(message) < end]
            if messages:
                yield Chunk(chunk.split, chunk.topic, messages)

    def split_of(self, record: Record) -> Split:
        """Return the split of a sampled record; for a copy of a record, its topic and partition."""
        if not self._splits:
            self._splits = {id(message): chunk.split for chunk in self.chunks for message in chunk.messages}
        return self._splits.get(id(record)) or (record.topic() or "", record.partition() or 0)

    def to_come(self) -> Generator[Chunk]:
        """Yield all records that a run would read."""
        return self.between({split: (start, self.extent[split][1]) for split, start in self.starts.items()})


class SampledState:
    """The state of the real source, where each row of the sample has a position of its own."""

    def __init__(self, real: StatefulCoordinator) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def weight(self, split: Split) -> float:
        """Return how many records a position stands for."""
        return 1.0 if self._real.grows(split) else self._real.weight(split)


class SampledCoordinator(SourceCoordinator):
    """The coordinator of a sample. It asks the real source once for all runs, and commits no positions to it."""

    def __init__(self, source: Source, real: SourceCoordinator, pipeline: str) -> None:
        self.sample = Sample()
        self.stateful = None if real.stateful is None else cast("StatefulCoordinator", SampledState(real.stateful))
        self._source = source
        self._real = real
        self._pipeline = pipeline
        self._identity: str | None = None
        self.older = False
        """True if records that were read already are taken where none is waiting, also of a pipeline that has run."""
        self.only: tuple[Split, int] | None = None
        """The split and the offset of the one record to take; None takes those that a run would read."""

    @property
    def ids(self) -> dict[str, str]:
        """The topics that are read, with their ids."""
        return self._real.ids

    @ids.setter
    def ids(self, value: dict[str, str]) -> None:
        self._real.ids = value

    def connect(self) -> str:
        """Return an identity of where records come from."""
        if self._identity is None:
            self._identity = self._real.connect()
        return self._identity

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this source is bound to."""
        return self._real.fingerprint(identity)

    def start(
        self, stored: Mapping[Split, int], ids: Mapping[str, str], owner: str, from_time: int | None
    ) -> dict[Split, int]:
        """Take the sample at the first call. Return where it starts. Raises IngestError."""
        if not self.sample.starts:
            self._take(self._real.start(stored, ids, owner, from_time), anew=not stored)
        return dict(self.sample.starts)

    def _take(self, positions: dict[Split, int], *, anew: bool) -> None:
        sample = self.sample
        sample.extent = extent = self._real.extent(self._real.ends(positions))
        keeper, ends = self._real.stateful, {split: end for split, (_, end) in extent.items()}
        sample.standing = None if keeper is None else keeper.standing(positions, ends)
        if sample.standing is not None:
            since = sample.standing.read_time if sample.standing.lag_bytes else 0
            sample.standing = sample.standing.with_times(max(0.0, time.time() - since) if since else 0.0, None)
        else:
            sample.waiting = sum(max(0, end - positions[split]) for split, end in ends.items())
        if self.only is not None:
            self._take_one(*self.only, positions)
            return
        most = max(10, min(MOST, MAX_OF_ALL // max(1, len(positions))))
        sample.old = (anew or self.older) and not (sample.waiting if sample.standing is None else sample.standing.waits)
        if sample.old:
            positions = {split: max(first, end - most) for split, (first, end) in extent.items()}
        sample.starts = positions
        head = {split: (at, min(extent[split][1], at + most)) for split, at in positions.items()}
        sample.stops = self._read(head)
        newest = {}
        for split, (first, end) in extent.items():
            start, stop = head[split]
            behind = max(first, end - max(most, self._source.sample_size))
            newest[split] = (behind, min(end, start)) if stop >= end else (max(behind, stop), end)
        self._read(newest)
        if keeper is not None:
            self._tell_rows_apart(keeper)
        sample.looked_at = sum(len(chunk.messages) for chunk in sample.to_come())
        # In a fixed order, whichever broker answered first
        sample.chunks.sort(key=lambda chunk: (chunk.split, offset_of(chunk.messages[0])))

    def _tell_rows_apart(self, keeper: StatefulCoordinator) -> None:
        """Give the rows of each chunk of a table, which have one position, positions of their own in the sample."""
        sample = self.sample
        lanes = [split for split in sample.starts if keeper.grows(split)]
        chunks = [chunk for chunk in sample.chunks if chunk.split not in lanes]
        for split in lanes:
            at = first = sample.starts[split] << _ROWS
            stop = sample.stops[split]
            for chunk in (candidate for candidate in sample.chunks if candidate.split == split):
                rows: list[Record] = []
                for record in chunk.messages:
                    if offset_of(record) < stop:  # else its chunk was not read to its end
                        time_made = record.timestamp()[1]
                        rows.append(MemoryRecord(at, split[0], None, record.value(), split[1], at, time_made))
                        at += 1
                chunks.append(replace(chunk, messages=rows))
            sample.starts[split], sample.stops[split], sample.extent[split] = first, at, (first, at)
        sample.chunks = [chunk for chunk in chunks if chunk.messages]
        self._show_rows(keeper)

    def _show_rows(self, keeper: StatefulCoordinator) -> None:
        """Set the function that shows a database's row as the JSON text of a dead letter."""
        rows = self._source.row_letters
        if rows is None:
            return
        assigned, shared = keeper.assign({}), keeper.shared()

        def shown(split: Split, record: Record) -> tuple[bytes | None, str]:
            standing = None if keeper.grows(split) else keeper.standing({split: offset_of(record)}, {})
            place = "" if standing is None else f"{standing.file}:{standing.offset}"
            return rows.as_letter(assigned, shared, split, record, None).value(), place

        self.sample.shown = shown

    def _take_one(self, split: Split, offset: int, positions: dict[Split, int]) -> None:
        """Take one record, wherever the pipeline stands. Raise ConfigError where it is not there."""
        sample, name, keeper = self.sample, f"{split[0]}[{split[1]}]", self._real.stateful
        if keeper is not None:
            self._take_logged(keeper, split, offset, positions)
            return
        if split[1] == IN_LOG:
            msg = f"{split[0]}:{offset} is a place in the log of a database, and this pipeline reads none"
            raise ConfigError(msg, "give TOPIC:PARTITION:OFFSET")
        if split not in sample.extent:
            known = sorted(sample.extent)
            some = ", ".join(f"{topic}[{partition}]" for topic, partition in known[:_NAMED])
            msg = f"this pipeline does not read {name}{did_you_mean(split[0], {topic for topic, _ in known})}"
            raise ConfigError(msg, f"it reads {some or 'nothing'}{' and others' if len(known) > _NAMED else ''}")
        first, end = sample.extent[split]
        sample.starts = positions | {split: offset}
        sample.stops = dict(sample.starts)
        if first <= offset < end:
            self._read({split: (offset, offset + 1)})
        if not any(True for _ in sample.between({split: (offset, offset + 1)})):
            held = f"it holds offsets {first} to {end - 1}" if first < end else "it is empty"
            gone = ", and this one was compacted away, or marks a transaction" if first <= offset < end else ""
            raise ConfigError(f"{name} has no record at offset {offset}: {held}{gone}", "choose another one")
        sample.stops[split] = offset + 1
        sample.looked_at = 1

    def _take_logged(self, keeper: StatefulCoordinator, split: Split, offset: int, positions: dict[Split, int]) -> None:
        """Take the first row at or behind a place in a database's log, of the transaction that is there."""
        look = keeper.look(split[0] if split[1] == IN_LOG else None, offset)
        if look is None or (split[1] != IN_LOG and split != look.split):
            msg = f"this pipeline has read no {split[0]}:{offset} of its log"
            raise ConfigError(msg, "give FILE:OFFSET of a log file that it reads, as errors and mysqlbinlog say it")
        reader = self._source.reader(self._pipeline)
        try:
            stateful = reader.stateful
            assert stateful is not None
            stateful.take(look.assigned, look.shared)
            self._read_once(reader, {look.split: (look.position, look.position + 1)}, time.monotonic() + _LOG_S)
        finally:
            reader.close()
        offsets = [offset_of(record) for chunk in self.sample.chunks for record in chunk.messages]
        at = min((sampled for sampled in offsets if sampled >= look.position), default=None)
        if at is None:
            msg = f"no transaction at {split[0]}:{offset} of the log has rows of a table that is read"
            raise ConfigError(msg, "choose another place: mysqlbinlog shows them as '# at OFFSET'")
        sample = self.sample
        sample.starts = positions | {look.split: at}
        sample.stops = dict(sample.starts) | {look.split: at + 1}
        sample.extent[look.split] = (at, at + 1)
        sample.looked_at = 1
        self._show_rows(keeper)

    def _read(self, ranges: Mapping[Split, tuple[int, int]]) -> dict[Split, int]:
        """Add records to the sample; returns how far each range was read. Raises IngestError."""
        wanted = {split: span for split, span in ranges.items() if span[0] < span[1]}
        stops = {split: start for split, (start, _) in ranges.items()}
        if not wanted:
            return stops
        reader = self._source.reader(self._pipeline)
        keeper, stateful = self._real.stateful, reader.stateful
        deadline = time.monotonic() + READ_S
        try:
            for _ in range(_STATEMENTS):
                if keeper is not None and stateful is not None:
                    stateful.take(keeper.assign(wanted), keeper.shared())
                stops |= self._read_once(reader, wanted, deadline)
                notes = [] if stateful is None else stateful.notes(stops)
                if keeper is None or not notes or time.monotonic() > deadline:
                    break
                keeper.learn(notes)  # reading goes on behind a statement that it ended at
                wanted = {split: (stops[split], end) for split, (_, end) in wanted.items() if stops[split] < end}
                if not wanted:
                    break
            return stops
        finally:
            reader.close()

    def _read_once(self, reader: Reader, wanted: Mapping[Split, tuple[int, int]], deadline: float) -> dict[Split, int]:
        """Add records of ranges to the sample; returns how far each was read. Raises IngestError."""
        size = 0
        with closing(reader.read(wanted)) as reading:
            chunk: Chunk | None
            for chunk in reading:
                if chunk is not None:
                    self.sample.chunks.append(Chunk(chunk.split, chunk.topic, [*chunk.messages]))
                    size += sum(len(message.value() or b"") for message in chunk.messages)
                if size > MAX_BYTES or time.monotonic() > deadline:
                    break
            return {split: reader.position(split) for split in wanted}

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where the dry run ends."""
        return dict(self.sample.stops)

    def extent(self, _ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the first position and the end of each split of the real source."""
        return dict(self.sample.extent)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions: a sample loses nothing."""
        return dict(positions)

    def reads(self, topic: str) -> bool:
        """Tell whether the real source reads a topic, or would read it."""
        return self._real.reads(topic)

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the real source's answer."""
        return self._real.resolve(splits, to)

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return the real source's answer."""
        return self._real.topics(names)

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return False: a sample ends by `once`."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def close(self) -> None:
        """Leave the connection open for the next run over the sample; its owner closes it."""


class SampledReader(Reader):
    """A reader of the records of a sample."""

    is_sample = True
    """What was before its records is not known."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read."""
        self._position = {split: start for split, (start, _) in ranges.items()}
        for chunk in self._sample.between(ranges):
            self._position[chunk.split] = offset_of(chunk.messages[-1]) + 1
            yield chunk
        self._position = {split: end for split, (_, end) in ranges.items()}

    def position(self, split: Split) -> int:
        """Return the next position that this split's range would give."""
        return self._position[split]

    def first(self, split: Split) -> int:
        """Return the first position that a split of the real source has."""
        return self._sample.extent[split][0]

    def close(self) -> None:
        """Do nothing: nothing is held."""


_FIRST: Final = 50


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Findings from a sample of topics, of which `ingest init` makes a pipeline file."""

    topics: tuple[str, ...]
    splits: int
    waiting: int
    """Records that are there."""
    looked_at: int
    formats: dict[str, int]
    """How many of the records that were looked at are of each format, the most frequent first."""
    json_keys: bool
    """True if the records have keys, and all of them are JSON objects."""
    values: tuple[bytes, ...] = ()
    """The values of the records that were looked at."""
    first: tuple[tuple[Split, int, tuple[bytes, ...]], ...] = ()
    """Of each split: where it begins, and the values of its first records that were looked at."""

    @property
    def format(self) -> str | None:
        """The format that most records have; None where there are no records with values."""
        return next(iter(self.formats), None)


def first_look(pipeline: Pipeline, tell: Callable[[str], None] = lambda _: None) -> FirstLook:
    """Look at a sample of what a pipeline reads. `tell` gets warnings. Raises IngestError."""
    name = pipeline.pipeline.name
    with ExitStack() as resources:
        real = pipeline.source.coordinator(name, tell)
        resources.callback(real.close)
        sampled = SampledCoordinator(pipeline.source, real, name)
        sampled.connect()
        starts = sampled.start({}, {}, "init", None)
        records = [record for chunk in sampled.sample.chunks for record in chunk.messages]
        values = [value for record in records if (value := record.value()) is not None]
        return FirstLook(
            topics=tuple(sorted(sampled.ids)),
            splits=len(starts),
            waiting=sampled.sample.waiting,
            looked_at=len(records),
            formats=guessed(values),
            json_keys=_json_keys(records),
            values=tuple(values),
            first=tuple(
                (chunk.split, starts[chunk.split], tuple(message.value() or b"" for message in chunk.messages[:_FIRST]))
                for chunk in sampled.sample.to_come()
            ),
        )


def _json_keys(records: Sequence[Record]) -> bool:
    keys = [record.key() for record in records]
    return bool(keys) and all(key is not None and _is_object(key) for key in keys)


def _is_object(key: bytes) -> bool:
    try:
        return isinstance(orjson.loads(key), dict)
    except orjson.JSONDecodeError:
        return False
