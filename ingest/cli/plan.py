"""`ingest plan FILE`: what a run would do, written nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.cli import tap as one_by_one
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.run import CheckpointOption, ConfOption, running
from ingest.cli.table import counted
from ingest.config.masking import mask, masked
from ingest.model.text import one_line
from ingest.observe.events import Warned
from ingest.testing.dry_run import dry_run
from ingest.testing.tap import tap_sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.testing.dry_run_report import DryRunReport
    from ingest.testing.probe import Probe

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    rows: Annotated[
        int,
        typer.Option("--rows", min=0, max=1000, metavar="N", help="Also show N records, as `ingest tap` does."),
    ] = 0,
    variables: SetOption = None,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    progress: Annotated[
        Path | None,
        typer.Option(metavar="EXPORT", help="Go on from this file, which `ingest checkpoint export` has written."),
    ] = None,
    conf: ConfOption = None,
) -> None:
    """Show what a run would do: tables, routes, columns, topics, rejects. Reads a sample, and writes nothing.

    Ends as the run would end, as far as the sample shows: with the same exit code and error.
    """
    if progress is not None and checkpoint is not None:
        msg = "give --checkpoint or --progress, not both"
        raise typer.BadParameter(msg)
    values, spark = parse_variables(variables), parse_variables(conf)
    with running(file, values, spark, checkpoint, "local[1]", once=True, start=None) as (pipeline, settings, observer):
        records: list[dict[str, Any]] = []

        def look(probe: Probe) -> None:
            if rows:
                tap_sample(probe, lambda tapped: records.append(one_by_one.about(tapped)), rows)

        going_on = replace(settings, progress=progress)
        found, error = dry_run(pipeline, going_on, tell=lambda text: observer(Warned(text)), then=look)
        if form is OutputFormat.JSON:
            shown = asdict(found) | ({"records": records} if rows else {})
            typer.echo(json.dumps(masked(shown, pipeline.secrets), indent=2))
        else:
            texts = [*lines(found), *(line for record in records for line in ("", *one_by_one.lines(record)))]
            typer.echo(mask("\n".join(texts), pipeline.secrets))
        if error is not None:
            raise error


def lines(found: DryRunReport) -> Iterator[str]:
    """Yield what a dry run found, for people."""
    sample = f"{found.looked_at:,} {'of them' if found.waiting else 'older ones'} were looked at"
    going_on = "starts anew" if found.checkpoint is None else f"goes on from {found.checkpoint}"
    yield f"pipeline {found.pipeline}: {found.guarantee}, {going_on}"
    waiting = f"{counted(found.waiting, 'record')} waiting{f'; {sample}' if found.looked_at else ''}"
    yield f"source: {counted(found.splits, 'split')}, {waiting}"
    for table in found.tables:
        rule = f", {table.rule}" if table.rule else ""
        new = "" if table.known else " (new)"
        yield f"\n{one_line(table.table)}{new} -> {', '.join(map(one_line, table.sink_tables))}{rule}"
        width = max((len(one_line(column["name"])) for column in table.columns), default=0)
        for column in table.columns:
            null = "" if column["nullable"] else " NOT NULL"
            yield f"    {one_line(column['name']):<{width}}  {column['type']}{null}"
        key = ", ".join(map(one_line, table.primary_key))
        yield f"    primary key ({key})" if key else "    no primary key"
    skipped = [f"{reason}: {counted(number, 'record')}" for reason, number in sorted(found.skipped.items())]
    for title, entries in (
        ("changed since the last run", found.options),
        ("schema changes", found.changes),
        ("withheld from the sink", found.withheld),
        ("topics that would be created", found.new_topics),
        ("would be declared at the sink", found.new_schemas),
        ("rejected", [_reject(reject) for reject in found.rejects]),
        ("skipped", skipped),
        ("tables without a primary key", found.without_key),
        ("tables that cannot be taken", found.refused),
        ("nothing to do", found.unmatched),
        ("warnings", found.warnings),
    ):
        if entries:
            yield f"\n{title}:"
            yield from (f"    {one_line(line)}" for line in entries)
    if not found.tables:
        why = "none of the records became a row" if found.looked_at else "the source has no records"
        yield f"\nno tables: {why}"


def _reject(reject: dict[str, Any]) -> str:
    first = reject["example"]
    where = f"{first['topic']}[{first['partition']}] at offset {first['offset']}"
    table = f" (table {first['table']})" if first["table"] else ""
    tolerated = "" if reject["counted"] else " (skipped, as ignore-parse-errors says)"
    what = f"{reject['stage']}/{reject['code']}: {counted(reject['count'], 'record')}{tolerated}"
    return f"{what}, the first {where}: {first['message']}{table}; record: {first['record']}"
