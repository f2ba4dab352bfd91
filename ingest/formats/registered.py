"""Messages in the wire format of Confluent's serializers: a zero, the id of a schema in four bytes, the value.

In: such a message. Out: what was compiled from the schema of its id, once for all messages of a worker that have it; or
the reject of a message that has no such schema. Rules: docs/spec/avro.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from ingest.avro.envelopes import EnvelopeReader
from ingest.avro.rows import MALFORMED, Compiler, RowReader, ended, why_malformed
from ingest.avro.schema import SchemaError, parse
from ingest.model.cache import Cache
from ingest.model.change import InlineSchema, Reject, Skip
from ingest.model.reject import Contradiction, RowError
from ingest.registry.client import client_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.avro.schema import Node
    from ingest.registry.client import RegistryClient
    from ingest.registry.options import RegistryOptions

HEAD: Final = 5
"""Bytes in front of the value."""
FAILURES: Final = (*MALFORMED, Contradiction, RowError)
"""The exceptions of readers for a message that becomes a reject."""

T = TypeVar("T")


class SchemasById(Generic[T]):
    """What is compiled from the schemas of one registry, by their ids."""

    def __init__(self, client: RegistryClient, compiled: Callable[[Node], T]) -> None:
        """`compiled` makes something of a schema; it may raise SchemaError."""
        self._client = client
        self._compiled = compiled
        self._kept: Cache[bytes, T | Reject] = Cache(10_000, 128 << 20)

    def find(self, message: bytes) -> T | Reject:
        """Return what the schema of a message became. Raise IngestError where the registry gives no answer."""
        known = self._kept.get(message[:HEAD])
        return self._fetch(message) if known is None else known

    def _fetch(self, message: bytes) -> T | Reject:
        if len(message) < HEAD or message[0]:
            begins = message[:1].hex() or "nothing"
            text = f"it does not begin with a zero and the id of a schema, but with {begins}: no message of this format"
            return Reject("malformed", text)
        number = int.from_bytes(message[1:HEAD], "big")
        found = self._client.schema(number)
        if found is None:
            return Reject("unknown-schema", f"the schema registry has no schema {number}")
        made: T | Reject
        if found.kind != "AVRO":
            made = Reject("bad-schema", f"schema {number} of the registry is one of {found.kind[:20]}, not of Avro")
        else:
            try:
                made = self._compiled(parse(found.text, found.references))
            except (SchemaError, RecursionError) as exc:
                made = Reject("bad-schema", f"schema {number} of the registry cannot be used: {exc}")
        texts = len(found.text) + sum(map(len, found.references))
        return self._kept.put(message[:HEAD], made, 2000 + 40 * texts)


class RowSchema:
    """The reader of a schema's rows, and what their messages declare."""

    def __init__(self, node: Node) -> None:
        """Compile a record's schema. Raise SchemaError."""
        self.reader = RowReader(node, Compiler())
        self.declared = InlineSchema(self.reader.types)
        """The types of columns, as messages declare them."""

    def row(self, message: bytes) -> msgspec.Raw:
        """Return the row of a whole message as JSON text. Raise one of FAILURES."""
        row, at = self.reader.read(message, HEAD)
        ended(message, at)
        return msgspec.Raw(msgspec.json.encode(row))


class EnvelopeSchema:
    """The reader of a schema's envelopes, and what their messages declare."""

    def __init__(self, node: Node) -> None:
        """Compile an envelope's schema. Raise SchemaError."""
        self._reader = EnvelopeReader(node)
        self.other = None if "op" in self._reader.names else _no_op(self._reader.names)
        """The result of decoding a message without `op`; None for an envelope."""
        self.declared = InlineSchema(self._reader.types)
        """The types of the rows' columns, as messages declare them."""

    def read(self, message: bytes) -> dict[str, Any]:
        """Return the members of a whole message. Raise one of FAILURES."""
        envelope, at = self._reader.read(message, HEAD)
        ended(message, at)
        return envelope


def _no_op(names: frozenset[str]) -> Skip | Reject:
    """Return the result of a message without `op`: Debezium writes some that are no rows."""
    if not names.isdisjoint({"ddl", "tableChanges"}):
        return Skip("schema-history")
    if {"status", "id"} <= names:
        return Skip("transaction-boundary")
    if names == {"ts_ms"}:
        return Skip("heartbeat")
    return Reject("malformed", "not a Debezium message: its schema has no op")


def reject(exc: Exception) -> Reject:
    """Return the reject of a message, from one of FAILURES."""
    if isinstance(exc, RowError):
        return Reject(exc.code, str(exc))
    if isinstance(exc, Contradiction):
        return Reject("type-mismatch", str(exc))
    return Reject("malformed", f"not a message of its schema: {why_malformed(exc)}")


def read_row(schemas: SchemasById[RowSchema], message: bytes) -> tuple[msgspec.Raw, InlineSchema] | Reject:
    """Return a message's row as JSON text with what it declares; or its reject. Raise IngestError."""
    found = schemas.find(message)
    if isinstance(found, Reject):
        return found
    try:
        return found.row(message), found.declared
    except FAILURES as exc:
        return reject(exc)


_ROWS: dict[RegistryClient, SchemasById[RowSchema]] = {}


def rows_of(options: RegistryOptions) -> SchemasById[RowSchema]:
    """Return this process's schemas of rows, in the registry of a format. Raise ConfigError."""
    client = client_of(options.client())
    found = _ROWS.get(client)
    if found is None:
        found = _ROWS[client] = SchemasById(client, RowSchema)
    return found


_ENVELOPES: dict[RegistryClient, SchemasById[EnvelopeSchema]] = {}


def envelopes_of(options: RegistryOptions) -> SchemasById[EnvelopeSchema]:
    """Return this process's schemas of envelopes, in the registry of a format. Raise ConfigError."""
    client = client_of(options.client())
    found = _ENVELOPES.get(client)
    if found is None:
        found = _ENVELOPES[client] = SchemasById(client, EnvelopeSchema)
    return found
