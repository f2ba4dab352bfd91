"""Options of Avro: each value is a row, a record of the schema that the file gives, or of the one whose id precedes it.

Rules: docs/spec/avro.md.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from ingest.component.options import OptionErrors, is_written
from ingest.formats.avro.messages import RowSchema, native_readers, schemas_of
from ingest.formats.avro.rows import row_of
from ingest.formats.avro.schema import SchemaError, check_defaults, parse
from ingest.formats.avro.table_writer import AvroRows, derived, registered_rows
from ingest.formats.form import AvroMessages, Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.registered import HEAD, read_row
from ingest.formats.row_decoder import RowFormat
from ingest.model.text import reason_of
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.avro.native.reader import AvroReader
    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowPlace
    from ingest.model.schema import Column
    from ingest.model.table import TableId

_SCHEMA: Final = "avro.schema"
_FILE: Final = "avro.schema-file"


class Avro(RowFormat, FormatOptions):
    """Options of `value.format: avro`."""

    name: ClassVar[str] = "avro"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_keys=True, table_schemas="rows", says_types=True, compact=True,
        binary_numbers=True,
    )  # fmt: skip

    schema_text: str | None = Field(None, alias=_SCHEMA)
    """The schema of all messages, as JSON text. A source needs either this or `avro.schema-file`. A sink without them
    derives the schema of each table."""

    schema_file: str | None = Field(None, alias=_FILE)
    """A file with the schema of all messages. It is read where the command runs, at its start."""

    ignore_parse_errors: bool = Field(False, alias="avro.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    _text: str = PrivateAttr("")

    @model_validator(mode="after")
    def _check_schema(self, info: ValidationInfo) -> Self:
        if self.schema_text is None and self.schema_file is None and is_written(info):
            return self
        if (self.schema_text is None) == (self.schema_file is None):
            key = _SCHEMA if self.schema_text is None else _FILE
            raise OptionErrors((key, f"give either {_SCHEMA} or {_FILE}"))
        key, given = (_FILE, self.schema_file) if self.schema_text is None else (_SCHEMA, self.schema_text)
        if given is None or "${" in given:
            return self
        try:
            self._text = given if key == _SCHEMA else Path(given).read_text(encoding="utf-8")
            _row_schema(self._text)
        except OSError as exc:
            raise OptionErrors((key, f"{key}: the file cannot be read: {reason_of(exc)}")) from exc
        except (ValueError, RecursionError) as exc:
            raise OptionErrors((key, f"{key}: the schema cannot be used: {exc}")) from exc
        return self

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given schema's record."""
        return _field_names(self._text)

    @property
    def form(self) -> Form:
        """Rows of one schema."""
        return Form("rows", avro=AvroMessages(0, self._native))

    def _native(self, _: bytes) -> AvroReader | None:
        """Return the native reader; None also where the pipeline declares numbers for times, which are texts there."""
        schema = _row_schema(self._text)
        return None if any(map(schema.counts, self.all_declared)) else schema.native

    def reader_of(self, table: TableId) -> ReadRow:
        """Return a function that reads a key or a value of a table, as `RowFormat` says."""
        return partial(_row_schema(self._text).decode, at=0, given=self.declared(table))

    def row_writer(self, _place: RowPlace, columns: Mapping[str, Column]) -> AvroRows:
        """Return the function that makes a table's rows. Raise RowError."""
        return AvroRows(self._text or derived(columns), columns)


class AvroConfluent(RowFormat, FormatOptions, RegistryOptions):
    """Options of `value.format: avro-confluent`."""

    name: ClassVar[str] = "avro-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_keys=True, table_schemas="rows", says_types=True, compact=True,
        binary_numbers=True,
    )  # fmt: skip
    model_config = keys_behind(name)

    @model_validator(mode="after")
    def _check_given(self, info: ValidationInfo) -> Self:
        check_given(self, written=is_written(info))
        return self

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given schema's record."""
        return _field_names(self.schema_text)

    @property
    def form(self) -> Form:
        """Rows of schemas that a worker knows once it has read one of their messages."""
        readers = native_readers(self, RowSchema, self.schema_text, self.all_declared)
        return Form("rows", avro=AvroMessages(HEAD, readers))

    def reader_of(self, table: TableId) -> ReadRow:
        """Return a function that reads a key or a value of a table, as `RowFormat` says."""
        return partial(read_row, schemas_of(self, RowSchema, self.schema_text), given=self.declared(table))

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> AvroRows:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        return registered_rows(self, place, columns, "Key" if place.part == "key" else "Value")


@lru_cache(maxsize=16)
def _row_schema(text: str) -> RowSchema:
    """Return the compiled schema of a text; raises SchemaError."""
    return RowSchema(parse(text))


def _field_names(text: str | None) -> tuple[str, ...]:
    """Return the names of the fields of a record's schema; none where there is no text, or none that is known yet."""
    if not text or "${" in text:
        return ()
    try:
        return tuple(field.name for field in row_of(parse(text)).fields)
    except (SchemaError, RecursionError):  # which is an error of its own option
        return ()


def check_given(options: RegistryOptions, *, written: bool, nullable: bool = True) -> None:
    """Raise OptionErrors where the schema of the options cannot be used.

    `written`: a sink writes it; `nullable`: whether it may be a union of the record and null. Only a reader needs the
    defaults: messages that lack a field are read with them.
    """
    text = options.schema_text
    if text is None or "${" in text:
        return
    try:
        node = parse(text)
        record = row_of(node) if nullable else node
        why = "" if record.kind == "record" else f"it is of the type {node.kind!r}, and a row is a record"
        if not written:
            check_defaults(node)
    except (SchemaError, RecursionError) as exc:
        why = str(exc)
    if why:
        key = f"{options.name}.schema"
        raise OptionErrors((key, f"{key}: the schema cannot be used: {why}"))
