"""A sink and a collector of rejects that only look: they are asked whether they would take something, and get nothing.

Nothing is written anywhere: neither rows nor topics, directories or dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.model.record import Record, Split, offset_of
from ingest.model.reject import RejectedRecord
from ingest.sinks import BatchCommitter, PlaceKeeper, SinkCoordinator
from ingest.sinks.sink import PlainWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.deadletter.collector import DirtyDataCollector
    from ingest.model.change import Reject
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.testing.sampling import Sample


class DiscardingCoordinator(SinkCoordinator):
    """The coordinator of dry runs: it asks the real sink, connected once for all runs, and changes nothing in it."""

    def __init__(self, real: SinkCoordinator) -> None:
        self._real = real
        self._identity: str | None = None
        self.subjects: set[str] = set()
        """The subjects that a run would register schemas for."""
        self.topics, self.tables = real.topics, real.tables
        self.places = None if real.places is None else ProbedPlaces(real.places)
        self.schemas = None if real.schemas is None else self
        self.batches = None if real.batches is None else ProbedBatches(real.batches)

    def connect(self) -> str:
        """Return an identity of where records would go."""
        if self._identity is None:
            self._identity = self._real.connect()
        return self._identity

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return the options that a checkpoint of this sink is bound to."""
        return self._real.fingerprint(identity)

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Raise what the real sink would raise for these schemas; registers nothing."""
        self.subjects |= self.undeclared(schemas)

    def undeclared(self, schemas: Mapping[TableId, TableSchema]) -> set[str]:
        """Return what the real sink's `declare` would do."""
        assert self._real.schemas is not None
        return self._real.schemas.undeclared(schemas)

    def close(self) -> None:
        """Keep the connection for the next run: the caller that made the real coordinator closes it."""


@dataclass(slots=True)
class ProbedPlaces:
    """Asks for the places of a sink's tables, and creates none."""

    real: PlaceKeeper

    def prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        """Raise what the real sink would raise for these tables, and warn as it would."""
        self.real.prepare(tables, dry_run=True)

    def filled(self, tables: Iterable[TableId]) -> set[str] | None:
        """Return the places that have rows."""
        return self.real.filled(tables)


@dataclass(slots=True)
class ProbedBatches:
    """Stands for a sink that commits batches, and commits none."""

    real: BatchCommitter

    def resume(self, checkpoint: str, marks: list[Any], remedy: Callable[[TableId | None], str]) -> None:
        """Pass the checkpoint's marks on, so that the real sink warns of what others did to tables."""
        self.real.resume(checkpoint, marks, remedy)

    def vanished(self, _tables: Iterable[TableId]) -> set[str]:
        """Return none: nothing is written in their stead."""
        return set()

    def marks(self) -> list[Any]:
        """Return nothing: nothing was written."""
        return []

    def additions(self, _delivered: Sequence[Any]) -> list[Any] | None:
        """Return None: nothing was written."""
        return None

    def add(self, _scope: str, _batch: int, _additions: list[Any]) -> Mapping[str, int]:
        """Leave a batch whose commit was decided to the next run."""
        return {}


class DiscardingWriter(PlainWriter):
    """A writer that drops all records."""

    def write(self, _records: Sequence[Any]) -> None:
        """Forget records."""

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Ignore the call: all records are dropped already."""

    def abort(self) -> None:
        """Ignore the call: all records are dropped already."""


@dataclass(slots=True)
class RejectsOfCode:
    """Rejects of one stage and code: how many, and the first of them."""

    count: int
    example: RejectedRecord


class CountingCollector:
    """A pipeline's collector of rejects, if it has one: rejects are counted by stage and code, and go nowhere."""

    shared = False

    def __init__(self, options: DirtyDataCollector | None, sample: Sample) -> None:
        self.type: str = "none" if options is None else options.type
        self.topic = None if options is None else options.topic
        self.properties: Mapping[str, str] = {} if options is None else options.properties
        self.found: dict[tuple[str, str, bool], RejectsOfCode] = {}
        """By stage, code, and whether they are about the key."""
        self._options = options
        self._sample = sample

    def prepare(self, sink: dict[str, str], pipeline: str, warn: Callable[[str], None]) -> str:
        """Check whether the topic is there or could be made."""
        assert self._options is not None
        return self._options.prepare(sink, pipeline, warn, dry_run=True)

    def letters(self, _pipeline: str, _writer: object) -> CountingCollector:
        """Return this collector, which counts the rejects of all tasks."""
        return self

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Count a reject, and keep the first of its kind."""
        kind = stage, reject.code, reject.of_key
        known = self.found.get(kind)
        if known is not None:
            known.count += 1
            return
        at = (*self._sample.split_of(record), offset_of(record))
        example = RejectedRecord(*at, stage, reject.code, reject.message, reject.table, record.key(), record.value())
        self.found[kind] = RejectsOfCode(1, example)

    def commit(self) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Release nothing: the counts stay for the report."""
