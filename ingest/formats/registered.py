"""Messages in the wire format of Confluent's serializers: a zero, the id of a schema in four bytes, the value.

In: such a message. Out: what was compiled from the schema of its id, once for all messages of a worker that have it; or
the reject of a message that has no such schema. Rules: docs/spec/avro.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ingest.avro.schema import SchemaError, parse
from ingest.model.cache import Cache
from ingest.model.change import Reject
from ingest.registry.client import client_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from ingest.avro.messages import RowSchema
    from ingest.avro.schema import Node
    from ingest.model.change import InlineSchema
    from ingest.registry.client import RegistryClient
    from ingest.registry.options import RegistryOptions

HEAD: Final = 5
"""Bytes in front of the value."""

T = TypeVar("T")


class SchemasById(Generic[T]):
    """Schemas of one registry by their ids, compiled."""

    def __init__(self, client: RegistryClient, compiled: Callable[[Node, Node | None], T], given: str | None) -> None:
        """`compiled` makes something of a schema and the one that its messages are read as; it may raise SchemaError.

        `given`: the text of the latter. None: messages are read as they were written.
        """
        self._client = client
        self._compiled = compiled
        self._given = given
        self._reader = None if given is None else parse(given)
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
                reader = None if found.text == self._given else self._reader
                made = self._compiled(parse(found.text, found.references), reader)
            except (SchemaError, RecursionError) as exc:
                made = Reject("bad-schema", f"schema {number} of the registry cannot be used: {exc}")
        texts = len(found.text) + sum(map(len, found.references))
        return self._kept.put(message[:HEAD], made, 2000 + 40 * texts)


def read_row(schemas: SchemasById[RowSchema], message: bytes) -> tuple[msgspec.Raw, InlineSchema] | Reject:
    """Return a message's row as JSON text with what it declares; or its reject. Raise IngestError."""
    found = schemas.find(message)
    return found if isinstance(found, Reject) else found.decode(message, HEAD)


_SCHEMAS: dict[tuple[RegistryClient, type[Any], str | None], SchemasById[Any]] = {}


def schemas_of(options: RegistryOptions, compiled: type[T], given: str | None = None) -> SchemasById[T]:
    """Return this process's schemas in the registry of a format, as that class. Raise ConfigError.

    `given`: the text of the schema that all messages are read as.
    """
    client = client_of(options.client())
    found = _SCHEMAS.get((client, compiled, given))
    if found is None:
        found = _SCHEMAS[client, compiled, given] = SchemasById(client, compiled, given)
    return found
