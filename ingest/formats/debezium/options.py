"""Debezium JSON: `before`, `after`, `source` and `op`, with or without the schema envelope.

In: the values of Kafka records. Out: a change, a skip or a reject for each. The row images stay the very bytes
they came as; nobody here looks into a row, but for the placeholder of a value that Debezium left out.
Rules: docs/spec/debezium-json.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal, Self

import msgspec
from pydantic import Field, PrivateAttr

from ingest.component.options import Options, holding
from ingest.formats.debezium.connect import envelope_schema, key_columns, payload_of, row_columns
from ingest.formats.debezium.unavailable import is_placeholder, known_of, may_hold
from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.template import Image, ImageRef, Segments, Value, ValueTemplate
from ingest.formats.typed import Typed, TypedColumn
from ingest.model.cache import Cache
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject, Skip
from ingest.model.jsontext import MALFORMED, fields_of, key_image, object_of, reason
from ingest.model.reject import Contradiction
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, show
from ingest.model.types import DataType
from ingest.schema.type_hints import TypeHints

_NULL = msgspec.Raw(b"null")
_INLINE_SCHEMAS: Cache[tuple[bool, bool, frozenset[tuple[str, DataType]], bytes], Typed] = Cache(10_000, 128 << 20)
"""Inline schemas of envelopes, for all decoders of this process: with types or only STRING, of rows or of keys, beside
which columns that the pipeline declares."""

_OUR_KEY = b'{"TableId":'
"""The beginning of keys that the sink `kafka` writes with `key.format: json`."""
_ROUTED: Final = (b"__dbz__physicalTableIdentifier", b"__dbz__sourceIdentifier")
"""Fields that Debezium's transforms which put tables into one topic (`ByLogicalTableRouter`) add to keys."""
_KINDS: dict[str | None, Kind] = {"c": Kind.INSERT, "r": Kind.INSERT, "u": Kind.UPDATE, "d": Kind.DELETE}
_OTHER_OPS = {"t": Skip("truncate"), "m": Skip("logical-decoding-message")}


def no_table(*, documents: bool) -> Reject:
    """Return the reject of a message that names no table. `documents`: it names a collection of MongoDB."""
    if documents:
        what = "it is of Debezium's connector for MongoDB, whose rows are texts with documents: these are not read"
        return Reject("no-table", f"{what}; let the connector write rows (ExtractNewDocumentState), and read these")
    return Reject("no-table", "source.table is missing, so the table is unknown")


class DebeziumJson(FormatOptions):
    """Options of `value.format: debezium-json`."""

    name: ClassVar[str] = "debezium-json"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        writes_values=True, says_types=True, splits_keys=True, repeats_deletes=True
    )
    codes: ClassVar[Mapping[str, str]] = {
        "unknown-op": "`op`, or `op_type`, is none of the format's",
        "unavailable-value": "the database did not send a value that did not change",
    }

    schema_include: bool = Field(False, alias="debezium-json.schema-include")
    """Whether messages carry the schema envelope. Both kinds are understood whatever this says."""

    distributed_tables: bool = Field(False, alias="debezium-json.distributed-tables")
    """Accepted for pasted pipelines: a table may be spread over partitions in any case."""

    ignore_parse_errors: bool = Field(False, alias="debezium-json.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    as_string: bool = Field(False, alias="debezium-json.infer-schema.primitive-as-string")
    """Every column is a STRING."""

    unavailable_value: Literal["reject", "keep", "null"] = Field("reject", alias="debezium-json.unavailable-value")
    """The way with a value that the database did not send (`__debezium_unavailable_value`) and that the before
    image does not hold: reject the row, keep the placeholder, or write null."""

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints(self.as_string)

    @property
    def form(self) -> Form:
        """Debezium's messages as they come."""
        return _FORM

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]]:
        """The envelope's schema."""
        return "schema", row_columns

    def decoder(self, _topic: str, *, keyed: bool = False) -> DebeziumDecoder:
        """Return a decoder for one split's records."""
        return DebeziumDecoder(self)

    @staticmethod
    def value_of(table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records."""
        return _value_of(table, schema, include_schema=include_schema)


class RegisteredDebezium(Options):
    """Options that Debezium's formats with a schema registry share."""

    codes: ClassVar[Mapping[str, str]] = DebeziumJson.codes
    registered_keys: ClassVar[str]
    """The `key.format` of keys that have ids of schemas, too."""

    unavailable_value: Literal["reject", "keep", "null"] = "reject"
    """The way with a value that the database did not send (`__debezium_unavailable_value`) and that the before
    image does not hold: reject the row, keep the placeholder, or write null."""

    _keys_registered: bool = PrivateAttr(True)

    def beside_keys(self, key_format: str | None) -> Self:
        """Return these options for records whose keys have this `key.format`; None: that of the values."""
        return holding(self, _keys_registered=key_format in {None, self.registered_keys})


_FORM: Final = Form("debezium")

# The fields stand in the order in which Debezium writes them: msgspec looks for the next one first


class _Source(msgspec.Struct, gc=False, frozen=True):
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    collection: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Envelope(msgspec.Struct, gc=False):
    """A message without the schema envelope, or the envelope."""

    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    source: _Source = _Source()
    op: str | None = None
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw = _NULL


class _Key(msgspec.Struct, gc=False):
    """The schema envelope of a record's key."""

    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw = _NULL


class _Other(msgspec.Struct):
    """Members of Debezium's messages that are no row: history, heartbeats, transaction boundaries."""

    ddl: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    ts_ms: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    databaseName: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    tableChanges: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    status: str | msgspec.UnsetType = msgspec.UNSET
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_envelope = msgspec.json.Decoder(_Envelope).decode
_key = msgspec.json.Decoder(_Key).decode
_other = msgspec.json.Decoder(_Other).decode


class DebeziumDecoder:
    """Decodes messages, each by itself."""

    def __init__(self, options: DebeziumJson) -> None:
        """Keep the options."""
        self._options = options

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order."""
        return [self._decode_one(key, value) for key, value in zip(keys, values, strict=True)]

    def _decode_one(self, key: bytes | None, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        schema = _NULL
        try:
            envelope = _envelope(value)
            if envelope.op is None and isinstance(envelope.payload, msgspec.Raw):
                if envelope.payload == _NULL:
                    return TOMBSTONE
                value, schema = bytes(envelope.payload), envelope.schema
                envelope = _envelope(value)
            if envelope.op is None:
                return self._no_op(value)
            change = self._change(key, envelope)
            if not isinstance(change, Change):
                return change
            table, kind, before, after, key, _ = change
            typed = None if schema == _NULL else self._inline_schema(bytes(schema), table)
            unread: dict[str, str] = {}
            if typed is not None:
                after = None if after is None else typed.image(after)
                before, unread = (None, {}) if before is None else typed.before(before)
            if kind is Kind.DELETE or unread:
                before, unread = self._with_key(before, unread, key, typed, table)
        except Contradiction as exc:
            return Reject("type-mismatch", str(exc), table)
        except MALFORMED as exc:
            return Reject("malformed", f"not a Debezium message: {reason(exc)}")
        return Change(table, kind, before, after, key, None if typed is None else typed.declared.beside(unread))

    def _with_key(
        self, before: msgspec.Raw | None, unread: dict[str, str], key: bytes | None, typed: Typed | None, table: TableId
    ) -> tuple[msgspec.Raw | None, dict[str, str]]:
        """Return a before image with those columns of the record's key that it lacks, and what is left of `unread`.

        Raises Contradiction where nothing but the key tells of the row, or one of MALFORMED.
        """
        try:
            of_key = self._row_of_key(key, typed, table)
        except Contradiction:
            if before is None:
                raise
            of_key = None
        return with_key(before, unread, of_key)

    def _row_of_key(self, key: bytes | None, typed: Typed | None, table: TableId) -> msgspec.Raw | None:
        """Read what a delete's key says of a row without a before image: by the key's own schema, else by the row's.

        None where nothing says what its values are. Raises Contradiction.
        """
        try:
            if key is None:
                return None
            envelope = _key(key)
            if isinstance(envelope.payload, msgspec.Raw) and envelope.schema != _NULL:
                return self._inline_schema(bytes(envelope.schema), table, of_key=True).image(envelope.payload)
            image = None if typed is None else key_image(key, typed.declared.types)
            return None if typed is None or image is None else typed.image(image)
        except MALFORMED:
            return None

    def _inline_schema(self, schema: bytes, table: TableId, *, of_key: bool = False) -> Typed:
        """Return the inline schema of an envelope's rows, or keys, made once for all that have the same."""
        given = self._options.declared(table)
        key = (self._options.as_string, of_key, frozenset(given.items()), schema)
        found = _INLINE_SCHEMAS.get(key)
        if found is None:
            columns = key_columns(schema) if of_key else self._options.inline_types[1](schema)
            found = Typed(columns, as_string=self._options.as_string, given=given)
            _INLINE_SCHEMAS.put(key, found, len(schema) + found.size)
        return found

    def _change(self, key: bytes | None, envelope: _Envelope) -> Change | Skip | Reject:
        op = envelope.op or ""
        if op in _OTHER_OPS:
            return _OTHER_OPS[op]
        kind = _KINDS.get(op)
        if kind is None:
            return Reject("unknown-op", f"op {op[:20]!r} is none of c, r, u, d, t")
        source = envelope.source
        if not source.table:
            return no_table(documents=source.collection is not msgspec.UNSET)
        table = tuple(part for part in (source.db, source.schema, source.table) if part)
        key = key_of_row(key, table, envelope.before, envelope.after)
        before, after = (None if raw == _NULL else raw for raw in (envelope.before, envelope.after))
        if before is not None and self._options.unavailable_value != "keep" and may_hold(bytes(before)):
            before = msgspec.Raw(known_of(bytes(before)))
        if kind is Kind.DELETE:
            return Change(table, kind, before, None, key, None)
        if after is None:
            return Reject("no-after", f"op {op!r} needs an after image", table)
        if may_hold(bytes(after)):
            return self._restore(table, kind, before, after, key)
        return Change(table, kind, None if kind is Kind.INSERT else before, after, key, None)

    @staticmethod
    def _no_op(value: bytes) -> Skip | Reject:
        try:
            other = _other(value)
        except MALFORMED as exc:
            return Reject("malformed", f"not a Debezium message: {reason(exc)}")
        unset = msgspec.UNSET
        if other.ddl is not unset or other.tableChanges is not unset:
            return Skip("schema-history")
        if other.status in {"BEGIN", "END"} and other.id is not unset:
            return Skip("transaction-boundary")
        if other.ts_ms is not unset and len(fields_of(value)) <= 2:
            return Skip("heartbeat")
        return Reject("malformed", "not a Debezium message: it has no op")

    def _restore(
        self, table: TableId, kind: Kind, before: msgspec.Raw | None, after: msgspec.Raw, key: bytes | None
    ) -> Change | Reject:
        """Put values that the database did not send back in from the before image, as the policy says."""
        policy = self._options.unavailable_value
        if policy == "keep":
            return Change(table, kind, before, after, key, None)
        parts = []
        try:
            old = {} if before is None else fields_of(before)
            for column, raw in fields_of(after).items():
                text = bytes(raw)
                if is_placeholder(text):
                    known = old.get(column)
                    if known is not None and not is_placeholder(bytes(known)):
                        text = bytes(known)
                    elif policy == "null":
                        text = b"null"
                    else:
                        why = f"column {column!r} was not sent (it is unchanged) and the before image lacks it"
                        return Reject("unavailable-value", why, table)
                parts.append(msgspec.json.encode(column) + b":" + text)
        except MALFORMED as exc:
            return Reject("malformed", f"the row is not a JSON object: {reason(exc)}", table)
        return Change(table, kind, before, msgspec.Raw(b"{" + b",".join(parts) + b"}"), key, None)


def with_key(
    before: msgspec.Raw | None, unread: dict[str, str], of_key: msgspec.Raw | None
) -> tuple[msgspec.Raw | None, dict[str, str]]:
    """Return a before image with those columns of a key that it lacks, and what is left of `unread`.

    Raises one of MALFORMED for a before image that is no object; such a key tells nothing.
    """
    try:
        fields = {} if of_key is None else fields_of(of_key)
    except MALFORMED:
        return before, unread
    own = {} if before is None else fields_of(before)
    if fields.keys() <= own.keys():
        return before, unread
    made = object_of({name: bytes(value) for name, value in {**fields, **own}.items()})
    return msgspec.Raw(made), {name: why for name, why in unread.items() if name not in fields}


def key_of_row(key: bytes | None, table: TableId, *images: msgspec.Raw | None) -> bytes | None:
    """Return a record's key without fields that are no columns (docs/spec/keys.md#primary-key); any other one as it is.

    `images`: the row before and the row after. What is named in these stays, as it may be a column.
    """
    if key is None or not (key.startswith(_OUR_KEY) or b"__dbz__" in key):
        return key
    rows = b"".join(bytes(image) for image in images if image is not None)
    try:
        envelope = _key(key)
        image = key_image(key, () if b'"payload"' not in rows else {"payload"})
        fields = {} if image is None else fields_of(image)
        others = {name for name in _ROUTED if b'"%b"' % name not in rows and name.decode() in fields}
        left = {name: bytes(value) for name, value in fields.items() if name.encode() not in others}
        ours = key.startswith(_OUR_KEY) and b'"TableId"' not in rows
        if ours and msgspec.json.decode(left["TableId"]) == show(table):
            del left["TableId"]
    except MALFORMED:
        return key
    if len(left) == len(fields):
        return key
    made = object_of(left)
    return made if image == key else b'{"schema":%b,"payload":%b}' % (envelope.schema, made)


# -- writing ---------------------------------------------------------------------------------------------------------

_OPS = {Kind.INSERT: b"c", Kind.UPDATE: b"u", Kind.DELETE: b"d"}


def _value_of(table: TableId, schema: TableSchema, *, include_schema: bool) -> Value:
    """Return a template of values like `{"before":null,"after":{…},"op":"c","source":{"db":"shop","table":"orders"}}`.

    With the schema, `{"schema":…,"payload":…}`, in which the values are as the schema says.
    """
    parts = {1: ("table",), 2: ("db", "table"), 3: ("db", "schema", "table")}[len(table)]
    source = msgspec.json.encode({"db": None, **dict(zip(parts, table, strict=True))})

    def pieces(kind: Kind, *, before: bool = False, after: bool = True) -> Segments:
        images = (ImageRef.BEFORE if before else b"null", b',"after":', ImageRef.AFTER if after else b"null")
        return (b'{"before":', *images, b',"op":"%b","source":%b}' % (_OPS[kind], source))

    plain = ValueTemplate(
        pieces(Kind.INSERT),
        pieces(Kind.UPDATE, before=True),
        pieces(Kind.UPDATE),
        pieces(Kind.DELETE, before=True, after=False),
    )
    if not include_schema:
        return plain
    begin = b'{"schema":' + envelope_schema(table, schema) + b',"payload":'
    row = payload_of(schema)

    def enveloped(kind: Kind, before: Image | None, after: Image | None) -> bytes:
        images = None if before is None else row(before), None if after is None else row(after)
        return begin + (plain(kind, *images) or b"null") + b"}"

    return enveloped
