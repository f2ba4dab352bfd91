"""Batches that go through Spark SQL: the driver's side, as jobs of Spark or in this process.

In: tasks. Out: their outcomes. One plan serves all batches until a table's transform changes: it is analysed, optimised
and compiled once, and each batch is a job over the same plan.
"""

from __future__ import annotations

import base64
import pickle
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext

from ingest.spark.session import TASK_PAYLOAD, Session
from ingest.transform.spill import SpillStore, store_of_attempt
from ingest.transform.stages import run_read_stage, run_write_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import DataFrame

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.schema.evolve import Schemas
    from ingest.task.task import Setup, Task, TaskResult
    from ingest.transform.compiler import TransformCompiler
    from ingest.transform.spark_plan import Stage

MAX_EXPLAINED: Final = 20
"""Rejects of a run that Spark is asked about: each costs some milliseconds."""


class Explainer:
    """Puts Spark's words into the rejects of expressions: into the first ones of a run, and into one that ends it."""

    def __init__(self, compiler: TransformCompiler) -> None:
        self._compiler = compiler
        self._asked = 0

    def explain(self, outcomes: list[TaskResult]) -> list[TaskResult]:
        """Return the outcomes, with the messages of their rejects completed."""
        for outcome in outcomes:
            progress = outcome.progress
            for i, reject in enumerate(progress.rejects):
                if reject.failure is None:
                    continue
                why = ""
                if self._asked < MAX_EXPLAINED or (progress.stopped_by_reject and i + 1 == len(progress.rejects)):
                    self._asked += 1
                    why = self._compiler.why(reject.failure)
                message = f"{reject.message}: {why}" if why else reject.message
                progress.rejects[i] = replace(reject, message=message, failure=None)
        return outcomes


class SparkTransformRunner:
    """Runs tasks in two stages, with the expressions of all tables between them."""

    def __init__(self, session: Session, compiler: TransformCompiler, shards: int) -> None:
        self._session, self._compiler, self._shards = session, compiler, shards
        self._explainer = Explainer(compiler)
        self._transforms: CompiledTransforms | None = None
        self._version = -1
        self._sent: Broadcast[CompiledTransforms] | None = None
        self._given: _Given | None = None
        """The broadcasts that the plan has."""
        self._frame: DataFrame | None = None
        self._size = 0
        """The number of tasks that the plan has room for."""

    def run(self, tasks: Sequence[Task], schemas: Schemas) -> list[TaskResult]:
        """Run one job; raises Unavailable where Spark gave up on a task."""
        first = tasks[0]
        transforms = self._transforms
        if transforms is None or schemas.version != self._version:
            transforms, self._version = self._compiler.transforms(schemas.sources), schemas.version
        shared = None if first.assigned is None else first.assigned.shared
        references = _Given(first.setup, first.base, first.partitions, shared)
        stale = transforms != self._transforms or self._given != references or len(tasks) > self._size
        if self._frame is None or stale:
            if self._sent is None or transforms != self._transforms:
                self._transforms, self._sent = transforms, self._session.broadcast(transforms)
            self._given = references
            self._size = max(self._shards, len(tasks))
            stages = read_stage(references, self._sent), write_stage(references, self._sent)
            self._frame = self._compiler.frame(transforms, self._size, *stages)
        light = [references.taken_from(task) for task in tasks]
        task_payload = base64.b64encode(pickle.dumps(light)).decode()
        rows = self._session.run_frame(self._frame, task_payload)
        return self._explainer.explain([pickle.loads(row) for row in rows])  # noqa: S301  (our own)


@dataclass(frozen=True, slots=True)
class _Given:
    """What all tasks of a batch refer to. A plan of Spark SQL has it, as what is pickled into a text is not sent."""

    setup: Broadcast[Setup]
    base: Broadcast[Schemas]
    partitions: Broadcast[dict[str, int]] | None
    shared: Broadcast[Any] | None
    """The part of a source's state that all tasks get."""

    @staticmethod
    def taken_from(task: Task) -> Task:
        """Return a task without it."""
        assigned = None if task.assigned is None else replace(task.assigned, shared=None)  # type: ignore[arg-type]  # `put_into`
        return replace(task, setup=None, base=None, partitions=None, assigned=assigned)  # type: ignore[arg-type]  # as above

    def put_into(self, task: Task) -> Task:
        """Return a task with it."""
        assigned = task.assigned
        if assigned is not None and self.shared is not None:
            assigned = replace(assigned, shared=self.shared)
        return replace(task, setup=self.setup, base=self.base, partitions=self.partitions, assigned=assigned)


def _task(given: _Given) -> Task | None:
    """Return what this partition has to do in this batch; None where there is nothing for it."""
    context = TaskContext.get()
    assert context is not None
    tasks: list[Task] = pickle.loads(base64.b64decode(context.getLocalProperty(TASK_PAYLOAD) or ""))  # noqa: S301  (our own)
    number = context.partitionId()
    return given.put_into(tasks[number]) if number < len(tasks) else None


def read_stage(given: _Given, transforms: Broadcast[CompiledTransforms]) -> Stage:
    """Return the first stage, as Spark runs it."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        task = _task(given)
        if task is not None:
            yield from run_read_stage(task, transforms.value, store_of_attempt())

    return stage


def write_stage(given: _Given, transforms: Broadcast[CompiledTransforms]) -> Stage:
    """Return the second stage, as Spark runs it."""

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _task(given)
        if task is None:
            for _ in batches:
                pass
            return
        outcome = run_write_stage(task, transforms.value, store_of_attempt(), batches)
        yield pa.RecordBatch.from_pydict({"outcome": pa.array([pickle.dumps(outcome)], pa.binary())})

    return stage


class LocalTransformRunner:
    """Runs both stages of tasks in this process: Spark has the expressions between them only."""

    def __init__(self, compiler: TransformCompiler) -> None:
        self._compiler = compiler
        self._explainer = Explainer(compiler)

    def run(self, tasks: Sequence[Task], schemas: Schemas) -> list[TaskResult]:
        """Run one task after the other."""
        transforms = self._compiler.transforms(schemas.sources)
        out = []
        for task in tasks:
            with tempfile.TemporaryDirectory() as folder:
                rows = pa.Table.from_batches(run_read_stage(task, transforms, SpillStore(Path(folder))))
                results = self.computed(transforms, rows)
                out.append(run_write_stage(task, transforms, SpillStore(Path(folder)), results.to_batches()))
        return self._explainer.explain(out)

    def computed(self, transforms: CompiledTransforms, rows: pa.Table) -> pa.Table:
        """Return what Spark computes of the rows of a task."""
        return self._compiler.results(transforms, self._compiler.spark.createDataFrame(rows)).toArrow()
