"""Avro with a schema registry: each value is a row, a record of the schema whose id stands in front of it.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that its schema says.
Rules: docs/spec/avro.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import ValidationInfo, model_validator

from ingest.component.options import is_written
from ingest.formats.avro.given_schema import check_given, field_names
from ingest.formats.form import AvroMessages, Form
from ingest.formats.row_decoder import RowFormat
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.formats.row_decoder import ReadRow
    from ingest.formats.written import RowBytes, RowPlace
    from ingest.model.schema import Column


class AvroConfluent(RowFormat, RegistryOptions):
    """Options of `value.format: avro-confluent`."""

    name: ClassVar[str] = "avro-confluent"
    counts_times: ClassVar[bool] = True
    model_config = keys_behind(name)

    @model_validator(mode="after")
    def _check_given(self, info: ValidationInfo) -> Self:
        check_given(self, written=is_written(info))
        return self

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the fields of the given schema's record."""
        return field_names(self.schema_text)

    @property
    def form(self) -> Form:
        """Rows of schemas that a worker knows once it has read one of their messages."""
        from ingest.formats.avro.messages import RowSchema  # noqa: PLC0415  (`check` needs none of this)
        from ingest.formats.registered import HEAD, native_readers  # noqa: PLC0415  (nor a client)

        return Form(
            "rows", avro=AvroMessages(HEAD, native_readers(self, RowSchema, self.schema_text, self.all_declared))
        )

    def reader(self) -> ReadRow:
        """Return a function that reads a key or a value: its row as JSON text with what it declares, or its reject.

        Raise ConfigError. The function raises IngestError where the registry gives no answer.
        """
        from ingest.formats.avro.messages import RowSchema  # noqa: PLC0415  (`check` needs none of this)
        from ingest.formats.registered import read_row, schemas_of  # noqa: PLC0415  (nor a client)

        return partial(read_row, schemas_of(self, RowSchema, self.schema_text))

    def row_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> RowBytes:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        from ingest.formats.avro.table_writer import registered_rows  # noqa: PLC0415  (`check` needs no fastavro)

        return registered_rows(self, place, columns, "Key" if place.part == "key" else "Value")
