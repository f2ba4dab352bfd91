"""The dead letters of a pipeline, as a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.deadletter.source import LetterSource
from ingest.errors import ConfigError
from ingest.kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from ingest.config.pipeline import Pipeline
    from ingest.deadletter.letter import Selection


def dead_letters_of(pipeline: Pipeline, selection: Selection) -> LetterSource:
    """Return the source that reads the pipeline's dead letters. Raise ConfigError where it collects none."""
    collector = pipeline.pipeline.collector
    if collector is None or collector.topic is None:
        msg = "this pipeline has no topic of dead letters (pipeline.dirty-data.collector, type: kafka)"
        raise ConfigError(msg, "rejects of this pipeline are in its log only")
    name = pipeline.pipeline.name
    cluster = collector if collector.properties else pipeline.sink
    assert isinstance(cluster, KafkaConnection)  # the file was refused otherwise
    conf = {**cluster.connection(), "group.id": f"ingest.{name}.replay"}
    conf.pop("auto.offset.reset", None)
    return LetterSource(pipeline.source, collector.topic, conf, name, selection)
