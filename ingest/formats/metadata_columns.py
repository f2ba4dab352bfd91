"""Columns that a row gets from elsewhere than its value: from the record's key, and from the record itself.

In: changes as a format decoded them, and their records. Out: the same changes, their images with those columns. Also
puts the prefixes before names. Rules: docs/spec/columns.md.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from ingest.formats.debezium.connect import key_columns
from ingest.formats.key_reading import columns_beside, json_key, key_reader, read_key
from ingest.formats.typed import Typed
from ingest.model import temporal, types
from ingest.model.cache import Cache
from ingest.model.change import Change, Decoded, InlineSchema, Reject, is_number
from ingest.model.jsontext import (
    MALFORMED,
    fields_of,
    key_image,
    key_text,
    object_of,
    reason,
    says_number,
    schema_of_key,
)
from ingest.model.record import Record, origin
from ingest.model.reject import Contradiction
from ingest.model.types import DataType, MapType
from ingest.model.values import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from ingest.formats.key_reading import ReadKey
    from ingest.model.table import TableId

    _Said: TypeAlias = InlineSchema | None

_NOTHING: Final = InlineSchema()
_MAX_TABLES: Final = 10_000
"""Tables whose readers of keys are kept, and schemas of keys."""
_PREFIXES: Final = "set key.fields-prefix or value.fields-prefix to have both"
_NO_TEXT: Final = (
    "the key or the value is no text in UTF-8: declare __raw_key__ and __raw_value__ as BYTES in "
    "scan.value.initial-schemas.ddls"
)
_TIMESTAMP_TYPES: Final = ("NoTimestampType", "CreateTime", "LogAppendTime")

TYPES: Final[dict[str, DataType]] = {
    "topic": types.STRING,
    "partition": types.INT,
    "offset": types.BIGINT,
    "timestamp": types.TIMESTAMP_LTZ,
    "timestamp-type": types.STRING,
    "headers": MapType(types.STRING, types.BYTES),
    "leader-epoch": types.INT,
    "op_ts": types.TIMESTAMP_LTZ,
    "__raw_key__": types.STRING,
    "__raw_value__": types.STRING,
}
"""Types of the columns that `metadata.list` may name. The last two are BYTES where the pipeline declares them so."""


@dataclass(frozen=True, slots=True)
class ExtraColumns:
    """The columns that a pipeline adds beside the value's."""

    key: bool = False
    """True if the key's fields are columns (`key.format`)."""
    key_is_primary: bool = False
    """True if those columns are the primary key: where the format has no other way to tell it."""
    key_format: Any = None
    """Options of the keys' format, which has the method `reader`. None: keys are JSON."""
    key_prefix: str = ""
    value_prefix: str = ""
    metadata: tuple[str, ...] = ()
    standard: str = temporal.SQL
    """The way in which timestamps are written."""
    as_string: bool = False
    """True if the format's options say that every value is a text."""
    key_fields: tuple[str, ...] = ()
    """The fields of the key that are columns, in this order, without the prefix. None: all of them."""
    except_key: bool = False
    """True if a column that is in the key and in the value is the key's."""
    as_bytes: frozenset[str] = frozenset()
    """The columns among `__raw_key__` and `__raw_value__` that are BYTES."""
    compact: bool = False
    """True if rows are made from messages that are no JSON: without white space, and with each column once."""
    given: Mapping[TableId, Mapping[str, DataType]] = field(default_factory=dict, hash=False)
    """The types that the pipeline declares for columns of keys in JSON, by table."""

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return self.key or bool(self.value_prefix) or bool(self.metadata)

    def type_of(self, name: str) -> DataType:
        """Return the type of a column of `metadata.list`."""
        return types.BYTES if name in self.as_bytes else TYPES[name]


class _KeyColumns(NamedTuple):
    """The columns that come from a record's key."""

    fields: dict[str, bytes]
    declared: InlineSchema | None = None
    came: Mapping[str, bytes] = {}
    """Those of them that the key's own schema says, as the key has them: a row that has the same has this column."""


class MetadataColumns:
    """Puts the columns in."""

    def __init__(self, extra: ExtraColumns) -> None:
        """Prepare the columns that are the same for all records."""
        self._extra = extra
        self._names = [msgspec.json.encode(name) for name in extra.metadata]
        self._begins = [b"," + name + b":" for name in self._names]
        self._values = [_value_of(name, extra) for name in extra.metadata]
        self._types = {name: extra.type_of(name) for name in extra.metadata}
        self._readers: dict[TableId, ReadKey | None] = {}
        self._typed: Cache[tuple[TableId, bytes, tuple[str, ...]], Typed] = Cache(_MAX_TABLES, 16 << 20)
        self._simple = not extra.key and not extra.value_prefix
        self._as_they_are = extra.compact and not (extra.metadata or extra.key_prefix or extra.value_prefix)
        self._last: tuple[_Said, _Said, tuple[str, ...], InlineSchema] | None = None
        """Arguments and result of the last call of `_declared`: those of the next one are mostly the same."""

    def add(self, changes: Sequence[Decoded], records: Sequence[Record]) -> list[Decoded]:
        """One result per record, in order."""
        return [
            self._of(change, record) if isinstance(change, (Change, list)) else change
            for change, record in zip(changes, records, strict=True)
        ]

    def _of(self, change: Change | list[Change], record: Record) -> Decoded:
        parts: list[Change] = change if isinstance(change, list) else [change]
        table, out = parts[0][0], []
        try:
            metadata = b"".join(b + value(record) for b, value in zip(self._begins, self._values, strict=True))
        except UnicodeDecodeError:
            return Reject("malformed", _NO_TEXT, table)
        of_key = _KeyColumns({})
        if self._extra.key:
            read = self._fields_of_key(table, record.key(), parts[0])
            if isinstance(read, Reject):
                return read
            of_key = read
        try:
            for one in parts:
                made = self._extend(one, of_key, metadata)
                if isinstance(made, Reject):
                    return made
                out.append(made)
        except MALFORMED as exc:
            return Reject("malformed", f"the row is not a JSON object: {reason(exc)}", table)
        return out[0] if len(out) == 1 else out

    def _fields_of_key(self, table: TableId, key: bytes | None, change: Change) -> _KeyColumns | Reject:
        """Return the columns that come from a record's key, with what it declares; `change`: one of the record's."""
        if key is None:
            return _KeyColumns({})
        read, declared = self._key_reader(table), None
        schema = schema_of_key(key) if read is None else None
        if read is not None:
            found = read_key(read, key, table)
            if isinstance(found, Reject):
                return found
            key, declared = bytes(found[0]), found[1]
        fields = json_key(key, table, columns_beside(key, _row_of(change)))
        if isinstance(fields, Reject):
            return fields
        chosen = self._chosen(fields)
        # Where they are the primary key, it is the row that is a reject
        missing = () if self._extra.key_is_primary else [n for n in self._extra.key_fields if n not in chosen]
        if missing:
            return Reject("null-key", f"the key has no field {missing[0]!r} (key.fields)", table, of_key=True)
        if schema is None:
            return _KeyColumns(chosen, declared)
        return self._by_own_schema(table, schema, chosen, _row_of(change))

    def _by_own_schema(
        self, table: TableId, schema: bytes, chosen: dict[str, bytes], row: msgspec.Raw | None
    ) -> _KeyColumns | Reject:
        """Return the columns of a key in an envelope as its schema says.

        Of change messages, whose keys are columns of the row, those that the row has are the row's.
        """
        extra = self._extra
        try:
            of_row = () if row is None or extra.except_key or extra.key_is_primary else fields_of(row)
            own = {extra.value_prefix + name for name in of_row}
            names = tuple(name for name in chosen if extra.key_prefix + name not in own)
            typed = self._typed.get((table, schema, names))
            if typed is None:
                columns = {name: column for name, column in key_columns(schema).items() if name in names}
                typed = Typed(columns, as_string=extra.as_string, given=extra.given.get(table, {}))
                self._typed.put((table, schema, names), typed, len(schema) + typed.size)
            read = fields_of(typed.image(msgspec.Raw(object_of(chosen))))
        except Contradiction as exc:
            return Reject("type-mismatch", f"the key: {exc}", table, of_key=True)
        except MALFORMED:  # what is no schema says nothing, and a row that is no object is a reject
            return _KeyColumns(chosen)
        came = {name: chosen[name] for name in typed.declared.types if name in chosen}
        return _KeyColumns({name: bytes(value) for name, value in read.items()}, typed.declared, came)

    def _key_reader(self, table: TableId) -> ReadKey | None:
        """Return the function that reads keys of a table's records; None where they are JSON."""
        if table not in self._readers:
            if len(self._readers) > _MAX_TABLES:
                self._readers.clear()
            self._readers[table] = key_reader(self._extra.key_format, table)
        return self._readers[table]

    def _chosen(self, fields: Mapping[str, msgspec.Raw]) -> dict[str, bytes]:
        """Return those fields of a key that are columns."""
        names = [name for name in self._extra.key_fields if name in fields] if self._extra.key_fields else fields
        return {name: bytes(fields[name]) for name in names}

    def _extend(self, change: Change, of_key: _KeyColumns, metadata: bytes) -> Change | Reject:
        key_fields = of_key.fields
        table, kind, before, after, key, declared = change
        if before is None and after is None and (key_fields or metadata):
            before = msgspec.Raw(b"{}")
        images: list[msgspec.Raw | None] = []
        for image in (before, after):
            if image is None:
                images.append(None)
                continue
            text = bytes(image)
            if self._simple and text[:1] == b"{" and not self._may_clash(text):
                made = text[:-1] + (metadata if text[1:].strip() != b"}" else metadata[1:]) + b"}"
            elif self._as_they_are and _begins_with(text, key_fields):
                made = text
            else:
                is_old = image is before and after is not None
                found = self._rebuild(text, of_key, metadata, declared, is_old=is_old)
                if isinstance(found, str):
                    return Reject("column-clash", found, table)
                made = found
            images.append(msgspec.Raw(made))
        if key is not None and self._extra.value_prefix:
            key = _renamed(key, self._extra.value_prefix, columns_beside(key, _row_of(change)))
        return Change(table, kind, images[0], images[1], key, self._declared(declared, of_key))

    def _may_clash(self, text: bytes) -> bool:
        return b"\\" in text or any(name in text for name in self._names)

    def _rebuild(
        self, text: bytes, of_key: _KeyColumns, metadata: bytes, declared: InlineSchema | None, *, is_old: bool
    ) -> bytes | str:
        """Return the row with all its columns, or why two of them cannot be one. Raises one of MALFORMED.

        `is_old`: it is the row before an update, and the key is that of the row after it.
        """
        out: dict[str, bytes] = {self._extra.key_prefix + name: value for name, value in of_key.fields.items()}
        came = {self._extra.key_prefix + name: value for name, value in of_key.came.items()}
        for name, raw in fields_of(text).items():
            column, value = self._extra.value_prefix + name, bytes(raw)
            if column in out and self._extra.except_key:
                continue
            if column in came and not is_old and self._same(name, came[column], value, declared):
                continue
            if column in out and not is_old and not self._same(name, out[column], value, declared):
                both = f"{_shown(out[column])} in the key and {_shown(value)} in the value"
                return f"column {column[:100]!r} is {both}; {_PREFIXES}"
            out[column] = value
        clash = next((name for name in self._extra.metadata if name in out), None)
        if clash is not None:
            return f"column {clash[:100]!r} is in the message and in metadata.list; {_PREFIXES}"
        made = object_of(out)
        return made[:-1] + (metadata if out else metadata[1:]) + b"}"

    def _same(self, name: str, in_key: bytes, value: bytes, declared: InlineSchema | None) -> bool:
        """Return whether key and value say the same of a column."""
        number = is_number(declared, name)
        as_text = partial(key_text, as_string=self._extra.as_string, is_number=number)
        if as_text(in_key) == as_text(value):
            return True
        if number and not says_number(in_key):  # it has the number's bytes, maybe with a scale
            return True
        # A type that the message tells for the value is not told for the key: days, and the text of a date
        declared_type = None if declared is None else declared.types.get(name)
        return declared_type is not None and not fits(declared_type, in_key, self._extra.standard)

    def _declared(self, declared: _Said, of_key: _KeyColumns) -> InlineSchema:
        """Return what a message declares, now that its columns have other names and there are more of them."""
        names, last = tuple(of_key.fields), self._last
        if last is None or last[0] is not declared or last[1] is not of_key.declared or last[2] != names:
            made = self._with_key(declared, of_key.declared, names, of_key.came)
            last = self._last = (declared, of_key.declared, names, made)
        return last[3]

    def _with_key(
        self, declared: _Said, of_key: _Said, key_names: tuple[str, ...], came: Iterable[str]
    ) -> InlineSchema:
        """Return what a message with a key of these fields declares.

        For a column of the value and the key, the word of the one counts that the column is taken from. `came`: the
        fields that are the key's in any case.
        """
        extra = self._extra
        of_keys = {extra.key_prefix + name for name in key_names}
        declared_types = {} if declared is None else declared.types
        primary = () if declared is None else declared.primary_key
        primary = tuple(extra.value_prefix + name for name in primary)
        if not primary and extra.key and extra.key_is_primary and (of_keys or extra.key_fields):
            primary = tuple(extra.key_prefix + name for name in extra.key_fields or key_names)
        theirs = of_keys if extra.except_key else {extra.key_prefix + name for name in came}
        renamed = {extra.value_prefix + name: data_type for name, data_type in declared_types.items()}
        renamed = {name: data_type for name, data_type in renamed.items() if name not in theirs}
        if of_key is not None:
            chosen = extra.key_fields or of_key.types
            renamed = {extra.key_prefix + n: of_key.types[n] for n in of_key.types if n in chosen} | renamed
        own, keys = declared or _NOTHING, of_key or _NOTHING
        unread = {extra.value_prefix + name: why for name, why in own.unread.items()}
        unread = {name: why for name, why in unread.items() if name not in of_keys}
        numbers = {extra.value_prefix + name for name in own.numbers}.difference(theirs)
        numbers |= {extra.key_prefix + name for name in keys.numbers}
        left_out = tuple(extra.value_prefix + name for name in own.left_out)
        in_key = {extra.value_prefix + name: value for name, value in own.in_key.items()}
        unsent = frozenset(extra.value_prefix + name for name in own.unsent)
        return InlineSchema(
            {**renamed, **self._types},
            primary,
            own.overlay,
            own.sparse,
            unread,
            frozenset(numbers),
            unsent=unsent,
            left_out=left_out,
            in_key=in_key,
        )


def _begins_with(text: bytes, fields: Mapping[str, bytes]) -> bool:
    """Return whether a compact row begins with these columns, so that it is the same with them in front."""
    begin = object_of(fields)[:-1]
    return bool(fields) and text.startswith(begin) and text[len(begin) : len(begin) + 1] in {b",", b"}"}


def _shown(value: bytes) -> str:
    """Return the head of a value, for people."""
    return value[:60].decode("utf-8", "backslashreplace")


def _row_of(change: Change) -> msgspec.Raw | None:
    """Return the row of a change whose key is the record's."""
    return change.before if change.after is None else change.after


def _renamed(key: bytes, prefix: str, columns: Container[str]) -> bytes:
    """Return a message key whose fields are named as the row's columns are; the same where it is no object."""
    image = key_image(key, columns)
    try:
        fields = {} if image is None else fields_of(image)
    except MALFORMED:
        return key
    return object_of({prefix + name: bytes(value) for name, value in fields.items()})


def _bytes(value: bytes | None) -> bytes:
    return b"null" if value is None else b'"' + base64.b64encode(value) + b'"'


def _text(value: bytes | None) -> bytes:
    """Return bytes in UTF-8 as a JSON string, `null` for None. Raise UnicodeDecodeError."""
    return b"null" if value is None else msgspec.json.encode(value.decode())


def _value_of(name: str, extra: ExtraColumns) -> Callable[[Record], bytes]:
    """Return the function that gives the JSON text of a record's metadata column. It may raise UnicodeDecodeError."""
    raw = _bytes if name in extra.as_bytes else _text

    def timestamp(record: Record) -> bytes:
        kind, millis = record.timestamp()
        if not kind or millis < 0:
            return b"null"
        try:
            return temporal.timestamp_text(millis * 1000, extra.standard, zoned=True)
        except ValueError:
            return b"null"  # past the year 9999: the producer's clock was no clock

    def headers(record: Record) -> bytes:
        found = {name: _bytes(value) for name, value in record.headers() or []}
        return object_of(found)

    values: dict[str, Callable[[Record], bytes]] = {
        "topic": lambda record: msgspec.json.encode(record.topic()),
        "partition": lambda record: b"%d" % (origin(record).partition() or 0),
        "offset": lambda record: b"%d" % (origin(record).offset() or 0),
        "timestamp": timestamp,
        "op_ts": timestamp,  # what MySQL's source calls it
        "timestamp-type": lambda record: b'"%b"' % _TIMESTAMP_TYPES[record.timestamp()[0]].encode(),
        "headers": headers,
        "leader-epoch": lambda record: b"null" if (epoch := record.leader_epoch()) is None else b"%d" % epoch,
        "__raw_key__": lambda record: raw(record.key()),
        "__raw_value__": lambda record: raw(record.value()),
    }
    return values[name]
