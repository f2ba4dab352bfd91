"""Options of Protocol Buffers: each value is a row, a message of the type that the pipeline's file or its schema names.

Rules: docs/spec/protobuf.md.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from ingest.component.options import OptionErrors, Options, is_written
from ingest.errors import IngestError
from ingest.formats.row_decoder import RowFormat
from ingest.model.text import reason_of
from ingest.packages import lacking, require
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.formats.protobuf.messages import MessageTypes, RowSchema
    from ingest.formats.protobuf.table_writer import ProtobufRows, RegisteredRows
    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowPlace
    from ingest.model.schema import Column
    from ingest.schema_registry.client import Found

_FILE: Final = "protobuf.descriptor-file"
_SCHEMA: Final = "protobuf.schema"
_MESSAGE: Final = "protobuf.message-class-name"
CODES: Final = {"unknown-field": "a message of Protocol Buffers has a field that its schema does not have"}
"""Codes of rejects that only formats of Protocol Buffers have."""


class Protobuf(RowFormat, Options):
    """Options of `value.format: protobuf`."""

    name: ClassVar[str] = "protobuf"
    codes: ClassVar[dict[str, str]] = CODES

    descriptor_file: str | None = Field(None, alias=_FILE, min_length=1)
    """A file with the descriptors of all messages, which `protoc --descriptor_set_out=FILE --include_imports` makes. It
    is read where the command runs, at its start. Either this or `protobuf.schema`."""

    schema_text: str | None = Field(None, alias=_SCHEMA, min_length=1)
    """The text of a .proto file that imports no other files than those of Google. The package grpcio-tools reads it."""

    message_name: str = Field(alias=_MESSAGE, min_length=1)
    """The full name of the message that each value is: `shop.Order`."""

    read_defaults: bool = Field(False, alias="protobuf.read-default-values")
    """A field that a message does not have is read as its default value, and not as null. Without effect for fields
    of which a message cannot tell whether it has them: these are read as their default value in any case."""

    null_text: str | None = Field(None, alias="protobuf.write-null-string-literal")
    """For a sink: the text that stands for a null among the texts of an ARRAY or MAP. Default: the row is rejected."""

    unknown_fields: Literal["reject", "ignore"] = Field("reject", alias="protobuf.unknown-fields")
    """The way with a message that has a field which the descriptor does not have: reject it, or leave the field out."""

    ignore_parse_errors: bool = Field(False, alias="protobuf.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    _content: bytes = PrivateAttr(b"")
    _written: bool = PrivateAttr(default=False)
    """True if a sink writes the format."""

    @model_validator(mode="after")
    def _check_message(self, info: ValidationInfo) -> Self:
        self._written = is_written(info)
        if (self.schema_text is None) == (self.descriptor_file is None):
            key = _FILE if self.schema_text is None else _SCHEMA
            raise OptionErrors((key, f"give either {_FILE} or {_SCHEMA}"))
        key, given = (_FILE, self.descriptor_file) if self.schema_text is None else (_SCHEMA, self.schema_text)
        if given is None or "${" in given or "${" in self.message_name:
            return self
        if key == _SCHEMA and lacking("protobuf"):
            return self  # `packages` says it
        try:
            self._content = compiled(given) if key == _SCHEMA else Path(given).read_bytes()
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
        return [*super().packages(), *([] if self.schema_text is None else [(_SCHEMA, "protobuf")])]

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        reading = ("read_defaults", "unknown_fields", "ignore_parse_errors")
        keys = [str(type(self).model_fields[name].alias) for name in idle_options(self, reading, self._written)]
        what = "sink" if self._written else "source"
        return [*super().warnings(), *((key, f"{key} has no effect for a {what}") for key in keys)]

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given message."""
        return self._schema().columns if self._content else ()

    def _schema(self) -> RowSchema:
        if not self._content:
            require("protobuf")
        return _row_schema(self._content, self.message_name, self.read_defaults, self.unknown_fields == "ignore")

    def reader(self) -> ReadRow:
        """Return a function that reads a key or a value: its row as JSON text with what it declares, or its reject."""
        return self._schema().decode

    def row_writer(self, _place: RowPlace, columns: Mapping[str, Column]) -> ProtobufRows:
        """Return the function that makes a table's rows. Raise RowError where the message cannot take its columns."""
        from ingest.formats.protobuf.schema import DescriptorSet  # noqa: PLC0415
        from ingest.formats.protobuf.table_writer import ProtobufRows  # noqa: PLC0415  (`check` needs none of this)

        descriptor = DescriptorSet(self._content).message(self.message_name)
        return ProtobufRows(descriptor, columns, self.null_text)


def idle_options(options: Options, reading: Iterable[str], written: bool) -> list[str]:
    """Return the options of a format that are set without effect. `reading` are those for sources only."""
    idle = reading if written else ("null_text",)
    return [name for name in idle if name in options.model_fields_set]


@lru_cache(maxsize=16)
def compiled(text: str) -> bytes:
    """Return the descriptor set of a text; raises SchemaError, and IngestError where nothing can read it."""
    from ingest.formats.protobuf.schema import compile_schema  # noqa: PLC0415  (only this option needs it)

    return compile_schema(text, {})


@lru_cache(maxsize=16)
def _row_schema(content: bytes, message: str, read_defaults: bool, ignore_unknown: bool) -> RowSchema:
    """Return the compiled type of a message in a descriptor set; raises SchemaError."""
    from ingest.formats.protobuf.messages import RowSchema  # noqa: PLC0415
    from ingest.formats.protobuf.schema import DescriptorSet  # noqa: PLC0415  (only this format needs it)

    found = DescriptorSet(content).message(message)
    return RowSchema(found, read_defaults=read_defaults, ignore_unknown=ignore_unknown)


class ProtobufConfluent(RowFormat, RegistryOptions):
    """Options of `value.format: protobuf-confluent`."""

    name: ClassVar[str] = "protobuf-confluent"
    codes: ClassVar[dict[str, str]] = CODES
    model_config = keys_behind(name)

    read_default_values: bool = False
    """A field that a message does not have is read as its default value, and not as null. Without effect for fields
    of which a message cannot tell whether it has them: these are read as their default value in any case."""

    schema_text: str | None = Field(None, min_length=1)
    """The text of a .proto file, whose first message is the rows. A sink registers it, instead of one that it makes of
    the table. A source has no use for it: its messages have the ids of their schemas."""

    null_text: str | None = Field(None, alias="protobuf-confluent.write-null-string-literal")
    """For a sink: the text that stands for a null among the texts of an ARRAY or MAP. Default: the row is rejected."""

    unknown_fields: Literal["reject", "ignore"] = "reject"
    """The way with a message that has a field which its schema does not have: reject it, or leave the field out."""

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
            compiled(self.schema_text)
        except (ValueError, IngestError) as exc:
            raise OptionErrors((key, f"{key}: the schema cannot be used: {exc}")) from exc
        return self

    def packages(self) -> list[tuple[str, str]]:
        """Return the options that need packages which may be missing: for each its key, and the name of the extra."""
        return [*super().packages(), ("", "protobuf")]  # a registry has texts

    def warnings(self) -> list[tuple[str, str]]:
        """Return the options that are accepted but have no effect: for each its key, and why it has none."""
        keys = {"null_text": "write-null-string-literal"}
        idle = idle_options(self, ("read_default_values", "unknown_fields"), self._written)
        names = [f"{self.name}.{keys.get(name, name.replace('_', '-'))}" for name in idle]
        what = "sink" if self._written else "source"
        return [*super().warnings(), *((key, f"{key} has no effect for a {what}") for key in names)]

    def reader(self) -> ReadRow:
        """Return a function that reads a key or a value: its row as JSON text with what it declares, or its reject.

        Raise ConfigError. The function raises IngestError where the registry gives no answer.
        """
        # `check` needs neither a client nor google's library
        from ingest.formats.protobuf.messages import MessageTypes  # noqa: PLC0415
        from ingest.formats.protobuf.schema import compile_schema  # noqa: PLC0415
        from ingest.formats.registered import read_row, schemas_by_id  # noqa: PLC0415

        read_defaults, ignore_unknown = self.read_default_values, self.unknown_fields == "ignore"

        def compiled(found: Found) -> MessageTypes:
            files = dict(zip(found.names, found.references, strict=True))
            content = compile_schema(found.text, files)
            return MessageTypes(content, read_defaults=read_defaults, ignore_unknown=ignore_unknown)

        schemas = schemas_by_id(self, "PROTOBUF", compiled, (MessageTypes, read_defaults, ignore_unknown))
        return lambda message: read_row(schemas, message)

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> RegisteredRows:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        from ingest.formats.protobuf.table_writer import RegisteredRows  # noqa: PLC0415  (as in `reader`)

        return RegisteredRows(self, place, columns)
