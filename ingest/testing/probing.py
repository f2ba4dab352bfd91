"""A sink and a collector of rejects that only look: they are asked whether they would take something, and get nothing.

Nothing is written anywhere: neither rows nor topics, directories or dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ingest.model.record import offset_of
from ingest.model.reject import RejectedRecord
from ingest.sinks.sink import PlainSinkCoordinator, PlainWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ingest.deadletter.collector import DirtyDataCollector
    from ingest.kafka.admin import Topic
    from ingest.model.change import Reject
    from ingest.model.layout import TableLayout
    from ingest.model.record import Record, Split
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks import SinkCoordinator
    from ingest.testing.sampling import Sample


class ProbingCoordinator(PlainSinkCoordinator):
    """The driver's side of a sink of which no run comes: the real one is asked, and connected once for all runs."""

    def __init__(self, real: SinkCoordinator) -> None:
        """Connect to nothing yet."""
        self._real = real
        self._identity: str | None = None
        self.subjects: set[str] = set()
        """The subjects that a run would register schemas for."""

    def connect(self) -> str:
        """Return an identity of where records would go."""
        if self._identity is None:
            self._identity = self._real.connect()
        return self._identity

    def fingerprint(self, identity: str) -> dict[str, Any]:
        """Return what a checkpoint of this sink depends on."""
        return self._real.fingerprint(identity)

    def resume(self, checkpoint: str, marks: list[Any], remedy: Callable[[TableId | None], str]) -> None:
        """Hand on what the checkpoint has kept, so that the real sink says what others did to tables."""
        self._real.resume(checkpoint, marks, remedy)

    def topics(self, tables: Iterable[TableId]) -> set[str]:
        """Return the topics that rows of these tables would go to."""
        return self._real.topics(tables)

    def hashed(self, tables: Iterable[TableId], *, again: bool = False) -> dict[str, Topic]:
        """Return those of these topics over whose partitions keys would be hashed."""
        return self._real.hashed(tables, again=again)

    def missing(self, tables: Iterable[TableId]) -> set[str]:
        """Return those of these topics that are not there; raises TopicMissing where the sink may create none."""
        return self._real.missing(tables)

    def prepare(self, tables: Iterable[TableId]) -> None:
        """Raise what the real sink would raise for these tables, and warn as it would; changes nothing."""
        self._real.check(tables)

    def unfit(self, table: TableId, schema: TableSchema) -> Mapping[str, str]:
        """Return the columns that the real sink's table cannot take."""
        return self._real.unfit(table, schema)

    def beyond(self, table: TableId, schema: TableSchema, names: Sequence[str]) -> Collection[str]:
        """Return the columns that hold an integer beyond ±2^53 in the real sink's table."""
        return self._real.beyond(table, schema, names)

    def arrange(self, layouts: Mapping[TableId, TableLayout]) -> None:
        """Hand the layouts of tables on, so that statements show them."""
        self._real.arrange(layouts)

    def declare(self, schemas: Mapping[TableId, TableSchema]) -> None:
        """Raise what the real sink would raise for these schemas; registers nothing."""
        self.subjects |= self._real.undeclared(schemas)
        self.stored = self._real.stored


class NullWriter(PlainWriter):
    """A task's side of a sink that gets nothing."""

    def write(self, _records: Sequence[Any]) -> None:
        """Forget records."""

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Do nothing: nothing was written."""

    def abort(self) -> None:
        """Do nothing: nothing was written."""


@dataclass(slots=True)
class RejectsOfCode:
    """Rejects of one stage and code: how many, and the first of them."""

    count: int
    example: RejectedRecord


class CountingCollector:
    """A pipeline's collector of rejects, if it has one: rejects are counted by stage and code, and go nowhere."""

    shared = False

    def __init__(self, options: DirtyDataCollector | None, sample: Sample) -> None:
        """Count nothing yet."""
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
        """Return a task's side."""
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
