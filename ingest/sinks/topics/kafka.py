"""Change messages into Kafka topics: what happened to each row, in a format of the user's choice.

Rules: docs/spec/sinks.md#kafka.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self
from zlib import crc32

import msgspec
from pydantic import Field, PrivateAttr, field_validator, model_validator

from ingest.component.options import KeyFields, OptionErrors, Synonym, holding, unprefixed
from ingest.encode.change_encoder import ChangeEncoder, RecordTemplate, RowChange, TypedKey
from ingest.expressions.user_code import CodeError
from ingest.formats import WrittenFormatName, WrittenKeyFormatName, capabilities_of, is_of_rows, value_of
from ingest.formats.template import ColumnRef, KeyForm, fill, json_cells, json_key, table_member, without
from ingest.model.reject import RowError
from ingest.model.table import Selector, SelectorError, TableId, selector, show
from ingest.model.types import DataType, TimestampNTZType, TimeType
from ingest.model.values import has_times
from ingest.sinks.sink import SinkCapabilities, SinkOptions
from ingest.sinks.topics.options import TopicDestination, TopicsOptions, topic_name
from ingest.sinks.topics.partitioner import NAMES, Partitioner, load, packed
from ingest.sinks.topics.writer import PartitioningWriter
from ingest.sinks.typed import WrittenPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ingest.encode.upsert_encoder import Record
    from ingest.formats.template import Segments, Value
    from ingest.formats.written import ChangeBytes, RowBytes, Upserts
    from ingest.model.schema import Column, TableSchema
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks import Writer


class KafkaSink(TopicsOptions, SinkOptions):
    """Options of `sink:` with `type: kafka`."""

    synonyms: ClassVar[Mapping[str, Synonym]] = {**TopicsOptions.synonyms, "format": Synonym("value.format")}
    cleanup: ClassVar[str] = "delete"
    codes: ClassVar[Mapping[str, str]] = {
        **TopicsOptions.codes,
        "no-key-column": "the table lacks a column that `key.fields` names",
    }

    type: Literal["kafka"]
    """`kafka`."""

    value_format: WrittenFormatName = Field("debezium-json", alias="value.format")
    """`debezium-json`, `canal-json`, `maxwell-json`, `ogg-json`, `debezium-avro-confluent`: what happened to a row,
    with the row before it where the source told it. `json`, `csv`, `raw` (the one column of a table), `avro`,
    `avro-confluent`, `protobuf`, `protobuf-confluent`, `json-confluent`: the row after an insert or update; a delete is
    a null value under its key, and cannot be said without `key.format`: it is left out and counted."""

    key_format: WrittenKeyFormatName | None = Field(None, alias="key.format")
    """Records have keys of the table and its primary key: `json` is `{"TableId":"shop.orders","id":1}`, `csv` is
    `"shop.orders",1`; `raw` is the one column of the primary key alone, `avro` and `avro-confluent` are a record of its
    columns, `protobuf` and `protobuf-confluent` a message of them, `json-confluent` an object. Options of the format
    are `key.csv.*` and so on, or else those of the values. Default: no keys."""

    key_fields: KeyFields = Field((), alias="key.fields")
    """The columns that keys have, separated by `;`, instead of the primary key. Keys do not have the table's id then,
    unless `sink.add-tableId-to-key-enabled` is true. A table that lacks one of them is a reject."""

    key_prefix: str = Field("", alias="key.fields-prefix")
    """The beginning of the names of the keys' columns in the table, which the keys that are written do not have. Needs
    `value.fields-include: EXCEPT_KEY`."""

    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field("ALL", alias="value.fields-include")
    """`ALL`: rows have all columns. `EXCEPT_KEY`: without those of the keys."""

    table_id_key: bool | None = Field(None, alias="sink.add-tableId-to-key-enabled")
    """Keys begin with the table's id, `"TableId":"shop.orders"`. Default: `true`, and `false` with `key.fields`."""

    include_schema: bool = Field(False, alias="debezium-json.include-schema.enabled")
    """With `debezium-json`: each value is `{"schema":…,"payload":…}`, and the payload's values are as the schema says:
    dates and times are counts, decimals are bytes."""

    topic: str | None = Field(None, min_length=1)
    """The topic of all tables. Default: each table's own, by `sink.tableId-to-topic.mapping`, else by its routed id."""

    mapping: str | None = Field(None, alias="sink.tableId-to-topic.mapping")
    """Topics of tables: `db.t1,db.t2:topic1;db.x\\.*:topic2`. Table names are regular expressions as in `route:`, over
    routed ids; the first that matches counts. Messages keep their tables' names."""

    strategy: Literal["all-to-zero", "hash-by-key"] = Field("all-to-zero", alias="partition.strategy")
    """`all-to-zero`: everything goes to partition 0, in one order. `hash-by-key`: changes of one primary key go to one
    partition; by the key's hash as the Java client takes it, where records have keys."""

    partitioner: Partitioner | None = Field(None, alias="sink.partitioner")
    """Instead of `partition.strategy`. `default`: by the key's hash as the Java client takes it; at random where
    records have no keys. `fixed`: each task that writes has one partition of a topic. `round-robin`: a task writes to
    the partitions of a topic in turn. `module:Class`: a class of your own in Python, with a method
    `partition(topic, key, value, partitions)`."""

    _partitioner_code: bytes | None = PrivateAttr(None)

    @field_validator("topic")
    @classmethod
    def _check_topic(cls, value: str | None) -> str | None:
        return None if value is None else topic_name(value)

    @field_validator("mapping")
    @classmethod
    def _check_mapping(cls, value: str | None) -> str | None:
        _mapping(value)
        return value

    @model_validator(mode="after")
    def _check_schema(self) -> KafkaSink:
        if self.include_schema and self.value_format != "debezium-json":
            key = "debezium-json.include-schema.enabled"
            raise OptionErrors((key, f"{key} needs value.format: debezium-json"))
        return self

    @model_validator(mode="after")
    def _check_keys(self) -> KafkaSink:
        given = (
            ("key.fields", bool(self.key_fields)),
            ("key.fields-prefix", bool(self.key_prefix)),
            ("value.fields-include", self.fields_include == "EXCEPT_KEY"),
            ("sink.add-tableId-to-key-enabled", self.table_id_key is not None),
        )
        problems = [(key, f"{key} needs key.format") for key, is_given in given if is_given and self.key_format is None]
        problems += unprefixed(self.key_fields, self.key_prefix)
        if self.key_prefix and self.fields_include != "EXCEPT_KEY":
            problems.append(("key.fields-prefix", "key.fields-prefix needs value.fields-include: EXCEPT_KEY"))
        if self.partitioner is not None and "strategy" in self.model_fields_set:
            problems.append(("sink.partitioner", "sink.partitioner and partition.strategy: give one of them"))
        if problems:
            raise OptionErrors(*problems)
        return self

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        out = []
        if is_of_rows(self.value_format) and self.key_format is None:
            text = f"value.format: {self.value_format} has no way to say a delete without key.format"
            out.append(("value.format", text))
        if self.topic is not None and self.mapping is not None:
            out.append(("sink.tableId-to-topic.mapping", "sink.tableId-to-topic.mapping has no effect beside topic"))
        return out

    @property
    def mapped(self) -> list[tuple[str, str]]:
        """The entries of `sink.tableId-to-topic.mapping`: what to call each, and its selector."""
        pairs = [] if self.topic is not None else _mapping(self.mapping)
        return [(f"sink.tableId-to-topic.mapping {topic}", tables.text) for tables, topic in pairs]

    def topic_of(self, table: TableId) -> str:
        """Return the topic of a sink table; raises RowError for an id that cannot be a topic's name."""
        if self.topic is not None:
            return self.topic
        for tables, topic in _mapping(self.mapping):
            if tables.match(table) is not None:
                return topic
        return super().topic_of(table)

    @property
    def capabilities(self) -> SinkCapabilities:
        """Records have keys, or are spread over partitions by them, as options say."""
        return SinkCapabilities(
            needs_key=False,
            writes_keys=self.key_format is not None or self.strategy == "hash-by-key",
            key_format=self.key_format,
            changelog=not is_of_rows(self.value_format) or bool(self.key_fields),
            guarantee=self.guarantee,
            numbers=self.numbers,
            names_code=self.partitioner is not None and self.partitioner not in NAMES,
        )

    @property
    def hashes_keys(self) -> bool:
        """True if records are spread over partitions by their keys."""
        return self.partitioner is None and self.strategy == "hash-by-key"

    def load_code(self) -> list[tuple[str, str]]:
        """Import the user's partitioner. Return what is wrong with it: the option, and the reason."""
        try:
            load(self.partitioner or "")
        except CodeError as exc:
            return [("sink.partitioner", str(exc))]
        return []

    def packed(self, folder: Path | None) -> Self:
        """Return these options with the user's partitioner, for workers. Raise ConfigError."""
        return holding(self, _partitioner_code=packed(self.partitioner or "", folder))

    def writer(self, pipeline: str, run: int) -> Writer:
        """Return the writer that a task writes to the sink with."""
        if self.partitioner in {None, "default"}:
            return super().writer(pipeline, run)
        return PartitioningWriter(self.kafka_writer(pipeline), self.partitioner or "", self._partitioner_code)

    @property
    def _key_form(self) -> KeyForm:
        """The columns of keys."""
        named = not self.key_fields if self.table_id_key is None else self.table_id_key
        return KeyForm(self.key_fields, self.key_prefix, named)

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> ChangeEncoder:
        """Return how changes of a table are written; raises RowError for an id that cannot be a topic's name."""
        to, form = self.destination(target), self._key_form
        self._check_key(sink)
        left_out = self._left_out(sink)
        to_zero = self.partitioner is None and self.strategy == "all-to-zero"
        if to_zero:
            to = TopicDestination(to.topic, to.headers, 0)
        metadata = self.record_metadata(sink)
        typed_key, typed_value = self.typed(target, sink)
        value = typed_value or self._value(target, sink, left_out)
        moves, (key_columns, columns) = is_of_rows(self.value_format), self._parts(sink)
        splits = capabilities_of(self.value_format).splits_keys
        key_part = None if self.key_format is None else WrittenPart(self.key_options, key_columns, typed_key)
        rounding = self.rounding(key_part, WrittenPart(self.format, columns, typed_value))
        coarse = has_times if typed_value is not None else _counted if self.include_schema else None
        key = self._key(target, sink, form) if typed_key is None else TypedKey(sink, form.of(sink), typed_key)
        template = RecordTemplate(to, key, value, moves, splits)
        if to_zero or self.partitioner is not None or key is not None:
            keys = self.key_fields
            encoder = ChangeEncoder(
                table, source, sink, template.render, inference, template=template, coarse=coarse, key_columns=keys
            )
        else:
            hashed = json_cells(((name, ColumnRef(name)) for name in sink.primary_key), table_member(target))

            def render(change: RowChange) -> Iterator[Record]:
                for record in template.render(change):
                    place = crc32(fill(hashed, None, change.key)).to_bytes(4, "big")
                    yield record._replace(destination=to._replace(partition=place))

            encoder = ChangeEncoder(table, source, sink, render, inference, coarse=coarse)
        return encoder.with_rounding(rounding).with_metadata(metadata).with_splits(splits)

    def _parts(self, schema: TableSchema) -> tuple[dict[str, Column], dict[str, Column]]:
        """Return the columns of keys and those of values, by the names of their fields."""
        columns, form, left_out = {c.name: c for c in schema.columns}, self._key_form, self._left_out(schema)
        key = {name: columns[column] for name, column in replace(form, table_id=False).named(schema)}
        return key, {name: column for name, column in columns.items() if name not in left_out}

    def _check_key(self, sink: TableSchema) -> None:
        """Raise RowError for a table that lacks a column of the keys."""
        missing = next((name for name in self.key_fields if all(c.name != name for c in sink.columns)), None)
        if missing is not None:
            raise RowError("no-key-column", f"the table has no column {missing[:100]!r}, which key.fields names")

    def _left_out(self, sink: TableSchema) -> tuple[str, ...]:
        """Return the columns that rows in values do not have."""
        of_key = self._key_form.of(sink) if self.fields_include == "EXCEPT_KEY" else ()
        return (*of_key, *self.metadata_names)

    def _value(self, target: TableId, sink: TableSchema, left_out: tuple[str, ...]) -> Value:
        """Return the function that makes values, of a format without schemas. Raise RowError."""
        rest = replace(sink, columns=tuple(column for column in sink.columns if column.name not in left_out))
        value = value_of(self.value_format, target, rest, include_schema=self.include_schema, options=self.format)
        return without(value, left_out, sink)

    def _key(self, target: TableId, sink: TableSchema, form: KeyForm) -> Segments | None:
        """Return the pattern of keys; None where records have none. Raise RowError."""
        if self.key_format is None or not (form.table_id or form.of(sink)):
            return None
        if self.key_format == "json":
            return json_key(target, sink, form)
        first = msgspec.json.encode(show(target)) if form.table_id else None
        return self.key_by_options(self.key_format, target, sink, form.of(sink), first)

    def typed(self, table: TableId, schema: TableSchema) -> tuple[RowBytes | None, Upserts | ChangeBytes | None]:
        """Return what makes keys and values of a sink table, where their formats have schemas. Raise RowError."""
        if not self.declares:
            return None, None
        self._check_key(schema)
        key, value = self._parts(schema)
        return self.typed_key(table, key), self.typed_value(table, value)


def _counted(data_type: DataType) -> bool:
    """Return whether the schema of `debezium-json` declares a type's times as counts of microseconds."""
    return isinstance(data_type, (TimestampNTZType, TimeType))


@lru_cache(maxsize=16)
def _mapping(text: str | None) -> list[tuple[Selector, str]]:
    """Return selectors and topics; raises ValueError."""
    out = []
    for part in (text or "").split(";"):
        if not part.strip():
            continue
        tables, colon, topic = part.rpartition(":")
        if not colon or not tables.strip():
            raise ValueError(f"{part.strip()[:100]!r} is not tables:topic; write db.t1,db.t2:topic1;db.t3:topic2")
        try:
            out.append((selector(tables.strip()), topic_name(topic.strip())))
        except SelectorError as exc:
            raise ValueError(f"{tables.strip()[:100]!r} is no table selector: {exc}") from None
    return out
