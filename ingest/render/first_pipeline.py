"""A first pipeline file, from a few answers.

In: `Answers`. Out: the text of a file that `ingest check` accepts, with a comment where a reader may want to change
something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.config.written import scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SINKS: Final = ("upsert-kafka", "kafka", "iceberg", "delta", "postgres", "hologres", "file", "print")
"""Sinks that a first pipeline can have."""
_OF_ROWS: Final = frozenset({
    "json", "csv", "raw", "avro", "avro-confluent", "protobuf", "protobuf-confluent", "json-confluent",
})  # fmt: skip
"""Formats whose messages say nothing of a key, unless `key.format` is there."""
_KEYED: Final = frozenset({"upsert-kafka", "iceberg", "delta", "postgres", "hologres"})
"""Sinks whose tables need a primary key."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of somebody who wants a pipeline."""

    bootstrap: str
    topic: str | None
    """Topics, with semicolons between them; None where there is a pattern."""
    topic_pattern: str | None
    format: str
    sink: str
    place: str = ""
    """Place of the sink's rows: brokers of the sink, a directory, or `host:port`; empty for the usual place."""
    key_format: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the Kafka client, as `security.protocol`."""
    registry: str | None = None
    """The URL of a schema registry."""


def pipeline_text(answers: Answers) -> str:
    """Return the text of the pipeline file."""
    return "\n".join([*_source(answers), "", *_sink(answers), *_keys(answers)]) + "\n"


def _source(answers: Answers) -> Iterator[str]:
    yield "# Every option: ingest explain OPTION. What a run would do: ingest plan FILE."
    yield "source:"
    yield "  type: kafka"
    yield from _client(answers, answers.bootstrap)
    if answers.topic_pattern is not None:
        yield f"  topic-pattern: {scalar(answers.topic_pattern)}"
    else:
        yield f"  topic: {scalar(answers.topic)}"
    yield f"  value.format: {scalar(answers.format)}"
    if answers.registry is not None:
        yield f"  {answers.format}.url: {scalar(answers.registry)}"
    if answers.key_format is not None:
        yield f"  key.format: {scalar(answers.key_format)}   # the key's fields are columns, and the primary key"
    yield "  scan.startup.mode: earliest-offset"
    yield "  # Broken messages stop a run. To count them and go on, up to a limit:"
    yield "  # ingestion.ignore-errors: true"
    yield "  # ingestion.error-tolerance.max-count: 100"


def _sink(answers: Answers) -> Iterator[str]:
    yield "sink:"
    yield f"  type: {scalar(answers.sink)}"
    yield from _OF_SINKS[answers.sink](answers)


def _kafka(answers: Answers) -> Iterator[str]:
    yield from _client(answers, answers.place or answers.bootstrap)
    yield "  sink.delivery-guarantee: exactly-once"


def _changelog(answers: Answers) -> Iterator[str]:
    yield from _kafka(answers)
    yield "  value.format: debezium-json"


def _iceberg(answers: Answers) -> Iterator[str]:
    yield "  # A catalog in a file of this directory. For one of your own: catalog.properties.type, uri, and so on"
    yield f"  catalog.properties.warehouse: {scalar(answers.place or '.ingest/lake')}"


def _delta(answers: Answers) -> Iterator[str]:
    yield f"  warehouse: {scalar(answers.place or '.ingest/lake')}"


def _postgres(answers: Answers) -> Iterator[str]:
    yield f"  endpoint: {scalar(answers.place or 'localhost:5432')}"
    yield "  dbname: ${dbname:-postgres}"
    yield "  username: ${username:-postgres}"
    yield '  password: "${secret_values.password}"   # from INGEST_SECRET_PASSWORD, or a file: docs/secrets.md'


def _file(answers: Answers) -> Iterator[str]:
    yield f"  path: {scalar(answers.place or 'out')}"
    yield "  value.format: debezium-json"


def _print(_answers: Answers) -> Iterator[str]:
    yield "  # Rows go to standard output. Another sink: ingest explain sink"


_OF_SINKS: Final[Mapping[str, Callable[[Answers], Iterator[str]]]] = {
    "upsert-kafka": _kafka, "kafka": _changelog, "iceberg": _iceberg, "delta": _delta, "postgres": _postgres,
    "hologres": _postgres, "file": _file, "print": _print,
}  # fmt: skip


def _keys(answers: Answers) -> Iterator[str]:
    """Yield a transform to fill in, where tables need a primary key and messages name none."""
    if answers.sink in _KEYED and answers.format in _OF_ROWS and answers.key_format is None:
        yield ""
        yield "# These messages name no primary key, and this sink needs one: name its columns here"
        yield "transform:"
        yield "  - source-table: \\.*   # all tables; one of them: its name"
        yield "    projection: \\*"
        yield "    primary-keys: id"


def _client(answers: Answers, bootstrap: str) -> Iterator[str]:
    yield f"  properties.bootstrap.servers: {scalar(bootstrap)}"
    for name, value in answers.properties.items():
        yield f"  properties.{name}: {scalar(value)}"
