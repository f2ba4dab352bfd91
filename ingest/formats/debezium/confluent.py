"""Debezium's change messages in JSON with a schema registry: the envelope stands behind the id of its JSON Schema.

In: keys and values of records. Out: a change, a skip or a reject for each. A message becomes the one that Debezium
writes with its schema in front, where an id stands for the schema. Rules: docs/spec/json.md#json-schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import msgspec
from pydantic import model_validator

from ingest.formats.debezium.options import DebeziumDecoder, RegisteredDebezium
from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.json.confluent import KIND, refuse_schema
from ingest.formats.json.schema import JsonSchema
from ingest.formats.registered import HEAD, SchemasById, schemas_by_id
from ingest.formats.typed import Typed, TypedColumn
from ingest.model.change import TOMBSTONE, Decoded, Reject
from ingest.model.jsontext import MALFORMED, reason
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.model.table import TableId
    from ingest.model.types import DataType
    from ingest.schema_registry.client import Found

_raw = msgspec.json.Decoder(msgspec.Raw).decode


class DebeziumJsonConfluent(RegisteredDebezium, FormatOptions, RegistryOptions):
    """Options of `value.format: debezium-json-confluent`."""

    name: ClassVar[str] = "debezium-json-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        says_types=True, asks_key_format=True, repeats_deletes=True
    )
    registered_keys: ClassVar[str] = "json-confluent"
    model_config = keys_behind(name)

    as_string: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        refuse_schema(self)
        return self

    @property
    def form(self) -> Form:
        """Debezium's messages behind the ids of their schemas."""

        def knows(head: bytes) -> bool:
            return schemas_by_id(self, KIND, _Keys, _Keys).known(head) is not None

        return Form("debezium", registered=True, knows_key=knows if self._keys_registered else None)

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]]:
        """The types of columns by the head of a message, as far as a worker has read one of its schema."""

        def columns(head: bytes) -> Mapping[str, TypedColumn]:
            known = schemas_by_id(self, KIND, _Envelopes, _Envelopes).known(head)
            return {} if known is None else known.columns

        return "schema", columns

    def decoder(self, _topic: str, *, keyed: bool = False) -> DebeziumJsonDecoder:
        """Return a decoder for one split's records. Raise ConfigError."""
        return DebeziumJsonDecoder(self, keys_registered=self._keys_registered)


class _Envelopes:
    """The columns of the rows in a schema's envelopes."""

    def __init__(self, found: Found) -> None:
        """Compile a schema of a registry. Raise ValueError for one that cannot be used."""
        schema = JsonSchema(found.text, dict(zip(found.names, found.references, strict=True)))
        self.columns = _sized(schema, of_key=False)


class _Keys:
    """The columns of a schema's keys."""

    def __init__(self, found: Found) -> None:
        """Compile a schema of a registry. Raise ValueError for one that cannot be used."""
        schema = JsonSchema(found.text, dict(zip(found.names, found.references, strict=True)))
        self.columns = _sized(schema, of_key=True)


def _sized(schema: JsonSchema, *, of_key: bool) -> Mapping[str, TypedColumn]:
    """Return the columns of which a schema says the size of numbers, too, as Connect's schemas do."""
    found = schema.keys() if of_key else schema.envelopes()
    return {name: column for name, column in found.typed.items() if name not in found.wide}


class DebeziumJsonDecoder(DebeziumDecoder):
    """Decodes one split."""

    def __init__(self, options: DebeziumJsonConfluent, *, keys_registered: bool) -> None:
        """Ask the registry for nothing yet. `keys_registered`: keys may have ids, too. Raise ConfigError."""
        chosen: Any = options
        super().__init__(chosen)
        self._envelopes = schemas_by_id(options, KIND, _Envelopes, _Envelopes)
        self._keys = schemas_by_id(options, KIND, _Keys, _Keys) if keys_registered else None
        self._typed: dict[tuple[bool, frozenset[tuple[str, DataType]], bytes], Typed] = {}

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order. Raise IngestError where the registry gives no answer."""
        return [self._one(key, value) for key, value in zip(keys, values, strict=True)]

    def _one(self, key: bytes | None, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        message = _enveloped(self._envelopes, value)
        if isinstance(message, Reject):
            return message
        if key is not None and self._keys is not None and key[:1] == b"\x00":
            told = _enveloped(self._keys, key)
            if isinstance(told, Reject):
                code = "malformed-key" if told.code == "malformed" else told.code
                return Reject(code, f"the key: {told.message}", of_key=True)
            key = told
        return self._decode_one(key, message)

    def _inline_schema(self, schema: bytes, table: TableId, *, of_key: bool = False) -> Typed:
        """Return what the schema of an id says, which stands where Debezium's own messages have the schema."""
        given = self._options.declared(table)
        place = of_key, frozenset(given.items()), schema
        known = self._typed.get(place)
        if known is None:
            head = b"\0" + msgspec.json.decode(schema, type=dict[str, int])["id"].to_bytes(4, "big")
            found: Any = None if of_key and self._keys is None else (self._keys if of_key else self._envelopes)
            of_id = None if found is None else found.known(head)
            known = Typed({} if of_id is None else of_id.columns, given=given)
            if len(self._typed) >= _MAX_KEPT:
                self._typed.clear()
            self._typed[place] = known
        return known


_MAX_KEPT: Final = 1000
"""Schemas that a decoder keeps, with what the pipeline declares beside them."""


def _enveloped(schemas: SchemasById[Any], message: bytes) -> bytes | Reject:
    """Return a message behind the id of a schema as `{"schema":{"id":…},"payload":…}`, or its reject."""
    found = schemas.find(message)
    if isinstance(found, Reject):
        return found
    try:
        _raw(message[HEAD:])  # one value, and nothing behind it
    except MALFORMED as exc:
        return Reject("malformed", f"not JSON behind the id of its schema: {reason(exc)}")
    number = int.from_bytes(message[1:HEAD], "big")
    return b'{"schema":{"id":%d},"payload":%b}' % (number, message[HEAD:])
