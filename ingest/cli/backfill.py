"""`ingest backfill FILE --table T`: read tables of a pipeline once more: their topics, or a database's rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ingest.cli.completing import source_tables
from ingest.cli.parameters import SetOption, parse_variables
from ingest.cli.run import (
    CheckpointOption,
    ConfOption,
    LogFormatOption,
    MasterOption,
    QuietOption,
    VerboseOption,
    entered,
    log_options,
    measured,
    running,
)
from ingest.driver.backfill import backfill as run_backfill
from ingest.driver.backfill import beside
from ingest.model.text import one_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def backfill(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="The id of a table at the source, as shop.orders; may be repeated.",
            autocompletion=source_tables,
        ),
    ] = None,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All tables; where a database's log was lost, go on from its end.")
    ] = False,
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    log_format: LogFormatOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Read tables once more, from the beginning of their topics up to where their pipeline is.

    For a sink table that lacks the rows that were read before it was one: after a change of its route or of the sink's
    options, or where somebody has taken rows away. The pipeline must not be running. A backfill that was stopped or
    killed goes on where it was. Rows of a database are read beside its log, by the run that is there if there is one,
    and replace those of the sink.
    """
    if bool(table) == all_tables:
        msg = "give --table TABLE, or --all"
        raise typer.BadParameter(msg)
    tables = [] if table is None else table
    values, spark = parse_variables(variables), parse_variables(conf)
    log = log_options(log_format, quiet=quiet, verbose=verbose)
    with running(file, values, spark, checkpoint, master, once=True, start=None, log=log) as (
        pipeline,
        settings,
        observer,
    ):
        taken = beside(pipeline, settings, tables, partial(typer.echo, err=True))
        if taken is not None:
            names = ", ".join(map(one_line, taken))
            typer.echo(f"{names}: the run that is there reads all rows again, beside its log (see ingest status)")
            return
        with entered(measured(observer, pipeline), settings.checkpoint) as told:
            run_backfill(pipeline, settings, told, tables)
