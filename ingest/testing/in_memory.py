"""A pipeline's source and sink in memory: records that a test gives, and both sides of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ingest.model.record import Chunk, Headers, Split
from ingest.sources import Reader, Source, SourceCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from ingest.encode.upsert_encoder import TableEncoder
    from ingest.formats import Decoder, Format
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.model.reject import IgnoredErrors
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks import Sink, SinkCoordinator, Writer
    from ingest.sinks.sink import SinkCapabilities
    from ingest.sources.records import SourceCapabilities
    from ingest.sources.stateful import RowLetters


@dataclass(slots=True)
class MemoryRecord:
    """A record that a test gives. `index` is its number among all of them."""

    index: int
    topic_name: str
    key_bytes: bytes | None
    value_bytes: bytes | None
    partition_number: int = 0
    position: int = 0
    millis: int | None = None
    sent: Headers = field(default_factory=list)

    def key(self) -> bytes | None:
        """Return the key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """Return the value's bytes."""
        return self.value_bytes

    def topic(self) -> str:
        """Return the topic."""
        return self.topic_name

    def partition(self) -> int:
        """Return the partition."""
        return self.partition_number

    def offset(self) -> int:
        """Return the position in the partition."""
        return self.position

    def timestamp(self) -> tuple[int, int]:
        """Return the type of the record's timestamp, and the timestamp in milliseconds since 1970."""
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> Headers:
        """Return the headers' names and values."""
        return self.sent

    def leader_epoch(self) -> int:
        """Return the first epoch."""
        return 0


_CHUNK: Final = 100


@dataclass(frozen=True, slots=True)
class InMemorySource:
    """The options of a pipeline's source, with another coordinator and other readers."""

    options: Source
    side: SourceCoordinator
    """The coordinator of the source in memory."""
    readers: Callable[[], Reader]
    """Makes the reader of a task."""
    tolerated: int
    """The number of rejects that a run tolerates."""
    capabilities: SourceCapabilities
    rate_limit: float | None
    """Records in a second, at most."""

    @property
    def row_letters(self) -> RowLetters | None:
        """The writer of dead letters for rows of a database, which are no messages."""
        return self.options.row_letters

    @property
    def only(self) -> frozenset[TableId] | None:
        """The tables that are read; None if all are."""
        return self.options.only

    @property
    def format(self) -> Format:
        """The format of the values."""
        return self.options.format

    @property
    def sample_size(self) -> int:
        """The number of the newest records of each split that are looked at before the first batch."""
        return self.options.sample_size

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the value."""
        return self.options.extra

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """Errors of parsing that do not count."""
        return self.options.ignored_errors

    @property
    def wanted(self) -> Callable[[Headers | None], bool] | None:
        """The condition on a record's headers for it to be read; None if all are."""
        return self.options.wanted

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return a decoder for the records of a split that are of one topic."""
        return self.options.decoder(split, topic)

    def inference(self, max_columns: int) -> Inference:
        """Return how schemas are found."""
        return self.options.inference(max_columns)

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> SourceCoordinator:
        """Return the coordinator of the source in memory."""
        return self.side

    def reader(self, _pipeline: str) -> Reader:
        """Return the reader that a task reads the source with."""
        return self.readers()


def in_memory(options: Source, records: dict[Split, list[MemoryRecord]]) -> InMemorySource:
    """Return a pipeline's source that has these records, by split."""
    return InMemorySource(
        options,
        InMemoryCoordinator(records),
        lambda: InMemoryReader(records),
        options.tolerated,
        options.capabilities,
        options.rate_limit,
    )


class InMemoryCoordinator(SourceCoordinator):
    """The driver's side of given records."""

    def __init__(self, records: dict[Split, list[MemoryRecord]]) -> None:
        self.ids = {topic: "memory" for topic, _ in records}
        self._ends = {split: len(split_records) for split, split_records in records.items()}

    def connect(self) -> str:
        """Return an identity of the memory."""
        return "memory"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return nothing that a checkpoint could depend on."""
        return {"type": "memory"}

    def start(
        self, stored: Mapping[Split, int], _ids: Mapping[str, str], _owner: str, _from_time: int | None
    ) -> dict[Split, int]:
        """Return the beginning of each split."""
        return {**dict.fromkeys(self._ends, 0), **stored}

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions: nothing is ever lost."""
        return dict(positions)

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where each split ends."""
        return dict(self._ends)

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return the first position of each split, with where it ends."""
        return {split: (0, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether there are records of a topic."""
        return topic in self.ids

    def resolve(self, splits: Iterable[Split], to: object) -> dict[Split, int]:
        """Return the first position of each split for `earliest`, else its end: no time is looked up."""
        return {split: 0 if to == "earliest" else self._ends[split] for split in splits}

    def topics(self, names: Iterable[str]) -> dict[str, Any]:
        """Return None for each name that is read: there is no cluster to say more of a topic."""
        return dict.fromkeys(self.ids.keys() & names)

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Leave the end to `once`."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def close(self) -> None:
        """Do nothing: nothing is held."""


class InMemoryReader(Reader):
    """A reader of given records."""

    def __init__(self, records: Mapping[Split, list[MemoryRecord]]) -> None:
        self._records = records
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[Chunk | None]:
        """Yield chunks until every range is read."""
        self._position = {split: start for split, (start, _) in ranges.items()}
        for split, (start, end) in ranges.items():
            for at in range(start, end, _CHUNK):
                chunk = Chunk(split, split[0], self._records[split][at : min(end, at + _CHUNK)])
                self._position[split] = at + len(chunk.messages)
                yield chunk

    def position(self, split: Split) -> int:
        """Return the next position that this split's range would give."""
        return self._position[split]

    def first(self, _split: Split) -> int:
        """Return the first position of every split."""
        return 0

    def close(self) -> None:
        """Do nothing: nothing is held."""


@dataclass(frozen=True, slots=True)
class InMemorySink:
    """The options of a pipeline's sink, with another coordinator and other writers: rows become the same records."""

    options: Sink
    side: SinkCoordinator
    """The coordinator of the source in memory."""
    writers: Callable[[], Writer]
    """Makes the writer of a task."""

    @property
    def capabilities(self) -> SinkCapabilities:
        """What the pipeline's sink does, without a pause between batches."""
        return replace(self.options.capabilities, rest_s=0.0)

    @property
    def parallelism(self) -> int | None:
        """The number of tasks that write at once, at most."""
        return self.options.parallelism

    def prefix(self, pipeline: str) -> str | None:
        """Return the beginning of the names of its transactions; None where it has none."""
        return self.options.prefix(pipeline)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TableEncoder:
        """Return how rows of a source table are written; raises RowError for a table that cannot be."""
        return self.options.unregistered().encoder(table, source, target, sink, inference)

    def unregistered(self) -> InMemorySink:
        """Return this sink: no schema registry is asked."""
        return self

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> SinkCoordinator:
        """Return the coordinator of the source in memory."""
        return self.side

    def writer(self, _pipeline: str, _run: int) -> Writer:
        """Return the writer that a task writes to the sink with."""
        return self.writers()
