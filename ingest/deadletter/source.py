"""Dead letters as a source: the records that a pipeline rejected, as they were, back on their way.

In: the topic of dead letters, and which of them. Out: records that say of themselves what the original ones did; only
their position is the letter's. Rules: docs/spec/dirty-data.md#replays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from ingest.deadletter.letter import PREFIX
from ingest.errors import ConfigError
from ingest.model.table import selector, table_id

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from ingest.formats import Format
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.kafka.admin import Cluster, Split
    from ingest.kafka.reader import RangeReader
    from ingest.model.client_report import ClientReport
    from ingest.model.record import Headers, Record
    from ingest.schema.infer import Inference
    from ingest.sources import Source

CONNECT_S = 20.0


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of letters: all that match everything that is given."""

    table: str | None = None
    """A selector of table ids; a letter whose table is not known does not match."""
    codes: tuple[str, ...] = ()
    since: int | None = None
    """Rejected at this time or later, in milliseconds since 1970."""
    until: int | None = None
    """Rejected before this time."""

    def matches(self, said: Mapping[str, str]) -> bool:
        """Return whether a letter with these of our headers is selected."""
        if self.codes and said.get("code") not in self.codes:
            return False
        if self.table is not None:
            table = said.get("table")
            if not table or selector(self.table).match(table_id(table)) is None:
                return False
        time = said.get("time", "")
        at = int(time) if time.isdigit() else 0
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"table": self.table, "codes": [*self.codes], "since": self.since, "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Selection:
        """Undo `to_json`."""
        return cls(value["table"], tuple(value["codes"]), value["since"], value["until"])


@dataclass(frozen=True, slots=True)
class Replayed:
    """An earlier replay: its selection, and the range that it read of each split."""

    selection: Selection
    ranges: Mapping[Split, tuple[int, int]]

    def has(self, split: Split, offset: int, said: Mapping[str, str]) -> bool:
        """Return whether a letter was replayed by it."""
        start, end = self.ranges.get(split, (0, 0))
        return start <= offset < end and self.selection.matches(said)


@dataclass(slots=True)
class DeadLetter:
    """A letter, as the record that it was."""

    letter: Record
    said: Mapping[str, str]

    def key(self) -> bytes | None:
        """Return the original key."""
        return self.letter.key()

    def value(self) -> bytes | None:
        """Return the original value."""
        return self.letter.value()

    def topic(self) -> str:
        """Return the original topic."""
        return self.said.get("topic", "")

    def partition(self) -> int | None:
        """Return the letter's partition."""
        return self.letter.partition()

    def offset(self) -> int | None:
        """Return the letter's position."""
        return self.letter.offset()

    def timestamp(self) -> tuple[int, int]:
        """Return the original time."""
        return self.letter.timestamp()

    def headers(self) -> Headers:
        """Return the original headers."""
        return [(name, value) for name, value in self.letter.headers() or [] if not name.startswith(PREFIX)]

    def leader_epoch(self) -> None:
        """Return None: it is not kept."""
        return

    @property
    def origin(self) -> Origin:
        """The record as it stood when it was rejected."""
        return Origin(self)


@dataclass(frozen=True, slots=True)
class Origin:
    """A letter's record, where it stood when it was rejected."""

    letter: DeadLetter

    def key(self) -> bytes | None:
        """Return the original key."""
        return self.letter.key()

    def value(self) -> bytes | None:
        """Return the original value."""
        return self.letter.value()

    def topic(self) -> str:
        """Return the original topic."""
        return self.letter.topic()

    def partition(self) -> int:
        """Return the original partition."""
        return _number(self.letter.said.get("partition"))

    def offset(self) -> int:
        """Return the original offset."""
        return _number(self.letter.said.get("offset"))

    def timestamp(self) -> tuple[int, int]:
        """Return the original time."""
        return self.letter.timestamp()

    def headers(self) -> Headers:
        """Return the original headers."""
        return self.letter.headers()

    def leader_epoch(self) -> None:
        """Return nothing: it is not kept."""
        return


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


@dataclass(slots=True)
class LetterChunk:
    """Consecutive selected letters of one split whose originals were of one topic."""

    split: Split
    topic: str
    messages: list[DeadLetter]


@dataclass(frozen=True, slots=True)
class LetterSource:
    """The pipeline's source, but for where its records come from."""

    source: Source
    letters_topic: str
    conf: Mapping[str, str]
    pipeline: str
    selection: Selection
    earlier: tuple[Replayed, ...] = ()

    left_out: ClassVar[str] = "not-selected"
    upserts: ClassVar[bool] = False
    rate_limit: ClassVar[None] = None
    sample_size: ClassVar[int] = 0
    wanted: ClassVar[None] = None
    tolerated: ClassVar[int] = 1 << 62
    """The number of rejects that a replay tolerates: any, as what is rejected again is a new letter."""

    @property
    def format(self) -> Format:
        """The pipeline's."""
        return self.source.format

    @property
    def extra(self) -> ExtraColumns:
        """The pipeline's."""
        return self.source.extra

    def inference(self, max_columns: int) -> Inference:
        """Return the pipeline's inference."""
        return self.source.inference(max_columns)

    def coordinator(self, _pipeline: str, warn: Callable[[str], None]) -> LetterCoordinator:
        """Return the driver's side; `warn` gets to know that the cluster does not answer yet."""
        return LetterCoordinator(self, warn)

    def reader(self, _pipeline: str) -> LetterReader:
        """Return a task's side."""
        from ingest.kafka.reader import RangeReader  # noqa: PLC0415  (the client is slow to import)

        return LetterReader(self, RangeReader(self.conf))


class LetterCoordinator:
    """The driver's side of dead letters."""

    def __init__(self, options: LetterSource, warn: Callable[[str], None]) -> None:
        """Connect to nothing yet."""
        self.options = options
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
        from ingest.kafka.admin import Cluster  # noqa: PLC0415  (as above)

        self._cluster = Cluster(self.options.conf)
        identity = self._cluster.connect(CONNECT_S, self._warn)
        name = self.options.letters_topic
        found = self._cluster.topics([name])
        if name not in found:
            msg = f"there are no dead letters: topic {name} does not exist at {self._cluster.servers}"
            raise ConfigError(msg, "nothing was rejected yet, or pipeline.dirty-data.collector.topic is another")
        self.ids = {name: found[name].id}
        self._splits = [(name, p) for p in range(found[name].partitions)]
        return identity

    def start(self, *_: Any) -> dict[Split, int]:  # noqa: ANN401
        """Return the positions of the first letters that there are."""
        return self.cluster.earliest(self._splits)

    def ends(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the ends of the splits as they are now."""
        return self.cluster.latest(positions, committed=True)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return, by split where letters expired meanwhile, the first that there is: they are not ours to keep."""
        first = self.cluster.earliest(positions)
        return {split: max(at, first[split]) for split, at in positions.items()}

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return empty ranges: dead letters are not sampled."""
        return {split: (end, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether a topic is that of the letters."""
        return topic in self.ids

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return False: a replay has no bounds of its own. It drains what is there."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return nothing: it is not stored."""
        return {}

    def resolve(self, splits: Iterable[Split], to: Any) -> dict[Split, int]:  # noqa: ANN401
        """Return the positions of the first letters, or the ends."""
        return self.cluster.earliest(splits) if to == "earliest" else self.cluster.latest(splits, committed=True)

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return these topics as the cluster has them."""
        return self.cluster.topics(names)

    def commit(self, _positions: Mapping[Split, int]) -> None:
        """Do nothing: nobody watches."""

    keep = commit

    def close(self) -> None:
        """Let go of the connection."""
        if self._cluster is not None:
            self._cluster.close()


@dataclass(slots=True)
class LetterReader:
    """Reads ranges of the topic, and gives what is selected."""

    source: LetterSource
    reader: RangeReader

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
                for topic, group in groupby(found, key=DeadLetter.topic):
                    yield LetterChunk(chunk.split, topic, [*group])
        finally:
            reading.close()

    def _selected(self, split: Split, message: Any) -> DeadLetter | None:  # noqa: ANN401  (the client types its messages otherwise)
        said = {
            name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
            for name, value in message.headers() or []
            if name.startswith(PREFIX)
        }
        source = self.source
        if said.get("pipeline", source.pipeline) != source.pipeline or "topic" not in said:
            return None
        offset = message.offset() or 0
        if not source.selection.matches(said) or any(replay.has(split, offset, said) for replay in source.earlier):
            return None
        return DeadLetter(message, said)

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
        """Let go of the connections."""
        self.reader.close()
