"""`ingest checkpoint show | reset | export`: look at where a pipeline stands, and set it somewhere else."""

from __future__ import annotations

import json
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingest.checkpoint.inspect import Reset, Target, apply_reset, as_offsets, exported, opened, overview, plan_reset
from ingest.cli.completing import TARGETS
from ingest.cli.completing_checkpoints import sink_topics, topics
from ingest.cli.parameters import FormatOption, OutputFormat, SetOption, parse_variables
from ingest.cli.screen import command_group, counted
from ingest.config.loader import load_strictly
from ingest.config.redaction import mask
from ingest.driver.context import with_files
from ingest.model.text import one_line, size, yaml_text
from ingest.paths import is_remote, usual_checkpoint
from ingest.sources.kafka.option_texts import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.checkpoint.checkpoint import Checkpoint
    from ingest.config.pipeline import Pipeline
    from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

app = command_group("Show, set or export a pipeline's progress.")


class Export(StrEnum):
    """How a checkpoint is exported."""

    JSON = "json"
    OFFSETS = "offsets"


TargetArgument = Annotated[str, typer.Argument(metavar="FILE|DIR", help="A pipeline file, or a checkpoint's place.")]
CheckpointOption = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="With a pipeline file. [default: .ingest/<pipeline name>]"),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting, for checkpoints on Hadoop's file systems."),
]


@contextmanager
def _opened(
    target: str, checkpoint: str | None, variables: list[str] | None, conf: list[str] | None, *, write: bool
) -> Iterator[tuple[Checkpoint, KafkaSourceCoordinator | None]]:
    """The checkpoint, and with a pipeline file its source, connected."""
    settings = parse_variables(conf)
    if not Path(target).is_file():
        with opened(target, settings, write=write) as stored:
            yield stored, None
        return
    pipeline = load_strictly(Path(target), parse_variables(variables))
    pipeline = with_files(pipeline, settings, warner(pipeline))
    where = checkpoint or str(usual_checkpoint(pipeline.pipeline.name))
    with opened(where, settings, write=write) as stored:
        source = pipeline.source.coordinator(pipeline.pipeline.name, warner(pipeline))
        try:
            source.connect()
            yield stored, source
        finally:
            source.close()


@app.command()
def show(
    target: TargetArgument,
    checkpoint: CheckpointOption = None,
    form: FormatOption = OutputFormat.TEXT,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Show positions, errors and versions; with a pipeline file also the lag of each partition."""
    with _opened(target, checkpoint, variables, conf, write=False) as (found, source):
        value = overview(found, source)
    if form is OutputFormat.JSON:
        typer.echo(json.dumps(value, indent=2))
    else:
        _print(value)


def _print(value: dict[str, Any]) -> None:
    unfinished = value["unfinished_batch"]
    typer.echo(f"checkpoint {value['checkpoint']} ({value['id']})")
    for section, keys in value["fingerprint"].items():
        typer.echo(f"{section}: {', '.join(f'{key} {yaml_text(text)}' for key, text in keys.items())}")
    typer.echo(one_line(_holder(value)))
    again = "" if unfinished is None else f"; batch {unfinished} was planned and not finished, it will run again"
    typer.echo(f"{counted(value['runs'], 'run')}, last batch {value['batch']}{again}")
    typer.echo(
        f"schema version {value['schema_version']}, {counted(value['tables'], 'table')}; "
        f"{counted(value['errors'], 'error')} counted"
    )
    rows = [("topic", "partition", "offset", "end", "lag")]
    for at in value["positions"] if value["standing"] is None else ():
        rows.append((at["topic"], *("" if at[key] is None else f"{at[key]}" for key in rows[0][1:])))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for lacks in value["lacking"]:
        place = "" if lacks["place"] in {"", lacks["sink_table"]} else f" ({lacks['place']})"
        what = f"table {lacks['sink_table']}{place} lacks earlier rows of {lacks['table']}"
        typer.echo(one_line(f"{what}: ingest backfill FILE --table {quote(lacks['table'])}"))
    for kept in value["key_partitions"]:
        typer.echo(f"keys of topic {kept['topic']} are hashed over {counted(kept['partitions'], 'partition')}")
    if value["standing"] is not None:
        for line in _database(value["standing"]):
            typer.echo(one_line(line))
        return
    for row in rows:
        numbers = (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        typer.echo("  ".join((row[0].ljust(widths[0]), *numbers)).rstrip())


def _database(standing: dict[str, Any]) -> Iterator[str]:
    """Yield where the reading of a database stands."""
    behind = f"; {size(standing['lag_bytes'])} of it wait" if standing["lag_bytes"] else ""
    yield f"the log is read up to {standing['file']}:{standing['offset']}{behind}"
    for table, one in sorted(standing["tables"].items()):
        chunks = f"{one['chunks_read']:,} of about {counted(one['chunks'], 'chunk')}"
        yield f"table {table} is being read: {one['read']:,} of about {counted(one['rows'], 'row')}, {chunks}"
    for table, why in sorted(standing["marked"].items()):
        yield f"table {table} is marked, its rows may differ: {why} (ingest backfill FILE --table {quote(table)})"


def _holder(value: dict[str, Any]) -> str:
    """Return whether a run holds the checkpoint, and when something was written to it last."""
    if value["state"] == "running":
        held = f"a run holds it: process {value['process']}" + ("" if value["host"] is None else f" on {value['host']}")
    elif is_remote(value["checkpoint"]):
        held = (
            "whether a run holds it cannot be seen on this file system" if value["ended"] is None else "its run ended"
        )
    else:
        held = "no run holds it"
    written = value["last_write"]
    return f"{held}; last written {'at a time that is not known' if written is None else written}"


@app.command()
def export(
    target: TargetArgument,
    checkpoint: CheckpointOption = None,
    form: Annotated[Export, typer.Option("--format", help="JSON, or a value for scan.startup.specific-offsets.")] = (
        Export.JSON
    ),
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Print a checkpoint: for other tools, for `ingest plan --progress`, or as the start of another pipeline."""
    with _opened(target, checkpoint, variables, conf, write=False) as (found, source):
        typer.echo(as_offsets(found) if form is Export.OFFSETS else json.dumps(exported(found, source), indent=2))


@app.command()
def reset(
    target: TargetArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="Where to: earliest, latest, offset:N, or timestamp:T (ms or ISO 8601).",
            autocompletion=lambda: list(TARGETS),
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Only this topic. [default: all]", autocompletion=topics)
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this partition. [default: all]")
    ] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Forget the errors that were counted.")] = False,
    drop_batch: Annotated[
        bool,
        typer.Option("--drop-batch", help="Give up a batch that an exactly-once run began: it is written (again)."),
    ] = False,
    partitions: Annotated[
        list[str] | None,
        typer.Option(
            "--partitions",
            metavar="TOPIC",
            help="Hash keys over the partitions that this topic of the sink has now.",
            autocompletion=sink_topics,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    checkpoint: CheckpointOption = None,
    variables: SetOption = None,
    conf: ConfOption = None,
) -> None:
    """Set positions for the next run. Refused while a run uses the checkpoint."""
    where = None if to is None else _parse(to)
    if where is None and not errors and not drop_batch and not partitions:
        raise typer.BadParameter("give --to WHERE, --errors, --drop-batch or --partitions TOPIC")
    with _opened(target, checkpoint, variables, conf, write=not dry_run) as (stored, source):
        planned = plan_reset(
            stored, source, where, topic, partition, errors=errors, drop_batch=drop_batch, partitions=partitions or ()
        )
        _print_reset(planned)
        if dry_run:
            typer.echo("nothing was changed (--dry-run)")
        else:
            apply_reset(stored, planned)


def _print_reset(planned: Reset) -> None:
    for move in planned.moves:
        if move.old is None:
            what = "read from there"
        elif move.new > move.old:
            what = f"{move.new - move.old} offsets are skipped"
        else:
            what = f"{move.old - move.new} offsets are read again"
        typer.echo(f"{move.topic}[{move.partition}]: {'none' if move.old is None else move.old} -> {move.new}, {what}")
    if planned.errors:
        typer.echo(f"{planned.errors} counted errors are forgotten")
    if planned.dropped_batch is not None:
        typer.echo(f"batch {planned.dropped_batch}, planned and not finished, is planned again")
    for name, count in planned.partitions.items():
        typer.echo(
            f"{name}: keys were hashed over {counted(count, 'partition')}, and will be over those that the topic has "
            "at the next run; new records of a key may be in another partition than its older ones"
        )
    if not planned.moves and not planned.errors and not planned.partitions and planned.dropped_batch is None:
        typer.echo("nothing to change")


def _parse(text: str) -> Target:
    kind, _, value = text.replace("=", ":", 1).partition(":")
    try:
        if text == "earliest":
            return ("earliest", None)
        if text == "latest":
            return ("latest", None)
        if kind == "timestamp":
            return ("timestamp", parse_time(value))
        if kind == "offset" or (text.isascii() and text.isdigit()):
            offset = int(value or text)
            if offset < 0:
                raise ValueError  # noqa: TRY301  (said below)
            return ("offset", offset)
        return ("timestamp", parse_time(text))
    except ValueError:
        msg = f"{text!r} is none of earliest, latest, offset:N, timestamp:T (milliseconds since 1970, or ISO 8601)"
        raise typer.BadParameter(msg, param_hint="--to") from None


def warner(pipeline: Pipeline) -> Callable[[str], None]:
    """Return a function that prints a warning on standard error, without the pipeline's secrets."""
    return lambda text: typer.echo(f"warning: {one_line(mask(text, pipeline.secrets))}", err=True)
