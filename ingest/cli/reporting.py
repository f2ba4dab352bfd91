"""The page about a run, where the command line asks for one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ingest import __version__
from ingest.checkpoint.inspect import opened
from ingest.checkpoint.schema_history import history, told
from ingest.config.masking import mask
from ingest.errors import IngestError
from ingest.model.table import show
from ingest.observe.watching import Observers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import Settings
    from ingest.observe.events import Observer
    from ingest.observe.report import DatedChange


@contextmanager
def reported(shown: Observer, path: Path | None, pipeline: Pipeline, settings: Settings) -> Iterator[Observer]:
    """Yield an observer that tells `shown`, and keeps what the page at `path` shows; without a path only the first."""
    if path is None:
        yield shown
        return
    from ingest.observe.report import RunFacts, RunReport  # noqa: PLC0415  (most runs have none, and each start is timed)

    facts = RunFacts(pipeline.pipeline.name, __version__, pipeline.describe())
    report = RunReport(path, facts, shown, lambda text: mask(text, pipeline.secrets))
    try:
        yield Observers(shown, [report])
    finally:
        report.write(_kept(settings))


def _kept(settings: Settings) -> list[DatedChange] | None:
    """Return all schema changes that the checkpoint knows; None where it cannot be read."""
    from ingest.observe.report import DatedChange  # noqa: PLC0415  (it is loaded where there is a report)

    try:
        with opened(settings.checkpoint, settings.conf, write=False) as checkpoint:
            return [
                DatedChange(version.millis / 1000, show(version.table), str(change))
                for version, change in told(history(checkpoint, observed=False))
            ]
    except IngestError:
        return None  # the run has said what is wrong with it; the page shows what this run changed
