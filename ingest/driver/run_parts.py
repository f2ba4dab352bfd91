"""The parts of a run that differ between kinds of runs: on Spark, in memory, dry, over dead letters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ingest.driver.pacing import Pacing
from ingest.driver.schemas import SchemaRules, policy_of
from ingest.model.numbers import Numbers
from ingest.schema.evolve import StoredNumbers, all_fit, unchanged
from ingest.sources.stateful import SinkHabits

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.deadletter.collector import Collector
    from ingest.driver.context import RunContext, Stop
    from ingest.driver.engine import Engine
    from ingest.model.reject import RejectedRecord
    from ingest.model.schema import SchemaChange
    from ingest.schema.routes import Rules
    from ingest.sinks import Sink, SinkCoordinator
    from ingest.sources import Source, SourceCoordinator
    from ingest.transform.compiler import TransformCompiler


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The sides of a run: the source, the sink, and the collector of rejects."""

    source: Source
    sink: Sink
    collector: Collector | None
    """The receiver of rejects; None where they are only counted and told."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks of a run for what happens to its data."""

    on_reject: Callable[[RejectedRecord], None]
    """Gets each reject that a task gave in full, once its batch is stored."""
    on_withheld: Callable[[SchemaChange, str], None]
    """Gets each schema change that the sink is not to see, and the reason."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts that a run is put together of."""

    endpoints: Endpoints
    source: SourceCoordinator
    sink: SinkCoordinator
    engine: Engine
    compiler: TransformCompiler | None
    """The compiler of transforms; None where none changes rows."""
    rules: SchemaRules
    pacing: Pacing
    stop: Stop
    listeners: Listeners
    look_ahead: int
    """The number of records without anything new after which looking ahead after a drift ends."""


def make_parts(
    context: RunContext,
    rules: Rules,
    endpoints: Endpoints,
    engine: Engine,
    stop: Stop,
    listeners: Listeners,
    look_ahead: int = 1000,
) -> RunParts:
    """Return the parts of a run, which is connected to nothing yet; raises ConfigError."""
    options, source, sink = context.pipeline.pipeline, endpoints.source, endpoints.sink
    can, compiler = sink.capabilities, _compiler(context, rules, engine)
    shape = unchanged if compiler is None else compiler.shape
    coordinator, reading = sink.coordinator(context.name, context.warn), source.coordinator(context.name, context.warn)
    if (keeper := reading.stateful) is not None:
        once, policy = can.guarantee == "exactly-once", policy_of(context.pipeline)
        empties, refuses = policy.allows_kind("truncate.table"), policy.behavior == "exception"
        # An expression needs the columns that did not come
        parts = can.writes_parts and not rules.change_rows
        keeper.writes(SinkHabits(can.supersedes, once, empties, refuses, parts))
    tries, tables = options.behavior == "try_evolve", coordinator.tables
    unfit = all_fit if tables is None or not tries else tables.unfit
    numbers = None
    if can.numbers is Numbers.STORED:
        numbers = StoredNumbers() if tables is None else StoredNumbers(tables.beyond, tables.unfit)
    inference = replace(
        source.inference(options.max_columns), unfit_is_null=tries, infinite=can.infinite_times, numbers=can.numbers
    )
    return RunParts(
        endpoints=endpoints,
        source=reading,
        sink=coordinator,
        engine=engine,
        compiler=compiler,
        rules=SchemaRules(rules, policy_of(context.pipeline), inference, shape, unfit, numbers),
        pacing=Pacing(options.batch_interval, source.rate_limit, can.most_per_batch, can.rest_s, context.clock),
        stop=stop,
        listeners=listeners,
        look_ahead=look_ahead,
    )


def _compiler(context: RunContext, rules: Rules, engine: Engine) -> TransformCompiler | None:
    """Return the compiler of the pipeline's transforms; None if no transform changes rows. Raise ConfigError."""
    if not rules.change_rows:
        return None
    from ingest.transform.compiler import TransformCompiler  # noqa: PLC0415  (most pipelines need no Spark SQL)

    pipeline = context.pipeline
    return TransformCompiler(rules.transforms, pipeline.pipeline.local_time_zone, engine.sql, pipeline.functions)
