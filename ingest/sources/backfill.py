"""A pipeline's source, of which a backfill reads some tables once more: from the beginning to where the pipeline is.

In: the source, the tables, and the positions that the pipeline has reached. Out: the source's records, of which those
of other tables are counted and left out before anything is learned of them. Rules: docs/spec/delivery.md#backfills.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ingest.formats import OF_ROWS, Decoder, Format
from ingest.model.change import NOT_SELECTED, Change, Decoded, Reject, Skip
from ingest.model.record import Headers, Split, is_another
from ingest.sources import Reader, Source, SourceCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.model.reject import IgnoredErrors
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference
    from ingest.sources.records import SourceCapabilities


@dataclass(frozen=True)
class DerivedSource:
    """A source that reads records as the pipeline's source does, for backfills and replays."""

    source: Source
    """The pipeline's source."""

    sample_size: ClassVar[int] = 0
    row_letters: ClassVar[None] = None

    @property
    def format(self) -> Format:
        """The pipeline's."""
        return self.source.format

    @property
    def extra(self) -> ExtraColumns:
        """The pipeline's."""
        return self.source.extra

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """The pipeline's."""
        return self.source.ignored_errors

    def inference(self, max_columns: int) -> Inference:
        """Return the pipeline's inference."""
        return self.source.inference(max_columns)


_SHOWN: Final = 5
"""Splits that a warning names."""


@dataclass(frozen=True)
class BackfillSource(DerivedSource):
    """The source of a backfill: the pipeline's source, restricted to some tables."""

    tables: frozenset[TableId] = frozenset()

    @property
    def only(self) -> frozenset[TableId]:
        """The tables that are read."""
        return self.tables

    @property
    def capabilities(self) -> SourceCapabilities:
        """The pipeline's."""
        return self.source.capabilities

    @property
    def tolerated(self) -> int:
        """The number of rejects that the pipeline tolerates: a backfill counts its own."""
        return self.source.tolerated

    @property
    def wanted(self) -> Callable[[Headers | None], bool] | None:
        """The pipeline's."""
        return self.source.wanted

    @property
    def rate_limit(self) -> float | None:
        """The pipeline's."""
        return self.source.rate_limit

    @property
    def topic_is_table(self) -> bool:
        """True if all records of a topic are of the table that has its name."""
        form = self.source.format.form
        return self.source.format.name in OF_ROWS and not (form is not None and form.table_fields)

    def reads(self, split: Split) -> bool:
        """Return whether a split may have records of the backfill's tables."""
        of_kafka = getattr(self.source, "type", "") in {"kafka", "upsert-kafka"}  # splits of files are no topics
        return not (of_kafka and self.topic_is_table) or (split[0],) in self.tables

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return a decoder for records of a topic that skips tables outside of the backfill. Raise IngestError."""
        if self.topic_is_table and (topic,) not in self.tables:
            return NothingDecoder()
        return BackfillDecoder(self.source.decoder(split, topic), self.tables)

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> BackfillCoordinator:
        """Return the coordinator that the driver asks about the source."""
        return BackfillCoordinator(self.source.coordinator(pipeline, warn), warn)

    def reader(self, pipeline: str) -> Reader:
        """Return the reader of the pipeline's own source."""
        return self.source.reader(pipeline)


class NothingDecoder:
    """The decoder of a topic without tables of the backfill: skips every record."""

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return a Skip for each record."""
        return [Skip(NOT_SELECTED)] * len(values)


@dataclass(frozen=True, slots=True)
class BackfillDecoder:
    """The pipeline's decoder, with a Skip for each change of a table outside of the backfill."""

    decoder: Decoder
    tables: frozenset[TableId]

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """Return one result for each record, in order: a Skip for changes of other tables."""
        decoded = self.decoder.decode(keys, values)
        return [self._own(result) for result in decoded] if type(decoded) is list else decoded

    def _own(self, decoded: Decoded) -> Decoded:
        if isinstance(decoded, Reject):
            # One that names no table may be of these tables
            return decoded if decoded.table is None or decoded.table in self.tables else Skip(NOT_SELECTED)
        if isinstance(decoded, list):
            kept = [change for change in decoded if change.table in self.tables]
            return kept if kept or not decoded else Skip(NOT_SELECTED)
        if isinstance(decoded, Change) and decoded.table not in self.tables:
            return Skip(NOT_SELECTED)
        return decoded


class BackfillCoordinator(SourceCoordinator):
    """The coordinator of a backfill. It reads each split from its first record to the pipeline's position."""

    def __init__(self, real: SourceCoordinator, warn: Callable[[str], None]) -> None:
        self.ids: dict[str, str] = {}
        self.probe = real.probe
        self._real = real
        self._warn = warn
        self._ends: dict[Split, int] = {}

    def connect(self) -> str:
        """Return an identity of where records come from. Raise IngestError."""
        return self._real.connect()

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this source depends on."""
        return self._real.fingerprint(identity)

    def bound(self, reached: Mapping[Split, int], ids: Mapping[str, str]) -> dict[Split, int]:
        """Set the positions at which splits end, in topics of these ids. Return where each split begins.

        Warn of topics that no longer exist, and of those whose first records are deleted. Raise IngestError.
        """
        topics = self._real.topics({topic for topic, _ in reached})
        existing = {
            name for name, topic in topics.items() if topic is None or not is_another(ids.get(name, topic.id), topic.id)
        }
        gone = sorted({topic for topic, _ in reached} - existing)
        if gone:
            self._warn(
                f"topics that the pipeline has read are gone, or were made again: {_some(gone)}: rows whose changes "
                "were there are not brought"
            )
        counts = {name: 1 << 31 if topic is None else topic.partitions for name, topic in topics.items()}
        splits = [(name, p) for name, p in reached if name in existing and p < counts[name]]
        first, last = self._real.resolve(splits, "earliest"), self._real.resolve(splits, "latest")
        self.ids = self._real.ids = {name: of for name, of in ids.items() if name in existing}
        self._ends = {split: max(first[split], min(reached[split], last[split])) for split in splits}
        late = [f"{name}[{p}] begins at offset {first[name, p]}" for name, p in sorted(splits) if first[name, p] > 0]
        if late:
            self._warn(
                f"topics no longer have their beginning: {_some(late)}: rows whose changes were only before that are "
                "not brought"
            )
        return first

    def start(
        self, stored: Mapping[Split, int], _ids: Mapping[str, str], _owner: str, _from_time: int | None
    ) -> dict[Split, int]:
        """Return the positions that are stored: `bound` says where reading begins."""
        return dict(stored)

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return the positions, where records are that have not expired meanwhile."""
        first = self._real.resolve(positions, "earliest")
        moved = [f"{t}[{p}] from offset {at} to {first[t, p]}" for (t, p), at in positions.items() if first[t, p] > at]
        if moved:
            self._warn(f"records expired before they were read, and reading goes on behind them: {_some(moved)}")
        self._ends = {split: max(end, first.get(split, end)) for split, end in self._ends.items()}
        return {split: max(at, first[split]) for split, at in positions.items()}

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return where each split ends."""
        return dict(self._ends)

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        """Return empty ranges: nothing is sampled."""
        return {split: (end, end) for split, end in ends.items()}

    def reads(self, topic: str) -> bool:
        """Tell whether the pipeline reads a topic."""
        return self._real.reads(topic)

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        """Return False: the backlog's ends say that."""
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        """Return nothing new."""
        return {}

    def resolve(self, splits: Iterable[Split], to: Literal["earliest", "latest"] | int) -> dict[Split, int]:
        """Return what the pipeline's own source returns."""
        return self._real.resolve(splits, to)

    def topics(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return what the pipeline's own source returns."""
        return self._real.topics(names)

    def close(self) -> None:
        """Release the connections."""
        self._real.close()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
