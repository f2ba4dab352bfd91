"""Upsert topics as a source: the options of `source:` with `type: upsert-kafka`.

A compacted topic of keyed rows, read from its beginning. Into an upsert sink it goes as it is; for sinks that tell an
insert from an update, or show the row before, the engine keeps the rows (`task/changelog.py`).
Rules: docs/spec/json.md#upsert-topics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from ingest.component.options import OptionErrors
from ingest.formats import ReadKeyFormatName, ReadUpsertFormatName
from ingest.formats.json.options import Json
from ingest.formats.upsert_rows import UpsertRows
from ingest.sources.kafka.options import KafkaSource
from ingest.sources.records import SourceCapabilities

if TYPE_CHECKING:
    from ingest.component.options import AnyOptions
    from ingest.formats.metadata_columns import ExtraColumns
    from ingest.sources.records import RecordOptions

FROM_THE_BEGINNING: Final = "an upsert-kafka source is always read from its beginning"


_ENDS: Final = frozenset({"latest", "largest", "end"})
"""Values of `properties.auto.offset.reset` that say another start."""


class UpsertKafkaSource(KafkaSource):
    """Options of `source:` with `type: upsert-kafka`; those of `type: kafka` that fit are options here, too."""

    capabilities: ClassVar[SourceCapabilities] = replace(
        KafkaSource.capabilities, upserts=True, no_start_time=FROM_THE_BEGINNING
    )

    type: Literal["upsert-kafka"]  # type: ignore[assignment]
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
            and value in get_args(KafkaSource.model_fields["startup_mode"].annotation)
            and value != "earliest-offset"
        ):
            msg = f"{value!r} is not possible: {FROM_THE_BEGINNING}"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _check_start(self) -> UpsertKafkaSource:
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
    def _check_fields(self) -> UpsertKafkaSource:
        given = (("key.fields", self.key_fields), ("key.fields-prefix", self.key_prefix))
        if self.fields_include != "EXCEPT_KEY" and any(value for _, value in given):
            raise OptionErrors(*((k, f"{k} needs value.fields-include: EXCEPT_KEY") for k, value in given if value))
        return self

    def with_format(self, chosen: AnyOptions) -> tuple[RecordOptions, list[tuple[str, str]]]:
        """Return these options with those of the format; and what is wrong between them: option, and reason."""
        made, problems = super().with_format(chosen)
        return made.model_copy(update={"format": UpsertRows(made.format)}), problems

    def with_key_format(self, chosen: AnyOptions) -> Self:
        """Return these options with those of the keys' format."""
        made = super().with_key_format(chosen)
        return made.model_copy(update={"format": UpsertRows(self.format.rows, made.extra.key_format)})

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of rows and, where they have any, of keys."""
        return (self.format.rows, self.extra.key_format)

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the value."""
        return replace(super().extra, key=self.fields_include == "EXCEPT_KEY")
