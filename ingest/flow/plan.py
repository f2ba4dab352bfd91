"""What a task needs to know to turn the rows of one source table into those of one sink table.

In: the schema of the source table, the schema of the sink table. Out: compiled decoders. Decoding *is* the check of
conformance: a decoder made from the schema refuses what does not fit, and a row it accepts is written as the very
bytes it came in. What it refuses takes the slow way, `rewrite`, value by value.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from pyspark.sql.types import BooleanType, DoubleType, FloatType, NullType, StringType, VarcharType

from ingest.model import types
from ingest.model.jsontext import MALFORMED, fields_of, reason
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from ingest.model.schema import Column, TableSchema
    from ingest.model.table import TableId

MAX_SHAPES = 8
"""How many row shapes (sets of missing columns) of a table have a decoder of their own."""

class Drift(Exception):  # noqa: N818  (a signal of the hot loop, never shown)
    """The row does not fit the schema as it is known: a new column, or a wider type."""


class KeyChanged(Exception):  # noqa: N818  (becomes an error with the position in it)
    """The message key has other columns than the table's primary key."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Keep the new key's columns."""
        super().__init__(names)
        self.names = names


class Refused:
    """The plan of a table whose rows cannot be written at all, e.g. for its name: each is a reject."""

    def __init__(self, table: TableId, code: str, message: str) -> None:
        """Keep the reject's code and text."""
        self.table = table
        self.destination = None
        self.key_from_message = False
        self.inserted = self.updated = self.deleted = 0
        self._error = (code, message)

    def upsert(self, _raw: msgspec.Raw) -> tuple[bytes, bytes | msgspec.Raw]:
        """Raise RowError."""
        raise RowError(*self._error)

    def key(self, _raw: msgspec.Raw) -> bytes | None:
        """Raise RowError."""
        raise RowError(*self._error)

    def delete_key(self, _before: msgspec.Raw | None, _message_key: bytes | None) -> bytes:
        """Raise RowError."""
        raise RowError(*self._error)

    def check_message_key(self, message_key: bytes) -> None:
        """Nothing to check."""


class TablePlan:
    """How rows of one source table become rows of one sink table. Made once per schema version and worker."""

    def __init__(  # noqa: PLR0913  (one value each, all needed)
        self,
        table: TableId,
        source: TableSchema,
        sink: TableSchema,
        sink_table: TableId,
        destination: Any,  # noqa: ANN401  (the sink's own; opaque here)
        *,
        key_from_message: bool,
    ) -> None:
        """Compile the decoders of the whole row and of its key."""
        self.inserted = self.updated = self.deleted = 0
        self.table = table
        self.source = source
        self.sink_table = sink_table
        self.destination = destination
        self.primary_key = sink.primary_key
        self.key_from_message = key_from_message
        self._sink = sink
        self._types = {column.name: column.type for column in source.columns}
        self._sink_types = {column.name: column.type for column in sink.columns}
        # A column whose text differs between source and sink (a number that is a STRING there) is rewritten.
        self._same_text = all(
            types.is_text(column.type) or not types.is_text(self._sink_types.get(column.name, column.type))
            for column in source.columns
        )
        self._fast = self._same_text and all(_plain_name(column.name) for column in source.columns)
        self._shapes: list[tuple[Callable[[Any], Any], bytes]] = []
        self._known_shapes: set[frozenset[str]] = set()
        self._key_struct: Callable[[Any], Any] | None = None
        self._key_text: Callable[[Any], bytes] | None = None
        if self.primary_key:
            self._compile_key()
        if self._fast:
            self._add_shape(frozenset())

    # -- the fast way --------------------------------------------------------------------------------------------

    def upsert(self, raw: msgspec.Raw) -> tuple[bytes, bytes | msgspec.Raw]:
        """Key and value of a row's record; raises Drift or RowError."""
        for i, (decode, suffix) in enumerate(self._shapes):
            try:
                row = decode(raw)
            except MALFORMED:
                continue
            if i:  # rows of one shape come in runs: look for this one first from now on
                self._shapes.insert(0, self._shapes.pop(i))
            return (
                self._key_text(row) if self._key_text is not None else self._slow_key(raw),
                b"%b%b" % (memoryview(raw)[:-1], suffix) if suffix else raw,
            )
        return self._rewrite(raw)

    def key(self, raw: msgspec.Raw) -> bytes | None:
        """The key of an image that may be partial; None where it lacks a key column. Raises Drift or RowError."""
        if self._key_struct is not None and self._key_text is not None:
            try:
                return self._key_text(self._key_struct(raw))
            except MALFORMED:
                pass
        return self._slow_key(raw, partial=True)

    def delete_key(self, before: msgspec.Raw | None, message_key: bytes | None) -> bytes:
        """The key of a deleted row, from its before image or else from the message key; raises Drift or RowError."""
        key = None if before is None else self.key(before)
        if key is None and message_key is not None:
            image = key_image(message_key)
            key = None if image is None else self.key(image)
        if key is None:
            raise RowError("no-key", "a delete needs its key in the before image or in the message key")
        return key

    def check_message_key(self, message_key: bytes) -> None:
        """Stop at a message key of other columns than the primary key; raises KeyChanged."""
        image = key_image(message_key)
        if image is None:
            return
        names = tuple(parse_row(image))
        if set(names) != set(self.primary_key):
            raise KeyChanged(names)

    # -- the slow way --------------------------------------------------------------------------------------------

    def _rewrite(self, raw: msgspec.Raw) -> tuple[bytes, bytes]:
        """A row value by value: fills, converts, and finds out what exactly does not fit."""
        fields = parse_row(raw)
        missing: list[str] = []
        converted = False
        text: dict[str, bytes] = {}
        for column in self.source.columns:
            value = fields.pop(column.name, None)
            if value is None:
                missing.append(column.name)
                continue
            if not types.fits(column.type, value):
                raise Drift
            text[column.name] = sink_text(self._sink_types.get(column.name, column.type), value)
            converted = converted or text[column.name] is not value
        if fields:
            raise Drift
        key = self._key_of(text)
        if self._fast and not converted and missing:
            self._add_shape(frozenset(missing))
        parts = [b"%b:%b" % (msgspec.json.encode(c.name), text.get(c.name, b"null")) for c in self._sink.columns]
        return key, b"{" + b",".join(parts) + b"}"

    def _slow_key(self, raw: msgspec.Raw, *, partial: bool = False) -> bytes | None:
        fields = parse_row(raw)
        text: dict[str, bytes] = {}
        for name in self.primary_key:
            value = fields.get(name)
            if value is None or value == b"null":
                if partial:
                    return None
                continue
            if not types.fits(self._types[name], value):
                raise Drift
            text[name] = sink_text(self._sink_types[name], value)
        return self._key_of(text)

    def _key_of(self, text: dict[str, bytes]) -> bytes:
        parts = []
        for name in self.primary_key:
            value = text.get(name, b"null")
            if value == b"null":
                raise RowError("null-key", f"primary key column {name!r} is null or missing")
            parts.append(b"%b:%b" % (msgspec.json.encode(name), canonical(value, self._sink_types[name])))
        return b"{" + b",".join(parts) + b"}"

    # -- compiling -----------------------------------------------------------------------------------------------

    def _add_shape(self, missing: frozenset[str]) -> None:
        """A decoder for rows that lack these columns, with the text that fills them in."""
        if missing in self._known_shapes or len(self._shapes) >= MAX_SHAPES:
            return
        self._known_shapes.add(missing)
        present = [(i, column) for i, column in enumerate(self.source.columns) if column.name not in missing]
        decode = compile_row(present, self.primary_key)
        if decode is None or not present:
            self._fast = False
            return
        names = {column.name for _, column in present}
        filled = [c.name for c in self._sink.columns if c.name not in names]
        suffix = b"".join(b",%b:null" % msgspec.json.encode(name) for name in filled)
        self._shapes.append((decode, suffix + b"}" if suffix else b""))

    def _compile_key(self) -> None:
        by_name = {column.name: column for column in self.source.columns}
        columns = [by_name[name] for name in self.primary_key if name in by_name]
        if len(columns) != len(self.primary_key) or not all(_plain_name(name) for name in self.primary_key):
            return
        encoders = [_key_encoder(c.type, self._sink_types[c.name]) for c in columns]
        positions = [self.source.columns.index(column) for column in columns]
        template = b"{" + b",".join(msgspec.json.encode(n).replace(b"%", b"%%") + b":%b" for n in self.primary_key) + b"}"
        if not all(encoders):
            return
        struct = msgspec.defstruct(
            "Key", [_field(c, i, required=True) for c, i in zip(columns, positions, strict=True)], gc=False
        )
        self._key_struct = msgspec.json.Decoder(struct).decode
        integers = all(type(c.type) in types.INTEGER_BITS for c in columns)
        attributes = [f"c{i}" for i in positions]
        if integers:
            template = template.replace(b":%b", b":%d")
            if len(attributes) == 1:
                attribute = attrgetter(attributes[0])
                self._key_text = lambda row: template % attribute(row)
            else:
                several = attrgetter(*attributes)
                self._key_text = lambda row: template % several(row)
            return
        pairs = [(attrgetter(a), e) for a, e in zip(attributes, encoders, strict=True) if e is not None]
        self._key_text = lambda row: template % tuple(encode(get(row)) for get, encode in pairs)


def compile_row(columns: list[tuple[int, Column]], primary_key: tuple[str, ...]) -> Callable[[Any], Any] | None:
    """A decoder that accepts exactly the rows with these columns and types; None where msgspec has none for them."""
    fields = [_field(column, i, required=column.name in primary_key) for i, column in columns]
    if any(annotation is None for _, annotation, _ in fields):
        return None
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, forbid_unknown_fields=True, gc=False)).decode


def parse_row(raw: msgspec.Raw) -> dict[str, bytes]:
    """A row's columns with the JSON text of each; raises RowError."""
    text = bytes(raw)
    try:
        text.decode()
        return {name: bytes(value) for name, value in fields_of(text).items()}
    except UnicodeDecodeError:
        raise RowError("malformed", "the row is not valid UTF-8") from None
    except MALFORMED as exc:
        raise RowError("malformed", f"the row is not a JSON object: {reason(exc)}") from None


class _KeyEnvelope(msgspec.Struct):
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_key_envelope = msgspec.json.Decoder(_KeyEnvelope).decode


def key_image(message_key: bytes) -> msgspec.Raw | None:
    """The JSON object in a message key, out of its schema envelope; None where the key is something else."""
    try:
        envelope = _key_envelope(message_key)
        if envelope.payload is msgspec.UNSET or envelope.schema is msgspec.UNSET:
            return msgspec.Raw(message_key)
        fields_of(envelope.payload)
    except MALFORMED:
        return None
    return envelope.payload


def sink_text(data_type: DataType, value: bytes) -> bytes:
    """The JSON text of a value in a column of the sink; the same object where nothing changes."""
    if value == b"null" or value[:1] == b'"' or not types.is_text(data_type):
        return value
    if value[:1] in (b"{", b"["):
        return msgspec.json.encode(msgspec.json.format(value, indent=-1).decode())
    return b'"' + value + b'"'


def canonical(value: bytes, data_type: DataType) -> bytes:
    """The one text of a key value: equal keys have equal bytes, however the messages spelled them."""
    if value[:1] == b'"':
        return msgspec.json.encode(msgspec.json.decode(value))
    if type(data_type) in types.INTEGER_BITS:
        return b"%d" % int(value)
    if isinstance(data_type, (DoubleType, FloatType)):
        return msgspec.json.encode(float(value))
    return value


def _plain_name(name: str) -> bool:
    """Whether msgspec can name a struct's field so."""
    return '"' not in name and "\\" not in name and all(c >= " " for c in name)


_INTEGER = {
    cls: Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]
    for cls, bits in types.INTEGER_BITS.items()
}


def _annotation(data_type: DataType) -> Any:  # noqa: ANN401  (a type expression)
    """What msgspec shall accept for a type; None where it cannot say it exactly."""
    if type(data_type) in _INTEGER:
        return _INTEGER[type(data_type)]
    if isinstance(data_type, BooleanType):
        return bool
    if isinstance(data_type, (FloatType, DoubleType)):
        return float
    if isinstance(data_type, VarcharType):
        return Annotated[str, msgspec.Meta(max_length=data_type.length)]
    if isinstance(data_type, StringType):
        return str
    return None


def _field(column: Column, index: int, *, required: bool) -> tuple[str, Any, Any]:
    annotation = _annotation(column.type)
    if isinstance(column.type, NullType):
        annotation = type(None)
    elif annotation is not None and not required:
        annotation |= None
    return f"c{index}", annotation, msgspec.field(name=column.name)


def _key_encoder(source: DataType, sink: DataType) -> Callable[[Any], bytes] | None:
    if types.is_text(sink) != types.is_text(source) or _annotation(source) is None:
        return None
    return msgspec.json.encode
