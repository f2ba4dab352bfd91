"""Change messages into Kafka topics: what happened to each row, in a format of the user's choice.

Rules: docs/spec/sinks.md#kafka.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal
from zlib import crc32

import msgspec
from pydantic import Field, field_validator, model_validator

from ingest.component.options import OptionErrors
from ingest.encode.change_encoder import ChangeEncoder, RecordTemplate
from ingest.encode.typed_records import TypedKey, TypedRecords
from ingest.formats import OF_ROWS, WrittenFormatName, value_of
from ingest.formats.template import ValueTemplate, fill, json_key
from ingest.model.table import Selector, SelectorError, selector, show
from ingest.sinks.topics import Destination, TopicsOptions, topic_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.encode.change_encoder import RowChange
    from ingest.encode.upsert_encoder import Record
    from ingest.formats.template import Segments
    from ingest.formats.written import ChangeBytes, RowBytes, Upserts
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference


class KafkaSink(TopicsOptions):
    """Options of `sink:` with `type: kafka`."""

    needs_key: ClassVar[bool] = False
    cleanup: ClassVar[str] = "delete"

    type: Literal["kafka"]
    """`kafka`."""

    value_format: WrittenFormatName = Field("debezium-json", alias="value.format")
    """`debezium-json`, `canal-json`, `maxwell-json`, `ogg-json`, `debezium-avro-confluent`: what happened to a row,
    with the row before it where the source told it. `json`, `csv`, `raw` (the one column of a table), `avro`,
    `avro-confluent`, `protobuf`, `protobuf-confluent`: the row after an insert or update; a delete is a null value
    under its key, and cannot be said without `key.format`: it is left out and counted."""

    key_format: Literal["json", "csv", "raw", "avro", "avro-confluent", "protobuf", "protobuf-confluent"] | None = (
        Field(None, alias="key.format")
    )
    """Records have keys of the table and its primary key: `json` is `{"TableId":"shop.orders","id":1}`, `csv` is
    `"shop.orders",1`; `raw` is the one column of the primary key alone, `avro` and `avro-confluent` are a record of its
    columns, `protobuf` and `protobuf-confluent` a message of them. Options of the format are `key.csv.*` and so on, or
    else those of the values. Default: no keys."""

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

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        found = super().warnings()
        if self.value_format in OF_ROWS and self.key_format is None:
            text = f"value.format: {self.value_format} has no way to say a delete without key.format"
            found.append(("value.format", text))
        if self.topic is not None and self.mapping is not None:
            found.append(("sink.tableId-to-topic.mapping", "sink.tableId-to-topic.mapping has no effect beside topic"))
        return found

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
    def writes_keys(self) -> bool:
        """True if records have keys, or are spread over partitions by them."""
        return self.key_format is not None or self.strategy == "hash-by-key"

    @property
    def changelog(self) -> bool:
        """True if an insert is written otherwise than an update, or the row before a change is shown."""
        return self.value_format not in OF_ROWS

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> ChangeEncoder:
        """Return how changes of a table are written; raises RowError for an id that cannot be a topic's name."""
        to = self.destination(target)
        if self.strategy == "all-to-zero":
            to = Destination(to.topic, to.headers, 0)
        keyed = source.key_from_message
        typed_key, typed_value = self.typed(target, sink)
        value = typed_value or value_of(
            self.value_format, target, sink, include_schema=self.include_schema, options=self.format
        )
        moves, coarse = self.value_format in OF_ROWS, self.include_schema or typed_value is not None
        template: RecordTemplate | TypedRecords
        if typed_key is not None:
            template = TypedRecords(to, TypedKey(sink, typed_key), value, moves)
        else:
            template = RecordTemplate(to, self._key(target, sink), value, moves)
        if self.strategy == "all-to-zero" or template.key is not None:
            written = template if isinstance(template, RecordTemplate) and isinstance(value, ValueTemplate) else None
            return ChangeEncoder(
                table, source.schema, sink, template.render, inference, key_from_message=keyed, template=written,
                coarse=coarse,
            )  # fmt: skip
        hashed = json_key(target, sink)

        def render(change: RowChange) -> Iterator[Record]:
            for _, none, made in template.render(change):
                place = crc32(fill(hashed, None, change.key)).to_bytes(4, "big")
                yield (Destination(to.topic, to.headers, place), none, made)

        return ChangeEncoder(table, source.schema, sink, render, inference, key_from_message=keyed, coarse=coarse)

    def _key(self, target: TableId, sink: TableSchema) -> Segments | None:
        """Return the pattern of keys; None where records have none. Raise RowError."""
        if self.key_format is None:
            return None
        if self.key_format == "json":
            return json_key(target, sink)
        return self.key_by_options(self.key_format, target, sink, msgspec.json.encode(show(target)))

    def typed(self, table: TableId, schema: TableSchema) -> tuple[RowBytes | None, Upserts | ChangeBytes | None]:
        """Return what makes keys and values of a sink table, where their formats have schemas. Raise RowError."""
        if not self.declares:
            return None, None
        columns = {column.name: column for column in schema.columns}
        key = {name: columns[name] for name in schema.primary_key}
        return self.typed_key(table, key), self.typed_value(table, columns)


@lru_cache(maxsize=16)
def _mapping(text: str | None) -> list[tuple[Selector, str]]:
    """Return selectors and topics; raises ValueError."""
    out = []
    for part in (text or "").split(";"):
        if not part.strip():
            continue
        tables, colon, topic = part.rpartition(":")
        if not colon or not tables.strip():
            msg = f"{part.strip()[:100]!r} is not tables:topic; write db.t1,db.t2:topic1;db.t3:topic2"
            raise ValueError(msg)
        try:
            out.append((selector(tables.strip()), topic_name(topic.strip())))
        except SelectorError as exc:
            msg = f"{tables.strip()[:100]!r} is no table selector: {exc}"
            raise ValueError(msg) from None
    return out
