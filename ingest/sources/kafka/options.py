"""Records of Kafka topics: the options of `source:` with `type: kafka` and `type: upsert-kafka`.

A split is a partition, a position is an offset. An upsert topic is a compacted topic of keyed rows, read from its
beginning: into an upsert sink it goes as it is; for sinks that tell an insert from an update, or show the row before,
the engine keeps the rows (`task/changelog.py`). Rules: docs/spec/sources.md, docs/spec/json.md#upsert-topics.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from ingest.component.options import AnyOptions, Duration, Labelled, OptionErrors
from ingest.formats import ReadKeyFormatName, ReadUpsertFormatName
from ingest.formats.json.options import Json
from ingest.formats.upsert_rows import UpsertRows
from ingest.kafka.connection import KafkaConnection
from ingest.kafka.properties import CREATE, TRUE
from ingest.model.table import checked_pattern, full_matcher
from ingest.sources.kafka.option_texts import Headers, compile_filter, parse_filter, parse_offsets
from ingest.sources.records import RecordOptions, SourceCapabilities

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.kafka.reader import RangeReader
    from ingest.model.record import Split
    from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MAX_PATTERN: Final = 1000
FROM_THE_BEGINNING: Final = "an upsert-kafka source is always read from its beginning"
_ENDS: Final = frozenset({"latest", "largest", "end"})
"""Values of `properties.auto.offset.reset` that say another start."""

Millis = Annotated[int, Field(ge=0, lt=1 << 62)]
"""Milliseconds since the epoch."""


class TopicSourceOptions(KafkaConnection):
    """Options of both sources: which topics are read, from where to where. A class with `RecordOptions` has them."""

    capabilities: ClassVar[SourceCapabilities] = SourceCapabilities(left_out="header-filter", native_records=True)
    scope: ClassVar[Literal["C", "P"]] = "C"

    type: str

    topic: str | None = None
    """The topics to read, separated by `;`. Either this or `topic-pattern`."""

    topic_pattern: str | None = Field(None, alias="topic-pattern", max_length=_MAX_PATTERN)
    """A regular expression (RE2): all topics whose whole names match are read, those that appear while the pipeline
    runs included, from their beginning. Kafka's internal topics never match."""

    startup_mode: Literal["earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"] = Field(
        "group-offsets", alias="scan.startup.mode"
    )
    """Where to start where the checkpoint does not say: at the first offset, at the end, where the consumer group
    `properties.group.id` stands, at the first record of a time, or at named offsets. An offset that is not there
    follows `properties.auto.offset.reset`."""

    startup_offsets: str | None = Field(None, alias="scan.startup.specific-offsets")
    """With `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`, and with `topic:NAME,` in front of each
    where there are several topics. Partitions that are not named start at their first offset."""

    startup_timestamp: Millis | None = Field(None, alias="scan.startup.timestamp-millis")
    """With `timestamp`: start at the first record that is not older, in milliseconds since 1970."""

    bounded_mode: Literal["unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"] = Field(
        "unbounded", alias="scan.bounded.mode"
    )
    """Where to end: never, at what is the end at the start, where the consumer group stands then, before the first
    record of a time, or before named offsets. The run ends there with exit code 0."""

    bounded_offsets: str | None = Field(None, alias="scan.bounded.specific-offsets")
    """With `specific-offsets`: where to end, written as in `scan.startup.specific-offsets`; the offset itself is not
    read. Partitions that are not named are not read at all."""

    bounded_timestamp: Millis | None = Field(None, alias="scan.bounded.timestamp-millis")
    """With `timestamp`: end before the first record that is not older, in milliseconds since 1970."""

    discovery_interval: Duration = Field(300.0, alias="scan.topic-partition-discovery.interval")
    """How often to look for new partitions, and with `topic-pattern` for new topics. Zero or less: never."""

    header_filter: str | None = Field(None, alias="scan.header-filter", max_length=200_000)
    """Read only records with these headers: `key:value` terms joined by `&` and `|` and worked off from left to right,
    `!` before a term for *not*, no brackets: `depart:toy|depart:book&!env:test`. At most 1,000 terms. What is left out
    is counted."""

    check_group: bool = Field(False, alias="scan.check.duplicated.group.id")
    """Refuse to start while somebody else, another pipeline included, reads with the group `properties.group.id`."""

    rate_limit: float | None = Field(None, alias="scan.rate-limit.records-per-second", gt=0, le=1e9)
    """Read at most this many records a second, over all partitions. Default: as many as there are."""

    on_data_loss: Literal["fail", "earliest", "latest"] = Field("fail", alias="scan.on-data-loss")
    """What to do when records that were to be read next are gone, or a topic was deleted or recreated: stop, or go on
    at the earliest or latest offset."""

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str | None) -> str | None:
        names = _names(value)
        if value is not None and not names:
            raise ValueError("names no topic")
        for name in names:
            if not _TOPIC.fullmatch(name):
                raise ValueError(f"{name[:100]!r} cannot be a topic's name; several topics are separated by ';'")
        return value

    _check_pattern = field_validator("topic_pattern")(checked_pattern)

    @field_validator("header_filter")
    @classmethod
    def _check_filter(cls, value: str | None) -> str | None:
        if value is not None:
            parse_filter(value)
        return value

    @field_validator("startup_offsets", "bounded_offsets")
    @classmethod
    def _check_offsets(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and "topic" in info.data:
            parse_offsets(value, _names(info.data["topic"]) or None)
        return value

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        problems = []
        if (self.topic is None) == (self.topic_pattern is None):
            text = "give either topic or topic-pattern" + ("" if self.topic is None else ", not both")
            problems.append(("type" if self.topic is None else "topic-pattern", text))
        needed = (
            ("scan.startup.mode", self.startup_mode, "timestamp", "scan.startup.timestamp-millis",
             self.startup_timestamp),
            ("scan.startup.mode", self.startup_mode, "specific-offsets", "scan.startup.specific-offsets",
             self.startup_offsets),
            ("scan.bounded.mode", self.bounded_mode, "timestamp", "scan.bounded.timestamp-millis",
             self.bounded_timestamp),
            ("scan.bounded.mode", self.bounded_mode, "specific-offsets", "scan.bounded.specific-offsets",
             self.bounded_offsets),
        )  # fmt: skip
        problems += [
            (option, f"{option}: {value} needs {other}")
            for option, value, when, other, given in needed
            if value == when and given is None
        ]
        if self.check_group and "group.id" not in self.properties:
            problems.append(("scan.check.duplicated.group.id", "this checks properties.group.id, which is not given"))
        if problems:
            raise OptionErrors(*problems)
        return self

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        ineffective = []
        of_modes = (
            ("startup", self.startup_mode, "timestamp", "timestamp-millis", self.startup_timestamp),
            ("startup", self.startup_mode, "specific-offsets", "specific-offsets", self.startup_offsets),
            ("bounded", self.bounded_mode, "timestamp", "timestamp-millis", self.bounded_timestamp),
            ("bounded", self.bounded_mode, "specific-offsets", "specific-offsets", self.bounded_offsets),
        )
        for what, mode, needed, option, value in of_modes:
            if value is not None and mode != needed:
                key = f"scan.{what}.{option}"
                ineffective.append((key, f"{key} has no effect without scan.{what}.mode: {needed} (it is {mode})"))
        if self.bounded_mode != "unbounded" and "discovery_interval" in self.model_fields_set:
            key = "scan.topic-partition-discovery.interval"
            ineffective.append((key, f"{key} has no effect with scan.bounded.mode: {self.bounded_mode}"))
        if self.properties.get(CREATE, "").lower() in TRUE:
            ineffective.append(
                (f"properties.{CREATE}", f"properties.{CREATE} has no effect here: a source creates no topics")
            )
        return ineffective

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read, each once; none where a pattern chooses them."""
        return _names(self.topic)

    def chooses(self, topic: str) -> bool:
        """Return whether `topic-pattern` matches this topic."""
        return self.topic_pattern is not None and full_matcher(self.topic_pattern)(topic) is not None

    @property
    def start_at(self) -> dict[Split, int]:
        """The offsets of `scan.startup.specific-offsets`."""
        return parse_offsets(self.startup_offsets or "", self.topics or None)

    @property
    def end_at(self) -> dict[Split, int]:
        """The offsets of `scan.bounded.specific-offsets`."""
        return parse_offsets(self.bounded_offsets or "", self.topics or None)

    @property
    def wanted(self) -> Callable[[Headers], bool] | None:
        """The condition on a record's headers for it to be read; None if all are."""
        return None if self.header_filter is None else compile_filter(self.header_filter)

    def client(self, pipeline: str) -> dict[str, str]:
        """Librdkafka's configuration; the group is the pipeline's where the file names none."""
        conf = self.connection()
        conf.pop("auto.offset.reset", None)
        conf.pop(CREATE, None)  # brokers would make a topic again that was deleted a moment ago
        return {"group.id": f"ingest.{pipeline}", "client.id": f"ingest.{pipeline}", **conf}

    def coordinator(self: Any, pipeline: str, warn: Callable[[str], None]) -> KafkaSourceCoordinator:
        """Return the coordinator that the driver asks about the source."""
        from ingest.sources.kafka.coordinator import KafkaSourceCoordinator

        return KafkaSourceCoordinator(self, pipeline, warn)

    def reader(self: Any, pipeline: str) -> RangeReader:
        """Return the reader that a task reads the source with."""
        from ingest.kafka.reader import RangeReader

        return RangeReader(self.client(pipeline), self.metadata_names)


class KafkaSource(TopicSourceOptions, Labelled, RecordOptions):
    """Options of `source:` with `type: kafka`."""

    type: Literal["kafka"]
    """`kafka`."""


class UpsertKafkaSource(TopicSourceOptions, Labelled, RecordOptions):
    """Options of `source:` with `type: upsert-kafka`; those of `type: kafka` that fit are options here, too."""

    capabilities: ClassVar[SourceCapabilities] = replace(
        TopicSourceOptions.capabilities, upserts=True, no_start_time=FROM_THE_BEGINNING
    )

    type: Literal["upsert-kafka"]
    """`upsert-kafka`."""

    value_format: ReadUpsertFormatName = Field("json", alias="value.format")
    """The format of the rows."""

    key_format: ReadKeyFormatName = Field("json", alias="key.format")
    """The format of the keys, whose fields are the primary key. Options are `key.csv.*`, `key.raw.*`, `key.avro.*` and
    so on, or else those of the values; of JSON, `key.json.ignore-parse-errors`. The fields of `csv` and `raw` are
    called as the primary key in `scan.value.initial-schemas.ddls`."""

    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field("ALL", alias="value.fields-include")
    """`ALL`: the rows hold the primary key's columns, too. `EXCEPT_KEY`: those come from the key, in front of the
    others."""

    startup_mode: Literal["earliest-offset"] = Field("earliest-offset", alias="scan.startup.mode")
    """Only the beginning: a table without its first rows would not be the table."""

    format: Any = Field(default_factory=lambda: UpsertRows(Json()), alias="*format", exclude=True)
    """Filled in from the options that start with the format's name."""

    @field_validator("startup_mode", mode="before")
    @classmethod
    def _check_mode(cls, value: object) -> object:
        if (
            isinstance(value, str)
            and value in get_args(TopicSourceOptions.model_fields["startup_mode"].annotation)
            and value != "earliest-offset"
        ):
            raise ValueError(f"{value!r} is not possible: {FROM_THE_BEGINNING}")
        return value

    @model_validator(mode="after")
    def _check_start(self) -> Self:
        given = (
            ("scan.startup.timestamp-millis", self.startup_timestamp),
            ("scan.startup.specific-offsets", self.startup_offsets),
        )
        problems = [(key, f"{key} is not possible: {FROM_THE_BEGINNING}") for key, value in given if value is not None]
        reset = self.properties.get("auto.offset.reset")
        if reset in _ENDS:
            key = "properties.auto.offset.reset"
            problems.append((key, f"{key}: {reset!r} is not possible: {FROM_THE_BEGINNING}"))
        if problems:
            raise OptionErrors(*problems)
        return self

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        given = (("key.fields", self.key_fields), ("key.fields-prefix", self.key_prefix))
        if self.fields_include != "EXCEPT_KEY" and any(value for _, value in given):
            raise OptionErrors(*((k, f"{k} needs value.fields-include: EXCEPT_KEY") for k, value in given if value))
        return self

    def with_format(self, chosen: AnyOptions) -> tuple[RecordOptions, list[tuple[str, str]]]:
        """Return these options with those of the format; and what is wrong between them: option, and reason."""
        options, problems = super().with_format(chosen)
        return options.model_copy(update={"format": UpsertRows(options.format)}), problems

    def with_key_format(self, chosen: AnyOptions) -> Self:
        """Return these options with those of the keys' format."""
        options = super().with_key_format(chosen)
        return options.model_copy(update={"format": UpsertRows(self.format.rows, options.extra.key_format)})

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of rows and, where they have any, of keys."""
        return (self.format.rows, self.extra.key_format)

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the value."""
        return replace(super().extra, key=self.fields_include == "EXCEPT_KEY")


def _names(topic: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in (topic or "").split(";") if part.strip()))
