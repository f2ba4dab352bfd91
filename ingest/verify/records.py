"""Records that a sink has written to topics or files, read back: as a source of the same format would read them.

The expected rows of such a sink are those of an upsert encoder, with the types of the sink's schema; so both sides are
rows by their keys, whatever the format. Rules: docs/spec/verify.md.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.component.options import AnyOptions, holding
from ingest.encode.upsert_encoder import UpsertEncoder
from ingest.formats import FORMATS, capabilities_of, is_of_rows
from ingest.formats.avro.options import Avro
from ingest.formats.metadata_columns import MetadataColumns
from ingest.kafka.properties import idle
from ingest.model.change import Change, Reject
from ingest.model.jsontext import key_image
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, show
from ingest.schema.ddl import create_statement
from ingest.sinks.topics.kafka import KafkaSink
from ingest.sources.kafka.options import KafkaSource, UpsertKafkaSource
from ingest.sources.lines import FileReader
from ingest.task.encoding import ChunkDecoder
from ingest.verify.rows import KeyedRow, SinkReader, SinkTable, TableRules, cells_of, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from ingest.model.record import Chunk, Record, Split
    from ingest.model.types import DataType
    from ingest.schema.evolve import SourceTable
    from ingest.schema.infer import Inference
    from ingest.sinks.file import FileSink
    from ingest.sinks.topics.upsert_kafka import UpsertKafka
    from ingest.sources import SourceCoordinator


class KeyedRows:
    """A sink's options, by which rows become JSON under their keys, whatever the sink's own format is."""

    def __init__(self, sink: AnyOptions) -> None:
        self._sink = sink
        self.capabilities = replace(sink.capabilities, changelog=False, needs_key=True, writes_keys=True)

    def __getattr__(self, name: str) -> AnyOptions:
        return getattr(self._sink, name)

    def unregistered(self) -> KeyedRows:
        """Return this: no schema registry is asked."""
        return self

    def encoder(
        self, table: TableId, source: SourceTable, target: TableId, sink: TableSchema, inference: Inference
    ) -> UpsertEncoder:
        """Return how rows of a table become JSON under their keys."""
        return UpsertEncoder(table, source, sink, _Target(target, sink), inference)


class _Target:
    """The destination of rows of a table, with its schema."""

    def __init__(self, table: TableId, schema: TableSchema) -> None:
        self.table = table
        self.columns = {column.name: column.type for column in schema.columns}
        self.key = schema.primary_key


class RecordsReader(SinkReader[_Target]):
    """The records of a sink whose records are keyed rows, or changes of rows."""

    states = True

    def __init__(self, sink: FileSink | KafkaSink | UpsertKafka, metadata: Sequence[str], *, coarse: bool) -> None:
        """`metadata`: columns of `metadata.list`. `coarse`: whether the sink writes times in microseconds."""
        self.sink: Any = KeyedRows(sink)
        self._options: Any = sink
        self._of_rows = is_of_rows(sink.value_format)
        self._metadata = metadata
        self._coarse = coarse or capabilities_of(sink.value_format).table_schemas is not None
        self._columns: dict[TableId, dict[str, DataType]] = {}
        self._keys: dict[TableId, tuple[str, ...]] = {}
        self._sources: dict[TableId, Any] = {}
        self.unreadable: dict[TableId, tuple[int, str]] = {}

    def tables(self, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, SinkTable]:
        """Return the tables as far as they are known by their schemas. Raise IngestError."""
        out = {}
        for target, schema in schemas.items():
            kinds = {column.name: column.type for column in schema.columns if column.name not in self._metadata}
            self._columns[target], self._keys[target] = kinds, schema.primary_key
            why = self._why_not(target, schema, schemas)
            says_deletes = self._says_deletes
            notes = [] if says_deletes else [f"value.format: {self._options.value_format} says no deletes"]
            if self._metadata:
                notes.append(f"columns of metadata.list are not compared: {', '.join(self._metadata)}")
            if not why:
                self._sources[target] = self._source(target, schema)
            place = self._place(target)
            absent = not why and not self._is_there(target)
            whole = bool(why) or absent or self._is_whole(target)
            if not whole:
                notes.append("the sink does not have its first records any more: rows that it lacks are not verified")
            rules = TableRules(keeps_deleted=not says_deletes, extra_known=says_deletes, missing_known=whole)
            out[target] = SinkTable(schema.primary_key, rules, place, absent=absent, skipped=why, notes=tuple(notes))
        return out

    def _why_not(self, target: TableId, schema: TableSchema, schemas: Mapping[TableId, TableSchema]) -> str:
        """Return why a table cannot be compared; an empty text where it can."""
        if not schema.primary_key:
            return "it has no primary key, so no row is found again"
        if self._of_rows and any(self._place(other) == self._place(target) for other in schemas if other != target):
            return "rows of several tables are in one place, and do not say whose they are"
        for chosen in self._options.chosen_formats:
            if isinstance(chosen, Avro) and chosen.schema_text is None and chosen.schema_file is None:
                return "nothing says by which schema its records are read: set avro.schema, or write avro-confluent"
        return ""

    @property
    def _says_deletes(self) -> bool:
        """True if a delete can be written."""
        return not self._of_rows or self._has_keys

    @property
    @abstractmethod
    def _has_keys(self) -> bool:
        """True if records have keys."""

    @abstractmethod
    def _place(self, target: TableId) -> str:
        """Return where the records of a table are, for people."""

    @abstractmethod
    def _is_there(self, target: TableId) -> bool:
        """Return whether a table's topic or files exist. Raise IngestError."""

    def _is_whole(self, target: TableId) -> bool:
        """Return whether a table's place has all records that were written. Raise IngestError."""
        return True

    @abstractmethod
    def _source(self, target: TableId, schema: TableSchema) -> AnyOptions:
        """Return the options of a source that reads the records of a table."""

    def _read_as(self, cls: type[KafkaSource | UpsertKafkaSource], given: dict[str, Any], schema: TableSchema) -> Any:
        """Return the options of a source that reads what this sink has written of a table."""
        if self._of_rows:
            columns = tuple(column for column in schema.columns if column.name not in self._metadata)
            typed = TableSchema(columns, schema.primary_key)
            given = {**given, "scan.value.initial-schemas.ddls": create_statement((given["topic"],), typed)}
        source, _ = cls.model_validate(given).with_format(self._options.format or _format(given["value.format"]))
        return source

    @abstractmethod
    def _chunks(self, target: TableId) -> Iterator[Chunk]:
        """Yield the records of a table's place in their order. Raise IngestError."""

    def rows(self, tables: Sequence[TableId]) -> Iterator[tuple[TableId, list[KeyedRow]]]:
        """Yield the states of rows, in their order."""
        by_place: dict[str, list[TableId]] = {}
        for target in tables:
            if target in self._sources:
                by_place.setdefault(self._place(target), []).append(target)
        for targets in by_place.values():
            source = self._sources[targets[0]]
            decoder = ChunkDecoder(source, MetadataColumns(source.extra) if source.extra else None)
            for chunk in self._chunks(targets[0]):
                rows: dict[TableId, list[KeyedRow]] = {}
                for decoded in decoder.decode(chunk.split, chunk.topic, self._records(chunk)):
                    if isinstance(decoded, Reject):
                        self._refuse(targets, decoded)
                        continue
                    changes = decoded if isinstance(decoded, list) else [decoded]
                    for change in changes:
                        if isinstance(change, Change):
                            self._take(change, targets, rows)
                yield from rows.items()

    def _records(self, chunk: Chunk) -> list[Record]:
        """Return those records of a chunk that say something."""
        return list(chunk.messages)

    def _take(self, change: Change, targets: Sequence[TableId], rows: dict[TableId, list[KeyedRow]]) -> None:
        """Add the states that a change leaves: its row, and nothing under the key that the row had before."""
        target = self._target_of(change.table, targets)
        if target is None:
            return
        columns, key = self._columns[target], self._keys[target]
        states = rows.setdefault(target, [])
        before, after = (
            None if row is None else cells_of(bytes(row), columns, coarse=self._coarse)
            for row in (change.before, change.after)
        )
        image = None if change.key is None else key_image(change.key, columns)
        of_key = {} if image is None else cells_of(bytes(image), columns, coarse=self._coarse)
        if after is None:
            states.append(KeyedRow(key_of({**(before or {}), **of_key}, key), None))
            return
        after = {**{name: text for name, text in of_key.items() if name in key}, **after}
        now = key_of(after, key)
        if before is not None and before.keys() >= set(key) and key_of(before, key) != now:
            states.append(KeyedRow(key_of(before, key), None))
        states.append(KeyedRow(now, after))

    def _refuse(self, targets: Sequence[TableId], reject: Reject) -> None:
        """Count a record that says no row of the sink's formats. The first of its place's tables stands for all."""
        count, first = self.unreadable.get(targets[0], (0, f"{reject.code}: {reject.message}"))
        self.unreadable[targets[0]] = count + 1, first

    def _target_of(self, table: TableId, targets: Sequence[TableId]) -> TableId | None:
        if self._of_rows:
            return targets[0]
        name = show(table)  # others may write to the same place
        return next((target for target in targets if show(target) == name), None)

    def target(self, destination: _Target) -> TableId | None:
        """Return the table that a record's destination stands for."""
        return destination.table if destination.table in self._sources else None

    def expected(
        self, table: TableId, destination: _Target, records: Sequence[tuple[bytes, bytes | None]]
    ) -> list[KeyedRow]:
        """Return the row of each record, with values in the texts of its columns' types; a delete has no cells."""
        columns = {name: kind for name, kind in destination.columns.items() if name not in self._metadata}
        out = []
        for key, value in records:
            of_key = cells_of(key, columns, coarse=self._coarse)
            row = None if value is None else cells_of(value, columns, coarse=self._coarse)
            out.append(KeyedRow(key_of({**(row or {}), **of_key}, destination.key), row))
        return out


class TopicsReader(RecordsReader):
    """Topics of a cluster."""

    def __init__(self, sink: KafkaSink | UpsertKafka, pipeline: str, resources: ExitStack) -> None:
        super().__init__(sink, sink.metadata_names, coarse=isinstance(sink, KafkaSink) and sink.include_schema)
        self._partitioner = sink.partitioner if isinstance(sink, KafkaSink) else None
        self._pipeline = f"{pipeline}-verify"
        self._resources = resources
        self._coordinator: SourceCoordinator | None = None

    def _why_not(self, target: TableId, schema: TableSchema, schemas: Mapping[TableId, TableSchema]) -> str:
        if self._partitioner not in {None, "default"}:
            return "sink.partitioner spreads the changes of a row over partitions, so that no last one is known"
        if self._partitioner == "default" and not self._has_keys:
            return "records without keys are spread over partitions, so that no last one is known"
        return super()._why_not(target, schema, schemas)

    @property
    def _has_keys(self) -> bool:
        return self._options.key_format is not None

    def _place(self, target: TableId) -> str:
        return f"topic {self._options.place_of(target)}"

    def _is_there(self, target: TableId) -> bool:
        return bool(self._connected(target).topics([self._options.place_of(target)]))

    def _is_whole(self, target: TableId) -> bool:
        starts = self._connected(target).resolve(self._splits(target), "earliest")
        return not any(starts.values())

    def _splits(self, target: TableId) -> list[Split]:
        name = self._options.place_of(target)
        topics = self._connected(target).topics([name])
        return [(name, p) for p in range(topics[name].partitions)] if name in topics else []

    def _connected(self, target: TableId) -> SourceCoordinator:
        if self._coordinator is None:
            self._coordinator = self._sources[target].coordinator(self._pipeline, lambda _: None)
            self._resources.callback(self._coordinator.close)
            self._coordinator.connect()
        return self._coordinator

    def _source(self, target: TableId, schema: TableSchema) -> AnyOptions:
        options, upserts = self._options, self._options.type == "upsert-kafka"
        source_options: dict[str, Any] = {
            "type": options.type,
            "topic": options.place_of(target),
            "properties.*": _of_consumer(options.properties),
            "value.format": options.value_format,
        }
        with_key = upserts or (self._has_keys and (self._of_rows or options.fields_include == "EXCEPT_KEY"))
        if with_key:
            source_options |= {
                "key.format": options.key_format or "json",
                "value.fields-include": options.fields_include,
            }
            if options.key_prefix:
                source_options["key.fields-prefix"] = options.key_prefix
        source = self._read_as(UpsertKafkaSource if upserts else KafkaSource, source_options, schema)
        if with_key and (options.key_options is not None or source_options["key.format"] != "json"):
            source = source.with_key_format(options.key_options or _format(source_options["key.format"]))
        return holding(source, _contents=options._contents) if options._contents else source  # noqa: SLF001

    def _chunks(self, target: TableId) -> Iterator[Chunk]:
        coordinator = self._connected(target)
        starts = coordinator.resolve(self._splits(target), "earliest")
        ends = coordinator.ends(starts)
        reader = self._sources[target].reader(self._pipeline)
        try:
            for chunk in reader.read({split: (at, ends[split]) for split, at in starts.items()}):
                if chunk is not None:
                    yield chunk
        finally:
            reader.close()


class FilesReader(RecordsReader):
    """Lines of files."""

    def __init__(self, sink: FileSink) -> None:
        super().__init__(sink, (), coarse=False)

    @property
    def _has_keys(self) -> bool:
        return bool(self._options.envelope)

    def _place(self, target: TableId) -> str:
        return f"files {self._options.place_of(target)}.*.jsonl"

    def _records(self, chunk: Chunk) -> list[Record]:
        # An empty line is a delete, and does not say of which row
        return [record for record in chunk.messages if self._has_keys or record.value()]

    def _files(self, target: TableId) -> list[Path]:
        """Return the files of a table, in the order of the runs that wrote them."""
        place = Path(self._options.place_of(target))
        files = place.parent.glob(f"{place.name}.*.jsonl")
        numbered = [(file.name.removeprefix(f"{place.name}.").removesuffix(".jsonl"), file) for file in files]
        return [file for _, file in sorted((int(number), file) for number, file in numbered if number.isdigit())]

    def _is_there(self, target: TableId) -> bool:
        return bool(self._files(target))

    def _source(self, target: TableId, schema: TableSchema) -> AnyOptions:
        # A file says nothing of its format that a topic would not: its lines are decoded as records are
        given: dict[str, Any] = {
            "type": "kafka",
            "topic": self._options.topic_of(target),
            "properties.*": {"bootstrap.servers": "none:1"},
            "value.format": self._options.value_format,
        }
        if self._has_keys and self._of_rows:
            given |= {"key.format": "json", "value.fields-include": "ALL"}
        return self._read_as(KafkaSource, given, schema)

    def _chunks(self, target: TableId) -> Iterator[Chunk]:
        name = self._options.topic_of(target)
        reader = FileReader(envelope=self._has_keys)
        for path in self._files(target):
            lines = path.read_bytes().count(b"\n")
            for chunk in reader.read({(str(path), 0): (0, lines)}):
                if chunk is not None:
                    yield replace(chunk, topic=name)  # each file is of this table


def _format(name: str) -> AnyOptions:
    """Return a format without options."""
    cls: AnyOptions = FORMATS.find(name)
    return cls()


def _of_consumer(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a producer that a consumer has, too."""
    unknown = set(idle(properties, "C"))
    return {name: value for name, value in properties.items() if name not in unknown}
