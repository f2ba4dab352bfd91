"""Messages in the wire format of Confluent's serializers: a zero, the id of a schema in four bytes, the value.

In: such a message. Out: what was compiled from the schema of its id, once for all messages of a worker that have it; or
the reject of a message that has no such schema. Rules: docs/spec/avro.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ingest.formats.format import NOTHING_GIVEN
from ingest.model.cache import Cache
from ingest.model.change import InlineSchema, Reject

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import msgspec

    from ingest.model.types import DataType
    from ingest.schema_registry.client import Found, RegistryClient
    from ingest.schema_registry.options import RegistryOptions

HEAD: Final = 5
"""Bytes in front of the value."""

_LANGUAGES: Final = {"AVRO": "Avro", "PROTOBUF": "Protocol Buffers", "JSON": "JSON"}
"""Names of the kinds of schemas that a registry has, as people write them."""

T = TypeVar("T")


class SchemaReader(Protocol):
    """Object that reads rows of one schema."""

    def decode(
        self, message: bytes, at: int, given: Mapping[str, DataType]
    ) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row from a place to the end of a message, with what it declares; or the message's reject.

        `given`: the types that the pipeline declares for columns.
        """


R = TypeVar("R", bound=SchemaReader)


class SchemasById(Generic[T]):
    """Schemas of one registry by their ids, compiled."""

    def __init__(self, client: RegistryClient, kind: str, compiled: Callable[[Found], T]) -> None:
        """`compiled` makes something of a schema of this kind; it may raise ValueError or RecursionError."""
        self._client = client
        self._kind = kind
        self._compiled = compiled
        self._kept: Cache[bytes, T | Reject] = Cache(10_000, 128 << 20)

    def find(self, message: bytes) -> T | Reject:
        """Return what the schema of a message became. Raise IngestError where the registry gives no answer."""
        known = self._kept.get(message[:HEAD])
        return self._fetch(message) if known is None else known

    def known(self, head: bytes) -> T | None:
        """Return what the schema of messages with this head became; None if that is not known here, or a reject."""
        found = self._kept.get(head)
        return None if isinstance(found, Reject) else found

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
        if found.kind != self._kind:
            own = _LANGUAGES[self._kind]
            made = Reject("bad-schema", f"schema {number} of the registry is one of {found.kind[:20]}, not of {own}")
        else:
            try:
                made = self._compiled(found)
            except (ValueError, RecursionError) as exc:
                made = Reject("bad-schema", f"schema {number} of the registry cannot be used: {exc}")
        texts = len(found.text) + sum(map(len, found.references))
        return self._kept.put(message[:HEAD], made, 2000 + 40 * texts)


def read_row(
    schemas: SchemasById[R], message: bytes, given: Mapping[str, DataType] = NOTHING_GIVEN
) -> tuple[msgspec.Raw, InlineSchema] | Reject:
    """Return a message's row as JSON text with what it declares; or its reject. Raise IngestError.

    `given`: the types that the pipeline declares for columns.
    """
    found = schemas.find(message)
    return found if isinstance(found, Reject) else found.decode(message, HEAD, given)


_SCHEMAS: dict[tuple[RegistryClient, Hashable], SchemasById[Any]] = {}


def schemas_by_id(options: RegistryOptions, kind: str, compiled: Callable[[Found], T], key: Hashable) -> SchemasById[T]:
    """Return this process's schemas in the registry of a format, as `compiled` makes them. Raise ConfigError.

    `kind` is that of the schemas. Schemas with an equal `key` are compiled alike.
    """
    client = options.registry()
    found = _SCHEMAS.get((client, key))
    if found is None:
        found = _SCHEMAS[client, key] = SchemasById(client, kind, compiled)
    return found
