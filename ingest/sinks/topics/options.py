"""The common options of the sinks that write to Kafka: topics, headers, the guarantee.

The driver's side is in `coordinator.py`. A task has one producer per worker. Rules: docs/spec/sinks.md and
docs/spec/delivery.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema, field_validator, model_validator

from ingest.component.options import AnyOptions, OptionErrors, Synonym, filled, holding, metadata_names
from ingest.encode.record_metadata import WRITABLE, RecordMetadata
from ingest.errors import ProgramMissing
from ingest.formats import FORMATS
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import CREATE, FALSE
from ingest.model.record import METADATA
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.sinks.typed import TypedSinkOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.component.files import Files
    from ingest.formats.template import Segments
    from ingest.formats.written import RowBytes, WrittenFormat
    from ingest.kafka.writer import KafkaWriter
    from ingest.model.schema import Column, TableSchema
    from ingest.sinks import Writer
    from ingest.sinks.topics.coordinator import TopicsCoordinator
    from ingest.sinks.topics.transactions import TransactionalWriter

BY_KEY: Final = -1
"""The partition of a record that the client chooses by its key."""
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HEADER_NAMES: Final = ("tableName", "schemaName", "namespace")
_ID: Final = re.compile(r"[^\s/][^\s]{0,199}")


class TopicDestination(NamedTuple):
    """The destination of a record: a partition, that of its key (`BY_KEY`), or that of a hash, of four bytes.

    Many records have the same one, and it is small: whoever writes keeps those that were used last.
    """

    topic: str
    headers: tuple[tuple[str, bytes], ...] | None
    partition: int | bytes = BY_KEY


def topic_name(text: str) -> str:
    """Return a text that can be a topic's name; raises ValueError."""
    if not _TOPIC.fullmatch(text) or text in {".", ".."}:
        raise ValueError(f"{text[:100]!r} cannot be a topic's name")
    return text


def _headers(value: object) -> object:
    if not isinstance(value, str):
        return value
    out = []
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"{part.strip()[:60]!r} is not name:value; write name:value,name:value")
        out.append((name.strip(), text.strip().encode()))
    return tuple(out)


Headers = Annotated[
    tuple[tuple[str, bytes], ...],
    BeforeValidator(_headers),
    WithJsonSchema({"type": "string", "examples": ["origin:shop,team:orders"]}),
]


class TopicsOptions(KafkaConnection, TypedSinkOptions):
    """Options that sinks in Kafka share."""

    scope: ClassVar[Literal["C", "P"]] = "P"
    formats: ClassVar[str | None] = "value.format"
    codes: ClassVar[Mapping[str, str]] = {
        "bad-metadata": "a column of `metadata.list` of the sink holds no headers, or no time of a record",
        "bad-topic-name": "the table's id cannot be a topic's name; route it to one that can",
    }
    synonyms: ClassVar[Mapping[str, Synonym]] = {"sink.semantic": Synonym("sink.delivery-guarantee", deprecated=True)}
    cleanup: ClassVar[str]
    """`cleanup.policy` of the topics that it makes."""

    guarantee: Literal["none", "at-least-once", "exactly-once"] = Field(
        "at-least-once", alias="sink.delivery-guarantee"
    )
    """`none`: records may be lost when a broker fails. `at-least-once`: every delivery is checked before progress is
    stored; after a crash some records are written again. `exactly-once`: records and progress are committed in one
    transaction every few seconds; readers must set `isolation.level` to `read_committed`."""

    id_prefix: str | None = Field(None, alias="sink.transactional-id-prefix", pattern=f"^{_ID.pattern}$")
    """With `exactly-once`: what the transactional ids and consumer groups begin with, which this user must be allowed
    to use. Default: `ingest-` and the pipeline's name. Of two runs with one prefix, the newer one stops the older."""

    table_id_header: bool = Field(False, alias="sink.add-tableId-to-header-enabled")
    """Add the headers `namespace`, `schemaName` and `tableName` to each record."""

    custom_headers: Headers = Field((), alias="sink.custom-header")
    """More headers of each record: `name:value,name:value`."""

    metadata: str | None = Field(None, alias="metadata.list")
    """Columns that are no part of the values that are written, but of the record, separated by commas: `headers`, a
    MAP<STRING, BYTES> or MAP<STRING, STRING>, is added to its headers, and `timestamp`, a TIMESTAMP or TIMESTAMP_LTZ,
    is its time. With the same option of the source, what a record came with is passed on. Records of a table without
    such a column have none of it."""

    create: bool = Field(True, alias="sink.topic.create")
    """Create missing topics. If not, a table whose topic is missing stops the run. `false` where
    `properties.allow.auto.create.topics` is."""

    partitions: int | None = Field(None, alias="sink.topic.partitions", ge=1)
    """Partitions of created topics; the broker's default where absent."""

    replication: int | None = Field(None, alias="sink.topic.replication-factor", ge=1, le=100)
    """Replicas of created topics; the broker's default where absent."""

    _key_options: Any = PrivateAttr(None)

    @property
    def hashes_keys(self) -> bool:
        """True if the number of a topic's partitions decides for good which one a key goes to."""
        return True

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, value: str | None) -> str | None:
        if value is not None:
            metadata_names(value, WRITABLE, dict.fromkeys(METADATA, "can be read, not written"))
        return value

    @model_validator(mode="after")
    def _check_create(self) -> TopicsOptions:
        if self.create and "create" in self.model_fields_set and self.uncreated:
            raise OptionErrors(
                (f"properties.{CREATE}", f"properties.{CREATE}: false contradicts sink.topic.create: true")
            )
        return self

    @model_validator(mode="after")
    def _check_guarantee(self) -> TopicsOptions:
        if self.guarantee != "exactly-once":
            return self
        needed = {"enable.idempotence": ("true",), "acks": ("all", "-1")}
        problems = [
            (f"properties.{name}", f"sink.delivery-guarantee: exactly-once needs {name}={values[0]}")
            for name, values in needed.items()
            if self.properties.get(name, values[0]).lower() not in values
        ]
        if problems:
            raise OptionErrors(*problems)
        return self

    def with_key_format(self, chosen: AnyOptions) -> Self:
        """Return these options with those of the keys' format."""
        return holding(self, _key_options=chosen)

    def with_files(self, files: Files) -> Self:
        """Return these options with what is in the files that the keys' format names; raises IngestError."""
        return self if self._key_options is None else self.with_key_format(filled(self._key_options, files))

    def key_by_options(
        self, name: str, table: TableId, sink: TableSchema, columns: Sequence[str], first: bytes | None
    ) -> Segments:
        """Return the pattern of keys of a table, in a format with options. Raise RowError.

        `columns` are those of the keys. `first` is the JSON text of what keys begin with, or None.
        """
        types = {column.name: column.type for column in sink.columns}
        options: Any = self._key_options
        if options is None:
            chosen: Any = FORMATS.find(name)
            if chosen is None:
                msg = f"the format {name!r} is not installed on the machine of this worker"
                raise ProgramMissing(msg, "install its package where the workers run")
            options = chosen()
        pattern: Segments = options.key_of(table, {column: types[column] for column in columns}, first)
        return pattern

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of values and, where they have any, of keys."""
        return (self.format, self._key_options)

    @property
    def key_options(self) -> AnyOptions:
        """The options of the keys' format; None where it takes none."""
        return self._key_options

    def typed_key(self, table: TableId, columns: Mapping[str, Column]) -> RowBytes | None:
        """Return the function that makes keys of a format with schemas; None for another format.

        `columns` are the primary key's, by the names of their fields. Raise RowError.
        """
        if self._key_options is None or self._key_options.capabilities.table_schemas is None:
            return None
        chosen: WrittenFormat = self._key_options
        return chosen.row_writer(self._place("key", table), columns)

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """The columns that records' headers and times are taken from."""
        return metadata_names(self.metadata or "", WRITABLE, {})

    def record_metadata(self, sink: TableSchema) -> RecordMetadata | None:
        """Return where records of a table have their headers and times from; None if from no column. Raise RowError."""
        names = self.metadata_names
        return RecordMetadata(names, sink) if names else None

    @property
    def uncreated(self) -> str:
        """The option that keeps the sink from creating topics; empty where none does."""
        if self.properties.get(CREATE, "").lower() in FALSE:
            return f"properties.{CREATE}"
        return "" if self.create else "sink.topic.create"

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        once, creates = self.guarantee == "exactly-once", not self.uncreated
        needs_once = "without sink.delivery-guarantee: exactly-once"
        needs_create = "where the sink creates no topics"
        given = (
            ("sink.transactional-id-prefix", not once and self.id_prefix is not None, needs_once),
            ("properties.transaction.timeout.ms", not once and "transaction.timeout.ms" in self.properties, needs_once),
            ("sink.topic.partitions", not creates and self.partitions is not None, needs_create),
            ("sink.topic.replication-factor", not (creates or once) and self.replication is not None, needs_create),
        )
        return [(key, f"{key} has no effect {why}") for key, idle, why in given if idle]

    def prefix(self, pipeline: str) -> str | None:
        """Return what the names of its transactions begin with; None where it has none."""
        return (self.id_prefix or f"ingest-{pipeline}") if self.guarantee == "exactly-once" else None

    def client(self, pipeline: str) -> dict[str, str]:
        """Librdkafka's configuration for the producer."""
        conf = self.connection()
        for foreign in ("group.id", "auto.offset.reset", "isolation.level"):
            conf.pop(foreign, None)
        ordered = conf.get("enable.idempotence", "true").lower() == "true"
        if self.guarantee == "none":
            defaults = {"acks": "1"}
        elif ordered:
            defaults = {"enable.idempotence": "true", "acks": "all"}
        else:
            # Without idempotence a retry could overtake a later record of the same key
            defaults = {"acks": "all", "max.in.flight.requests.per.connection": "1"}
        return {"client.id": f"ingest.{pipeline}", **defaults, **conf}

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a sink table; raises RowError for an id that cannot be a topic's name."""
        try:
            return topic_name(show(table))
        except ValueError as exc:
            raise RowError("bad-topic-name", f"{exc}; route the table to one that can") from None

    def place_of(self, table: TableId) -> str:
        """Return the topic of a sink table; empty for an id that cannot be a topic's name."""
        try:
            return self.topic_of(table)
        except RowError:
            return ""

    def destination(self, table: TableId) -> TopicDestination:
        """Return the topic and headers of a sink table; raises RowError as `topic_of` does."""
        headers = self.custom_headers
        if self.table_id_header:
            parts = [part.encode() for part in reversed(table)] + [b"", b""]
            own = [(name, parts[i]) for i, name in enumerate(_HEADER_NAMES)]
            headers = (*reversed(own), *headers)
        return TopicDestination(self.topic_of(table), headers or None)

    def coordinator(self, pipeline: str, warn: Callable[[str], None]) -> TopicsCoordinator:
        """Return the coordinator that the driver asks about the sink."""
        from ingest.sinks.topics.coordinator import TopicsCoordinator

        return TopicsCoordinator(self, pipeline, warn)

    def writer(self, pipeline: str, _run: int) -> Writer:
        """Return the writer that a task writes to the sink with."""
        return self.kafka_writer(pipeline)

    def kafka_writer(self, pipeline: str) -> KafkaWriter | TransactionalWriter:
        """Return a writer to the sink's cluster, with the sink's guarantee."""
        # The client is slow to import, and `check` needs none
        from ingest.sinks.topics.transactions import writer_of

        return writer_of(self.client(pipeline), self.prefix(pipeline), checked=self.guarantee != "none")
