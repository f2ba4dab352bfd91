"""Upserts into Kafka topics: a keyed row per insert or update, a tombstone per delete.

Rules: docs/spec/sinks.md#upsert-kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from ingest.component.options import Duration, OptionErrors, Synonym
from ingest.encode.change_encoder import ChangeEncoder, RecordTemplate, TypedKey
from ingest.encode.upsert_encoder import TableEncoder, UpsertEncoder
from ingest.formats import WrittenKeyFormatName, WrittenUpsertFormatName, value_of
from ingest.formats.json.options import Json
from ingest.formats.template import KeyForm, Segments, Value, ValueTemplate, json_key
from ingest.model.schema import Column, TableSchema
from ingest.model.values import has_times
from ingest.sinks.sink import SinkCapabilities, SinkOptions
from ingest.sinks.topics.options import TopicsOptions
from ingest.sinks.topics.writer import Buffer
from ingest.sinks.typed import WrittenPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.written import ChangeBytes, RowBytes, Upserts
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks import Writer


class UpsertKafka(TopicsOptions, SinkOptions):
    """Options of `sink:` with `type: upsert-kafka`."""

    synonyms: ClassVar[Mapping[str, Synonym]] = {**TopicsOptions.synonyms, "format": Synonym("value.format")}
    cleanup: ClassVar[str] = "compact"

    type: Literal["upsert-kafka"]
    """`upsert-kafka`."""

    key_format: WrittenKeyFormatName = Field("json", alias="key.format")
    """How keys are written: `json` is `{"id":1}`, `csv` the columns of the primary key in their order, texts in
    quotes, `raw` the one column of the primary key, `avro` and `avro-confluent` a record of its columns,
    `protobuf` and `protobuf-confluent` a message of them, `json-confluent` an object of a JSON Schema. Options are
    `key.csv.*` and so on, or else those of the values."""

    value_format: WrittenUpsertFormatName = Field("json", alias="value.format")
    """How rows are written: `json` as an object, `csv` as the columns in the order of the table, in which new ones are
    last, null being empty, `raw` as the one column that there is, `avro` and `avro-confluent` as a record, of a schema
    that is derived from the table, `protobuf` as the message that its options name, `protobuf-confluent` as one that is
    made for the table, `json-confluent` as an object of a JSON Schema that is made for the table."""

    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field("ALL", alias="value.fields-include")
    """`ALL`: rows have all columns. `EXCEPT_KEY`: without those of the primary key."""

    key_prefix: str = Field("", alias="key.fields-prefix")
    """What the primary key's columns begin with in the table, and not in the keys that are written. Needs
    `value.fields-include: EXCEPT_KEY`."""

    max_rows: int = Field(0, alias="sink.buffer-flush.max-rows", ge=0)
    """Hold back so many keys of a task, at most, and write only the last change of each: fewer records for rows that
    change often. An insert and a delete still leave a tombstone. Needs `sink.buffer-flush.interval`; zero: off."""

    interval: Duration = Field(0.0, alias="sink.buffer-flush.interval", ge=0)
    """How long changes are held back, at most; a commit, every few seconds, writes them in any case. Needs
    `sink.buffer-flush.max-rows`; zero: off."""

    @model_validator(mode="after")
    def _check_prefix(self) -> UpsertKafka:
        if self.key_prefix and self.fields_include != "EXCEPT_KEY":
            raise OptionErrors(("key.fields-prefix", "key.fields-prefix needs value.fields-include: EXCEPT_KEY"))
        return self

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        if bool(self.max_rows) == bool(self.interval):
            return []
        key = f"sink.buffer-flush.{'max-rows' if self.max_rows else 'interval'}"
        return [(key, "sink.buffer-flush.max-rows and sink.buffer-flush.interval have an effect together only")]

    @property
    def capabilities(self) -> SinkCapabilities:
        """A topic has the last row of each key, whatever was before it."""
        return SinkCapabilities(
            key_format=self.key_format,
            changelog=False,
            supersedes=True,
            guarantee=self.guarantee,
            numbers=self.numbers,
            holds_back=bool(self.max_rows and self.interval),
        )

    @property
    def _as_it_came(self) -> bool:
        """True if a row that fits can be written as the very bytes it came in."""
        plain = (self.key_format, self.value_format, self.fields_include) == ("json", "json", "ALL")
        return plain and not self.metadata_names and not (isinstance(self.format, Json) and self.format.respells)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> TableEncoder:
        """Return how rows of a table become keyed rows; raises RowError for an id that cannot be a topic's name."""
        to = self.destination(target)
        if self._as_it_came:
            return UpsertEncoder(table, source, sink, to, inference)
        typed_key, typed_value = self.typed(target, sink)
        value = typed_value or self._value(target, sink)
        metadata, (key_columns, columns) = self.record_metadata(sink), self._parts(sink)
        rounding = self.rounding(
            WrittenPart(self.key_options, key_columns, typed_key), WrittenPart(self.format, columns, typed_value)
        )
        key = self._key(target, sink) if typed_key is None else TypedKey(sink, sink.primary_key, typed_key)
        template, coarse = RecordTemplate(to, key, value, True), None if typed_value is None else has_times
        encoder = ChangeEncoder(table, source, sink, template.render, inference, template=template, coarse=coarse)
        return encoder.with_rounding(rounding).with_metadata(metadata)

    def _parts(self, schema: TableSchema) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the columns of keys and those of values, by the names of their fields."""
        columns = {column.name: column for column in schema.columns}
        left_out = {*self.metadata_names, *(schema.primary_key if self.fields_include == "EXCEPT_KEY" else ())}
        key = {name: columns[column] for name, column in self._key_form.named(schema)}
        return key, {name: column for name, column in columns.items() if name not in left_out}

    @property
    def _key_form(self) -> KeyForm:
        """The names of the keys' columns."""
        return KeyForm(prefix=self.key_prefix, table_id=False)

    def typed(self, table: TableId, schema: TableSchema) -> tuple[RowBytes | None, Upserts | ChangeBytes | None]:
        """Return what makes keys and values of a sink table, where their formats have schemas. Raise RowError."""
        if not self.declares:
            return None, None
        key, value = self._parts(schema)
        return self.typed_key(table, key), self.typed_value(table, value)

    def _key(self, target: TableId, sink: TableSchema) -> Segments:
        """Return the pattern of keys. Raise RowError."""
        if self.key_format != "json":
            return self.key_by_options(self.key_format, target, sink, sink.primary_key, None)
        return json_key(target, sink, self._key_form)

    def _value(self, target: TableId, sink: TableSchema) -> Value:
        """Return the function that makes rows. Raise RowError."""
        left_out = {*self.metadata_names, *(sink.primary_key if self.fields_include == "EXCEPT_KEY" else ())}
        columns = tuple(column for column in sink.columns if column.name not in left_out)
        if self.value_format != "json":
            return value_of(self.value_format, target, TableSchema(columns, ()), options=self.format)
        rows = self.format if isinstance(self.format, Json) else Json()
        row = rows.row_of(columns)
        return ValueTemplate(row, row, row, None)

    def writer(self, pipeline: str, _run: int) -> Writer:
        """Return the writer that a task writes to the sink with."""
        writer = self.kafka_writer(pipeline)
        return Buffer(writer, self.max_rows, self.interval) if self.capabilities.holds_back else writer
