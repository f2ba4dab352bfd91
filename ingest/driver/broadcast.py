"""The schemas on their way to the workers: all of them once, then what each version changed with every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingest.driver.source_state import Assignments
from ingest.task.assignment import Delta

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

    from ingest.driver.engine import TaskRunner
    from ingest.driver.schemas import SchemaStore
    from ingest.driver.sink_tables import KeyPartitions
    from ingest.schema.evolve import Evolution, Schemas
    from ingest.sources import SourceCoordinator

MAX_DELTAS: Final = 50
"""Versions that travel with each task before everything is broadcast anew."""
MAX_DELTA_TABLES: Final = 200
"""Tables in them, for the same reason: a broadcast travels once, what a task carries each time."""


class PartitionBroadcast:
    """The numbers of partitions over which keys are hashed, on their way to workers."""

    def __init__(self, runner: TaskRunner, keys: KeyPartitions) -> None:
        """Send nothing yet."""
        self._runner = runner
        self._keys = keys
        self._counts: dict[str, int] = {}
        self._sent: Broadcast[dict[str, int]] | None = None

    def newest(self) -> Broadcast[dict[str, int]] | None:
        """Return the numbers as tasks get them, None where there are none; looks now and then whether topics grew."""
        self._keys.look()
        if self._keys.counts is not self._counts and self._keys.counts:
            self._counts = self._keys.counts
            self._sent = self._runner.broadcast(self._counts)
        return self._sent


class SchemaBroadcast:
    """The newest schemas on their way to workers: a broadcast, and the changes since."""

    def __init__(self, runner: TaskRunner, store: SchemaStore, source: SourceCoordinator) -> None:
        """Send all schemas."""
        self._runner = runner
        self._store = store
        self.version = store.schemas.version
        """The version of what was broadcast."""
        self.base: Broadcast[Schemas] = runner.broadcast(store.schemas)
        self.partitions = PartitionBroadcast(runner, store.keys)
        self.assignments = Assignments(runner, source)
        self.deltas: list[Delta] = []
        """The changes since the broadcast."""

    def add(self, evolution: Evolution | None) -> None:
        """Let the next tasks carry a change; where they would carry much, all schemas are sent anew."""
        if evolution is None:
            return
        self.deltas.append(Delta(evolution.schemas.version, evolution.sources, evolution.sinks))
        tables = sum(len(delta.sources) + len(delta.sinks) for delta in self.deltas)
        if len(self.deltas) > MAX_DELTAS or tables > MAX_DELTA_TABLES:
            self.base = self._runner.broadcast(self._store.schemas)
            self.version = self._store.schemas.version
            self.deltas = []

    @property
    def newest(self) -> Schemas:
        """The schemas that workers have once they got a task."""
        return self._store.schemas
