"""A dry run: what a run of a pipeline would do, written nowhere.

In: a pipeline, and where its checkpoint would be. Out: a `DryRunReport`, and the error that the run would end with. It
is main street itself, in this process, over a sample of the backlog: so whatever refuses a run refuses this.
The checkpoint is read only; the source and the sink are asked; Spark starts only where a transform has expressions, or
the checkpoint or a file that an option names is on one of Hadoop's file systems.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ingest.driver.context import Settings, with_files
from ingest.driver.startup import observe_chunks
from ingest.errors import DirtyData, IngestError, NoPrimaryKey
from ingest.model import types
from ingest.model.reject import IgnoredErrors, head
from ingest.model.table import Selector, TableId, selector, show, similar
from ingest.observe.events import OptionChanged, SchemaChanged, Warned
from ingest.schema.ddl import create_statement
from ingest.schema.routes import rule_of
from ingest.schema_registry.options import RegistryOptions
from ingest.testing.sample_run import ALL, DryRun, SampleRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ingest.config.pipeline import Pipeline
    from ingest.schema.evolve import SourceTable
    from ingest.sinks import Sink
    from ingest.sources import Source

_NAMED: Final = 5
"""Tables that a line names where it is like none of them."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """A source table, with its columns, its key and its sink tables."""

    table: str
    rule: str | None
    """The transform that changes its rows."""
    known: bool
    """True if the checkpoint knows it already."""
    sink_tables: list[str]
    columns: list[dict[str, Any]]
    """Name, type, whether it may be null."""
    primary_key: list[str]
    ddl: list[str]
    """A statement of Flink SQL for each of the sink tables."""


@dataclass(slots=True)
class DryRunReport:
    """A report on what a run would do."""

    pipeline: str
    checkpoint: str | None
    """The checkpoint that it would go on from; None where there is none yet."""
    guarantee: str
    splits: int
    waiting: int
    """Records that are there and not read yet; 0 of a database."""
    looked_at: int
    """Those of them that this is about; where none is waiting, and there is no checkpoint, the newest ones instead."""
    standing: dict[str, Any] | None = None
    """Where the reading of a database stands, and what of it is not read yet; None of another source."""
    tables: list[TableReport] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """Schema changes of the sink's tables."""
    created: dict[str, str] = field(default_factory=dict)
    """Those of the sink's tables that are new, each with the value that made a column of it a text, if one has."""
    withheld: list[str] = field(default_factory=list)
    """Changes that the sink is not to see, each with the reason."""
    new_topics: list[str] = field(default_factory=list)
    new_schemas: list[str] = field(default_factory=list)
    """Subjects of a schema registry that schemas would be registered for."""
    rejects: list[dict[str, Any]] = field(default_factory=list)
    """Records that could not go on, by stage and code: how many, and the first of them."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Records that stand for no row, by reason."""
    without_key: list[str] = field(default_factory=list)
    """Tables that the sink cannot take because they have no primary key, and why."""
    refused: list[str] = field(default_factory=list)
    """Other tables that the run would stop at, and why."""
    unmatched: list[str] = field(default_factory=list)
    """Entries of the file that match none of the tables, or none that an earlier entry leaves to them."""
    options: list[str] = field(default_factory=list)
    """Options that say something else than at the last run."""
    warnings: list[str] = field(default_factory=list)
    error: dict[str, Any] | None = None
    """The error that the run would end with: exit code, message, hint."""


def report(
    sample_run: SampleRun, run: DryRun, ended: IngestError | None, only: Selector | None = None
) -> tuple[DryRunReport, IngestError | None]:
    """Return what was found, and what a run would end with.

    `ended` is what it ended with over the sample's start. `only`: the source tables that the report is about.
    """
    without_key, refused = _refusals(sample_run, run)
    error = ended or next(iter([*without_key.values(), *refused.values()]), None)
    pipeline, sample = sample_run.pipeline, sample_run.source.sample
    for event in run.happened:
        if isinstance(event, Warned):
            sample_run.warn(event.text)
    if sample.old and sample.looked_at and error is not None:
        sample_run.warn(
            f"nothing is waiting, but a run that met records like the newest would end with exit code "
            f"{error.exit_code}: {error}"
        )
        error = None
    schemas, stored = run.start.schemas.schemas, run.start.stored
    known = run.rules.reroute(stored)
    withheld = {**known.withheld, **run.withheld}
    rejects = [*_rejects(run, run.start.source.ignored_errors)]
    seen = {*schemas.sources, *without_key, *refused, *(table for _, table in rejects if table is not None)}
    chosen = {table: source for table, source in sorted(schemas.sources.items()) if _wanted(table, only)}
    targets = {target for source in chosen.values() for target in source.targets}
    shown = {show(target) for target in targets}
    changes = [event for event in run.happened if isinstance(event, SchemaChanged) and event.table in shown]
    topics = sample_run.sink.topics
    others = () if topics is None else tuple(f"{topic}-" for topic in topics.topics_of(schemas.sinks.keys() - targets))
    result = DryRunReport(
        pipeline=pipeline.pipeline.name,
        checkpoint=run.start.checkpoint.where if run.start.resumed else None,
        guarantee=pipeline.sink.capabilities.guarantee,
        splits=len(sample.starts),
        waiting=sample.waiting,
        looked_at=sample.looked_at,
        standing=None if sample.standing is None else {**sample.standing.to_json(), "lag": sample.standing.lag()},
        tables=[_table(run, table, source, known=table in stored.sources) for table, source in chosen.items()],
        changes=[str(event) for event in changes],
        created={event.table: event.why for event in changes if event.change.startswith("CREATE TABLE")},
        withheld=[f"{show(event.table)}> {event}, {why}" for event, why in withheld.items() if event.table in targets],
        new_topics=[] if topics is None else sorted(topics.missing(targets)),
        new_schemas=sorted(
            subject for subject in sample_run.sink.subjects if only is None or not subject.startswith(others)
        ),
        rejects=[reject for reject, table in rejects if table is None or _wanted(table, only)],
        skipped=dict(run.summary.skipped),
        without_key=[_first_line(exc) for table, exc in without_key.items() if _wanted(table, only)],
        refused=[_first_line(exc) for table, exc in refused.items() if _wanted(table, only)],
        unmatched=_unmatched(run, pipeline, seen, only),
        options=[str(e) for e in run.happened if isinstance(e, OptionChanged)],
        warnings=[*sample_run.warnings],
        error=None if error is None else {"exit_code": error.exit_code, "message": error.message, "hint": error.hint},
    )
    return result, error


def _wanted(table: TableId, only: Selector | None) -> bool:
    return only is None or only.match(table) is not None


def _refusals(sample_run: SampleRun, run: DryRun) -> tuple[dict[TableId, IngestError], dict[TableId, IngestError]]:
    """Observe the rest of the sample. Return the tables at which a run would stop: (without a key, all others)."""
    without_key: dict[TableId, IngestError] = {}
    refused: dict[TableId, IngestError] = {}
    schemas = run.start.schemas
    seen = observe_chunks(run.start.source, sample_run.source.sample.to_come(), run.rules.inference, schemas.schemas)
    for table, schema in sorted(seen.tables.items()):
        try:
            schemas.evolve([(table, schema)], seen.widening)
        except IngestError as exc:
            (without_key if isinstance(exc, NoPrimaryKey) else refused)[table] = exc
    return without_key, refused


def _rejects(run: DryRun, ignored: IgnoredErrors) -> Iterable[tuple[dict[str, Any], TableId | None]]:
    """Yield the rejects of each code, with the table of the first, where that is known."""
    for (stage, code, of_key), of_code in sorted(run.collector.found.items(), key=lambda item: -item[1].count):
        first = of_code.example
        shown = {
            "stage": stage,
            "code": code,
            "count": of_code.count,
            "counted": not ignored.covers(stage, of_key=of_key),
            "example": {
                "topic": first.topic,
                "partition": first.partition,
                "offset": first.offset,
                "message": first.message,
                "table": show(first.table) if first.table else None,
                "record": head(first.value),
            },
        }
        yield shown, first.table or None


def _unmatched(run: DryRun, pipeline: Pipeline, seen: set[TableId], only: Selector | None) -> list[str]:
    """Return the entries of the file that do nothing for the tables that were seen, be they refused or not."""
    if not seen:
        return []
    tables = sorted(seen)
    routes = [(f"route[{i}]", r.source_table) for i, r in enumerate(pipeline.route)]
    keys = [(f"transform[{i}]", t.source_table) for i, t in enumerate(pipeline.transform)]
    first_match = pipeline.rules.first_match
    out = _idle([] if only is None else [("--tables", only.text)], tables, first_match=False)
    out += _idle(routes, tables, first_match=first_match) + _idle(keys, tables, first_match=True)
    sinks = sorted({target for table in tables for target in run.rules.rules.targets(table)})
    return out + _idle([*getattr(pipeline.sink, "mapped", ())], sinks, first_match=True)


def _table(run: DryRun, table: TableId, source: SourceTable, *, known: bool) -> TableReport:
    rule = rule_of(run.rules.rules.transforms, table)
    sinks: Mapping[TableId, Any] = run.start.schemas.schemas.sinks
    schema = sinks[source.targets[0]]
    return TableReport(
        show(table),
        None if rule is None else rule.place,
        known,
        [show(name) for name in source.targets],
        [{"name": c.name, "type": types.name(c.type), "nullable": c.nullable} for c in schema.columns],
        list(schema.primary_key),
        [create_statement(name, sinks[name]) for name in source.targets],
    )


def _idle(entries: Sequence[tuple[str, str]], tables: Sequence[TableId], *, first_match: bool) -> list[str]:
    """Return those of these entries, each with its selector, that match none of the tables, or none left to them."""
    out, left = [], set(tables)
    for place, text in entries:
        matched = {table for table in tables if selector(text).match(table) is not None}
        if not matched:
            near = similar(text, tables)
            hint = f", did you mean {near}?" if near else f" ({_some(tables)})"
            out.append(f"{place} ({text}) matches none of these tables{hint}")
        elif first_match and not matched & left:
            out.append(f"{place} ({text}) matches only tables that an entry before it takes")
        left -= matched
    return out


def _some(tables: Sequence[TableId]) -> str:
    more = f" and {len(tables) - _NAMED:,} more" if len(tables) > _NAMED else ""
    return f"{', '.join(show(table) for table in tables[:_NAMED])}{more}"


def _first_line(exc: IngestError) -> str:
    """Return an error in one line."""
    return exc.message.split("\n", 1)[0]


def dry_run(
    pipeline: Pipeline,
    settings: Settings,
    source: Source | None = None,
    sink: Sink | None = None,
    tell: Callable[[str], None] = lambda _: None,
    then: Callable[[SampleRun], object] = lambda _: None,
    only: Selector | None = None,
) -> tuple[DryRunReport, IngestError | None]:
    """Run without a trace: what a run would do, and the error that it would end with, if the sample shows one.

    `source` and `sink`: others than the pipeline's own. `tell` gets to know at once what is said before everything is
    connected: that a broker does not answer yet. `then` gets the run, to look at the same sample once more. `only`:
    the source tables that the report is about. Raises IngestError where a run would end before it read anything.
    """
    pipeline = with_files(pipeline, settings.conf, tell)
    _reach_registries(pipeline)
    with ExitStack() as resources:
        sample_run = SampleRun(pipeline, settings, source or pipeline.source, sink or pipeline.sink, resources, tell)
        run = ended = sample_run.run(sample_run.options.tolerated)
        if isinstance(run.error, DirtyData):
            # It stops at a reject; what else there is to know shows when it goes on
            run = sample_run.run(ALL)
        result = report(sample_run, run, ended.error, only)
        then(sample_run)
        return result


def _reach_registries(pipeline: Pipeline) -> None:
    """See that the schema registries of a pipeline answer: a run asks them only once there are records.

    Raise IngestError.
    """
    for chosen in (*pipeline.source.chosen_formats, *pipeline.sink.chosen_formats):
        if isinstance(chosen, RegistryOptions):
            chosen.reach()
