"""`ingest replay FILE`: send dead letters back through their pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ingest.cli.letters import CodeOption, SinceOption, TableOption, UntilOption, by_code, selection_of
from ingest.cli.output import counted
from ingest.cli.parameters import OutputFormat, SetOption, parse_variables
from ingest.cli.run import (
    CheckpointOption,
    ConfOption,
    LogFormatOption,
    MasterOption,
    QuietOption,
    VerboseOption,
    log_options,
    running,
)
from ingest.driver.replay import plan_replay
from ingest.driver.replay import replay as run_replay

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
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
    """Send dead letters back through their pipeline, once it or their cause is mended.

    The pipeline must not be running. A letter is replayed once; what is rejected again is a new letter. A letter may
    hold an older state of a row than the sink has by now: look before you replay (--dry-run, ingest letters).
    """
    selection = selection_of(table, code, since, until)
    values, spark = parse_variables(variables), parse_variables(conf)
    log = log_options(log_format, quiet=quiet, verbose=verbose)
    with running(file, values, spark, checkpoint, master, once=True, start=None, log=log) as (
        pipeline,
        settings,
        observer,
    ):
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
