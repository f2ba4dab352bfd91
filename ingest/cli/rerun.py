"""`ingest replay` and `ingest backfill`: records that a pipeline reads once more."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ingest.cli.completing_checkpoints import source_tables
from ingest.cli.letters import CodeOption, SinceOption, TableOption, UntilOption, by_code, selection_of
from ingest.cli.parameters import OutputFormat, SetOption, parse_variables
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
from ingest.cli.screen import counted
from ingest.driver.backfill import backfill as run_backfill
from ingest.driver.backfill import beside
from ingest.driver.replay import plan_replay
from ingest.driver.replay import replay as run_replay
from ingest.model.text import one_line

replay_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@replay_app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    table: TableOption = None,
    code: CodeOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be replayed.")] = False,
    form: Annotated[
        OutputFormat, typer.Option("--format", help="With --dry-run: how to print it.")
    ] = OutputFormat.TEXT,
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    log_format: LogFormatOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Send dead letters back through their pipeline, once it or their cause is fixed.

    The pipeline must not be running. A letter is replayed once; what is rejected again is a new letter. A letter may
    hold an older state of a row than the sink has by now: look before you replay (--dry-run, ingest letters).
    """
    selection = selection_of(table, code, since, until)
    values, spark = parse_variables(variables), parse_variables(conf)
    log = log_options(log_format, quiet=quiet, verbose=verbose)
    prepared = running(file, values, spark, checkpoint, master, once=True, start=None, log=log)
    with prepared as (pipeline, settings, observer):
        if not dry_run:
            run_replay(pipeline, settings, observer, selection)
            return
        counts = plan_replay(pipeline, settings, observer, selection)
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(counts, indent=2))
        return
    letters = counted(sum(count["count"] for count in counts), "dead letter")
    typer.echo(f"{letters} would be replayed (--dry-run)")
    for line in by_code(counts):
        typer.echo(f"    {line}")


backfill_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@backfill_app.command()
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
    """Read tables again, from the beginning of their topics up to their pipeline's position.

    For a sink table that lacks the rows that were read before it was one: after a change of its route or of the sink's
    options, or where somebody has taken rows away. The pipeline must not be running. A backfill that was stopped or
    killed goes on where it was. Rows of a database are read beside its log, by the active run if there is one,
    and replace those of the sink.
    """
    if bool(table) == all_tables:
        raise typer.BadParameter("give --table TABLE, or --all")
    tables = [] if table is None else table
    values, spark = parse_variables(variables), parse_variables(conf)
    log = log_options(log_format, quiet=quiet, verbose=verbose)
    prepared = running(file, values, spark, checkpoint, master, once=True, start=None, log=log)
    with prepared as (pipeline, settings, observer):
        taken = beside(pipeline, settings, tables, partial(typer.echo, err=True))
        if taken is not None:
            names = ", ".join(map(one_line, taken))
            typer.echo(f"{names}: the active run reads all rows again, beside its log (see ingest status)")
            return
        with entered(measured(observer, pipeline), settings.checkpoint) as told:
            run_backfill(pipeline, settings, told, tables)
