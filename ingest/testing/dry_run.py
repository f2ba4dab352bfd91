"""A dry run: what a run of a pipeline would do, written nowhere.

In: a pipeline, and where its checkpoint would be. Out: a `DryRunReport`, and the error that the run would end with. It
is main street itself, in this process, over a sample of the records that wait: so whatever refuses a run refuses this.
The checkpoint is read only; the source and the sink are asked; Spark starts only where a transform has expressions, or
the checkpoint or a file that an option names is on one of Hadoop's file systems.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ingest.driver.files import with_files
from ingest.errors import DirtyData, IngestError
from ingest.schema_registry.options import RegistryOptions
from ingest.testing.dry_run_report import DryRunReport, report
from ingest.testing.probe import ALL, Probe

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.config.pipeline import Pipeline
    from ingest.driver.context import Settings
    from ingest.model.table import Selector
    from ingest.sinks import Sink
    from ingest.sources import Source


def dry_run(
    pipeline: Pipeline,
    settings: Settings,
    source: Source | None = None,
    sink: Sink | None = None,
    tell: Callable[[str], None] = lambda _: None,
    then: Callable[[Probe], object] = lambda _: None,
    only: Selector | None = None,
) -> tuple[DryRunReport, IngestError | None]:
    """Run without a trace: what a run would do, and the error that it would end with, if the sample shows one.

    `source` and `sink`: others than the pipeline's own. `tell` gets to know at once what is said before everything is
    connected: that a broker does not answer yet. `then` gets the probe, to look at the same sample once more. `only`:
    the source tables that the report is about. Raises IngestError where a run would end before it read anything.
    """
    pipeline = with_files(pipeline, settings.conf, tell)
    _reach_registries(pipeline)
    with ExitStack() as resources:
        probe = Probe(pipeline, settings, source or pipeline.source, sink or pipeline.sink, resources, tell)
        run = ended = probe.run(probe.options.tolerated)
        if isinstance(run.error, DirtyData):
            # It stops at a reject; what else there is to know shows when it goes on
            run = probe.run(ALL)
        found = report(probe, run, ended.error, only)
        then(probe)
        return found


def _reach_registries(pipeline: Pipeline) -> None:
    """See that the schema registries of a pipeline answer: a run asks them only once there are records.

    Raise IngestError.
    """
    for chosen in (*pipeline.source.chosen_formats, *pipeline.sink.chosen_formats):
        if isinstance(chosen, RegistryOptions):
            chosen.reach()
