"""What a task needs to know to turn the rows of a source table into the records of a sink table.

In: the schemas of both tables. Out: compiled decoders. Decoding *is* the check of conformance: a decoder made from the
schema refuses what does not fit, and a row it accepts is written as the very bytes it came in. What it refuses takes
the slow way, value by value; when that shows a shape that will come again (columns that are missing, numbers in a
column that became a STRING), the shape gets a decoder of its own.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAlias

import msgspec
from pyspark.sql.types import BooleanType, DoubleType, FloatType, NullType, StringType, VarcharType

from ingest.flow.rowtext import canonical, key_image, parse_row, sink_text
from ingest.model import types
from ingest.model.event import Kind
from ingest.model.jsontext import MALFORMED
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from ingest.model.schema import Column, TableSchema
    from ingest.model.table import TableId

MAX_SHAPES = 8
"""How many row shapes of a table have a decoder of their own."""

Record: TypeAlias = "tuple[Any, bytes, bytes | msgspec.Raw | None]"
"""Destination (the sink's own), key, and value; no value is a tombstone."""

_UPDATE = Kind.UPDATE


class Drift(Exception):
    """The row does not fit the schema as it is known: a new table, a new column, or a wider type."""


class KeyChanged(Exception):
    """The message key has other columns than the table's primary key."""

    def __init__(self, known: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Keep the old and the new key's columns."""
        super().__init__(known, names)
        self.known = known
        self.names = names


class Plan(Protocol):
    """What happens to the changes of one source table for one sink table."""

    table: TableId
    inserted: int
    updated: int
    deleted: int

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""

    def delete(self, before: msgspec.Raw | None, message_key: bytes | None, emit: Callable[[Record], None]) -> None:
        """Emit the tombstone of a delete; raises as `upsert` does."""


class _Shape:
    """A decoder for the rows that lack some columns, or have values to convert in some."""

    __slots__ = ("converted", "decode", "suffix")

    def __init__(self, decode: Callable[[Any], Any], suffix: bytes, converted: list[tuple[str, bytes]]) -> None:
        self.decode = decode
        self.suffix = suffix
        """What fills the missing columns in, with the closing brace; empty where there are none."""
        self.converted = converted
        """Attribute, and how the column begins in the row's text."""


class TablePlan:
    """How rows of one source table become rows of one sink table. Made once per schema version and worker."""

    def __init__(
        self,
        table: TableId,
        source: TableSchema,
        sink: TableSchema,
        destination: Any,  # noqa: ANN401  (the sink's own; opaque here)
        *,
        key_from_message: bool,
    ) -> None:
        """Compile the decoders of the whole row and of its key."""
        self.table = table
        self.inserted = self.updated = self.deleted = 0
        self._source = source
        self._sink = sink
        self._destination = destination
        self._key_from_message = key_from_message
        self._primary_key = sink.primary_key
        self._types = {column.name: column.type for column in source.columns}
        self._sink_types = {column.name: column.type for column in sink.columns}
        self._fast = all(_plain_name(column.name) for column in source.columns)
        self._shapes: list[_Shape] = []
        self._known_shapes: set[tuple[frozenset[str], frozenset[str]]] = set()
        self._key_decode: Callable[[Any], Any] = _refuse
        self._key_values: Callable[[Any], Any] = _refuse
        self._key_of_integer: bytes | None = None
        self._key_text: Callable[[Any], bytes] | None = None
        self._compile_key()
        # A number that is a STRING in the sink has to be rewritten in every row
        differs = {c.name for c in source.columns if types.is_text(self._sink_types[c.name]) > types.is_text(c.type)}
        self._add_shape(frozenset(), frozenset(differs))

    # -- the fast way --------------------------------------------------------------------------------------------

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        value: bytes | msgspec.Raw = after
        try:
            shape = self._shapes[0]
            row = shape.decode(after)
        except (*MALFORMED, IndexError):
            row, key, value = self._other_shape(after)
        else:
            if self._key_of_integer is not None:
                key = self._key_of_integer % self._key_values(row)
            else:
                key = self._key_text(row) if self._key_text is not None else self._slow_key(after)
            if shape.suffix or shape.converted:
                value = self._finish(shape, row, after)
        if message_key is not None and message_key != key and self._key_from_message:
            self._check_message_key(message_key)
        if kind is _UPDATE:
            if before is not None:
                try:  # `row` is None and `_key_decode` refuses all where there is no fast way
                    same = self._key_values(self._key_decode(before)) == self._key_values(row)
                except (*MALFORMED, AttributeError):
                    same = False
                if not same:
                    old = self._key_of_image(before)
                    if old is not None and old != key:
                        emit((self._destination, old, None))
            self.updated += 1
        else:
            self.inserted += 1
        emit((self._destination, key, value))

    def delete(self, before: msgspec.Raw | None, message_key: bytes | None, emit: Callable[[Record], None]) -> None:
        """Emit the tombstone of a delete; raises as `upsert` does."""
        key = None if before is None else self._key_of_image(before)
        if key is None and message_key is not None:
            image = key_image(message_key)
            key = None if image is None else self._key_of_image(image)
        if key is None:
            raise RowError("no-key", "a delete needs its key in the before image or in the message key")
        if message_key is not None and message_key != key and self._key_from_message:
            self._check_message_key(message_key)
        self.deleted += 1
        emit((self._destination, key, None))

    def _key_of_image(self, image: msgspec.Raw) -> bytes | None:
        """The key in an image that may be partial; None where it lacks a key column. Raises Drift or RowError."""
        if self._key_text is not None:
            try:
                return self._key_text(self._key_decode(image))
            except MALFORMED:
                pass
        key: bytes | None = self._slow_key(image, partial=True)
        return key

    def _check_message_key(self, message_key: bytes) -> None:
        """Stop at a message key of other columns than the primary key; raises KeyChanged."""
        image = key_image(message_key)
        if image is not None:
            names = tuple(parse_row(image))
            if set(names) != set(self._primary_key):
                raise KeyChanged(self._primary_key, names)

    def _other_shape(self, raw: msgspec.Raw) -> tuple[Any, bytes, bytes | msgspec.Raw]:
        """Decoded row (None the slow way), key and value of a row that has not the shape of the last one."""
        for i, shape in enumerate(self._shapes):
            if not i:
                continue
            try:
                row = shape.decode(raw)
            except MALFORMED:
                continue
            # Rows of one shape come in runs: look for this one first from now on
            self._shapes.insert(0, self._shapes.pop(i))
            key = self._key_text(row) if self._key_text is not None else self._slow_key(raw)
            return row, key, self._finish(shape, row, raw)
        return (None, *self._rewrite(raw))

    def _finish(self, shape: _Shape, row: Any, raw: msgspec.Raw) -> bytes | msgspec.Raw:  # noqa: ANN401
        """The row's text with what is missing filled in and what is no text in a STRING column quoted."""
        text = bytes(raw)
        changed = False
        for attribute, begins in shape.converted:
            value = bytes(getattr(row, attribute))
            if value[:1] in (b'"', b"n"):
                continue
            quoted = sink_text(types.STRING, value)
            if text.count(begins + value) != 1:
                # White space, or the same text once more inside another value: find it by reading the row
                return self._rewrite(raw)[1]
            text = text.replace(begins + value, begins + quoted)
            changed = True
        if shape.converted and not changed and shape is self._shapes[0]:
            self._shapes.append(self._shapes.pop(0))  # the rows are as they should be again: look plainly first
        return text[:-1] + shape.suffix if shape.suffix else text

    # -- the slow way --------------------------------------------------------------------------------------------

    def _rewrite(self, raw: msgspec.Raw) -> tuple[bytes, bytes]:
        """A row value by value: fills, converts, and finds out what exactly does not fit."""
        fields = parse_row(raw)
        missing: list[str] = []
        converted: list[str] = []
        text: dict[str, bytes] = {}
        for column in self._source.columns:
            value = fields.pop(column.name, None)
            if value is None:
                missing.append(column.name)
                continue
            if not types.fits(column.type, value):
                raise Drift
            text[column.name] = written = sink_text(self._sink_types[column.name], value)
            if written is not value:
                converted.append(column.name)
        if fields:
            raise Drift
        key = self._key_of(text)
        self._add_shape(frozenset(missing), frozenset(converted))
        parts = [b"%b:%b" % (msgspec.json.encode(c.name), text.get(c.name, b"null")) for c in self._sink.columns]
        return key, b"{" + b",".join(parts) + b"}"

    def _slow_key(self, raw: msgspec.Raw, *, partial: bool = False) -> Any:  # noqa: ANN401  (bytes, None if partial)
        fields = parse_row(raw)
        text: dict[str, bytes] = {}
        for name in self._primary_key:
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
        for name in self._primary_key:
            value = text.get(name, b"null")
            if value == b"null":
                raise RowError("null-key", f"primary key column {name!r} is null or missing")
            parts.append(b"%b:%b" % (msgspec.json.encode(name), canonical(value, self._sink_types[name])))
        return b"{" + b",".join(parts) + b"}"

    # -- compiling -----------------------------------------------------------------------------------------------

    def _add_shape(self, missing: frozenset[str], converted: frozenset[str]) -> None:
        """A decoder for rows that lack these columns and have something to convert in those."""
        if not self._fast or (missing, converted) in self._known_shapes or len(self._shapes) >= MAX_SHAPES:
            return
        if converted & set(self._primary_key):
            return
        self._known_shapes.add((missing, converted))
        present = [(i, c) for i, c in enumerate(self._source.columns) if c.name not in missing]
        fields = [_field(c, i, required=c.name in self._primary_key, raw=c.name in converted) for i, c in present]
        if not fields or any(annotation is None for _, annotation, _ in fields):
            self._fast = False
            return
        struct = msgspec.defstruct("Row", fields, forbid_unknown_fields=True, gc=False)
        names = {c.name for _, c in present}
        filled = b"".join(b",%b:null" % msgspec.json.encode(c.name) for c in self._sink.columns if c.name not in names)
        begins = [(f"c{i}", msgspec.json.encode(c.name) + b":") for i, c in present if c.name in converted]
        shape = _Shape(msgspec.json.Decoder(struct).decode, filled + b"}" if filled else b"", begins)
        self._shapes.insert(0, shape)

    def _compile_key(self) -> None:
        """The fast way to the key's text, for keys of integers and texts under plain names."""
        positions = {column.name: i for i, column in enumerate(self._source.columns)}
        names = self._primary_key
        if not self._fast or not names or not all(name in positions for name in names):
            return
        columns = [self._source.columns[positions[name]] for name in names]
        integers = [type(c.type) in types.INTEGER_BITS for c in columns]
        for column, integer in zip(columns, integers, strict=True):
            text = isinstance(column.type, (StringType, VarcharType))
            if not (integer or text) or types.is_text(self._sink_types[column.name]) != text:
                return
        fields = [_field(c, positions[c.name], required=True) for c in columns]
        self._key_decode = msgspec.json.Decoder(msgspec.defstruct("Key", fields, gc=False)).decode
        self._key_values = values = attrgetter(*(f"c{positions[name]}" for name in names))
        begins = [msgspec.json.encode(name).replace(b"%", b"%%") for name in names]
        template = b"{" + b",".join(b + (b":%d" if i else b":%b") for b, i in zip(begins, integers, strict=True)) + b"}"
        encode = msgspec.json.encode
        if all(integers):
            self._key_of_integer = template
            self._key_text = lambda row: template % values(row)
        elif len(names) == 1:
            self._key_text = lambda row: template % encode(values(row))
        else:
            self._key_text = lambda row: (
                template % tuple(v if i else encode(v) for v, i in zip(values(row), integers, strict=True))
            )


def _plain_name(name: str) -> bool:
    """Whether msgspec can name a struct's field so."""
    return '"' not in name and "\\" not in name and all(c >= " " for c in name)


_INTEGER: dict[type[DataType], Any] = {
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


def _field(column: Column, index: int, *, required: bool, raw: bool = False) -> tuple[str, Any, Any]:
    annotation = _annotation(column.type)
    if isinstance(column.type, NullType):
        annotation = type(None)
    elif annotation is not None and not required:
        annotation |= None
    return f"c{index}", msgspec.Raw if raw else annotation, msgspec.field(name=column.name)


def _refuse(_: object) -> Any:  # noqa: ANN401  (it never returns)
    """Stand in for the fast way to a key that has none."""
    raise msgspec.DecodeError
