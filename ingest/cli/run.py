"""`ingest run FILE`: run a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ingest.cli.check import SetOption, parse_variables
from ingest.errors import IngestError


def run(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    once: Annotated[bool, typer.Option("--once", help="Drain what is there at the start, then exit.")] = False,
    variables: SetOption = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where progress is kept, also hdfs://…. [default: .ingest/<pipeline name>]"),
    ] = None,
    from_timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start here if there is no checkpoint: ms since 1970, or ISO 8601 (UTC)."),
    ] = None,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[*]",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
    ] = None,
) -> None:
    """Run a pipeline: continuously, or with --once until it is drained.

    SIGTERM and Ctrl-C finish the batch in hand; a second one ends at once. Exit codes: 0 done, 1 failed, 2 usage,
    65 too much dirty data, 75 worth retrying, 78 configuration.
    """
    from ingest.cli.progress import observer_for  # noqa: PLC0415  (`--help` should not wait for any of this)
    from ingest.engine.loop import run as run_pipeline  # noqa: PLC0415
    from ingest.engine.start import Settings  # noqa: PLC0415
    from ingest.spec.interpolate import mask  # noqa: PLC0415
    from ingest.spec.load import load_strictly  # noqa: PLC0415

    values = parse_variables(variables)
    spark = parse_variables(conf)
    start = None if from_timestamp is None else _time(from_timestamp)
    pipeline = load_strictly(file, values)
    home = Path(".ingest") / pipeline.pipeline.name
    where = checkpoint or str(home)
    logs = (home if "://" in where else Path(where)) / "logs"
    observer = observer_for(pipeline.secrets, once=once)
    try:
        run_pipeline(pipeline, Settings(where, logs, master, spark, once, start), observer)
    except IngestError as exc:
        # The same error, without the secrets that a client's message may hold
        raise type(exc)(mask(exc.message, pipeline.secrets), mask(exc.hint, pipeline.secrets)) from exc
    finally:
        observer.close()


def _time(text: str) -> int:
    from ingest.kafka.offsets import parse_time  # noqa: PLC0415

    try:
        return parse_time(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--from-timestamp") from None
