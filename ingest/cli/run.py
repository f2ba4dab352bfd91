"""`ingest run FILE`: run a pipeline."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingest.cli.parameters import SetOption, parse_start, parse_variables
from ingest.cli.progress import observer_for
from ingest.cli.secrets import masked_errors
from ingest.config.loader import load_strictly, locate
from ingest.driver.context import Settings
from ingest.driver.run import run as run_pipeline
from ingest.errors import TransformError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.config.pipeline import Pipeline
    from ingest.observe.events import Observer

CheckpointOption = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where progress is kept, also hdfs://…. [default: .ingest/<pipeline name>]"),
]
MasterOption = Annotated[str, typer.Option(metavar="URL", help="Spark's master.")]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    once: Annotated[bool, typer.Option("--once", help="Drain what is there at the start, then exit.")] = False,
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
    from_timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start here if there is no checkpoint: ms since 1970, or ISO 8601 (UTC)."),
    ] = None,
    alive: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Touch this file every few seconds, for a liveness probe.")
    ] = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
) -> None:
    """Run a pipeline: continuously, or with --once until it is drained.

    SIGTERM and Ctrl-C finish the batch in hand; a second one ends at once. Exit codes: 0 done, 1 failed, 2 usage,
    65 too much dirty data, 75 worth retrying, 78 configuration, 130 ended by a second signal.
    """
    values, spark = parse_variables(variables), parse_variables(conf)
    start = parse_start(from_timestamp, "--from-timestamp")
    with running(file, values, spark, checkpoint, master, once=once, start=start) as (pipeline, settings, observer):
        run_pipeline(pipeline, replace(settings, alive=alive), observer)


@contextmanager
def running(
    file: Path,
    variables: dict[str, str],
    conf: dict[str, str],
    checkpoint: str | None,
    master: str,
    *,
    once: bool,
    start: int | None,
) -> Iterator[tuple[Pipeline, Settings, Observer]]:
    """What a run needs; its errors leave here without the secrets that a client's message may hold."""
    pipeline = load_strictly(file, variables)
    home = Path(".ingest") / pipeline.pipeline.name
    where = checkpoint or str(home)
    logs = (home if "://" in where else Path(where)) / "logs"
    observer = observer_for(pipeline.secrets, once=once)
    try:
        with masked_errors(pipeline.secrets), placed(file):
            yield pipeline, Settings(where, logs, master, conf, once, from_time=start), observer
    finally:
        observer.close()


@contextmanager
def placed(file: Path) -> Iterator[None]:
    """Let errors of expressions leave with their place in the file."""
    try:
        yield
    except TransformError as exc:
        found = None if exc.place is None else locate(file, *exc.place, exc.message.split("\n", 1)[0])
        if found is None:
            raise
        version = exc.message.rsplit("\n", 1)[-1]
        raise TransformError(f"{found.text()}\n{version}", exc.hint) from exc
