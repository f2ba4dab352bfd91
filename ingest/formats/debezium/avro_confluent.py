"""Debezium's change messages in Avro with a schema registry: `before`, `after`, `source` and `op`.

In: keys and values of records. Out: a change, a skip or a reject for each. Rows are JSON text, with the types that
their schema says. Rules: docs/spec/avro.md#debezium.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
from pydantic import ValidationInfo, model_validator

from ingest.component.options import is_written
from ingest.formats.avro.messages import FAILURES, EnvelopeSchema, key_schema, native_readers, reject, schemas_of
from ingest.formats.avro.options import check_given
from ingest.formats.avro.table_writer import AvroChanges, envelope_columns, registered_rows
from ingest.formats.debezium.options import RegisteredDebezium, key_of_row, no_table, with_key
from ingest.formats.debezium.unavailable import is_placeholder, known_of, may_hold_in_avro
from ingest.formats.form import AvroMessages, Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.key_reading import read_key
from ingest.formats.registered import HEAD, read_row
from ingest.model.cache import Cache
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject, Skip
from ingest.model.jsontext import fields_of, key_image, object_of
from ingest.schema_registry.options import RegistryOptions, keys_behind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ingest.formats.written import ChangeBytes, RowPlace
    from ingest.model.schema import Column
    from ingest.model.table import TableId
    from ingest.model.types import DataType


_KINDS: Final = {b'"c"': Kind.INSERT, b'"r"': Kind.INSERT, b'"u"': Kind.UPDATE, b'"d"': Kind.DELETE}
_OTHER_OPS: Final = {b'"t"': Skip("truncate"), b'"m"': Skip("logical-decoding-message")}


class DebeziumAvroConfluent(RegisteredDebezium, FormatOptions, RegistryOptions):
    """Options of `value.format: debezium-avro-confluent`."""

    name: ClassVar[str] = "debezium-avro-confluent"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        table_schemas="changes", says_types=True, asks_key_format=True, splits_keys=True, repeats_deletes=True,
        binary_numbers=True,
    )  # fmt: skip
    registered_keys: ClassVar[str] = "avro-confluent"
    model_config = keys_behind(name)

    @model_validator(mode="after")
    def _check_given(self, info: ValidationInfo) -> Self:
        check_given(self, written=is_written(info), nullable=False)
        return self

    @property
    def form(self) -> Form:
        """Envelopes of schemas that a worker knows once it has read one of their messages; the same for keys."""
        values = native_readers(self, EnvelopeSchema, self.schema_text, self.all_declared)
        keys = native_readers(self, key_schema, None, self.all_declared) if self._keys_registered else None
        return Form("debezium", avro=AvroMessages(HEAD, values, keys))

    def decoder(self, _topic: str, *, keyed: bool = False) -> DebeziumAvroDecoder:
        """Return a decoder for one split's records."""
        return DebeziumAvroDecoder(self, keys_registered=self._keys_registered)

    def change_writer(self, place: RowPlace, columns: Mapping[str, Column]) -> ChangeBytes:
        """Return the function that makes a table's changes, each behind the id of its schema. Raise RowError."""
        rows = registered_rows(self, place, envelope_columns(columns), "Envelope")
        return AvroChanges(rows, place.table)


def _shown(op: bytes) -> str:
    return repr(str(msgspec.json.decode(op))[:20])


class DebeziumAvroDecoder:
    """Decodes one split."""

    def __init__(self, options: DebeziumAvroConfluent, *, keys_registered: bool) -> None:
        """Ask the registry for nothing yet. `keys_registered`: keys may be in Avro, too. Raise ConfigError."""
        self._options = options
        self._read_key = partial(read_row, schemas_of(options, key_schema)) if keys_registered else None
        self._envelopes = schemas_of(options, EnvelopeSchema, options.schema_text)
        self._tables: Cache[bytes, TableId] = Cache(10_000, 4 << 20)

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order. Raise IngestError where the registry gives no answer."""
        pairs = zip(keys, values, strict=True)
        return [TOMBSTONE if value is None else self._one(key, value) for key, value in pairs]

    def _one(self, key: bytes | None, value: bytes) -> Decoded:
        found = self._envelopes.find(value)
        if isinstance(found, Reject):
            return found
        if found.other is not None:
            return found.other
        try:
            envelope, unread = found.read(value, HEAD)
            op = envelope["op"] or b"null"
            kind = _KINDS.get(op)
            if kind is None:
                return _OTHER_OPS.get(op) or Reject("unknown-op", f"op {_shown(op)} is none of c, r, u, d, t")
            table = self._table_of(envelope.get("source"))
            if table is None:
                return no_table(documents=found.of_documents)
            given = self._options.declared(table)
            counts = found.counts(given)
            if counts:  # only now is it known which table's columns these are
                envelope, unread = found.read(value, HEAD, counts)
            before, after = self._known(envelope.get("before"), value), envelope.get("after")
            if kind is Kind.DELETE:
                after = None
            elif after is None:
                return Reject("no-after", f"op {_shown(op)} needs an after image", table)
            elif may_hold_in_avro(value):
                restored = self._restore(before, after)
                if isinstance(restored, str):
                    why = f"column {restored!r} was not sent (it is unchanged) and the before image lacks it"
                    return Reject("unavailable-value", why, table)
                after = restored
            if kind is Kind.INSERT:
                before, unread = None, {}
            old, new = (None if row is None else msgspec.Raw(row) for row in (before, after))
        except FAILURES as exc:
            return reject(exc)
        fields = self._key(key, given)
        if isinstance(fields, Reject):
            return fields
        fields = key_of_row(fields, table, old, new)
        if (kind is Kind.DELETE or unread) and fields is not None:
            old, unread = with_key(old, unread, key_image(fields, found.declared.types))
        return Change(table, kind, old, new, fields, found.declared_beside(counts).beside(unread))

    def _key(self, key: bytes | None, given: Mapping[str, DataType]) -> bytes | Reject | None:
        """Return a record's key as JSON text; what is no message of the registry stays as it came."""
        if key is None or self._read_key is None or key[:1] != b"\x00":
            return key
        found = read_key(partial(self._read_key, given=given), key)
        return found if isinstance(found, Reject) else bytes(found[0])

    def _table_of(self, source: bytes | None) -> TableId | None:
        known = None if source is None else self._tables.get(source)
        if known is not None or source is None:
            return known
        members = msgspec.json.decode(source)
        name = [members.get(part) for part in ("db", "schema", "table")]
        if not name[2] or not all(part is None or isinstance(part, str) for part in name):
            return None
        return self._tables.put(source, tuple(part for part in name if part), 300 + 2 * len(source))

    def _known(self, before: bytes | None, message: bytes) -> bytes | None:
        """Return a row before a change without what the database did not send."""
        whole = before is None or self._options.unavailable_value == "keep" or not may_hold_in_avro(message)
        return before if whole else known_of(before or b"")

    def _restore(self, before: bytes | None, after: bytes) -> bytes | str:
        """Return a row with the values that the database did not send; or the column of one that is not known."""
        policy = self._options.unavailable_value
        rows = [{} if row is None else dict(fields_of(row)) for row in (before, after)]
        for column, value in rows[1].items() if policy != "keep" else ():
            if not is_placeholder(bytes(value)):
                continue
            known = rows[0].get(column, value)
            if not is_placeholder(bytes(known)):
                rows[1][column] = known
            elif policy == "null":
                rows[1][column] = msgspec.Raw(b"null")
            else:
                return column
        return object_of({column: bytes(value) for column, value in rows[1].items()})
