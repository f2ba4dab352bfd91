"""A pipeline run in this process on given records: no Kafka, no Spark, the same main street and the same task.

In: a pipeline, records. Out: what would have been written, rejected, skipped and changed. What tests of pipelines use,
ours and the users' (`ingest test`).
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ingest.engine import worker
from ingest.engine.loop import Loop
from ingest.engine.start import Settings
from ingest.errors import IngestError, TopicMissing
from ingest.model.table import show
from ingest.observe.events import Event, Printed, RunEnded, SchemaChanged, Warned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from ingest.flow.evolve import Schemas
    from ingest.kafka.admin import Split
    from ingest.model.event import Bad
    from ingest.model.record import Headers, Record
    from ingest.observe.events import Observer
    from ingest.spec.pipeline import Pipeline

_CHUNK: Final = 100


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
        """The key's bytes."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """The value's bytes."""
        return self.value_bytes

    def topic(self) -> str:
        """The topic."""
        return self.topic_name

    def partition(self) -> int:
        """The partition."""
        return self.partition_number

    def offset(self) -> int:
        """The position in the partition."""
        return self.position

    def timestamp(self) -> tuple[int, int]:
        """When it was made."""
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> Headers:
        """Names and values."""
        return self.sent

    def leader_epoch(self) -> int:
        """The first."""
        return 0


@dataclass(slots=True)
class Rehearsed:
    """What became of the records. Everything in the order in which it happened."""

    records: list[tuple[str, bytes, bytes | None]] = field(default_factory=list)
    """Topic, key, value of what an upsert sink would get; for a file sink the file stands for the topic."""
    lines: list[str] = field(default_factory=list)
    """What the sink showed."""
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    """Index of the record, stage and code."""
    letters: list[tuple[str, bytes | None, bytes | None, dict[str, str]]] = field(default_factory=list)
    """Dead letters: topic, key, value, our headers."""
    skipped: dict[str, int] = field(default_factory=dict)
    withheld: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: Schemas | None = None
    error: IngestError | None = None
    """What the run ended with, if not with success."""


def rehearse(pipeline: Pipeline, records: Sequence[MemoryRecord], *, look_ahead: int = 1) -> Rehearsed:
    """Run a pipeline on records until they are drained. Raises nothing for what a pipeline or a record holds.

    `look_ahead`: how many records a task looks at when one does not fit its table's schema, that one included.
    """
    out = Rehearsed()
    by_split: dict[Split, list[MemoryRecord]] = {}
    for record in records:
        of_split = by_split.setdefault((record.topic_name, record.partition_number), [])
        record.position = len(of_split)
        of_split.append(record)
    source, sink = _Source(pipeline.source, by_split), _Sink(pipeline.sink, out)
    options = pipeline.pipeline
    if options.collector is not None:
        options = options.model_copy(update={"collector": _Collector(options.collector, out)})
    staged = pipeline.model_copy(update={"source": source, "sink": sink, "pipeline": options})
    by_place = {(r.topic_name, r.partition_number, r.position): r.index for r in records}

    def observe(event: Event) -> None:
        match event:
            case SchemaChanged():
                out.changes.append(f"{event.table}> {event.change}")
            case Printed():
                out.lines += event.lines
            case Warned():
                out.warnings.append(event.text)
            case _:
                return

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(folder, Path(folder) / "logs", once=True)
        summary = RunEnded(options.name)
        run = _Inline(staged, settings, observe, summary, look_ahead - 1)
        try:
            run.run()
        except IngestError as exc:
            out.error = exc
        finally:
            run.resources.close()
            worker.discard()
    out.rejects = [(by_place[r.topic, r.partition, r.offset], r.stage, r.code) for r in run.rejected]
    out.skipped, out.withheld = dict(summary.skipped), dict(summary.withheld)
    out.schemas = run.schemas
    return out


class _Value(NamedTuple):
    """A broadcast that goes nowhere."""

    value: Any


class _InProcess:
    """What main street needs of Spark."""

    slots = 1

    def broadcast(self, value: Any) -> _Value:  # noqa: ANN401  (anything)
        return _Value(value)

    def run(self, function: Callable[[Iterable[Any]], Iterator[Any]], tasks: Sequence[Any]) -> list[Any]:
        return [outcome for task in tasks for outcome in function([task])]

    def stop(self) -> None:
        return


class _Stop:
    """Nobody stops it."""

    asked = False

    @contextmanager
    def installed(self) -> Generator[None]:
        yield


class _Inline(Loop):
    """Main street without Spark."""

    def __init__(
        self, pipeline: Pipeline, settings: Settings, observer: Observer, summary: RunEnded, look_ahead: int
    ) -> None:
        super().__init__(pipeline, settings, observer, summary)
        self.stop = _Stop()  # type: ignore[assignment]
        self.look_ahead = look_ahead
        self.rejected: list[Any] = []

    def start_spark(self, connecting: Any) -> Any:  # noqa: ANN401
        if connecting is not None and (error := connecting.exception()) is not None:
            raise error
        return _InProcess()

    def report(self, batch: Any, outcomes: Any) -> None:  # noqa: ANN401
        self.rejected += [reject for outcome in outcomes for reject in outcome.rejects]
        super().report(batch, outcomes)


class _Staged:
    """An options model, parts of which are played by others."""

    def __init__(self, options: Any) -> None:  # noqa: ANN401
        self._options = options

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._options, name)


class _Source(_Staged):
    """The pipeline's source, with given records."""

    def __init__(self, options: Any, records: dict[Split, list[MemoryRecord]]) -> None:  # noqa: ANN401
        super().__init__(options)
        self._records = records

    def control(self, _pipeline: str, _warn: Callable[[str], None]) -> _SourceControl:
        return _SourceControl(self, self._records)

    def reader(self, _pipeline: str) -> _Reader:
        return _Reader(self._records)


class _SourceControl:
    def __init__(self, options: Any, records: dict[Split, list[MemoryRecord]]) -> None:  # noqa: ANN401
        self.options = options
        self.ids = {topic: "memory" for topic, _ in records}
        self._ends = {split: len(found) for split, found in records.items()}

    def connect(self) -> str:
        return "memory"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {"type": "memory"}

    def start(self, stored: Mapping[Split, int], _ids: Any, _owner: str, _from_time: Any) -> dict[Split, int]:  # noqa: ANN401
        return {**dict.fromkeys(self._ends, 0), **stored}

    def check(self, positions: Mapping[Split, int]) -> dict[Split, int]:
        return dict(positions)

    def ends(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        return dict(self._ends)

    def extent(self, ends: Mapping[Split, int]) -> dict[Split, tuple[int, int]]:
        return {split: (0, end) for split, end in ends.items()}

    def finished(self, _positions: Mapping[Split, int]) -> bool:
        return False

    def discover(self, _positions: Mapping[Split, int]) -> dict[Split, int]:
        return {}

    def commit(self, _positions: Mapping[Split, int]) -> None:
        return

    keep = commit

    def close(self) -> None:
        return


@dataclass(slots=True)
class _Chunk:
    split: Split
    messages: list[MemoryRecord]

    @property
    def topic(self) -> str:
        return self.split[0]


class _Reader:
    def __init__(self, records: dict[Split, list[MemoryRecord]]) -> None:
        self._records = records
        self._position: dict[Split, int] = {}

    def read(self, ranges: Mapping[Split, tuple[int, int]]) -> Generator[_Chunk | None]:
        self._position = {split: start for split, (start, _) in ranges.items()}
        for split, (start, end) in ranges.items():
            for at in range(start, end, _CHUNK):
                chunk = _Chunk(split, self._records[split][at : min(end, at + _CHUNK)])
                self._position[split] = at + len(chunk.messages)
                yield chunk

    def position(self, split: Split) -> int:
        return self._position[split]

    def close(self) -> None:
        return


class _Sink(_Staged):
    """The pipeline's sink, whose records are kept."""

    def __init__(self, options: Any, out: Rehearsed) -> None:  # noqa: ANN401
        super().__init__(options)
        self._out = out

    def control(self, pipeline: str, warn: Callable[[str], None]) -> Any:  # noqa: ANN401
        if self._options.type in {"print", "values"}:
            return self._options.control(pipeline, warn)
        return _SinkControl(self._options)

    def writer(self, pipeline: str, run: int) -> Any:  # noqa: ANN401
        if self._options.type in {"print", "values"}:
            return self._options.writer(pipeline, run)
        return _Writer(self._out)


class _SinkControl:
    stream = "out"

    def __init__(self, options: Any) -> None:  # noqa: ANN401
        self._options = options
        self._known: set[Any] = set()

    def connect(self) -> str:
        return "memory sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {"type": "memory"}

    def topics(self, _tables: Iterable[Any]) -> set[str]:
        return set()

    def prepare(self, tables: Iterable[Any]) -> None:
        if not getattr(self._options, "create", True):
            missing = next(iter(tables), None)
            if missing is not None:
                msg = f"topic {show(missing)!r} does not exist, and sink.topic.create is false"
                raise TopicMissing(msg, "create it (compacted), or let the tool do it")

    def changed(self, _events: Iterable[Any]) -> list[str]:
        return []

    def lines(self, _delivered: Iterable[Any]) -> list[str]:
        return []

    def close(self) -> None:
        return


class _Writer:
    failures = 0

    def __init__(self, out: Rehearsed) -> None:
        self._out = out
        self._queued: list[tuple[str, bytes, bytes | None]] = []

    def resume(self, _split: Split, start: int) -> int:
        return start

    def write(self, records: Sequence[Any]) -> None:
        for destination, key, value in records:
            topic = destination if isinstance(destination, str) else destination.topic
            self._queued.append((topic, bytes(key), None if value is None else bytes(value)))

    def commit(self, _positions: Mapping[Split, int]) -> None:
        self._out.records += self._queued
        self._queued = []

    def delivered(self) -> list[Any]:
        return []

    def abort(self) -> None:
        self._queued = []


class _Collector(_Staged):
    """The pipeline's collector of dirty data, whose letters are kept."""

    def __init__(self, options: Any, out: Rehearsed) -> None:  # noqa: ANN401
        super().__init__(options)
        self._out = out

    def prepare(self, _sink: dict[str, str], _pipeline: str, _warn: Any) -> str:  # noqa: ANN401
        return "memory letters"

    def letters(self, _pipeline: str, _writer: Any) -> _Letters | None:  # noqa: ANN401
        return None if self._options.topic is None else _Letters(self._options.topic, self._out)


class _Letters:
    def __init__(self, topic: str, out: Rehearsed) -> None:
        self._topic = topic
        self._out = out
        self._queued: list[Any] = []

    def add(self, record: Record, stage: str, bad: Bad) -> None:
        from ingest.kafka.letters import PREFIX, headers_of  # noqa: PLC0415  (only here)

        headers = {
            name.removeprefix(PREFIX): (value or b"").decode()
            for name, value in headers_of(record, stage, bad, "")
            if name.startswith(PREFIX) and not name.endswith((".time", ".pipeline"))
        }
        self._queued.append((self._topic, record.key(), record.value(), headers))

    def commit(self) -> None:
        self._out.letters += self._queued
        self._queued = []
