"""Options that every source has: how its records become rows, and what to do with broken ones.

Rules: docs/spec/columns.md and docs/spec/dirty-data.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from ingest.component.options import (
    OPTIONS,
    KeyFields,
    OptionErrors,
    Options,
    Synonym,
    filled,
    holding,
    metadata_names,
    unprefixed,
)
from ingest.formats import FORMATS, Decoder, FormatName, ReadKeyFormatName, is_of_rows
from ingest.formats.csv.options import Csv
from ingest.formats.debezium.options import DebeziumJson
from ingest.formats.format import FormatOptions
from ingest.formats.json.options import JsonKeys
from ingest.formats.metadata_columns import ExtraColumns
from ingest.formats.positional import PositionalOptions
from ingest.formats.raw import Raw
from ingest.model import types
from ingest.model.record import METADATA, Split
from ingest.model.reject import IgnoredErrors
from ingest.model.table import ByName, TableId, show
from ingest.model.types import BinaryType, DataType
from ingest.schema.ddl import parse_tables, remarks
from ingest.schema.infer import Inference

if TYPE_CHECKING:
    from ingest.component.files import Files
    from ingest.component.options import AnyOptions
    from ingest.model.schema import TableSchema
    from ingest.model.text import TextError
    from ingest.sources.stateful import RowLetters

_RAW: Final = frozenset({"__raw_key__", "__raw_value__"})


@dataclass(frozen=True)
class SourceCapabilities:
    """What there is to know of a source's records, whatever the source is."""

    left_out: str = "left-out"
    """The name by which records that are not wanted are counted."""
    upserts: bool = False
    """Records are rows by their keys, so that an insert may be an update."""
    no_start_time: str = ""
    """The reason why `--from-timestamp` cannot say where to start; empty where it can."""
    native_records: bool = False
    """Native code makes the records, in the memory that native encoders read."""


class DeclaringOptions(BaseModel):
    """Options that all sources share, whatever their records are: types that are declared, and rejects that pass."""

    model_config = OPTIONS

    capabilities: ClassVar[SourceCapabilities] = SourceCapabilities()

    only: ClassVar[None] = None
    """None: all tables are read."""

    ddls: str | None = Field(None, alias="scan.value.initial-schemas.ddls")
    """Schemas that tables have before their first record: Flink SQL's `CREATE TABLE db.t (id BIGINT, name
    VARCHAR(10))`, separated by `;`. A primary key in it is the table's. Their columns take every spelling of a
    value that loses nothing: a number in quotes, a time with `T`."""

    ignore_errors: bool = Field(False, alias="ingestion.ignore-errors")
    """Count records that cannot be taken, instead of stopping at the first."""

    max_errors: int = Field(-1, alias="ingestion.error-tolerance.max-count", ge=-1)
    """With `ingestion.ignore-errors`: stop when there are more than this many, over all runs. -1: never."""

    @field_validator("ddls")
    @classmethod
    def _check_ddls(cls, value: str | None) -> str | None:
        if value is not None:
            parse_tables(value)
        return value

    def warnings(self) -> list[tuple[str, str]]:
        """Return options that the file sets and that do nothing, each with the reason."""
        if self.ignore_errors or "max_errors" not in self.model_fields_set:
            return []
        key = "ingestion.error-tolerance.max-count"
        return [(key, f"{key} has no effect without ingestion.ignore-errors: true: the first reject stops the run")]

    def remarks(self) -> list[tuple[str, TextError]]:
        """Return types that are seldom meant."""
        if self.ddls is None:
            return []
        return [("scan.value.initial-schemas.ddls", remark) for remark in remarks(self.ddls)]

    @property
    def _initial(self) -> Mapping[TableId, TableSchema]:
        """The schemas of `scan.value.initial-schemas.ddls`, by table."""
        return {} if self.ddls is None else parse_tables(self.ddls)

    @property
    def row_letters(self) -> RowLetters | None:
        """The role that makes dead letters of records that are rows of a database; None where records are messages."""
        return None

    @property
    def tolerated(self) -> int:
        """The number of rejects that the pipeline tolerates over all runs."""
        return 0 if not self.ignore_errors else (1 << 62 if self.max_errors < 0 else self.max_errors)


class RecordOptions(DeclaringOptions, Options):
    """Options that sources share whose records have keys and values in some format."""

    formats: ClassVar[str | None] = "value.format"
    """The option that chooses the format whose own options may stand beside these."""

    synonyms: ClassVar[Mapping[str, Synonym]] = {"format": Synonym("value.format")}

    value_format: FormatName = Field("debezium-json", alias="value.format")
    """The format of the records' values."""

    key_format: ReadKeyFormatName | None = Field(None, alias="key.format")
    """The fields of the records' keys become columns, in front of the others: `json`, or another format. Its
    options are `key.csv.*`, `key.raw.*`, `key.avro.*`, `key.avro-confluent.*`, `key.protobuf.*`,
    `key.protobuf-confluent.*` and `key.json-confluent.*`, or else those of the values; of JSON,
    `key.json.ignore-parse-errors`. Where the messages are rows (`value.format` `json`, `csv`, `raw`, `avro`,
    `avro-confluent`, `protobuf`, `protobuf-confluent`, `json-confluent`, or a format of another package that says so),
    they are the table's primary key, and a record without a value is a delete."""

    key_fields: KeyFields = Field((), alias="key.fields")
    """The columns that come from the key, separated by `;`, each with the prefix of `key.fields-prefix`. Other fields
    of the key are left out. They are the primary key where all fields of the key would be. Fields of `csv` and `raw`
    keys have these names, in this order, unless the initial schema or an option names them. Default: all fields of
    the key."""

    key_prefix: str = Field("", alias="key.fields-prefix")
    """A text in front of the names of columns that come from the key. It must not be the beginning of
    `value.fields-prefix`, nor the other way round."""

    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field("ALL", alias="value.fields-include")
    """`ALL`: a column that the key and the value have is one column, if both say the same. `EXCEPT_KEY`: such a column
    is the key's, whatever the value says."""

    value_prefix: str = Field("", alias="value.fields-prefix")
    """A text in front of the names of columns that come from the value."""

    metadata: str | None = Field(None, alias="metadata.list")
    """Columns about the record itself, separated by commas: `topic`, `partition`, `offset`, `timestamp`,
    `timestamp-type`, `headers`, `leader-epoch`, `__raw_key__`, `__raw_value__`. They come last. The last two are texts
    in UTF-8, or BYTES where `scan.value.initial-schemas.ddls` declares a column of that name and type."""

    strategy: Literal["continuous", "static"] = Field("continuous", alias="schema.inference.strategy")
    """`continuous`: every record may change its table's schema. `static`: a table's first schema is its last: columns
    that it lacks are left out and counted, values that do not fit are rejects."""

    sample_size: int = Field(50, alias="scan.max.pre.fetch.records", ge=0, le=100_000)
    """Before its very first batch, a pipeline looks at this many of the newest records of each partition to learn its
    tables' schemas. A table that it does not meet there gets its schema from its first record. Zero: do not look."""

    _key_options: Any = PrivateAttr(None)
    """Options of the keys' format. None: keys are JSON."""

    _ignored_keys: bool | None = PrivateAttr(None)
    """True if keys that cannot be parsed do not count as errors. None: they do as values do."""

    format: Any = Field(default_factory=DebeziumJson, alias="*format", exclude=True)
    """Filled in from the options that start with the format's name."""

    @field_validator("metadata")
    @classmethod
    def _check_metadata(cls, value: str | None) -> str | None:
        metadata_names(value or "", METADATA, {})
        return value

    @field_validator("value_prefix")
    @classmethod
    def _check_prefixes(cls, value: str, info: ValidationInfo) -> str:
        first = info.data.get("key_prefix") or ""
        if first and value and (first.startswith(value) or value.startswith(first)):
            raise ValueError(f"{value!r} and key.fields-prefix {first!r}: neither may begin with the other")
        return value

    @model_validator(mode="after")
    def _check_columns(self) -> RecordOptions:
        given = (
            ("key.fields", bool(self.key_fields)),
            ("key.fields-prefix", bool(self.key_prefix)),
            ("value.fields-include", self.fields_include == "EXCEPT_KEY"),
        )
        problems = [(key, f"{key} needs key.format") for key, is_given in given if is_given and self.key_format is None]
        problems += unprefixed(self.key_fields, self.key_prefix)
        by_position: AnyOptions = None if self.key_format is None else FORMATS.find(self.key_format)
        if by_position is not None and issubclass(by_position, PositionalOptions):
            reasons = (by_position().unreadable(table, columns) for table, columns in self._columns_of_keys().items())
            problems += [("key.format", f"key.format: {why}") for why in reasons if why is not None]
        if problems:
            raise OptionErrors(*problems)
        return self

    def with_key_format(self, chosen: AnyOptions) -> Self:
        """Return these options with those of the keys' format, where it has any."""
        if isinstance(chosen, PositionalOptions):
            chosen = chosen.with_tables(self._columns_of_keys()).with_names(self._key_names)
        if isinstance(chosen, FormatOptions) and chosen.capabilities.says_types:
            chosen = chosen.beside(self._declared_with(self.key_prefix, self.value_prefix))
        options = holding(self, _key_options=None if isinstance(chosen, JsonKeys) else chosen)
        if "key_format" in self.model_fields_set or chosen.model_fields_set:
            options = holding(options, _ignored_keys=chosen.ignore_parse_errors)
        return options

    @property
    def _key_names(self) -> tuple[str, ...]:
        """The names of `key.fields` as keys have them."""
        return tuple(name.removeprefix(self.key_prefix) for name in self.key_fields)

    @property
    def wrong_key_fields(self) -> list[tuple[str, str]]:
        """The reason why `key.fields` names a field that keys do not have, with the option."""
        chosen = self._key_options
        if isinstance(chosen, Raw) and len(self.key_fields) > 1:
            return [("key.fields", f"key.fields: a raw key is one column, and these are {len(self.key_fields)}")]
        if isinstance(chosen, PositionalOptions):
            for table, schema in self._initial.items():
                names = [column.name for column in schema.columns]
                lacking = next((name for name in self.key_fields if name not in names), None)
                if lacking is not None:
                    where = f"the initial schema of {show(table)[:100]} has no column {lacking[:100]!r}"
                    return [("key.fields", f"key.fields: {where} (its columns: {', '.join(names)[:200]})")]
        known: tuple[str, ...] = () if chosen is None else chosen.own_names
        missing = next((name for name in self._key_names if known and name not in known), None)
        if missing is None:
            return []
        text = f"key.fields: the key has no field {missing[:100]!r} (its fields: {', '.join(known)[:200]})"
        return [("key.fields", text)]

    def with_format(self, chosen: AnyOptions) -> tuple[RecordOptions, list[tuple[str, str]]]:
        """Return these options with those of the format; and what is wrong between them: option, and reason."""
        problems = []
        if chosen.reading.fixed and self.sample_size:
            text = "json.infer-schema.fixed-types needs scan.max.pre.fetch.records: 0"
            problems.append(("json.infer-schema.fixed-types", text))
        if chosen.capabilities.says_types:
            chosen = chosen.beside(self._declared_with(self.value_prefix, self.key_prefix))
        if chosen.capabilities.asks_key_format:
            chosen = chosen.beside_keys(self.key_format)
        if isinstance(chosen, Csv) and chosen.header and not self.reads_lines:
            problems.append(("csv.header", "csv.header needs lines of files: type: file, without file.envelope"))
        if isinstance(chosen, PositionalOptions):
            tables = self._columns_of_values()
            reasons = (chosen.unreadable(table, columns) for table, columns in tables.items())
            problems += [("scan.value.initial-schemas.ddls", why) for why in reasons if why is not None]
            chosen = chosen.with_tables(tables)
        return self.model_copy(update={"format": chosen}), problems

    def with_files(self, files: Files) -> Self:
        """Return these options with what is in the files that they name; raises IngestError."""
        return self.with_files_of_formats(files)

    def with_files_of_formats(self, files: Files) -> Self:
        """Return these options with what is in the files that the formats' options name; raises IngestError."""
        options = self.model_copy(update={"format": filled(self.format, files)})
        of_keys = self._key_options
        return options if of_keys is None else holding(options, _key_options=filled(of_keys, files))

    def _declared_with(self, prefix: str, other: str) -> Mapping[TableId, Mapping[str, DataType]]:
        """Return the types that the initial schemas say of columns whose names begin so, by table, without the prefix.

        `other`: the prefix of columns that come from elsewhere.
        """
        return ByName(
            {
                table: {c.name.removeprefix(prefix): c.type for c in schema.columns if _begins(c.name, prefix, other)}
                for table, schema in self._initial.items()
            }
        )

    def _columns_of_values(self) -> Mapping[TableId, Mapping[str, DataType]]:
        """Return the columns that the initial schemas say of values, by table, with the names that values have."""
        first, other = self.value_prefix, self.key_prefix
        out = {}
        for table, schema in self._initial.items():
            of_key = self._names_of_key(schema) if getattr(self, "fields_include", "ALL") == "EXCEPT_KEY" else ()
            left = (c for c in schema.columns if c.name not in self.metadata_names and c.name not in of_key)
            own = (c for c in left if _begins(c.name, first, other))
            out[table] = {column.name.removeprefix(first): column.type for column in own}
        return ByName(out)

    def _columns_of_keys(self) -> Mapping[TableId, Mapping[str, DataType]]:
        """Return the columns that the initial schemas say of keys, by table, with the names that keys have."""
        out = {}
        for table, schema in self._initial.items():
            kinds = {column.name: column.type for column in schema.columns}
            names = self._names_of_key(schema)
            out[table] = {name.removeprefix(self.key_prefix): kinds.get(name, types.STRING) for name in names}
        return ByName({table: columns for table, columns in out.items() if columns})

    def _names_of_key(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the columns of the key, where an option names them; else those of the primary key."""
        named: tuple[str, ...] = getattr(self, "key_fields", ())
        return named or schema.primary_key

    def decoder(self, split: Split, topic: str) -> Decoder:
        """Return a decoder for the records of a split that are of one topic. Raise ConfigError."""
        decoder: Decoder = self.format.decoder(topic, keyed=self.extra.key)
        return decoder

    @property
    def reads_lines(self) -> bool:
        """True if its records are lines of files, of which the first may have the names of columns."""
        return False

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """The metadata columns."""
        return metadata_names(self.metadata or "", METADATA, {})

    @property
    def extra(self) -> ExtraColumns:
        """The columns that come from elsewhere than the value."""
        return ExtraColumns(
            self.key_format is not None,
            is_of_rows(self.value_format),
            self._key_options,
            self.key_prefix,
            self.value_prefix,
            self.metadata_names,
            self.format.reading.standard,
            self.format.reading.as_string,
            self._key_names,
            self.fields_include == "EXCEPT_KEY",
            as_bytes=frozenset(
                column.name
                for schema in self._initial.values()
                for column in schema.columns
                if column.name in _RAW and isinstance(column.type, BinaryType)
            ),
            compact=self.format.capabilities.compact,
            given=self._declared_with(self.key_prefix, self.value_prefix),
        )

    def inference(self, max_columns: int) -> Inference:
        """Return how schemas are found."""
        reading = self.format.reading
        if self.value_prefix:
            fixed = {self.value_prefix + name: data_type for name, data_type in reading.fixed.items()}
            reading = replace(reading, fixed=fixed)
        keyed = self.extra.key and is_of_rows(self.value_format)
        return Inference(reading, self.strategy == "static", self._initial, max_columns, keyed=keyed)

    @property
    def chosen_formats(self) -> tuple[Any, ...]:
        """The options of the formats of values and, where they have any, of keys."""
        return (self.format, self._key_options)

    @property
    def ignored_errors(self) -> IgnoredErrors:
        """The errors of parsing that do not count: of keys, of values."""
        values = self.format.ignore_parse_errors
        return IgnoredErrors(values if self._ignored_keys is None else self._ignored_keys, values)


def _begins(name: str, prefix: str, other: str) -> bool:
    """Return whether a column has this prefix, and with an empty one not that of columns that come from elsewhere."""
    return name.startswith(prefix) and (bool(prefix) or not other or not name.startswith(other))
