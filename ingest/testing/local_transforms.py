"""Transforms in one process: both stages of tasks run here, and Spark has the expressions between them only."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ingest.driver.spark_transforms import Explainer
from ingest.task.spill import SpillStore
from ingest.task.transform_pipeline import run_read_stage, run_write_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.encode.compiled_transform import CompiledTransforms
    from ingest.schema.evolve import Schemas
    from ingest.task.assignment import Task
    from ingest.task.result import TaskResult
    from ingest.transform.compiler import TransformCompiler


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
