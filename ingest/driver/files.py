"""Files that a pipeline's options name, read once when a run or a command starts.

In: a pipeline. Out: the same pipeline, whose options hold what was in the files. Its description, which checkpoints
keep, has only their places. Local files are read at once. A file on one of Hadoop's file systems needs Java.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.component.files import Files
from ingest.spark import hadoop_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingest.config.pipeline import Pipeline


def read_files(pipeline: Pipeline, hadoop: Callable[[], tuple[Any, Any]], warn: Callable[[str], None]) -> Pipeline:
    """Return the pipeline with what is in the files that its options name; raises IngestError.

    `hadoop` returns the JVM and a Hadoop configuration; it is called only where a file is on such a file system.
    """

    @cache
    def fetch(place: str) -> bytes:
        return hadoop_files.read(place, *hadoop())

    def files(section: str) -> Files:
        return Files(section, fetch, warn)

    collector, options = pipeline.pipeline.collector, pipeline.pipeline
    if collector is not None:
        options = options.model_copy(update={"collector": collector.with_files(files("pipeline.dirty-data.collector"))})
    source, sink = pipeline.source.with_files(files("source")), pipeline.sink.with_files(files("sink"))
    return pipeline.model_copy(update={"source": source, "sink": sink, "pipeline": options})


def with_files(pipeline: Pipeline, conf: Mapping[str, str], warn: Callable[[str], None]) -> Pipeline:
    """Return the pipeline with what is in its files, for a command that has no Java of its own; raises IngestError.

    `conf`: settings of Spark, for file systems that need some.
    """
    with ExitStack() as resources:

        def hadoop() -> tuple[Any, Any]:
            from ingest.spark.session import Session  # noqa: PLC0415  (pyspark is slow to import)

            folder = resources.enter_context(tempfile.TemporaryDirectory())
            session = Session("ingest files", "local[1]", conf, lock=None, log=Path(folder) / "spark.log")
            resources.callback(session.stop)
            return session.hadoop

        return read_files(pipeline, cache(hadoop), warn)
