"""Maxwell's JSON: one row of a MySQL table in each message, and of an update the columns that changed.

In: the keys and values of records. Out: a change, a skip or a reject for each. The rows stay the very bytes they came
as. Rules: docs/spec/maxwell-json.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, Literal

import msgspec
from pydantic import Field

from ingest.formats.form import Form, table_in_database
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.json.options import TimestampOptions
from ingest.formats.key_schema import key_schema
from ingest.formats.template import ImageRef, Segments, Value, ValueTemplate
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject, Skip
from ingest.model.jsontext import MALFORMED, fields_of, reason
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, table_in
from ingest.schema.type_hints import TypeHints

_NULL: Final = msgspec.Raw(b"null")
_KINDS: Final[dict[str | None, Kind]] = {
    "insert": Kind.INSERT,
    "bootstrap-insert": Kind.INSERT,
    "update": Kind.UPDATE,
    "delete": Kind.DELETE,
}
_DDL: Final = Skip("ddl")
_BOOTSTRAP: Final = Skip("bootstrap")
_OTHER_TYPES: Final = {
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete"), _BOOTSTRAP),
    **dict.fromkeys((f"{of}-{what}" for of in ("database", "table") for what in ("create", "alter", "drop")), _DDL),
}
_ENCRYPTED: Final = "the message is encrypted; set encrypt=none where Maxwell runs"
_PREFIX: Final = "pk."


class MaxwellJson(TimestampOptions, FormatOptions):
    """Options of `value.format: maxwell-json`."""

    name: ClassVar[str] = "maxwell-json"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        writes_values=True, sink_options=frozenset({"maxwell-json.timestamp-format.standard"})
    )
    codes: ClassVar[Mapping[str, str]] = {
        "unknown-type": "`type` is neither a change of rows nor a statement",
        "no-data": "`data` holds no rows",
    }

    standard: Literal["SQL", "ISO-8601"] = Field("SQL", alias="maxwell-json.timestamp-format.standard")
    """How timestamps are written: `SQL` is `2020-12-30 12:13:14.123`, as Maxwell writes them, `ISO-8601` is
    `2020-12-30T12:13:14.123`. Texts of that form are TIMESTAMP, others are STRING. A sink writes the values of
    TIMESTAMP columns so, and without the option as they came."""

    ignore_parse_errors: bool = Field(False, alias="maxwell-json.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    as_string: bool = Field(False, alias="maxwell-json.infer-schema.primitive-as-string")
    """Every column is a STRING."""

    map_null_key_mode: Literal["FAIL", "DROP", "LITERAL"] = Field("FAIL", alias="maxwell-json.map-null-key.mode")
    """Accepted for pasted pipelines: it is about keys of maps that are null, which JSON does not have."""

    map_null_key_literal: str = Field("null", alias="maxwell-json.map-null-key.literal")
    """Accepted for pasted pipelines, as the one before."""

    plain_decimals: bool = Field(False, alias="maxwell-json.encode.decimal-as-plain-number")
    """Accepted for pasted pipelines: a number keeps the text that it came as."""

    @property
    def form(self) -> Form:
        """Rows of one table in each message."""
        return _FORM

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints(self.as_string, self.standard, not self.as_string)

    def decoder(self, _topic: str, *, keyed: bool = False) -> MaxwellDecoder:
        """Return a decoder for one split's records."""
        return MaxwellDecoder()

    def value_of(self, table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:
        """Return a function that makes the values of a table's records."""
        return self.respelling(schema.columns, _value_of(table, schema))


_FORM: Final = Form("maxwell", table_of=table_in_database)


class _Message(msgspec.Struct, gc=False):
    """A message; its members are in the order in which Maxwell writes them."""

    database: str | None = None
    table: str | None = None
    type: str | None = None
    primary_key_columns: list[str] | None = None
    data: msgspec.Raw = _NULL
    old: msgspec.Raw = _NULL
    encrypted: msgspec.Raw = _NULL


_message = msgspec.json.Decoder(_Message).decode
_key_of_array = msgspec.json.Decoder(tuple[str, str, list[dict[str, msgspec.Raw]]]).decode


class MaxwellDecoder:
    """Decodes messages, each by itself."""

    def decode(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order."""
        return [self._decode_one(key, value) for key, value in zip(keys, values, strict=True)]

    def _decode_one(self, key: bytes | None, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        try:
            message = _message(value)
        except MALFORMED as exc:
            return Reject("malformed", f"not a message of Maxwell's: {reason(exc)}")
        kind = _KINDS.get(message.type)
        if kind is None:
            return self._no_row(message)
        if not message.table:
            return Reject("no-table", "table is missing")
        table = table_in(message.database, message.table)
        row = message.data
        if row == _NULL:
            why = f"type {message.type or ''} needs a row in data" if message.encrypted == _NULL else _ENCRYPTED
            return Reject("no-data", why, table)
        try:
            primary_key = tuple(message.primary_key_columns or _key_columns(key, row))
        except MALFORMED as exc:
            return Reject("malformed", f"the row is not a JSON object: {reason(exc)}", table)
        declared = key_schema(primary_key, overlay=True)
        if kind is Kind.DELETE:
            return Change(table, kind, row, None, None, declared)
        before = message.old if kind is Kind.UPDATE and message.old != _NULL else None
        return Change(table, kind, before, row, None, declared)

    @staticmethod
    def _no_row(message: _Message) -> Decoded:
        if message.type is None:
            encrypted = message.encrypted != _NULL
            return Reject("malformed", _ENCRYPTED if encrypted else "not a message of Maxwell's: it has no type")
        known = _OTHER_TYPES.get(message.type)
        if known is not None:
            return known
        return Reject(
            "unknown-type", f"type {message.type[:20]!r} is none of insert, update, delete, nor another of Maxwell's"
        )


def _key_columns(key: bytes | None, row: msgspec.Raw) -> Iterable[str]:
    """Return the columns of the primary key by a record's key, nothing where it is no key of Maxwell's.

    Maxwell writes their names in small letters there. Raises one of MALFORMED for a row that is no object.
    """
    names = () if key is None else _names_in(key)
    if not names:
        return ()
    columns = fields_of(row).keys()
    small: dict[str, list[str]] = {}
    for column in columns:
        small.setdefault(column.lower(), []).append(column)
    found = [[name] if name in columns else small.get(name, []) for name in names]
    return [one for (one,) in found] if all(len(one) == 1 for one in found) else ()


def _names_in(key: bytes) -> Sequence[str]:
    """Return the names of `{"database":"shop","table":"orders","pk.id":1}` or `["shop","orders",[{"id":1}]]`."""
    try:
        if key.lstrip()[:1] == b"[":
            return [name for column in _key_of_array(key)[2] for name in column]
        fields = fields_of(key)
    except MALFORMED:
        return ()
    if not {"database", "table"} <= fields.keys():
        return ()
    return [name.removeprefix(_PREFIX) for name in fields if name.startswith(_PREFIX)]


# -- writing ---------------------------------------------------------------------------------------------------------

_TYPES: Final = {Kind.INSERT: b"insert", Kind.UPDATE: b"update", Kind.DELETE: b"delete"}


def _value_of(table: TableId, schema: TableSchema) -> Value:
    """Return a template of `{"data":{…},"type":"insert","database":"s","table":"t","primary_key_columns":["id"]}`.

    An update has the row before it in `old`, as far as it is known; a delete has its row in `data`.
    """
    members = {"database": ".".join(table[:-1]) or None, "table": table[-1], "primary_key_columns": schema.primary_key}
    rest = msgspec.json.encode(members)[1:]

    def pieces(kind: Kind, row: ImageRef, *old: bytes | ImageRef) -> Segments:
        return (b'{"data":', row, *old, b',"type":"%b",%b' % (_TYPES[kind], rest))

    return ValueTemplate(
        pieces(Kind.INSERT, ImageRef.AFTER),
        pieces(Kind.UPDATE, ImageRef.AFTER, b',"old":', ImageRef.BEFORE),
        pieces(Kind.UPDATE, ImageRef.AFTER),
        pieces(Kind.DELETE, ImageRef.BEFORE),
    )
