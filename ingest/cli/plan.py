"""`ingest plan FILE`: what a run would do, written nowhere."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.cli import tap as one_by_one
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables, selector_of
from ingest.cli.plan_text import lines
from ingest.cli.run import CheckpointOption, ConfOption, running
from ingest.cli.screen import with_headings
from ingest.config.masking import mask, masked
from ingest.observe.events import Warned
from ingest.testing.dry_run import dry_run
from ingest.testing.tap import tap_sample

if TYPE_CHECKING:
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
    tables: Annotated[
        str | None,
        typer.Option("--tables", metavar="PATTERN", help="Only these source tables; written as `source-table` is."),
    ] = None,
    ddl: Annotated[
        bool, typer.Option("--ddl", help="Show the sink's tables as statements of Flink SQL, not as columns.")
    ] = False,
) -> None:
    """Show what a run would do: tables, routes, columns, topics, rejects. Reads a sample, and writes nothing.

    Tables that are alike are shown together, and of more than ten kinds a line each; --tables shows their columns.
    Ends as the run would end, as far as the sample shows: with the same exit code and error.
    """
    if progress is not None and checkpoint is not None:
        msg = "give --checkpoint or --progress, not both"
        raise typer.BadParameter(msg)
    only = selector_of(tables, "--tables")
    values, spark = parse_variables(variables), parse_variables(conf)
    with running(file, values, spark, checkpoint, "local[1]", once=True, start=None, looks=True) as (
        pipeline,
        settings,
        observer,
    ):
        records: list[dict[str, Any]] = []

        def look(probe: Probe) -> None:
            if rows:
                tap_sample(probe, lambda tapped: records.append(one_by_one.about(tapped)), rows, only)

        going_on = replace(settings, progress=progress)
        found, error = dry_run(pipeline, going_on, tell=lambda text: observer(Warned(text)), then=look, only=only)
        if form is OutputFormat.JSON:
            shown = asdict(found) | ({"records": records} if rows else {})
            typer.echo(json.dumps(masked(shown, pipeline.secrets), indent=2))
        else:
            texts = [*lines(found, ddl=ddl, chosen=only is not None)]
            texts += (line for record in records for line in ("", *one_by_one.lines(record)))
            typer.echo(with_headings(mask("\n".join(texts), pipeline.secrets), sys.stdout))
        if error is not None:
            raise error
