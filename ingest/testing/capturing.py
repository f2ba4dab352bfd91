"""The parts that are played by others in a rehearsal: a source of given records, a sink and a collector that keep.

Each is the pipeline's own options model in everything but where records come from and go to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ingest.deadletter.letter import PREFIX, headers_of
from ingest.errors import TopicMissing
from ingest.model.table import show
from ingest.sinks.sink import PlainSinkCoordinator, PlainWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from ingest.kafka.admin import Split
    from ingest.model.change import Bad
    from ingest.model.record import Record
    from ingest.testing.in_memory_run import MemoryRecord, Rehearsed

_CHUNK: Final = 100


class Staged:
    """An options model, parts of which are played by others."""

    def __init__(self, options: Any) -> None:  # noqa: ANN401
        """Keep the model."""
        self._options = options

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._options, name)


class GivenSource(Staged):
    """The pipeline's source, with given records."""

    def __init__(self, options: Any, records: dict[Split, list[MemoryRecord]]) -> None:  # noqa: ANN401
        """Keep the records, by split."""
        super().__init__(options)
        self._records = records

    def coordinator(self, _pipeline: str, _warn: Callable[[str], None]) -> _GivenControl:
        """The driver's side."""
        return _GivenControl(self, self._records)

    def reader(self, _pipeline: str) -> _Reader:
        """A task's side."""
        return _Reader(self._records)


class _GivenControl:
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

    def reads(self, topic: str) -> bool:
        return topic in self.ids

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

    def first(self, _split: Split) -> int:
        return 0

    def close(self) -> None:
        return


class KeptSink(Staged):
    """The pipeline's sink, whose records are kept."""

    def __init__(self, options: Any, out: Rehearsed) -> None:  # noqa: ANN401
        """Keep what is written in `out`."""
        super().__init__(options)
        self._out = out

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> Any:  # noqa: ANN401
        """The driver's side: the sink's own, where it needs nobody else."""
        if self._options.type in {"print", "values"}:
            return self._options.coordinator(pipeline, warn)
        return _KeptControl(self._options)

    def writer(self, pipeline: str, run: int) -> Any:  # noqa: ANN401
        """A task's side."""
        if self._options.type in {"print", "values"}:
            return self._options.writer(pipeline, run)
        return _Writer(self._out)


class _KeptControl(PlainSinkCoordinator):
    def __init__(self, options: Any) -> None:  # noqa: ANN401
        self._options = options
        self._known: set[Any] = set()

    def connect(self) -> str:
        return "memory sink"

    def fingerprint(self, _identity: str) -> dict[str, Any]:
        return {"type": "memory"}

    def prepare(self, tables: Iterable[Any]) -> None:
        if not getattr(self._options, "create", True):
            missing = next(iter(tables), None)
            if missing is not None:
                msg = f"topic {show(missing)!r} does not exist, and sink.topic.create is false"
                raise TopicMissing(msg, "create it (compacted), or let the tool do it")


class _Writer(PlainWriter):
    def __init__(self, out: Rehearsed) -> None:
        self._out = out
        self._queued: list[tuple[str, bytes | None, bytes | None]] = []

    def write(self, records: Sequence[Any]) -> None:
        for destination, key, value in records:
            topic = getattr(destination, "topic", destination)
            self._queued.append((str(topic), key, None if value is None else bytes(value)))

    def commit(self, _positions: Mapping[Split, int], _tally: Any, *, final: bool) -> None:  # noqa: ANN401, ARG002
        self._out.records += self._queued
        self._queued = []

    def abort(self) -> None:
        self._queued = []


class KeptLetters(Staged):
    """The pipeline's collector of dirty data, whose letters are kept."""

    def __init__(self, options: Any, out: Rehearsed) -> None:  # noqa: ANN401
        """Keep letters in `out`."""
        super().__init__(options)
        self._out = out

    def prepare(self, _sink: dict[str, str], _pipeline: str, _warn: Any) -> str:  # noqa: ANN401
        """There is nothing to make."""
        return "memory letters"

    def letters(self, _pipeline: str, _writer: Any) -> _Letters | None:  # noqa: ANN401
        """A task's side; None where rejects go to the log."""
        return None if self._options.topic is None else _Letters(self._options.topic, self._out)


class _Letters:
    def __init__(self, topic: str, out: Rehearsed) -> None:
        self._topic = topic
        self._out = out
        self._queued: list[Any] = []

    def add(self, record: Record, stage: str, bad: Bad) -> None:
        headers = {
            name.removeprefix(PREFIX): (value or b"").decode()
            for name, value in headers_of(record, stage, bad, "")
            if name.startswith(PREFIX) and not name.endswith((".time", ".pipeline"))
        }
        self._queued.append((self._topic, record.key(), record.value(), headers))

    def commit(self) -> None:
        self._out.letters += self._queued
        self._queued = []
