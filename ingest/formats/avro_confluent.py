"""Avro with a schema registry: each value is a row, a record of the schema whose id stands in front of it.

In: the values of records. Out: an insert for each, whose row is JSON text, with the types that its schema says.
Rules: docs/spec/avro.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ingest.model.change import TOMBSTONE, Kind, Reject
from ingest.registry.options import RegistryOptions, keys_behind
from ingest.schema.type_hints import TypeHints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.model.change import Decoded
    from ingest.model.table import TableId


class AvroConfluent(RegistryOptions):
    """Options of `value.format: avro-confluent`."""

    name: ClassVar[str] = "avro-confluent"
    model_config = keys_behind(name)

    form: ClassVar[None] = None
    said: ClassVar[None] = None

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints()

    def decoder(self, topic: str, *, keyed: bool = False) -> AvroConfluentDecoder:
        """Return a decoder for one split's records; `keyed`: it reads their keys, too: a null value is a delete."""
        return AvroConfluentDecoder(self, topic, keyed=keyed)


class AvroConfluentDecoder:
    """Decodes one split."""

    def __init__(self, options: AvroConfluent, topic: str, *, keyed: bool) -> None:
        """Take the topic for the table. Raise ConfigError."""
        from ingest.formats.registered import FAILURES, reject, rows_of  # noqa: PLC0415  (`check` needs no client)

        self._table: TableId = (topic,)
        self._schemas = rows_of(options)
        self._failures, self._reject = FAILURES, reject
        self._null: Decoded = (self._table, Kind.DELETE, None, None, None, None) if keyed else TOMBSTONE

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order. Raise IngestError where the registry gives no answer."""
        return [self._null if value is None else self._one(value) for value in values]

    def _one(self, value: bytes) -> Decoded:
        found = self._schemas.find(value)
        if isinstance(found, Reject):
            return found
        try:
            row = found.row(value)
        except self._failures as exc:
            return self._reject(exc)
        return (self._table, Kind.INSERT, None, row, None, found.declared)
