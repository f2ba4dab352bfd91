"""Canal JSON: rows of MySQL tables, many in one message, their values as texts.

In: the values of records. Out: the changes of each message, which belong together; a skip for a statement that is no
row. Rules: docs/spec/canal-json.md#messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal, TypeAlias

import msgspec
from pydantic import Field, field_validator

from ingest.formats.canal.types import by_code, by_mysql_name
from ingest.formats.form import Form
from ingest.formats.format import FormatCapabilities, FormatOptions
from ingest.formats.template import ImageRef, Segments, Value, ValueTemplate
from ingest.formats.typed import Typed, TypedColumn
from ingest.model.cache import Cache
from ingest.model.change import TOMBSTONE, Change, Decoded, Kind, Reject, Skip
from ingest.model.jsontext import MALFORMED, fields_of, object_of, reason
from ingest.model.reject import Contradiction
from ingest.model.schema import TableSchema
from ingest.model.table import TableId, checked_pattern, full_matcher, table_in
from ingest.model.types import DataType
from ingest.schema.type_hints import TypeHints

_NULL: Final = msgspec.Raw(b"null")
_Flags: TypeAlias = tuple[bool | str | None, ...]
_INLINE_SCHEMAS: Cache[tuple[_Flags, frozenset[tuple[str, DataType]], tuple[str, ...], bytes], Typed] = Cache(
    10_000, 128 << 20
)
"""Inline schemas of messages, for all decoders of this process: by the options that bear on it, the columns that the
pipeline declares, those of the primary key, and the text that has the types."""
_MAX_PATTERN: Final = 1000
_KINDS: Final[dict[str | None, Kind]] = {"INSERT": Kind.INSERT, "UPDATE": Kind.UPDATE, "DELETE": Kind.DELETE}
_STATEMENTS: Final = frozenset({"CREATE", "ALTER", "ERASE", "DROP", "RENAME", "CINDEX", "DINDEX", "QUERY", "INIT_DDL"})
_DDL: Final = Skip("ddl")
_TRUNCATE: Final = Skip("truncate")
_WATERMARK: Final = Skip("watermark")
_LEFT_OUT: Final = Skip("not-included")
_NO_ROWS: Final = Skip("no-rows")


class CanalJson(FormatOptions):
    """Options of `value.format: canal-json`."""

    name: ClassVar[str] = "canal-json"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(writes_values=True, says_types=True)
    codes: ClassVar[Mapping[str, str]] = {
        "unknown-type": "`type` is neither a change of rows nor a statement",
        "no-data": "`data` holds no rows",
        "no-types": "the message lacks the types that `canal-json.infer-schema.strategy` goes by",
    }

    distributed_tables: bool = Field(False, alias="canal-json.distributed-tables")
    """Accepted for pasted pipelines: a table may be spread over partitions in any case."""

    databases: str | None = Field(None, alias="canal-json.database.include", max_length=_MAX_PATTERN)
    """A regular expression (RE2) for whole names of databases: only their changes are read. The rest is counted."""

    tables: str | None = Field(None, alias="canal-json.table.include", max_length=_MAX_PATTERN)
    """A regular expression (RE2) for whole names of tables: only their changes are read. The rest is counted."""

    ignore_parse_errors: bool = Field(False, alias="canal-json.ignore-parse-errors")
    """Skip and count messages that cannot be parsed, without counting them as errors."""

    as_string: bool = Field(False, alias="canal-json.infer-schema.primitive-as-string")
    """Every column is a STRING."""

    strategy: Literal["AUTO", "SQL_TYPE", "MYSQL_TYPE"] = Field("AUTO", alias="canal-json.infer-schema.strategy")
    """Where columns get their types from: `AUTO` from the JSON values, `SQL_TYPE` from the JDBC codes in `sqlType`,
    `MYSQL_TYPE` from the names in `mysqlType`. A message without them is a reject."""

    timestamp_as_datetime: bool = Field(True, alias="canal-json.mysql.treat-mysql-timestamp-as-datetime-enabled")
    """With `MYSQL_TYPE`: whether MySQL's TIMESTAMP is TIMESTAMP; if not, it is TIMESTAMP_LTZ, its values taken as
    UTC."""

    tinyint1_boolean: bool = Field(True, alias="canal-json.mysql.treat-tinyint1-as-boolean.enabled")
    """With `MYSQL_TYPE`: whether TINYINT(1) is BOOLEAN; a value other than 0 and 1 is a reject then."""

    _check_patterns = field_validator("databases", "tables")(checked_pattern)

    @property
    def reading(self) -> TypeHints:
        """The types and hints that inference goes by."""
        return TypeHints(self.as_string)

    @property
    def form(self) -> Form:
        """Rows of one table in each message, which may be one that is not included."""
        return Form("canal", table_of=self._table_of)

    def _table_of(self, parts: list[str]) -> TableId | str:
        database, _, name = parts
        return table_in(database, name) if self.includes(database, name) else _LEFT_OUT.reason

    @property
    def inline_types(self) -> tuple[str, Callable[[bytes], Mapping[str, TypedColumn]]] | None:
        """The member that tells the columns' types, and what reads it."""
        if self.strategy == "AUTO":
            return None
        return ("sqlType", self._by_code) if self.strategy == "SQL_TYPE" else ("mysqlType", self._by_mysql_name)

    @staticmethod
    def _by_code(text: bytes) -> Mapping[str, TypedColumn]:
        return by_code(_codes(text))

    def _by_mysql_name(self, text: bytes) -> Mapping[str, TypedColumn]:
        return by_mysql_name(
            _names(text), timestamp_ltz=not self.timestamp_as_datetime, tinyint1_boolean=self.tinyint1_boolean
        )

    def decoder(self, _topic: str, *, keyed: bool = False) -> CanalDecoder:
        """Return a decoder for one split's records."""
        return CanalDecoder(self)

    @staticmethod
    def value_of(table: TableId, schema: TableSchema, *, include_schema: bool = False) -> Value:  # noqa: ARG004  (it has none)
        """Return a function that makes the values of a table's records."""
        return _value_of(table, schema)

    def includes(self, database: str | None, table: str | None) -> bool:
        """Return whether changes of this table are to be read."""
        for pattern, name in ((self.databases, database), (self.tables, table)):
            if pattern is not None and full_matcher(pattern)(name or "") is None:
                return False
        return True


class _Message(msgspec.Struct, gc=False):
    """A message; its members are in the order in which Canal writes them, alphabetically."""

    data: list[msgspec.Raw] | None = None
    database: str | None = None
    isDdl: bool | None = None
    mysqlType: msgspec.Raw = _NULL
    old: list[msgspec.Raw] | None = None
    pkNames: list[str] | None = None
    sqlType: msgspec.Raw = _NULL
    table: str | None = None
    type: str | None = None


_message = msgspec.json.Decoder(_Message).decode
_codes = msgspec.json.Decoder(dict[str, int | None]).decode
_names = msgspec.json.Decoder(dict[str, str | None]).decode


class CanalDecoder:
    """Decodes messages, each by itself."""

    def __init__(self, options: CanalJson) -> None:
        """Keep the options."""
        self._options = options
        self._inline_types = options.inline_types
        self._flags = (options.strategy, options.as_string, options.timestamp_as_datetime, options.tinyint1_boolean)

    def decode(self, _keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Decoded]:
        """One result per value, in order; a list where a message has several rows."""
        return [self._decode_one(value) for value in values]

    def _decode_one(self, value: bytes | None) -> Decoded:
        if value is None:
            return TOMBSTONE
        try:
            message = _message(value)
        except MALFORMED as exc:
            return Reject("malformed", f"not a Canal message: {reason(exc)}")
        kind = _KINDS.get(message.type)
        if kind is None or message.isDdl:
            return self._no_rows(message)
        table = self._table(message)
        if isinstance(table, (Skip, Reject)):
            return table
        if message.data is None:
            return Reject("no-data", f"type {message.type or ''} needs rows in data", table)
        if not message.data:
            return _NO_ROWS
        try:
            typed = self._inline_schema(message, table)
        except MALFORMED as exc:
            assert self._inline_types is not None
            why = f"{self._inline_types[0]} is missing or not as Canal writes it: {reason(exc)}"
            return Reject("no-types", why, table)
        old = message.old
        if old and len(old) != len(message.data):
            return Reject("malformed", f"{len(message.data)} rows in data and {len(old)} in old", table)
        try:
            changes = [
                self._change(table, kind, row, old[i] if old else _NULL, typed) for i, row in enumerate(message.data)
            ]
        except Contradiction as exc:
            return Reject("type-mismatch", str(exc), table)
        except MALFORMED as exc:
            return Reject("malformed", f"a row is not a JSON object: {reason(exc)}", table)
        return changes[0] if len(changes) == 1 else changes

    def _change(self, table: TableId, kind: Kind, row: msgspec.Raw, old: msgspec.Raw, typed: Typed) -> Change:
        if kind is Kind.DELETE:
            row, unread = (row, {}) if self._inline_types is None else typed.before(row)
            return Change(table, kind, row, None, None, typed.declared.beside(unread))
        if self._inline_types is not None:
            row = typed.image(row)
        before = None if kind is Kind.INSERT or old == _NULL else old
        if before is None or self._inline_types is None:
            return Change(table, kind, before, row, None, typed.declared)
        before, unread = typed.before(before)
        if unread:  # what `old` lacks is as in the row after, but for these columns
            fields = {name: bytes(value) for name, value in {**fields_of(row), **fields_of(before)}.items()}
            before = msgspec.Raw(object_of({name: value for name, value in fields.items() if name not in unread}))
        return Change(table, kind, before, row, None, typed.declared.beside(unread))

    def _inline_schema(self, message: _Message, table: TableId) -> Typed:
        """Return the inline schema of a message, made once for all that have the same. Raises one of MALFORMED."""
        member, columns_of = self._inline_types or (None, None)
        text = b"" if member is None else bytes(getattr(message, member))
        given = self._options.declared(table)
        key = (self._flags, frozenset(given.items()), tuple(message.pkNames or ()), text)
        found = _INLINE_SCHEMAS.get(key)
        if found is None:
            columns = {} if columns_of is None else columns_of(text)
            found = Typed(columns, key[2], overlay=True, as_string=self._options.as_string, given=given)
            _INLINE_SCHEMAS.put(key, found, len(text) + found.size)
        return found

    def _table(self, message: _Message) -> TableId | Skip | Reject:
        """Return the table that a message is of, or why it is of none."""
        if not message.table:
            return Reject("no-table", "table is missing")
        if not self._options.includes(message.database, message.table):
            return _LEFT_OUT
        return table_in(message.database, message.table)

    def _no_rows(self, message: _Message) -> Decoded:
        kind = (message.type or "").upper()
        if kind == "TRUNCATE":
            return _TRUNCATE
        if kind == "TIDB_WATERMARK":
            return _WATERMARK
        if message.isDdl or kind in _STATEMENTS:
            return _DDL
        if message.type is None:
            return Reject("malformed", "not a Canal message: it has no type")
        return Reject(
            "unknown-type", f"type {message.type[:20]!r} is none of INSERT, UPDATE, DELETE, nor a statement's"
        )


# -- writing ---------------------------------------------------------------------------------------------------------

_TYPES: Final = {Kind.INSERT: b"INSERT", Kind.UPDATE: b"UPDATE", Kind.DELETE: b"DELETE"}


def _value_of(table: TableId, schema: TableSchema) -> Value:
    """Return a template of `{"old":null,"data":[{…}],"type":"INSERT","database":"s","table":"t","pkNames":["id"]}`.

    An update has the whole row before it in `old`, as far as it is known; a delete has its row in `data`.
    """
    members = {
        "database": ".".join(table[:-1]) or None,
        "table": table[-1],
        "pkNames": list(schema.primary_key) or None,
    }
    rest = msgspec.json.encode(members)[1:]

    def pieces(kind: Kind, row: ImageRef, *old: bytes | ImageRef) -> Segments:
        return (b'{"old":', *(old or (b"null",)), b',"data":[', row, b'],"type":"%b",%b' % (_TYPES[kind], rest))

    return ValueTemplate(
        pieces(Kind.INSERT, ImageRef.AFTER),
        pieces(Kind.UPDATE, ImageRef.AFTER, b"[", ImageRef.BEFORE, b"]"),
        pieces(Kind.UPDATE, ImageRef.AFTER),
        pieces(Kind.DELETE, ImageRef.BEFORE),
    )
