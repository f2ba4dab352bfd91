"""A first pipeline file, from a few answers.

In: `Answers`. Out: the text of a file that `ingest check` accepts, with a comment where a reader may want to change
something.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ingest.formats import OF_ROWS
from ingest.model.text import one_line
from ingest.render.yaml_text import scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ingest.formats.appearance import UniqueField

SINKS: Final = ("upsert-kafka", "kafka", "iceberg", "delta", "postgres", "hologres", "file", "print")
"""Sinks that a first pipeline can have."""
SCHEMA_LINE: Final = "# yaml-language-server: $schema=.ingest/pipeline.schema.json"
"""The first line of a file, by which editors complete and check it; `ingest init` writes that schema, too."""
_KEYED: Final = frozenset({"upsert-kafka", "iceberg", "delta", "postgres", "hologres"})
"""Sinks whose tables need a primary key."""


@dataclass(frozen=True, slots=True)
class DatabaseAnswers:
    """A MySQL or MariaDB server to read, and its tables."""

    host: str
    port: int
    user: str
    tables: str
    """A selector."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to `ingest init`, from which the first pipeline file is made."""

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
    options: tuple[str, ...] = ()
    """More lines of the source: what the messages that were looked at suggest."""
    start: str = ""
    """Offsets to start at; empty for the earliest."""
    primary_keys: str = ""
    """Columns of the primary key, where messages name none."""
    guess: UniqueField | None = None
    """A column that may be the primary key."""
    database: DatabaseAnswers | None = None
    """The server to read instead of topics."""


def pipeline_text(answers: Answers) -> str:
    """Return the text of the pipeline file."""
    return "\n".join([*_source(answers), "", *_sink(answers), *_route(answers), *_keys(answers)]) + "\n"


def _source(answers: Answers) -> Iterator[str]:
    yield SCHEMA_LINE
    yield "# Every option: ingest explain OPTION. What a run would do: ingest plan FILE."
    yield "source:"
    if answers.database is not None:
        yield from _database(answers.database)
        return
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
    yield from (f"  {line}" for line in answers.options)
    if answers.start:
        yield "  scan.startup.mode: specific-offsets   # behind the header line"
        yield f"  scan.startup.specific-offsets: {scalar(answers.start)}"
    else:
        yield "  scan.startup.mode: earliest-offset"
    yield "  # Broken messages stop a run. To count them and go on, up to a limit:"
    yield "  # ingestion.ignore-errors: true"
    yield "  # ingestion.error-tolerance.max-count: 100"


def _database(mysql: DatabaseAnswers) -> Iterator[str]:
    yield "  type: mysql"
    yield f"  hostname: {scalar(mysql.host)}"
    yield f"  port: {mysql.port}"
    yield f"  username: {scalar(mysql.user)}   # its rights: docs/mysql.md"
    yield '  password: "${secret_values.mysql}"   # from INGEST_SECRET_MYSQL, or a file: docs/secrets.md'
    yield f"  tables: {scalar(mysql.tables)}   # a regular expression; \\. in it is a dot that stands for any character"
    yield "  # First the rows that are there, then each change out of the log"
    yield "  scan.startup.mode: initial"
    yield "  # A number, or a range of them, that no replica of the server has:"
    yield "  # server-id: 5401-5404"


def _sink(answers: Answers) -> Iterator[str]:
    yield "sink:"
    yield f"  type: {scalar(answers.sink)}"
    yield from sink_lines(answers)


def sink_lines(answers: Answers) -> Iterator[str]:
    """Return the lines of a sink's options."""
    return _OF_SINKS[answers.sink](answers)


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
    yield "  # As `ingest sandbox up --postgres` has them"
    yield f"  endpoint: {scalar(answers.place or '127.0.0.1:25432')}"
    yield "  dbname: ${dbname:-postgres}"
    yield "  username: ${username:-ingest}"
    yield '  password: "${secret_values.postgres}"   # from INGEST_SECRET_POSTGRES, or a file: docs/secrets.md'


def _file(answers: Answers) -> Iterator[str]:
    yield f"  path: {scalar(answers.place or 'out')}"
    yield "  value.format: debezium-json"


def _print(_answers: Answers) -> Iterator[str]:
    yield "  # Rows go to standard output. Another sink: ingest explain sink"


_OF_SINKS: Final[Mapping[str, Callable[[Answers], Iterator[str]]]] = {
    "upsert-kafka": _kafka,
    "kafka": _changelog,
    "iceberg": _iceberg,
    "delta": _delta,
    "postgres": _postgres,
    "hologres": _postgres,
    "file": _file,
    "print": _print,
}


def _route(answers: Answers) -> Iterator[str]:
    """Yield a route where a topic is a table, so that the sink's topic has another name than the one that is read."""
    same = answers.place in {"", answers.bootstrap}
    if answers.sink in {"upsert-kafka", "kafka"} and answers.format in OF_ROWS and same:
        yield ""
        yield "# A topic is a table of its name. The sink's topic needs another name: no pipeline reads what it writes"
        yield "route:"
        yield "  - source-table: \\.*"
        yield "    sink-table: ods.<>"
        yield "    replace-symbol: <>"


def asks_for_key(answers: Answers) -> bool:
    """Return whether tables need a primary key, and messages name none."""
    return answers.sink in _KEYED and answers.format in OF_ROWS and answers.key_format is None


def _keys(answers: Answers) -> Iterator[str]:
    """Yield a transform with the primary key, or one to fill in, where tables need it and messages name none."""
    if not asks_for_key(answers):
        return
    yield ""
    mark = "" if answers.primary_keys else "# "
    why = "name its columns here"
    if answers.guess is not None and not answers.primary_keys:
        why = f"{_shown(answers.guess.name)} is unique in the {answers.guess.messages:,} messages that were looked at"
    yield f"# These messages name no primary key, and this sink needs one{'' if answers.primary_keys else f': {why}'}"
    names = answers.primary_keys or ("id" if answers.guess is None else answers.guess.name)
    yield f"{mark}transform:"
    yield f"{mark}  - source-table: \\.*   # all tables; one of them: its name"
    yield f"{mark}    projection: \\*"
    yield f"{mark}    primary-keys: {scalar(names)}"


def _shown(name: str) -> str:
    return one_line(name)[:100]


def _client(answers: Answers, bootstrap: str) -> Iterator[str]:
    yield f"  properties.bootstrap.servers: {scalar(bootstrap)}"
    for name, value in answers.properties.items():
        yield f"  properties.{name}: {scalar(value)}"
