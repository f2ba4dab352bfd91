"""`ingest plan FILE`: what a run would do, written nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003  (typer reads the annotations)
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.check import SetOption, parse_variables
from ingest.cli.run import CheckpointOption, ConfOption, running
from ingest.cli.sandbox import Format, FormatOption
from ingest.model.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.engine.preview import Preview


def plan(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    variables: SetOption = None,
    form: FormatOption = Format.TEXT,
    checkpoint: CheckpointOption = None,
    conf: ConfOption = None,
) -> None:
    """Show what a run would do: tables, routes, columns, topics, schema changes. Reads a sample, and writes nothing.

    Exit codes as for `run`.
    """
    from ingest.engine.preview import preview  # noqa: PLC0415  (`--help` should not wait for any of this)
    from ingest.spec.visible import mask, masked  # noqa: PLC0415

    values, spark = parse_variables(variables), parse_variables(conf)
    with running(file, values, spark, checkpoint, "local[1]", once=True, start=None) as (pipeline, settings, _):
        found = preview(pipeline, settings)
    if form is Format.JSON:
        typer.echo(json.dumps(masked(asdict(found), pipeline.secrets), indent=2))
    else:
        for line in _lines(found):
            typer.echo(mask(line, pipeline.secrets))


def _lines(found: Preview) -> Iterator[str]:
    going_on = "starts anew" if found.checkpoint is None else f"goes on from {found.checkpoint}"
    yield f"pipeline {found.pipeline}: {found.guarantee}, {going_on}"
    yield f"source: {found.splits} splits, {found.waiting} records waiting"
    for table in found.tables:
        rule = f", {table.rule}" if table.rule else ""
        new = "" if table.known else " (new)"
        yield f"\n{one_line(table.table)}{new} -> {', '.join(map(one_line, table.sink_tables))}{rule}"
        width = max((len(one_line(column["name"])) for column in table.columns), default=0)
        for column in table.columns:
            null = "" if column["nullable"] else " NOT NULL"
            yield f"    {one_line(column['name']):<{width}}  {column['type']}{null}"
        yield f"    primary key ({', '.join(map(one_line, table.primary_key))})"
    for title, lines in (
        ("schema changes", found.changes),
        ("withheld from the sink", found.withheld),
        ("topics that would be created", found.new_topics),
        ("warnings", found.warnings),
    ):
        if lines:
            yield f"\n{title}:"
            yield from (f"    {one_line(line)}" for line in lines)
    if not found.tables:
        yield "\nno tables: nothing was found in the newest records of the source"
