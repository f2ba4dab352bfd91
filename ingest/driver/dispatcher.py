"""Runs a batch: a task for each shard, with Spark SQL where a transform changes rows of tables that are known.

With them go the schemas: all of them once, then what each version changed with every task; the numbers of partitions
over which keys are hashed; and the part of the source's state that a task needs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from ingest.driver.pacing import DEADLINE_S, Pacing
from ingest.task.pipeline import run_tasks
from ingest.task.task import Assigned, Delta, Setup, Task, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.core.broadcast import Broadcast

    from ingest.checkpoint.checkpoint import Batch
    from ingest.driver.batch_checks import ErrorBudget
    from ingest.driver.engine import TaskRunner, TransformRunner
    from ingest.driver.schemas import SchemaStore
    from ingest.driver.sink_tables import KeyPartitions
    from ingest.model.record import Split
    from ingest.schema.evolve import Evolution, Schemas
    from ingest.sources import SourceCoordinator

MAX_WAITS: Final = 5
"""Batches that a task may end early, before the end of one range, for records that wait for other tasks."""


class _Refusals:
    """Records that the sink has refused: where tasks are to look for them, and how often these may wait for others."""

    def __init__(self) -> None:
        self._refused: dict[Split, int] = {}
        """Positions before which the sink has refused records in tasks that ended for that."""
        self._waits: dict[Split, tuple[int, int]] = {}
        """Up to which position records may wait for other tasks only so often any more."""

    def learn(self, batch: Batch, results: Sequence[TaskResult]) -> None:
        """Take in the results of a batch. Its tasks may not wait again if none made progress."""
        for result in results:
            self._refused.update(result.progress.refused_before)
        starts = {split: start for split, (start, _) in batch.ranges.items()}
        got_on = any(at > starts[split] for result in results for split, at in result.progress.positions.items())
        for split in (split for result in results if result.progress.waited for split in result.progress.positions):
            until, left = self._waits.get(split, (0, 0))
            if starts[split] >= until:
                until, left = batch.ranges[split][1], MAX_WAITS
            self._waits[split] = until, (left - 1 if got_on else 0)

    def apart(self, ranges: Mapping[Split, tuple[int, int]]) -> dict[Split, int]:
        """Return the positions up to which a task of these ranges commits each chunk by itself."""
        return {s: self._refused[s] for s, (start, _) in ranges.items() if start < self._refused.get(s, 0)}

    def may_wait(self, ranges: Mapping[Split, tuple[int, int]]) -> bool:
        """Return whether a task of these ranges may end for others to commit."""
        counted = [(start, self._waits.get(split, (0, 0))) for split, (start, _) in ranges.items()]
        return all(start >= until or left > 0 for start, (until, left) in counted)


class Dispatcher:
    """Hands the tasks of batches out, and remembers which worker has which shard."""

    def __init__(
        self,
        runner: TaskRunner,
        transforms: TransformRunner | None,
        setup: Broadcast[Setup],
        schemas: SchemaBroadcast,
        announce: Callable[[int, int], None],
        errors: ErrorBudget,
        pacing: Pacing,
    ) -> None:
        """`transforms`: None where no transform changes rows.

        `announce` gets the number of each batch and of its shards before it is run, and waits for a sink that is away.
        """
        self._runner = runner
        self._transforms = transforms
        self._setup = setup
        self._schemas = schemas
        self._announce = announce
        self._errors = errors
        self._pacing = pacing
        self._workers: dict[int, str] = {}
        """The worker that wrote each shard last."""
        self._idle: dict[int, float] = {}
        """Since when the worker of each shard has been idle, in seconds since the epoch."""
        self._refusals = _Refusals()

    def run(self, batch: Batch) -> list[TaskResult]:
        """Run a batch, and return what its tasks did; raises IngestError."""
        results = self._run(self._tasks(batch))
        self._workers = {result.shard: result.worker for result in results}
        self._idle.update({result.shard: result.telemetry.ended for result in results})
        self._refusals.learn(batch, results)
        return results

    def _tasks(self, batch: Batch) -> list[Task]:
        """Return one task for each shard that has ranges, once the sink knows that they come."""
        self._pacing.begin()
        # Spark gives the first task to the worker that has been idle longest: so shards keep theirs, and its producer
        by_shard = dict(sorted(batch.by_shard().items(), key=lambda item: self._idle.get(item[0], math.inf)))
        self._announce(batch.number, max(by_shard) + 1)
        tolerated, schemas, partitions = self._errors.left(), self._schemas, self._schemas.partitions.newest()
        return [
            Task(
                batch=batch.number,
                planned=batch.run,
                shard=shard,
                ranges=ranges,
                ids={topic: batch.ids.get(topic, "") for topic, _ in ranges},
                tolerated=tolerated,
                seconds=DEADLINE_S,
                last=self._workers.get(shard, ""),
                setup=self._setup,
                base=schemas.base,
                base_version=schemas.version,
                deltas=tuple(schemas.deltas),
                apart=self._refusals.apart(ranges),
                waits=len(by_shard) > 1 and self._refusals.may_wait(ranges),
                partitions=partitions,
                assigned=schemas.assignments.of(ranges),
            )
            for shard, ranges in by_shard.items()
        ]

    def _run(self, tasks: list[Task]) -> list[TaskResult]:
        newest = self._schemas.newest
        if self._transforms is not None and any(source.output is not None for source in newest.sources.values()):
            return self._transforms.run(tasks, newest)
        return self._runner.run(run_tasks, tasks)


MAX_DELTAS: Final = 50
"""Versions that travel with each task before all schemas are broadcast again."""
MAX_DELTA_TABLES: Final = 200
"""Tables in them, for the same reason: a broadcast travels once, what a task carries each time."""


class PartitionBroadcast:
    """The numbers of partitions over which keys are hashed, on their way to workers."""

    def __init__(self, runner: TaskRunner, keys: KeyPartitions) -> None:
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
        """Let the next tasks carry a change; where that is much, all schemas are broadcast again."""
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


class Assignments:
    """The parts of the source's state that tasks get."""

    def __init__(self, runner: TaskRunner, source: SourceCoordinator) -> None:
        self._runner = runner
        self._keeper = source.stateful
        self._shared: object = None
        self._sent: Broadcast[Any] | None = None

    def of(self, ranges: Mapping[Split, tuple[int, int]]) -> Assigned | None:
        """Return what the task of these ranges gets; None where the source has no state. Raise IngestError."""
        if self._keeper is None:
            return None
        shared = self._keeper.shared()
        if self._sent is None or shared is not self._shared:
            self._shared, self._sent = shared, self._runner.broadcast(shared)
        return Assigned(self._keeper.assign(ranges), self._sent)
