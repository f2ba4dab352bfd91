"""What a run of a pipeline would do, written nowhere.

In: a pipeline, and where its checkpoint would be. Out: a `Preview`. The source is asked and its newest records are
looked at; the sink is asked which topics it has; Spark starts only where a transform has expressions.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.engine.compiler import Compiler
from ingest.engine.inspect import opened
from ingest.engine.prefetch import first_look
from ingest.engine.session import Session
from ingest.errors import CheckpointError
from ingest.flow.evolve import Policy, Schemas, evolve, reroute, unchanged
from ingest.flow.infer import unmatched
from ingest.flow.route import rule_of
from ingest.model import types
from ingest.model.table import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from ingest.engine.start import Settings
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.spec.pipeline import Pipeline

SAMPLE = 1_000
"""Records of each split that are looked at where the pipeline says nothing about it."""


@dataclass(frozen=True, slots=True)
class TablePreview:
    """A source table, and what becomes of it."""

    table: str
    rule: str | None
    """The transform that changes its rows."""
    known: bool
    """Whether the checkpoint knows it already."""
    sink_tables: list[str]
    columns: list[dict[str, Any]]
    """Name, type, whether it may be null."""
    primary_key: list[str]


@dataclass(slots=True)
class Preview:
    """What a run would do."""

    pipeline: str
    checkpoint: str | None
    """The checkpoint that it would go on from; None where there is none yet."""
    guarantee: str
    splits: int
    waiting: int
    """Records that are there and not read yet."""
    tables: list[TablePreview] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """Schema changes of the sink's tables."""
    withheld: list[str] = field(default_factory=list)
    """Changes that the sink is not to see."""
    new_topics: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def preview(pipeline: Pipeline, settings: Settings) -> Preview:
    """Look, and change nothing; raises IngestError for what would stop the run, as far as it shows."""
    with ExitStack() as resources:
        return _Previewing(pipeline, settings, resources).look()


class _Previewing:
    def __init__(self, pipeline: Pipeline, settings: Settings, resources: ExitStack) -> None:
        self.pipeline, self.settings, self.resources = pipeline, settings, resources
        self.rules = pipeline.rules
        self.warnings: list[str] = list(pipeline.warnings)

    def look(self) -> Preview:
        pipeline = self.pipeline
        name, options = pipeline.pipeline.name, pipeline.pipeline
        policy = Policy(
            options.behavior, frozenset(pipeline.sink.include), frozenset(pipeline.sink.exclude), options.max_tables,
            pipeline.sink.needs_key,
        )  # fmt: skip
        inference = pipeline.source.inference(options.max_columns)
        source, sink = pipeline.source.control(name, self.warnings.append), pipeline.sink.control(
            name, self.warnings.append
        )  # fmt: skip
        self.resources.callback(source.close)
        self.resources.callback(sink.close)
        source.connect()
        sink.connect()
        where, stored, positions, ids, owner = self.checkpoint()
        shape = unchanged
        if self.rules.change_rows:
            shape = Compiler(self.rules.transforms, options.local_time_zone, self.spark, pipeline.functions).shape  # type: ignore[assignment]
        known = reroute(stored, self.rules, policy, inference.initial, shape)
        positions = source.start(positions, ids, owner, self.settings.from_time)
        ends = source.ends(positions)
        sampled = pipeline.source
        if not sampled.prefetch:
            sampled = sampled.model_copy(update={"prefetch": SAMPLE})
        seen = first_look(sampled, name, source.extent(ends), self.rules, policy, inference)
        found = evolve(known.schemas, sorted(seen.items()), self.rules, policy, inference.initial, shape)
        sinks = found.schemas.sinks
        self.warnings += unmatched(inference, {t: one.schema for t, one in found.schemas.sources.items()})
        return Preview(
            name,
            where,
            str(getattr(pipeline.sink, "guarantee", "at-least-once")),
            len(positions),
            sum(max(0, end - positions.get(split, 0)) for split, end in ends.items()),
            [
                self.table(table, schema.targets, sinks, known=table in stored.sources)
                for table, schema in sorted(found.schemas.sources.items())
            ],
            [f"{show(event.table)}> {event}" for event in (*known.events, *found.events)],
            [f"{show(event.table)}> {event}" for event in (*known.withheld, *found.withheld)],
            sorted(sink.missing(sinks)),
            self.warnings,
        )

    def table(
        self, table: TableId, targets: Iterable[TableId], sinks: Mapping[TableId, TableSchema], *, known: bool
    ) -> TablePreview:
        rule = rule_of(self.rules.transforms, table)
        names = list(targets)
        schema = sinks[names[0]]
        return TablePreview(
            show(table), None if rule is None else rule.place, known, [show(name) for name in names],
            [{"name": c.name, "type": types.name(c.type), "nullable": c.nullable} for c in schema.columns],
            list(schema.primary_key),
        )  # fmt: skip

    def checkpoint(self) -> tuple[str | None, Schemas, dict[Any, int], dict[str, str], str]:
        """What the checkpoint knows, if there is one."""
        try:
            with opened(self.settings.checkpoint, self.settings.conf, write=False) as found:
                progress, _ = found.progress()
                return found.where, found.schemas(self.rules), progress.positions, progress.ids, found.id
        except CheckpointError as exc:
            if "there is no checkpoint" not in exc.message:
                raise
            return None, Schemas(), {}, {}, ""

    def spark(self) -> SparkSession:
        """Spark SQL, for the expressions."""
        folder = self.resources.enter_context(tempfile.TemporaryDirectory())
        session = Session("ingest plan", "local[1]", self.settings.conf, lock=None, log=Path(folder) / "spark.log")
        self.resources.callback(session.stop)
        return session.sql()
