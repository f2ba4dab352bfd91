"""`ingest schema show | history | diff | set`: the table schemas that a pipeline inferred, from its checkpoint."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.checkpoint.inspect import opened
from ingest.checkpoint.schema_history import Version, check_version, current, difference, history, told
from ingest.cli.checkpoint import CheckpointOption, ConfOption, TargetArgument
from ingest.cli.completing_checkpoints import tables
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.screen import command_group, counted
from ingest.config.loader import load
from ingest.errors import ConfigError
from ingest.model.table import show as shown
from ingest.model.text import one_line
from ingest.paths import usual_checkpoint
from ingest.sources.mysql.ddl import new_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.checkpoint.checkpoint import Checkpoint

app = command_group("Show the schemas that a pipeline has inferred, and how they changed.")

TableArgument = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="Only this table. [default: all]", autocompletion=tables)
]
ObservedOption = Annotated[
    bool, typer.Option("--observed", help="The source's tables as their messages show them, not the sink's.")
]


@contextmanager
def _opened(
    target: str, checkpoint: str | None, variables: list[str] | None, conf: list[str] | None, *, write: bool = False
) -> Iterator[Checkpoint]:
    where = target
    file = Path(target)
    if file.is_file():
        pipeline = load(file, parse_variables(variables)).pipeline
        where = checkpoint or str(usual_checkpoint(file.stem if pipeline is None else pipeline.pipeline.name))
    with opened(where, parse_variables(conf), write=write) as found:
        yield found


@app.command()
def show(
    target: TargetArgument,
    table: TableArgument = None,
    observed: ObservedOption = False,
    version: Annotated[int | None, typer.Option(min=0, metavar="N", help="As it was then. [default: now]")] = None,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Show each table's columns and primary key."""
    with _opened(target, checkpoint, variables, conf) as found:
        if version is not None:
            check_version(found, version)
        _print(current(history(found, observed=observed, table=table), version), form)


@app.command("history")
def history_(
    target: TargetArgument,
    table: TableArgument = None,
    observed: ObservedOption = False,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Show every version of each table: what changed, and when."""
    with _opened(target, checkpoint, variables, conf) as found:
        versions = history(found, observed=observed, table=table)
    if form is OutputFormat.JSON:
        _print(versions, form)
        return
    for version, change in told(versions):
        when = f"{datetime.fromtimestamp(version.millis / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
        typer.echo(f"version {version.version}  {when}  {one_line(shown(version.table))}> {change}")


@app.command()
def diff(
    target: TargetArgument,
    table: TableArgument = None,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="N", help="The older version. [default: the version before the last]"),
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", min=0, metavar="N", help="The newer version. [default: the last version]")
    ] = None,
    observed: ObservedOption = False,
    form: FormatOption = OutputFormat.TEXT,
    checkpoint: CheckpointOption = None,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Show what changed between two versions."""
    with _opened(target, checkpoint, variables, conf) as stored:
        for wanted in (first, last):
            if wanted is not None:
                check_version(stored, wanted, least=0)
        versions = history(stored, observed=observed, table=table)
    newest = max((version.version for version in versions), default=0) if last is None else last
    oldest = max((v.version for v in versions if v.version < newest), default=0) if first is None else first
    tables = difference(versions, oldest, newest)
    if form is OutputFormat.JSON:
        value = [{"table": shown(t), "from": oldest, "to": newest, "changes": events} for t, events in tables]
        typer.echo(json.dumps(value, indent=2))
        return
    typer.echo(f"from version {oldest} to {newest}: {counted(len(tables), 'table')} changed")
    for name, events in tables:
        for event in events:
            typer.echo(f"{one_line(shown(name))}> {event}")


@app.command("set")
def set_(
    target: TargetArgument,
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="CREATE TABLE with all columns, as SHOW CREATE TABLE prints it.")
    ],
    table: Annotated[
        str,
        typer.Option("--table", metavar="TABLE", help="The id of the table, as shop.orders.", autocompletion=tables),
    ],
    checkpoint: CheckpointOption = None,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Say what a table of MySQL was after a statement that stopped the run. Refused while a run uses the checkpoint.

    It counts for the next statement in the log that is not understood, and that may touch the table.
    """
    with _opened(target, checkpoint, variables, conf, write=True) as stored:
        progress, batch = stored.progress()
        if (progress.source_state if batch is None else batch.source_state) is None:
            msg = "the pipeline's source has no history of schemas"
            raise ConfigError(msg, "this is for `type: mysql`; declare columns in scan.value.initial-schemas.ddls")
        name, document = new_answer(table, statement, stored.documents())
        stored.begin()  # as `checkpoint reset` does: a run elsewhere is fenced
        stored.keep_documents({name: document})
    typer.echo(f"{one_line(table)}: kept for the next statement about it that is not understood; start the run again")


def _print(versions: list[Version], form: OutputFormat) -> None:
    if form is OutputFormat.JSON:
        typer.echo(json.dumps([version.to_json() for version in versions], indent=2))
        return
    for version in versions:
        shown = version.to_json()
        typer.echo(f"{one_line(shown['table'])} (version {version.version})")
        width = max((len(one_line(column["name"])) for column in shown["columns"]), default=0)
        for column in shown["columns"]:
            null = "" if column["nullable"] else " NOT NULL"
            typer.echo(f"  {one_line(column['name']).ljust(width)}  {column['type']}{null}")
        if shown["primary_key"]:
            typer.echo(f"  primary key ({', '.join(shown['primary_key'])})")
