"""Dead letters as a source: the records that a pipeline rejected, as they were, back on their way.

In: the topic of dead letters, and which of them. Out: records that say of themselves what the original ones did; only
their position is the letter's. Rules: docs/spec/dirty-data.md#replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ingest.deadletter.letter import LEFT_OUT, PREFIX, DeadLetter, Replayed, Selection
from ingest.errors import ConfigError, DataLoss
from ingest.kafka.admin import Cluster, ClusterProbe
from ingest.kafka.reader import RangeReader
from ingest.model.change import NOT_SELECTED
from ingest.model.record import Chunk, Record, Split, offset_of
from ingest.sources import Reader, SourceCoordinator
from ingest.sources.backfill import DerivedSource
from ingest.sources.records import SourceCapabilities

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from ingest.formats import Decoder
    from ingest.model.commit import Reporting


@dataclass(frozen=True)
class LetterSource(DerivedSource):
    """The pipeline's source, with the records of its dead letters in place of its own."""

    letters_topic: str
    conf: Mapping[str, str]
    pipeline: str
    selection: Selection
    earlier: tuple[Replayed, ...] = ()

    capabilities: ClassVar[SourceCapabilities] = SourceCapabilities(left_out=NOT_SELECTED)
    only: ClassVar[None] = None
    rate_limit: ClassVar[None] = None
    wanted: ClassVar[None] = None
    tolerated: ClassVar[int] = 1 << 62
    """The number of rejects that a replay tolerates: any, as what is rejected again is a new letter."""

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return the pipeline's decoder for records of a topic. Raise IngestError."""
        return self.source.decoder(split, topic)

    def coordinator(self, _pipeline: str, warn: Callable[[str], None]) -> LetterCoordinator:
        """Return the coordinator. `warn` is called while the cluster does not answer."""
        return LetterCoordinator(self, warn)

    def reader(self, _pipeline: str) -> LetterReader:
        """Return the reader that a task reads the source with."""
        rows = self.source.row_letters
        if rows is not None:
            return LetterReader(self, RangeReader(self.conf), None, rows.of)
        return LetterReader(self, RangeReader(self.conf), Originals(lambda: self.source.reader(self.pipeline)))

    def lister(self) -> LetterReader:
        """Return a reader of letters as they are in their topic, without what was left out of them."""
        return LetterReader(self, RangeReader(self.conf), None)


CONNECT_S = 20.0


class LetterCoordinator(SourceCoordinator):
    """The driver's side of dead letters."""

    def __init__(self, options: LetterSource, warn: Callable[[str], None]) -> None:
        self.options = options
        self.probe = ClusterProbe(options.conf)
        self._warn = warn
        self.ids: dict[str, str] = {}
        self._cluster: Cluster | None = None
        self._splits: list[Split] = []

    @property
    def cluster(self) -> Cluster:
        """The connection."""
        assert self._cluster is not None
        return self._cluster

    def connect(self) -> str:
        """Return the cluster's id; raises ConfigError where there is no such topic."""
        self._cluster = Cluster(self.options.conf)
        identity = self._cluster.connect(CONNECT_S, self._warn)
        name = self.options.letters_topic
        topics = self._cluster.topics([name])
        if name not in topics:
            msg = f"there are no dead letters: topic {name} does not exist at {self._cluster.servers}"
            raise ConfigError(msg, "nothing was rejected yet, or pipeline.dirty-data.collector.topic is another")
        self.ids = {name: topics[name].id}
        self._splits = [(name, p) for p in range(topics[name].partitions)]
        return identity

    def start(self, *_: object) -> dict[Split, int]:
        """Return the position of the first letter in each partition."""
        return self.cluster.earliest(self._splits)

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends of the splits as they are now."""
        return self.cluster.latest(positions, committed=True)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions, or the first letter's where letters expired meanwhile: that is no data loss."""
        first = self.cluster.earliest(positions)
        return {split: max(at, first[split]) for split, at in positions.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return empty ranges: dead letters are not sampled."""
        return {split: (end, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Return whether a topic is that of the letters."""
        return topic in self.ids

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return False: a replay has no bounds of its own, and ends when it has read the backlog."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return nothing: it is not stored."""
        return {}

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return the positions of the first letters, or the ends."""
        return self.cluster.earliest(splits) if to == "earliest" else self.cluster.latest(splits, committed=True)

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return these topics as the cluster has them."""
        return self.cluster.topics(names)

    def close(self) -> None:
        """Close the connection."""
        if self._cluster is not None:
            self._cluster.close()


GONE_ROW: Final = "the letter was written without its {}: `ingest backfill FILE --table T` reads the row again"
GONE: Final = "the letter was written without its {}, and the record is not where it came from any more"


@dataclass(slots=True)
class LetterReader(Reader):
    """Reads ranges of the topic of dead letters, and yields the selected letters as records of the source."""

    source: LetterSource
    reader: RangeReader
    originals: Originals | None
    """The records of letters that are not whole; None where letters are taken as they are."""
    as_row: Callable[[DeadLetter], Any] | None = None
    """Makes a record of the source of a letter, where that has no messages."""

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks of selected letters, and None for a chunk without any."""
        reading = self.reader.read(ranges)
        try:
            for chunk in reading:
                if chunk is None:
                    yield None
                    continue
                selected = [letter for m in chunk.messages if (letter := self._selected(chunk.split, m)) is not None]
                if not selected:
                    yield None
                for (topic, missing), group in groupby(selected, key=lambda letter: (letter.topic(), letter.missing)):
                    letters: list[Any] = [*group]
                    letters = letters if self.as_row is None else [*map(self.as_row, letters)]
                    gone = GONE if self.as_row is None else GONE_ROW
                    yield Chunk(chunk.split, topic, letters, gone=gone.format(missing) if missing else "")
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

    @property
    def reporting(self) -> Reporting:
        """The reader of letters, whose client has logs and statistics."""
        return self.reader

    def first(self, split: Split) -> int:
        """Return the first position that a split still has."""
        return self.reader.first(split)

    def close(self) -> None:
        """Release the connections."""
        self.reader.close()
        if self.originals is not None:
            self.originals.close()


class Originals:
    """Reads the original records of letters that lack a value or key, as their topic did not take the whole record."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        """`make`: makes a reader of the pipeline's source. It is called at the first `find`."""
        self._make = make
        self._reader: Reader | None = None

    def find(self, letter: DeadLetter) -> Record | None:
        """Return a letter's original record; None where it no longer exists. Raises IngestError.

        A record with another timestamp is not the original: its topic was created again. Whether producer or broker
        set the timestamp does not matter.
        """
        if self._reader is None:
            self._reader = self._make()
        at = letter.origin
        split, offset = (at.topic(), at.partition()), at.offset()
        try:
            records = [
                record
                for chunk in self._reader.read({split: (offset, offset + 1)})
                for record in (() if chunk is None else chunk.messages)
                if offset_of(record) == offset
            ]
        except DataLoss:
            return None
        return next((record for record in records if record.timestamp()[1] == letter.timestamp()[1]), None)

    def close(self) -> None:
        """Release the connections."""
        if self._reader is not None:
            self._reader.close()
