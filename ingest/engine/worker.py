"""What a Python worker keeps between tasks: clients, schemas, compiled plans.

Clients do not survive a fork, and workers are forked: everything here is made in the worker, on first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.flow.evolve import Schemas, SourceTable
from ingest.flow.plans import Plans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.core.broadcast import Broadcast

    from ingest.kafka.reader import RangeReader
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.sinks.upsert_kafka import UpsertKafka
    from ingest.sources.kafka import KafkaSource


@dataclass(frozen=True, slots=True)
class Setup:
    """What stays the same for a whole run."""

    checkpoint: str
    run: int
    pipeline: str
    source: KafkaSource
    sink: UpsertKafka
    max_tables: int
    max_columns: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What one version of the schemas changed."""

    version: int
    sources: dict[TableId, SourceTable]
    sinks: dict[TableId, TableSchema]


class State:
    """One run's things in this worker."""

    def __init__(self, setup: Setup) -> None:
        """Make nothing yet."""
        self.setup = setup
        self.plans = Plans(setup.sink.destination)
        self._reader: RangeReader | None = None
        self._writer: KafkaWriter | None = None

    @property
    def schemas(self) -> Schemas:
        """The schemas that this task works with."""
        return self.plans.schemas

    def reader(self) -> RangeReader:
        """The worker's consumer."""
        if self._reader is None:
            self._reader = self.setup.source.reader(self.setup.pipeline)
        return self._reader

    def writer(self) -> KafkaWriter:
        """The worker's producer."""
        if self._writer is None:
            self._writer = self.setup.sink.writer(self.setup.pipeline)
        return self._writer

    def update(self, base: Broadcast[Schemas], base_version: int, deltas: Sequence[Delta]) -> None:
        """Bring the schemas to the version of the task; plans of tables that changed are made anew."""
        target = deltas[-1].version if deltas else base_version
        if not base_version <= self.schemas.version <= target:
            self.plans.renew(base.value, None)
        for delta in deltas:
            old = self.schemas
            if delta.version > old.version:
                sources, sinks = {**old.sources, **delta.sources}, {**old.sinks, **delta.sinks}
                self.plans.renew(Schemas(delta.version, sources, sinks), {*delta.sources, *delta.sinks})

    def discard(self) -> None:
        """Let go of the clients: what failed may have left them in any state."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._writer = None


_state: State | None = None


def state(setup: Setup, base: Broadcast[Schemas], base_version: int, deltas: Sequence[Delta]) -> State:
    """This worker's state for a run, at the task's version of the schemas."""
    global _state  # noqa: PLW0603  (a worker is one process with one state)
    if _state is None or (_state.setup.checkpoint, _state.setup.run) != (setup.checkpoint, setup.run):
        discard()
        _state = State(setup)
    _state.update(base, base_version, deltas)
    return _state


def discard() -> None:
    """Let go of the clients of this worker."""
    if _state is not None:
        _state.discard()


def rss_kib() -> int:
    """The most memory that this worker ever had, in KiB; 0 where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0
