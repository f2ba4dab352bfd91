"""`ingest run FILE`, and what other commands that run a pipeline share with it."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ingest import __version__
from ingest.checkpoint.inspect import opened
from ingest.checkpoint.run_status import RunEnd, note_failed_start, now_ms
from ingest.checkpoint.schema_history import history, told
from ingest.checkpoint.storage import LocalStorage
from ingest.cli.completing import MASTERS
from ingest.cli.log import USUAL, LogFormat, LogOptions
from ingest.cli.parameters import SetOption, parse_start, parse_variables
from ingest.cli.progress import observer_for
from ingest.config.loader import load_strictly
from ingest.config.pipeline import Pipeline, is_gateway
from ingest.config.redaction import HIDDEN, SEEN, is_secret, mask, secrets_in
from ingest.driver.run import run as run_pipeline
from ingest.errors import IngestError
from ingest.model.table import show
from ingest.observe.metrics_outputs import MetricsOutputs, watched
from ingest.observe.observers import Observers
from ingest.observe.report import DatedChange, RunFacts, RunReport
from ingest.paths import OWN_FOLDER, is_remote, usual_checkpoint
from ingest.program import masked_errors, placed, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.driver.context import Settings
    from ingest.observe.events import Observer

CheckpointOption = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="The checkpoint: a directory, also hdfs://…. [default: .ingest/<pipeline name>]"),
]
MasterOption = Annotated[str, typer.Option(metavar="URL", help="Spark's master.", autocompletion=lambda: list(MASTERS))]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated.")
]

LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option("--log-format", help="Format of the log. [default: a live line on a terminal, json elsewhere]"),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Log errors only; a sink of the type print still prints.")
]
VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also log the options, the numbers of each batch, and all lines of the Kafka client."
    ),
]

_T = TypeVar("_T")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    once: Annotated[
        bool, typer.Option("--once", help="Drain the backlog that there is at the start, then exit.")
    ] = False,
    variables: SetOption = None,
    checkpoint: CheckpointOption = None,
    from_timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start at this time if there is no checkpoint: ms since 1970, or ISO 8601 (UTC)."
        ),
    ] = None,
    alive: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Touch this file every few seconds, for a liveness probe.")
    ] = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, metavar="PORT", help="Serve /metrics, /livez and /readyz on this port; 0 takes any port."
        ),
    ] = None,
    metrics_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write metrics to this file every few seconds, and at the end.")
    ] = None,
    metrics_push: Annotated[
        str | None, typer.Option(metavar="URL", help="Push metrics to this push gateway every minute, and at the end.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a report of the run as a page, every 30 seconds and at the end."),
    ] = None,
    log_format: LogFormatOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a pipeline: continuously, or with --once until it is drained.

    SIGTERM and Ctrl-C shut down gracefully: the batch in progress is finished. A second signal ends the run at once.
    Exit codes: 0 done, 1 failed, 2 usage, 65 too much dirty data, 73 another run has the checkpoint, 75 worth a retry,
    78 configuration, 130 ended by a second signal.
    """
    values, spark = parse_variables(variables), parse_variables(conf)
    start, log = parse_start(from_timestamp, "--from-timestamp"), log_options(log_format, quiet=quiet, verbose=verbose)
    prepared = running(file, values, spark, checkpoint, master, once=once, start=start, log=log)
    with (
        prepared as (pipeline, settings, observer),
        reported(observer, report, pipeline, settings) as heard,
        entered(measured(heard, pipeline, metrics, metrics_file, metrics_push), settings.checkpoint) as told,
    ):
        run_pipeline(pipeline, replace(settings, alive=alive), told)


def log_options(form: LogFormat | None, *, quiet: bool, verbose: bool) -> LogOptions:
    """Return what a command line says of the log. Raise typer.BadParameter (exit code 2) for what excludes itself."""
    if quiet and verbose:
        raise typer.BadParameter("give --quiet or --verbose, not both")
    return LogOptions(form, quiet, verbose)


def measured(
    observer: Observer, pipeline: Pipeline, port: int | None = None, file: Path | None = None, push: str | None = None
) -> AbstractContextManager[Observer]:
    """Return a block with an observer that also keeps metrics, as the pipeline says where the command line does not."""
    options = pipeline.pipeline
    outputs = MetricsOutputs(
        options.metrics_host,
        options.metrics_port if port is None else port,
        file or (None if options.metrics_file is None else Path(options.metrics_file)),
        options.metrics_push if push is None else push_url(push),
        options.metrics_tables,
        options.liveness_deadline,
        options.metrics_otlp,
        options.metrics_password,
    )
    return watched(observer, options.name, outputs, lambda text: mask(text, pipeline.secrets))


def push_url(text: str) -> str:
    """Return the URL of a push gateway as the command line gives it. Raise typer.BadParameter (exit code 2)."""
    if not is_gateway(text):  # the text itself is not shown: it may hold a password
        raise typer.BadParameter("a push gateway is at a URL like http://gateway:9091", param_hint="--metrics-push")
    SEEN.update(secrets_in("metrics.push-url", text))
    return text


@contextmanager
def noting(where: str) -> Iterator[None]:
    """Leave in a local checkpoint the error that ends the block before a run has a number."""
    try:
        yield
    except IngestError as exc:
        if not is_remote(where):
            end = RunEnd(now_ms(), exc.exit_code, exc.code, mask(exc.message, SEEN), None)
            with suppress(IngestError, OSError):  # the error itself is what counts
                Path(where).mkdir(OWN_FOLDER, parents=True, exist_ok=True)
                note_failed_start(LocalStorage(Path(where), lock=False), end)
        raise


@contextmanager
def entered(block: AbstractContextManager[_T], where: str) -> Iterator[_T]:
    """Enter a block, and leave in a local checkpoint why that fails; yields what the block yields."""
    with ExitStack() as stack:
        with noting(where):
            found = stack.enter_context(block)
        yield found


def _loaded(file: Path, variables: dict[str, str], checkpoint: str | None) -> Pipeline:
    """Return the pipeline of a file, ready to run; of a file that is refused its checkpoint gets a note.

    Only --checkpoint, or the file's name, says which one that is. None is made for that. Raises IngestError.
    """
    where = Path(checkpoint or usual_checkpoint(file.stem))
    with noting(str(where)) if (where / "runs").is_dir() else nullcontext():
        pipeline = load_strictly(file, variables)
    with noting(checkpoint or str(usual_checkpoint(pipeline.pipeline.name))):
        pipeline.require_packages()
    return pipeline


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
    log: LogOptions = USUAL,
    looks: bool = False,
) -> Iterator[tuple[Pipeline, Settings, Observer]]:
    """What a run needs; its errors leave here without the secrets that a client's message may hold.

    `looks`: the command only looks: a terminal gets no line about how it goes on, the checkpoint no note of an error.
    """
    pipeline = load_strictly(file, variables) if looks else _loaded(file, variables, checkpoint)
    pipeline.require_packages()
    observer = observer_for(pipeline.secrets, log, once=once, live=not looks)
    if log.verbose:
        spark = {f"--conf {name}": HIDDEN if is_secret(name) else value for name, value in conf.items()}
        observer.configured({**pipeline.describe(), "--master": master, **spark})
    try:
        with masked_errors(pipeline.secrets), placed(file):
            yield pipeline, settings_of(pipeline, checkpoint, master, conf, once=once, start=start), observer
    finally:
        observer.close()


def looking(
    file: Path, variables: dict[str, str], conf: dict[str, str], checkpoint: str | None
) -> AbstractContextManager[tuple[Pipeline, Settings, Observer]]:
    """Return what a command needs that only looks at what a run would do."""
    return running(file, variables, conf, checkpoint, "local[1]", once=True, start=None, looks=True)


@contextmanager
def reported(shown: Observer, path: Path | None, pipeline: Pipeline, settings: Settings) -> Iterator[Observer]:
    """Yield an observer that tells `shown`, and keeps what the page at `path` shows; without a path only the first."""
    if path is None:
        yield shown
        return
    facts = RunFacts(pipeline.pipeline.name, __version__, pipeline.describe())
    report = RunReport(path, facts, shown, lambda text: mask(text, pipeline.secrets))
    try:
        yield Observers(shown, [report])
    finally:
        report.write(_kept(settings))


def _kept(settings: Settings) -> list[DatedChange] | None:
    """Return all schema changes that the checkpoint knows; None where it cannot be read."""
    try:
        with opened(settings.checkpoint, settings.conf, write=False) as checkpoint:
            return [
                DatedChange(version.millis / 1000, show(version.table), str(change))
                for version, change in told(history(checkpoint, observed=False))
            ]
    except IngestError:
        return None  # the run has said what is wrong with it; the page shows what this run changed
