"""Oracle GoldenGate's JSON: `before`, `after`, `op_type` and `table`, and the columns of the primary key.

In: the values of records. Out: a change, a skip or a reject for each. A row that lacks nothing stays the very bytes it
came as. Rules: docs/spec/ogg-json.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

import msgspec
from pydantic import Field

from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.json.options import TimestampOptions
from ingest.formats.key_schema import key_schema
from ingest.formats.template import ImageRef, Segments, Value, ValueTemplate
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject, Skip
from ingest.model.jsontext import MALFORMED, fields_of, object_of, reason
from ingest.model.schema import TableSchema
from ingest.model.table import MAX_PARTS, TableId, show
from ingest.schema.type_hints import TypeHints

_NULL: Final = msgspec.Raw(b"null")
_KINDS: Final[dict[str | None, Kind]] = {"I": Kind.INSERT, "U": Kind.UPDATE, "D": Kind.DELETE}
_TRUNCATE: Final = Skip("truncate")
_MARK: Final = "_isMissing"
_MARK_BYTES: Final = b'_isMissing"'


class OggJson(TimestampOptions, FormatOptions):
    """Options of `value.format: ogg-json`."""

    name: ClassVar[str] = "ogg-json"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        writes_values=True, sink_options=frozenset({"ogg-json.timestamp-format.standard"})
    )
    codes: ClassVar[Mapping[str, str]] = {
        "unknown-op": "`op`, or `op_type`, is none of the format's",
        "unavailable-value": "the database did not send a value that did not change",
    }

    standard: Literal["SQL", "ISO-8601"] = Field("SQL", alias="ogg-json.timestamp-format.standard")
    """How timestamps are written: `SQL` is `2020-12-30 12:13:14.123`, as GoldenGate writes them, `ISO-8601` is
    `2020-12-30T12:13:14.123`. Texts of that form are TIMESTAMP, others are STRING. A sink writes the values of
    TIMESTAMP columns so, and without the option as they came."""

    ignore_parse_errors: bool = Field(False, alias="ogg-json.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    as_string: bool = Field(False, alias="ogg-json.infer-schema.primitive-as-string")
    """Every column is a STRING."""

    unavailable_value: Literal["reject", "null"] = Field("reject", alias="ogg-json.unavailable-value")
    """The way with a column that an update has neither in `after` nor in `before`, because the database did not log
    what did not change: reject the row, or write null."""

    map_null_key_mode: Literal["FAIL", "DROP", "LITERAL"] = Field("FAIL", alias="ogg-json.map-null-key.mode")
    """Accepted for pasted pipelines: it is about keys of maps that are null, which JSON does not have."""

    map_null_key_literal: str = Field("null", alias="ogg-json.map-null-key.literal")
    """Accepted for pasted pipelines, as the one before."""

    plain_decimals: bool = Field(False, alias="ogg-json.encode.decimal-as-plain-number")
    """Accepted for pasted pipelines: a number keeps the text that it came as."""

    @property
    def form(self) -> Form | None:
        """Images of one row, which may lack nothing; the reference fills in nulls."""
        return Form("ogg", table_of=lambda parts: _table_of(parts[-1])) if self.unavailable_value == "reject" else None

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints(self.as_string, self.standard, not self.as_string)

    def decoder(self, _topic: str, *, keyed: bool = False) -> OggDecoder:
        """Return a decoder for one split's records."""
        return OggDecoder(self)

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records."""
        return self.respelling(schema.columns, _value_of(table, schema))


class _Message(msgspec.Struct, gc=False):
    """A message; its members are in the order in which GoldenGate writes them."""

    table: str | None = None
    op_type: str | None = None
    primary_keys: list[str] | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL


_message = msgspec.json.Decoder(_Message).decode


def _table_of(name: str) -> TableId:
    return tuple(part for part in name.split(".", MAX_PARTS - 1) if part)


class OggDecoder:
    """Decodes messages, each by itself."""

    def __init__(self, options: OggJson) -> None:
        """Keep what is to be done with values that were not sent."""
        self._strict = options.unavailable_value == "reject"

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order."""
        return [self._decode_one(value) for value in values]

    def _decode_one(self, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        try:
            message = _message(value)
        except MALFORMED as exc:
            return Reject("malformed", f"not a message of GoldenGate's: {reason(exc)}")
        op = message.op_type
        kind = _KINDS.get(op)
        if kind is None:
            if op == "T":
                return _TRUNCATE
            if op is None:
                return Reject("malformed", "not a message of GoldenGate's: it has no op_type")
            return Reject("unknown-op", f"op_type {op[:20]!r} is none of I, U, D, T")
        table = _table_of(message.table or "")
        if not table:
            return Reject("no-table", "table is missing")
        before, after = (None if raw == _NULL else raw for raw in (message.before, message.after))
        if kind is not Kind.DELETE and after is None:
            return Reject("no-after", f"op_type {op or ''!r} needs a row in after", table)
        try:
            before, after = (image and _without_marks(image) for image in (before, after))
            if kind is Kind.UPDATE and before is not None and after is not None:
                after = _completed(after, before)
        except MALFORMED as exc:
            return Reject("malformed", f"a row is not a JSON object: {reason(exc)}", table)
        sparse = self._strict and kind is Kind.UPDATE
        declared = key_schema(tuple(message.primary_keys or ()), sparse=sparse)
        if kind is Kind.DELETE:
            return Change(table, kind, before, None, None, declared)
        return Change(table, kind, before if kind is Kind.UPDATE else None, after, None, declared)


def _without_marks(image: msgspec.Raw) -> msgspec.Raw:
    """Return a row without the marks `NAME_isMissing`, and without the columns that they say were not sent.

    Raises one of MALFORMED.
    """
    if _MARK_BYTES not in bytes(image):
        return image
    fields = {name: bytes(value) for name, value in fields_of(image).items()}
    marks = {name: fields.get(f"{name}{_MARK}") for name in fields}
    marked = {name: mark for name, mark in marks.items() if mark in (b"true", b"false")}
    if not marked:
        return image
    gone = {f"{name}{_MARK}" for name in marked} | {name for name, mark in marked.items() if mark == b"true"}
    return msgspec.Raw(object_of({name: value for name, value in fields.items() if name not in gone}))


def _completed(after: msgspec.Raw, before: msgspec.Raw) -> msgspec.Raw:
    """Return the row after an update with what it lacks of the row before it; raises one of MALFORMED."""
    new, old = fields_of(after), fields_of(before)
    if old.keys() <= new.keys():
        return after
    more = {name: bytes(value) for name, value in old.items() if name not in new}
    return msgspec.Raw(object_of({**{name: bytes(value) for name, value in new.items()}, **more}))


# -- writing ---------------------------------------------------------------------------------------------------------

_OPS: Final = {Kind.INSERT: b"I", Kind.UPDATE: b"U", Kind.DELETE: b"D"}


def _value_of(table: TableId, schema: TableSchema) -> Value:
    """Return a template of `{"before":null,"after":{…},"op_type":"I","table":"s.t","primary_keys":["id"]}`."""
    rest = msgspec.json.encode({"table": show(table), "primary_keys": schema.primary_key})[1:]

    def pieces(kind: Kind, *, before: bool = False, after: bool = True) -> Segments:
        images = (ImageRef.BEFORE if before else b"null", b',"after":', ImageRef.AFTER if after else b"null")
        return (b'{"before":', *images, b',"op_type":"%b",%b' % (_OPS[kind], rest))

    return ValueTemplate(
        pieces(Kind.INSERT),
        pieces(Kind.UPDATE, before=True),
        pieces(Kind.UPDATE),
        pieces(Kind.DELETE, before=True, after=False),
    )
