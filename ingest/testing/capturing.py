"""A sink and a collector of rejects that keep what they get, for whoever looks at it afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ingest.deadletter.letter import PREFIX, headers_of
from ingest.errors import TopicMissing
from ingest.model.table import TableId, show
from ingest.sinks import Sink, SinkCoordinator
from ingest.sinks.sink import PlainWriter
from ingest.sinks.topics.options import TopicsOptions
from ingest.testing.in_memory import InMemorySink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.component.options import AnyOptions
    from ingest.deadletter.collector import DirtyDataCollector
    from ingest.model.change import Reject
    from ingest.model.record import Record, Split


@dataclass(slots=True)
class Captured:
    """Records and dead letters that a sink and a collector got, in the order of their commits."""

    records: list[tuple[str, bytes | None, bytes | None]] = field(default_factory=list)
    """Topic, key and value of each record; for a file sink the file stands for the topic."""
    letters: list[tuple[str, bytes | None, bytes | None, dict[str, str]]] = field(default_factory=list)
    """Topic, key, value and our headers of each dead letter."""


def capturing_sink(options: AnyOptions, captured: Captured, pipeline: str, warn: Callable[[str], None]) -> Sink:
    """Return the pipeline's sink with its records captured; a sink that prints stays as it is."""
    if options.type in {"print", "values"}:
        side = options.coordinator(pipeline, warn)
        return InMemorySink(options, side, lambda: options.writer(pipeline, 0))
    return InMemorySink(options, CapturingCoordinator(options), lambda: CapturingWriter(captured))


class CapturingCoordinator(SinkCoordinator):
    """The coordinator of a sink in memory."""

    def __init__(self, options: AnyOptions) -> None:
        self.places = self
        self._options = options

    def connect(self) -> str:
        """Return an identity that no source has."""
        return "memory sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        """Return nothing that a checkpoint could depend on."""
        return {"type": "memory"}

    def prepare(self, tables: Iterable[TableId], *, dry_run: bool) -> None:
        """Raise TopicMissing where the sink may make no topics, as none is there."""
        if isinstance(self._options, TopicsOptions) and not self._options.create:
            missing = next(iter(tables), None)
            if missing is not None:
                msg = f"topic {show(missing)!r} does not exist, and sink.topic.create is false"
                raise TopicMissing(msg, "create it (compacted), or let the tool do it")

    def filled(self, _tables: Iterable[TableId]) -> None:
        """Return None: what earlier runs wrote is not known."""

    def close(self) -> None:
        """Release nothing: captured records stay for the test."""


class CapturingWriter(PlainWriter):
    """A writer that keeps records in memory."""

    def __init__(self, captured: Captured) -> None:
        self._captured = captured
        self._queued: list[tuple[str, bytes | None, bytes | None]] = []

    def write(self, records: Sequence[Any]) -> None:
        """Keep records until the commit."""
        for destination, key, value in records:
            topic = getattr(destination, "topic", destination)
            where = "" if topic is None else str(topic)  # a sink that prints has no places
            self._queued.append((where, key, None if value is None else bytes(value)))

    def commit(self, _positions: Mapping[Split, int], _metadata: bytes, *, final: bool) -> None:
        """Move the records since the last commit to the captured ones."""
        self._captured.records += self._queued
        self._queued = []

    def abort(self) -> None:
        """Discard the records since the last commit."""
        self._queued = []


class CapturingCollector:
    """A pipeline's collector of rejects, whose letters are kept."""

    def __init__(self, options: DirtyDataCollector, captured: Captured) -> None:
        self.type: str = options.type
        self.topic = options.topic
        self.properties: Mapping[str, str] = options.properties
        self._captured = captured

    def prepare(self, _sink: dict[str, str], _pipeline: str, _warn: Callable[[str], None]) -> str:
        """Make nothing; returns an identity that no source has."""
        return "memory letters"

    def letters(self, _pipeline: str, _writer: object) -> CapturingLetters | None:
        """Return a task's writer of dead letters; None without a topic, where rejects go to the log."""
        return None if self.topic is None else CapturingLetters(self.topic, self._captured)


class CapturingLetters:
    """Keeps the dead letters of a task in memory."""

    shared = False

    def __init__(self, topic: str, captured: Captured) -> None:
        self._topic = topic
        self._captured = captured
        self._queued: list[tuple[str, bytes | None, bytes | None, dict[str, str]]] = []

    def add(self, record: Record, stage: str, reject: Reject) -> None:
        """Keep a letter until the commit."""
        headers = {
            name.removeprefix(PREFIX): (value or b"").decode()
            for name, value in headers_of(record, stage, reject, "")
            if name.startswith(PREFIX) and not name.endswith((".time", ".pipeline"))
        }
        self._queued.append((self._topic, record.key(), record.value(), headers))

    def commit(self) -> None:
        """Move the records since the last commit to the captured ones."""
        self._captured.letters += self._queued
        self._queued = []

    def close(self) -> None:
        """Discard the records since the last commit."""
        self._queued = []
