"""Avro with a schema registry: each value is a row, a record of the schema whose id stands in front of it.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that its schema says.
Rules: docs/spec/avro.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from ingest.formats.given_schema import check_given
from ingest.formats.row_decoder import RowDecoder
from ingest.registry.options import RegistryOptions, keys_behind
from ingest.schema.type_hints import TypeHints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import msgspec

    from ingest.formats.written import Place, RowBytes
    from ingest.model.change import InlineSchema, Reject
    from ingest.model.schema import Column


class AvroConfluent(RegistryOptions):
    """Options of `value.format: avro-confluent`."""

    name: ClassVar[str] = "avro-confluent"
    model_config = keys_behind(name)

    form: ClassVar[None] = None
    said: ClassVar[None] = None

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        check_given(self)
        return self

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints()

    def decoder(self, topic: str, *, keyed: bool = False) -> RowDecoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete.

        Raise ConfigError. The decoder raises IngestError where the registry gives no answer.
        """
        return RowDecoder(self.reader(), topic, keyed=keyed)

    def reader(self) -> Callable[[bytes], tuple[msgspec.Raw, InlineSchema] | Reject]:
        """Return a function that reads a key or a value: its row as JSON text with what it declares, or its reject.

        Raise ConfigError. The function raises IngestError where the registry gives no answer.
        """
        from ingest.avro.messages import RowSchema  # noqa: PLC0415  (`check` needs none of this)
        from ingest.formats.registered import read_row, schemas_of  # noqa: PLC0415  (nor a client)

        return partial(read_row, schemas_of(self, RowSchema, self.schema_text))

    def row_writer(self, place: Place, columns: Mapping[str, Column]) -> RowBytes:
        """Return the function that makes a table's rows, each behind the id of its schema. Raise RowError."""
        from ingest.formats.avro_writing import registered_rows  # noqa: PLC0415  (`check` needs no fastavro)

        return registered_rows(self, place, columns, "Key" if place.part == "key" else "Value")
