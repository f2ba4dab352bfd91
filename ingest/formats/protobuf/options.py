"""Options of Protocol Buffers: each value is a row, a message of the type that the pipeline's file or its schema names.

Rules: docs/spec/protobuf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from ingest.component.options import OptionErrors, Options, is_written
from ingest.errors import IngestError
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.registered import read_row, schemas_by_id
from ingest.formats.row_decoder import RowFormat
from ingest.model.text import reason_of
from ingest.packages import lacking, require
from ingest.schema_registry.options import RegistryOptions, keys_behind

# google's library is imported by what reads and writes messages: `check` of a pipeline without them needs none of it
if TYPE_CHECKING:
    from ingest.formats.protobuf.messages import MessageTypes, RowSchema
    from ingest.formats.protobuf.table_writer import ProtobufRows, RegisteredRows
    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowPlace
    from ingest.model.schema import Column
    from ingest.model.table import TableId
    from ingest.schema_registry.client import Found

_FILE: Final = "protobuf.descriptor-file"
_SCHEMA: Final = "protobuf.schema"
_MESSAGE: Final = "protobuf.message-class-name"


class MessageOptions(Options):
    """Options that both formats share."""

    codes: ClassVar[Mapping[str, str]] = {
        "unknown-field": "a message of Protocol Buffers has a field that its schema does not have"
    }

    read_default_values: bool = False
    """A field that a message does not have is read as its default value, and not as null. Without effect for fields
    of which a message cannot tell whether it has them: these are read as their default value in any case."""

    write_null_string_literal: str | None = None
    """For a sink: the text that stands for a null among the texts of an ARRAY or MAP. Default: the row is rejected."""

    unknown_fields: Literal["reject", "ignore"] = "reject"
    """The way with a message that has a field which its schema does not have: reject it, or leave the field out."""

    _written: bool = PrivateAttr(default=False)
    """True if a sink writes the format."""

    @model_validator(mode="after")
    def _check_side(self, info: ValidationInfo) -> Self:
        self._written = is_written(info)
        return self

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        side = "sink" if self._written else "source"
        idle = ("read_default_values", "unknown_fields") if self._written else ("write_null_string_literal",)
        keys = [str(type(self).model_fields[name].alias) for name in idle if name in self.model_fields_set]
        return [(key, f"{key} has no effect for a {side}") for key in keys]

    @property
    def _ignores_unknown(self) -> bool:
        return self.unknown_fields == "ignore"


class Protobuf(MessageOptions, RowFormat, FormatOptions):
    """Options of `value.format: protobuf`."""

    name: ClassVar[str] = "protobuf"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_keys=True, table_schemas="rows", says_types=True, compact=True,
        binary_numbers=True,
    )  # fmt: skip
    model_config = keys_behind(name)

    descriptor_file: str | None = Field(None, min_length=1)
    """A file with the descriptors of all messages, which `protoc --descriptor_set_out=FILE --include_imports` makes. It
    is read where the command runs, at its start. Either this or `protobuf.schema`."""

    schema_text: str | None = Field(None, min_length=1)
    """The text of a .proto file that imports no other files than those of Google. The package grpcio-tools reads it."""

    message_class_name: str = Field(min_length=1)
    """The full name of the message that each value is: `shop.Order`."""

    ignore_parse_errors: bool = False
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    _content: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _check_message(self) -> Self:
        if (self.schema_text is None) == (self.descriptor_file is None):
            key = _FILE if self.schema_text is None else _SCHEMA
            raise OptionErrors((key, f"give either {_FILE} or {_SCHEMA}"))
        key, given = (_FILE, self.descriptor_file) if self.schema_text is None else (_SCHEMA, self.schema_text)
        if given is None or "${" in given or "${" in self.message_class_name:
            return self
        if key == _SCHEMA and lacking("protobuf"):
            return self  # `packages` says it
        try:
            self._content = _compiled(given) if key == _SCHEMA else Path(given).read_bytes()
            self._schema()
        except OSError as exc:
            raise OptionErrors((key, f"{key}: the file cannot be read: {reason_of(exc)}")) from exc
        except IngestError as exc:
            raise OptionErrors((key, f"{key}: {exc}")) from exc
        except ValueError as exc:
            key = _MESSAGE if "no message" in str(exc) else key
            raise OptionErrors((key, f"{key}: {exc}")) from exc
        return self

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [] if self.schema_text is None else [(_SCHEMA, "protobuf")]

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        key = "protobuf.ignore-parse-errors"
        idle = self._written and "ignore_parse_errors" in self.model_fields_set
        return [(key, f"{key} has no effect for a sink")] if idle else []

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given message."""
        return self._schema().columns if self._content else ()

    def _schema(self) -> RowSchema:
        if not self._content:
            require("protobuf")
        return _row_schema(self._content, self.message_class_name, self.read_default_values, self._ignores_unknown)

    def reader_of(self, _table: TableId) -> ReadRow:
        """Return a function that reads a key or a value of a table, as `RowFormat` says."""
        return self._schema().decode

    def row_writer(self, _place: RowPlace, columns: Mapping[str, Column]) -> ProtobufRows:
        """Return the function that makes a table's rows. Raise RowError where the message cannot take its columns."""
        from ingest.formats.protobuf.table_writer import ProtobufRows

        return ProtobufRows(self._content, self.message_class_name, columns, self.write_null_string_literal)


class ProtobufConfluent(MessageOptions, RowFormat, FormatOptions, RegistryOptions):
    """Options of `value.format: protobuf-confluent`."""

    name: ClassVar[str] = "protobuf-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        rows=True, reads_keys=True, writes_keys=True, table_schemas="rows", says_types=True, compact=True,
        binary_numbers=True,
    )  # fmt: skip
    model_config = keys_behind(name)

    schema_text: str | None = Field(None, min_length=1)
    """The text of a .proto file, whose first message is the rows. A sink registers it, instead of one that it makes of
    the table. A source has no use for it: its messages have the ids of their schemas."""

    @model_validator(mode="after")
    def _check_given(self, info: ValidationInfo) -> Self:
        key = f"{self.name}.schema"
        if self.schema_text is None or "${" in self.schema_text:
            return self
        if not is_written(info):
            raise OptionErrors((key, f"{key} is for sinks: the messages of a source have the ids of their schemas"))
        if lacking("protobuf"):
            return self  # `packages` says it
        try:
            _compiled(self.schema_text)
        except (ValueError, IngestError) as exc:
            raise OptionErrors((key, f"{key}: the schema cannot be used: {exc}")) from exc
        return self

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [("", "protobuf")]  # a registry has texts

    def reader_of(self, _table: TableId) -> ReadRow:
        """Return a function that reads a key or a value of a table, as `RowFormat` says."""
        from ingest.formats.protobuf.messages import MessageTypes

        read_defaults, ignore_unknown = self.read_default_values, self._ignores_unknown

        def compiled(schema: Found) -> MessageTypes:
            return MessageTypes.compiled(schema, read_defaults=read_defaults, ignore_unknown=ignore_unknown)

        schemas = schemas_by_id(self, "PROTOBUF", compiled, (MessageTypes, read_defaults, ignore_unknown))
        return partial(read_row, schemas)

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> RegisteredRows:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        from ingest.formats.protobuf.table_writer import RegisteredRows

        return RegisteredRows(self, place, columns)


@lru_cache(maxsize=16)
def _compiled(text: str) -> bytes:
    """Return the descriptor set of a text; raises SchemaError, and IngestError where nothing can read it."""
    from ingest.formats.protobuf.schema import compile_schema

    return compile_schema(text, {})


@lru_cache(maxsize=16)
def _row_schema(content: bytes, message: str, read_defaults: bool, ignore_unknown: bool) -> RowSchema:
    """Return the compiled type of a message in a descriptor set; raises SchemaError."""
    from ingest.formats.protobuf.messages import RowSchema

    return RowSchema.named(message, content, read_defaults=read_defaults, ignore_unknown=ignore_unknown)
