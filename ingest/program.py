"""Pipelines in a program of one's own: `from ingest.program import load, run`.

docs/python.md has an example that runs. `ingest run` is made of the same pieces.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.config.loader import load_strictly, locate
from ingest.config.pipeline import Pipeline
from ingest.config.redaction import mask
from ingest.driver.context import Settings
from ingest.driver.run import run as run_pipeline
from ingest.errors import IngestError, TransformError
from ingest.paths import usual_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.observe.events import Event, RunEnded

__all__ = ["Pipeline", "load", "run"]


def load(file: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline of a file; `variables` are values for its `${name}` placeholders.

    Nothing is connected. Raises PipelineFileError with all that is wrong with the file, and ConfigError where the file
    cannot be read or a secret that it names is not there.
    """
    return load_strictly(Path(file), dict(variables or {}))


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    checkpoint: str | Path | None = None,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    from_timestamp: int | None = None,
    observer: Callable[[Event], None] | None = None,
) -> RunEnded:
    """Run a pipeline, and return the summary of the run when it has ended.

    Args:
        pipeline: what `load` returned.
        once: drain what is there at the start, then return; otherwise the run goes on until a signal ends it.
        checkpoint: where progress is kept, also `hdfs://…`. By default `.ingest/<pipeline name>`.
        master: Spark's master.
        conf: settings of Spark.
        from_timestamp: where to start if there is no checkpoint, in milliseconds since 1970 (UTC).
        observer: gets every event of the run (`ingest.observe.events`), the summary last; it must not raise.

    In the main thread SIGTERM and SIGINT end the run as those of `ingest run` do. In another thread signals are the
    program's own affair.

    Raises:
        IngestError: how the run failed, with `exit_code` as of the command. No secret of the pipeline is in its text.
    """
    where = None if checkpoint is None else str(checkpoint)
    settings = settings_of(pipeline, where, master, dict(conf or {}), once=once, start=from_timestamp)
    with masked_errors(pipeline.secrets):
        return run_pipeline(pipeline, settings, observer or _quiet)


def settings_of(
    pipeline: Pipeline, checkpoint: str | None, master: str, conf: Mapping[str, str], *, once: bool, start: int | None
) -> Settings:
    """Return the settings of a run. Spark's log is beside a local checkpoint, else where that would be."""
    home = usual_checkpoint(pipeline.pipeline.name)
    where = checkpoint or str(home)
    logs = (home if "://" in where else Path(where)) / "logs"
    return Settings(where, logs, master, conf, once, from_time=start)


@contextmanager
def masked_errors(secrets: frozenset[str]) -> Iterator[None]:
    """Let errors leave without these secrets, which a client's message may hold."""
    try:
        yield
    except IngestError as exc:
        raise type(exc)(mask(exc.message, secrets), mask(exc.hint, secrets)) from exc


@contextmanager
def placed(file: Path) -> Iterator[None]:
    """Let errors of expressions leave with their place in the file."""
    try:
        yield
    except TransformError as exc:
        error = None if exc.place is None else locate(file, *exc.place, exc.message.split("\n", 1)[0])
        if error is None:
            raise
        version = exc.message.rsplit("\n", 1)[-1]
        raise TransformError(f"{error.text()}\n{version}", exc.hint) from exc


def _quiet(_event: Event) -> None:
    """Drop an event."""
