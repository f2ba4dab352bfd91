"""Protocol Buffers with a schema registry: each value is a row, a message of the schema whose id stands in front of it.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that its schema says.
Rules: docs/spec/protobuf.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from ingest.component.options import OptionErrors, is_written
from ingest.errors import IngestError
from ingest.formats.protobuf.options import CODES, compiled, idle_options
from ingest.formats.row_decoder import RowFormat
from ingest.packages import lacking
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.protobuf.message_types import MessageTypes
    from ingest.formats.protobuf.table_writer import RegisteredRows
    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowPlace
    from ingest.model.schema import Column
    from ingest.schema_registry.client import Found


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
        from ingest.formats.protobuf.message_types import MessageTypes  # noqa: PLC0415
        from ingest.formats.protobuf.proto_text import compile_schema  # noqa: PLC0415
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
