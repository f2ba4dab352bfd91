"""The parts that a dry run plays otherwise: a source of a few records, a sink and a collector that only look.

Each is the pipeline's own options model and the driver's own side of it, but nothing is written anywhere: neither rows
nor topics, directories, offsets or dead letters.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ingest.model.reject import Reject
from ingest.sinks.sink import PlainSinkCoordinator, PlainWriter
from ingest.task.output import offset_of
from ingest.testing.capturing import Staged

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from ingest.kafka.admin import Split
    from ingest.model.change import Bad
    from ingest.model.record import Record
    from ingest.model.table import TableId
    from ingest.sources import Chunk

MOST: Final = 1_000
"""Records of one split that are looked at from where a run would start, and as many of the newest."""
MOST_OF_ALL: Final = 20_000
"""So many of all splits together, about."""
MOST_BYTES: Final = 256 << 20
LOOK_S: Final = 5.0
"""How long to read a part of the sample, at most, in seconds."""


@dataclass(slots=True)
class SampleChunk:
    """Records of one split and topic."""

    split: Split
    topic: str
    messages: Sequence[Record]


@dataclass(slots=True)
class Sample:
    """A few records of a source: the next ones that a run would read, and the newest."""

    waiting: int = 0
    """Records that a run would read, as far as positions tell."""
    looked_at: int = 0
    """Those of them that are in the sample; or, where none is waiting, older ones in their place."""
    old: bool = False
    """Whether nothing is waiting, and the sample holds records that a run would not read."""
    starts: dict[Split, int] = field(default_factory=dict)
    stops: dict[Split, int] = field(default_factory=dict)
    """Where the dry run ends: up to there the sample has every record."""
    extent: dict[Split, tuple[int, int]] = field(default_factory=dict)
    chunks: list[SampleChunk] = field(default_factory=list)
    _splits: dict[int, Split] = field(default_factory=dict)

    def between(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[SampleChunk]:
        """Yield the records of these ranges, split by split."""
        for chunk in self.chunks:
            start, end = ranges.get(chunk.split, (0, 0))
            found = [message for message in chunk.messages if start <= offset_of(message) < end]
            if found:
                yield SampleChunk(chunk.split, chunk.topic, found)

    def split_of(self, record: Record) -> Split:
        """Return where a record of the sample is from; a copy of one only says its topic and partition."""
        if not self._splits:
            self._splits = {id(message): chunk.split for chunk in self.chunks for message in chunk.messages}
        return self._splits.get(id(record)) or (record.topic() or "", record.partition() or 0)

    def to_come(self) -> Generator[SampleChunk]:
        """Yield all records that a run would read."""
        return self.between({split: (start, self.extent[split][1]) for split, start in self.starts.items()})


class SampledSource(Staged):
    """The pipeline's source, of which a sample is taken once, however often it is run."""

    upserts: ClassVar[bool] = False
    """What is written does not matter, so nobody asks which row was there before."""
    rate_limit: ClassVar[None] = None

    def __init__(self, options: Any, pipeline: str, warn: Callable[[str], None]) -> None:  # noqa: ANN401
        """Connect to nothing yet."""
        super().__init__(options)
        self.sample = Sample()
        self._control = _SampledControl(options, options.coordinator(pipeline, warn), pipeline, self.sample)
        self.tolerated: int = options.tolerated

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> _SampledControl:
        """Return the driver's side."""
        return self._control

    def reader(self, _pipeline: str) -> _SampledReader:
        """Return a task's side."""
        return _SampledReader(self.sample)

    def end(self) -> None:
        """Let go of the connections."""
        self._control.real.close()


class _SampledControl:
    def __init__(self, options: Any, real: Any, pipeline: str, sample: Sample) -> None:  # noqa: ANN401
        self.options, self.real = real.options, real
        self._source, self._pipeline = options, pipeline
        self._sample = sample
        self._identity: str | None = None

    @property
    def ids(self) -> dict[str, str]:
        found: dict[str, str] = self.real.ids
        return found

    def connect(self) -> str:
        if self._identity is None:
            self._identity = self.real.connect()
        return self._identity

    def fingerprint(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.real.fingerprint(identity)
        return found

    def start(
        self, stored: Mapping[Split, int], ids: Mapping[str, str], owner: str, from_time: int | None
    ) -> dict[Split, int]:
        if not self._sample.starts:
            positions = self.real.start(stored, ids, owner, from_time)
            self._take(positions, anew=not stored)
        return dict(self._sample.starts)

    def _take(self, positions: dict[Split, int], *, anew: bool) -> None:
        sample = self._sample
        sample.extent = extent = self.real.extent(self.real.ends(positions))
        sample.waiting = sum(max(0, end - positions[split]) for split, (_, end) in extent.items())
        most = max(10, min(MOST, MOST_OF_ALL // max(1, len(positions))))
        sample.old = anew and not sample.waiting
        if sample.old:
            positions = {split: max(first, end - most) for split, (first, end) in extent.items()}
        sample.starts = positions
        head = {split: (at, min(extent[split][1], at + most)) for split, at in positions.items()}
        sample.stops = self._read(head)
        newest = {}
        for split, (first, end) in extent.items():
            start, stop = head[split]
            behind = max(first, end - max(most, self._source.prefetch))
            newest[split] = (behind, min(end, start)) if stop >= end else (max(behind, stop), end)
        self._read(newest)
        sample.looked_at = sum(len(chunk.messages) for chunk in sample.to_come())
        # In a fixed order, whichever broker answered first
        sample.chunks.sort(key=lambda chunk: (chunk.split, offset_of(chunk.messages[0])))

    def _read(self, ranges: Mapping[Split, tuple[int, int]]) -> dict[Split, int]:
        """Add records to the sample; how far each range was read. Raises IngestError."""
        wanted = {split: span for split, span in ranges.items() if span[0] < span[1]}
        stops = {split: start for split, (start, _) in ranges.items()}
        if not wanted:
            return stops
        reader = self._source.reader(self._pipeline)
        size, deadline = 0, time.monotonic() + LOOK_S
        reading = reader.read(wanted)
        try:
            chunk: Chunk | None
            for chunk in reading:
                if chunk is not None:
                    self._sample.chunks.append(SampleChunk(chunk.split, chunk.topic, [*chunk.messages]))
                    size += sum(len(message.value() or b"") for message in chunk.messages)
                if size > MOST_BYTES or time.monotonic() > deadline:
                    break
            return stops | {split: reader.position(split) for split in wanted}
        finally:
            reading.close()
            reader.close()

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        return dict(self._sample.stops)

    def extent(self, _ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        return dict(self._sample.extent)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        return dict(positions)

    def reads(self, topic: str) -> bool:
        return bool(self.real.reads(topic))

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        return {}

    def commit(self, _positions: Mapping[Split, int]) -> None:
        return

    keep = commit

    def close(self) -> None:
        return


class _SampledReader:
    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[SampleChunk | None]:
        self._position = {split: start for split, (start, _) in ranges.items()}
        for chunk in self._sample.between(ranges):
            self._position[chunk.split] = offset_of(chunk.messages[-1]) + 1
            yield chunk
        self._position = {split: end for split, (_, end) in ranges.items()}

    def position(self, split: Split) -> int:
        return self._position[split]

    def first(self, split: Split) -> int:
        return self._sample.extent[split][0]

    def close(self) -> None:
        return


class LookingSink(Staged):
    """The pipeline's sink, which is asked whether it would take tables, and gets no record."""

    def __init__(self, options: Any, pipeline: str, warn: Callable[[str], None]) -> None:  # noqa: ANN401
        """Connect to nothing yet."""
        super().__init__(options)
        self._control = _LookingControl(options.coordinator(pipeline, warn))

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> _LookingControl:
        """Return the driver's side."""
        return self._control

    def writer(self, _pipeline: str, _run: int) -> _Nowhere:
        """Return a task's side."""
        return _Nowhere()

    def end(self) -> None:
        """Let go of the connections."""
        self._control.real.close()


class _LookingControl(PlainSinkCoordinator):
    def __init__(self, real: Any) -> None:  # noqa: ANN401
        self.real = real
        self._identity: str | None = None

    def connect(self) -> str:
        if self._identity is None:
            self._identity = self.real.connect()
        return self._identity

    def fingerprint(self, identity: str) -> dict[str, Any]:
        found: dict[str, Any] = self.real.fingerprint(identity)
        return found

    def topics(self, tables: Iterable[TableId]) -> set[str]:
        return set(self.real.topics(tables))

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        return set(self.real.missing(tables))

    def prepare(self, tables: Iterable[TableId]) -> None:
        self.real.check(tables)


class _Nowhere(PlainWriter):
    def write(self, _records: Sequence[Any]) -> None:
        return

    def commit(self, _positions: Any, _tally: Any, *, final: bool) -> None:  # noqa: ANN401, ARG002
        return

    def abort(self) -> None:
        return


@dataclass(slots=True)
class RejectsOfCode:
    """Rejects of one stage and code: how many, and the first of them."""

    count: int
    example: Reject


class LookingCollector(Staged):
    """The pipeline's collector of dirty data, if it has one; rejects are counted by stage and code, and go nowhere."""

    def __init__(self, options: Any, sample: Sample) -> None:  # noqa: ANN401
        """Count nothing yet."""
        super().__init__(options)
        self._sample = sample
        self.type = "none" if options is None else options.type
        self.found: dict[tuple[str, str], RejectsOfCode] = {}

    def prepare(self, sink: dict[str, str], pipeline: str, warn: Callable[[str], None]) -> str:
        """See whether the topic is there or could be made."""
        identity: str = self._options.prepare(sink, pipeline, warn, dry_run=True)
        return identity

    def letters(self, _pipeline: str, _writer: Any) -> LookingCollector:  # noqa: ANN401
        """Return a task's side."""
        return self

    def add(self, record: Record, stage: str, bad: Bad) -> None:
        """Count a reject, and keep the first of its kind."""
        known = self.found.get((stage, bad.code))
        if known is not None:
            known.count += 1
            return
        at = (*self._sample.split_of(record), offset_of(record))
        example = Reject(*at, stage, bad.code, bad.message, bad.table, record.key(), record.value())
        self.found[stage, bad.code] = RejectsOfCode(1, example)

    def commit(self) -> None:
        """Nothing is kept."""
