"""Whole messages in Avro: rows and Debezium's envelopes with what they declare, or the rejects of broken ones.

Also the readers of messages whose schemas are in a registry, by the schemas' ids. Rules: docs/spec/avro.md#messages.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar

import msgspec

from ingest.formats.avro.native_nodes import members_reader, row_reader
from ingest.formats.avro.primitives import AvroError, read_long
from ingest.formats.avro.resolution import Resolve, Resolver
from ingest.formats.avro.rows import (
    MALFORMED,
    NO_COUNTS,
    Compiler,
    EnvelopeReader,
    RowReader,
    ended,
    row_of,
    why_malformed,
)
from ingest.formats.avro.schema import Node, parse
from ingest.formats.format import NOTHING_GIVEN
from ingest.formats.registered import SchemasById, schemas_by_id
from ingest.model import types
from ingest.model.change import InlineSchema, Reject, Skip
from ingest.model.jsontext import fields_of
from ingest.model.reject import Contradiction, RowError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ingest.formats.avro.native.reader import AvroReader
    from ingest.formats.avro.rows import Counts
    from ingest.model.types import DataType
    from ingest.schema_registry.client import Found
    from ingest.schema_registry.options import RegistryOptions

T = TypeVar("T")

_NULL: Final = msgspec.Raw(b"null")
FAILURES: Final = (*MALFORMED, Contradiction, RowError)
"""The exceptions of readers for a message that becomes a reject."""


class RowSchema:
    """The reader of a schema's rows, and what their messages declare."""

    def __init__(self, node: Node, given: Node | None = None) -> None:
        """Compile a record's schema. `given`: the schema that the messages are read as. Raise SchemaError."""
        whole = node if given is None else given
        self.reader = RowReader(row_of(whole), Compiler())
        self._branches = [one.kind for one in whole.branches] if whole.kind == "union" else []
        """The branches of a message that may be null, as those of Connect's converter are where a value is optional."""
        self._native = row_reader(whole)
        self._resolve = None if given is None else Resolver().resolve_message(node, given)
        self.native = self._native if given is None else None
        """The native reader of whole messages; None where they are read as another schema, or there is none."""
        self.declared = InlineSchema(self.reader.types, numbers=self.reader.numbers)
        """The types of columns, as messages declare them."""

    def counts(self, given: Mapping[str, DataType]) -> Counts:
        """Return the columns with times that are to be numbers; `given`: the types that the pipeline declares."""
        return self.reader.counts(given) if given else NO_COUNTS

    def row(self, message: bytes, at: int, counts: Counts = NO_COUNTS) -> msgspec.Raw:
        """Return the row from a place to the end of a message, as JSON text. Raise one of FAILURES.

        `counts`: a result of `counts`.
        """
        message, at = _resolved(self._resolve, message, at)
        text = None if self._native is None or counts else self._native.read(message, at)
        if text is not None:
            return msgspec.Raw(text)
        row, at = self.reader.read(message, self._begin(message, at), counts)
        ended(message, at)
        return msgspec.Raw(msgspec.json.encode(row))

    def _begin(self, message: bytes, at: int) -> int:
        """Return where the row begins: behind the number of its branch. Raise one of FAILURES."""
        if not self._branches:
            return at
        branch, at = read_long(message, at)
        if not 0 <= branch < len(self._branches) or self._branches[branch] == "null":
            raise AvroError("it is null" if 0 <= branch < len(self._branches) else f"its union has no branch {branch}")
        return at

    def decode(
        self, message: bytes, at: int, given: Mapping[str, DataType] = NOTHING_GIVEN
    ) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row with what it declares, or the reject of a message that is none of this schema.

        `given`: the types that the pipeline declares for columns.
        """
        counts = self.counts(given)
        try:
            return self.row(message, at, counts), _declared(self.declared, counts)
        except FAILURES as exc:
            return reject(exc)


class FieldlessSchema:
    """The reader of keys that have no fields, so that they tell no column (docs/spec/keys.md#primary-key, K5)."""

    native: ClassVar[None] = None

    def counts(self, given: Mapping[str, DataType]) -> Counts:
        """Return no columns."""
        del given
        return NO_COUNTS

    def decode(
        self, message: bytes, at: int, given: Mapping[str, DataType] = NOTHING_GIVEN
    ) -> tuple[msgspec.Raw, InlineSchema]:
        """Return what is no row."""
        del message, at, given
        return _NULL, InlineSchema()


def key_schema(node: Node, given: Node | None = None) -> RowSchema | FieldlessSchema:
    """Return the reader of a schema's keys. `given`: the schema that they are read as. Raise SchemaError."""
    whole = node if given is None else given
    records = any(one.kind == "record" for one in (whole, *(whole.branches if whole.kind == "union" else ())))
    return RowSchema(node, given) if records else FieldlessSchema()


class EnvelopeSchema:
    """The reader of a schema's envelopes, and what their messages declare."""

    def __init__(self, node: Node, given: Node | None = None) -> None:
        """Compile an envelope's schema. `given`: the schema that the messages are read as. Raise SchemaError."""
        self._reader = EnvelopeReader(node)
        self._resolve = None
        if given is not None and "op" in self._reader.names:
            self._reader, self._resolve = EnvelopeReader(given), Resolver().resolve_message(node, given)
        self._native = members_reader(self._reader.node, self._reader.wanted)
        self.native = self._native if self._resolve is None and "op" in self._reader.names else None
        """The native reader of whole messages; None where they are read as another schema, are no changes, or there is
        none."""
        self.other = None if "op" in self._reader.names else _no_op(self._reader.names)
        """The result of decoding a message without `op`; None for an envelope."""
        self.declared = InlineSchema(self._reader.types, numbers=self._reader.numbers)
        """The types of the rows' columns, as messages declare them."""
        self.of_documents = self._reader.of_documents
        """True if they are of Debezium's connector for MongoDB."""

    def counts(self, given: Mapping[str, DataType]) -> Counts:
        """Return the columns with times that are to be numbers; `given`: the types that the pipeline declares."""
        return self._reader.counts(given) if given else NO_COUNTS

    def declared_beside(self, counts: Counts) -> InlineSchema:
        """Return what messages declare where times of these columns are read as numbers."""
        return _declared(self.declared, counts)

    def read(
        self, message: bytes, at: int, counts: Counts = NO_COUNTS
    ) -> tuple[dict[str, bytes | None], dict[str, str]]:
        """Return the members from a place to the end of a message, as JSON texts. A null is None.

        They are the rows, `op` and the table's names in `source`, as far as the schema has them. The second result has
        the columns of the row before that cannot be read, each with the reason.
        `counts`: a result of `counts`. Raise one of FAILURES.
        """
        message, at = _resolved(self._resolve, message, at)
        text = None if self._native is None or counts else self._native.read(message, at)
        if text is not None:
            members = fields_of(msgspec.Raw(text))
            return {name: None if raw == _NULL else bytes(raw) for name, raw in members.items()}, {}
        envelope, unread, at = self._reader.read(message, at, counts)
        ended(message, at)
        texts = {name: None if value is None else msgspec.json.encode(value) for name, value in envelope.items()}
        return texts, unread


def _declared(declared: InlineSchema, counts: Counts) -> InlineSchema:
    """Return what messages declare where times of these columns are read as numbers."""
    names = [name for name, given in counts if isinstance(given, types.NUMBERS)]
    return replace(declared, types={**declared.types, **dict.fromkeys(names, types.BIGINT)}) if names else declared


def _resolved(resolve: Resolve | None, message: bytes, at: int) -> tuple[bytes, int]:
    """Return a message by the schema that it is read as, and where it begins. Raise as readers do."""
    if resolve is None:
        return message, at
    piece, at = resolve(message, at)
    ended(message, at)
    return piece, 0


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


class NativelyRead(Protocol):
    """Object that has the native reader of messages of one schema, if there is one."""

    @property
    def native(self) -> AvroReader | None:
        """The native reader; None where the reference reads the messages."""

    def counts(self, given: Mapping[str, DataType]) -> Collection[object]:
        """Return the columns with times that are to be numbers; `given`: the types that the pipeline declares."""


def native_readers(
    options: RegistryOptions,
    compiled: Callable[[Node, Node | None], NativelyRead],
    given: str | None = None,
    declared: Collection[Mapping[str, DataType]] = (),
) -> Callable[[bytes], AvroReader | None]:
    """Return a function that returns the native reader of messages with a head; see `schemas_of`.

    It asks no registry: the reference does, when it reads the first message of a schema. There is no native reader
    where the pipeline declares numbers for times: native readers make texts of these. `declared`: the types that the
    pipeline declares for the columns of each table.
    """

    @cache
    def schemas() -> SchemasById[NativelyRead]:
        return schemas_of(options, compiled, given)

    def reader(head: bytes) -> AvroReader | None:
        known = schemas().known(head)
        return None if known is None or any(map(known.counts, declared)) else known.native

    return reader


def schemas_of(
    options: RegistryOptions, compiled: Callable[[Node, Node | None], T], given: str | None = None
) -> SchemasById[T]:
    """Return this process's schemas of Avro in a format's registry, as `compiled` makes them. Raise ConfigError.

    `compiled` makes something of a schema and the one that its messages are read as, whose text is `given`. None:
    messages are read as they were written.
    """
    reader = None if given is None else parse(given)

    def made(found: Found) -> T:
        return compiled(parse(found.text, found.references), None if found.text == given else reader)

    return schemas_by_id(options, "AVRO", made, (compiled, given))
