"""The encoding of a source table's rows as the records of a sink table with a key.

In: the schemas of both tables. Out: compiled decoders. Decoding *is* the check of conformance: a decoder made from the
schema refuses what does not fit, and a row it accepts is written as the very bytes it came in. What it refuses takes
the slow way, value by value; when that shows a shape that will come again (columns that are missing, numbers in a
column that became a STRING), the shape gets a decoder of its own.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from ingest.encode.coercer import KeyChanged, RowCoercer
from ingest.encode.decoders import annotation_of, decoder_of, field_of, plain_name, refuse
from ingest.model import types
from ingest.model.change import Kind
from ingest.model.data_type import StringType, VarcharType
from ingest.model.jsontext import MALFORMED, check_text, object_of
from ingest.model.keytext import key_text
from ingest.model.reject import RowError
from ingest.model.rowtext import is_plain, key_image, parse_row
from ingest.model.values import fits, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.model.change import InlineSchema
    from ingest.model.data_type import DataType
    from ingest.model.schema import TableSchema
    from ingest.model.table import TableId
    from ingest.schema.infer import Inference

MAX_SHAPES = 8
"""The number of row shapes of a table that have a decoder of their own, at most."""

Record: TypeAlias = "tuple[Any, bytes | None, bytes | msgspec.Raw | None]"
"""Destination (the sink's own), key, and value; no value is a tombstone."""

_UPDATE = Kind.UPDATE


class TableEncoder(Protocol):
    """An encoder of the changes of one source table for one sink table."""

    table: TableId
    inserted: int
    updated: int
    deleted: int

    unrepresentable: int
    """Changes that the sink has no way to say."""

    @property
    def withheld(self) -> dict[str, int]:
        """By column: values that did not get into the sink, because its table was not to have the column."""

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""

    def delete(
        self,
        before: msgspec.Raw | None,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records of a delete; raises as `upsert` does."""


class _Shape:
    """A decoder for the rows that lack some columns, or have values to convert in some."""

    __slots__ = ("checked", "converted", "decode", "names", "plain", "rewrites", "suffix")

    def __init__(
        self,
        decode: Callable[[Any], Any],
        names: int,
        suffix: bytes,
        converted: list[tuple[str, str, bytes, DataType, DataType]],
        checked: list[tuple[str, DataType]],
    ) -> None:
        self.decode = decode
        self.names = names
        """The number of columns that a row has."""
        self.suffix = suffix
        """The text that fills the missing columns in, with the closing brace; empty where there are none."""
        self.converted = converted
        """Attribute, column, how it begins in the row's text, its type, and its type in the sink's table."""
        self.checked = checked
        """Attribute and type of values that the decoder could not check."""
        self.rewrites = bool(suffix or converted)
        self.plain = not (self.rewrites or checked)
        """True if a row that is decoded is written as it is."""


class UpsertEncoder:
    """The encoder of one source table's rows for one sink table. It is made once per schema version and worker."""

    def __init__(
        self,
        table: TableId,
        source: TableSchema,
        sink: TableSchema,
        destination: Any,  # noqa: ANN401  (the sink's own; opaque here)
        inference: Inference,
        *,
        key_from_message: bool,
    ) -> None:
        """Compile the decoders of the whole row and of its key."""
        self.table = table
        self._coercer = coercer = RowCoercer(table, source, sink, inference)
        self.withheld = coercer.withheld
        self.standard = coercer.standard
        self.strings_in_keys = coercer.strings_in_keys
        self.declared = coercer.declared
        self._declared: InlineSchema | None = None
        """The last inline schema that agrees with the primary key."""
        self._trusted: InlineSchema | None = None
        """The same, where values that a decoder cannot check are of their types already because their messages said so:
        that was looked at when the messages were decoded."""
        self._unchecked = {c.name: c.type for c in source.columns if annotation_of(c.type) is None}
        self.inserted = self.updated = self.deleted = self.unrepresentable = 0
        self.source, self.sink, self.destination = source, sink, destination
        self.key_from_message = key_from_message
        self._primary_key = sink.primary_key
        self._key_texts = [msgspec.json.encode(name) for name in sink.primary_key]
        self._sink_types = coercer.sink_types
        plain = all(plain_name(column.name) for column in source.columns)
        self._fast = plain and not coercer.absent and not coercer.narrow
        self._shapes: list[_Shape] = []
        self._known_shapes: set[tuple[frozenset[str], frozenset[str]]] = set()
        self._key_decode: Callable[[Any], Any] = refuse
        self._key_values: Callable[[Any], Any] = refuse
        self._key_of_integer: bytes | None = None
        self._key_text: Callable[[Any], bytes] | None = None
        self._compile_key()
        self._add_shape(frozenset(), frozenset(coercer.rewritten))

    @property
    def simple(self) -> bool:
        """True if every column is the sink's, wide enough, under a plain name, and there is a key of such columns."""
        own = {column.name for column in self.source.columns}
        return self._fast and bool(self._primary_key) and own.issuperset(self._primary_key)

    # -- the fast way --------------------------------------------------------------------------------------------

    def upsert(
        self,
        kind: Kind,
        before: msgspec.Raw | None,
        after: msgspec.Raw,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the records of an insert or update; raises Drift, KeyChanged or RowError, having emitted nothing."""
        value: bytes | msgspec.Raw = after
        try:
            shape = self._shapes[0]
            row = shape.decode(after)
        except (*MALFORMED, IndexError):
            row, key, value = self._other_shape(after, declared)
        else:
            if self._key_of_integer is not None:
                key = self._key_of_integer % self._key_values(row)
            else:
                key = self._key_text(row) if self._key_text is not None else self._slow_key(after)
            if not shape.plain and (shape.rewrites or declared is None or declared is not self._trusted):
                value = self._finish(shape, row, after, declared)
        if message_key is not None and message_key != key and self.key_from_message:
            self._check_message_key(message_key)
        if declared is not self._declared and declared is not None:
            self._check_declared(declared)
        if kind is _UPDATE:
            if before is not None:
                try:  # `row` is None and `_key_decode` refuses all where there is no fast way
                    same = declared is None and self._key_values(self._key_decode(before)) == self._key_values(row)
                except (*MALFORMED, AttributeError):
                    same = False
                if not same:
                    overlay = declared is not None and declared.overlay
                    old = self._key_under(before, after, declared) if overlay else self._key_of_image(before)
                    if old is not None and old != key:
                        emit((self.destination, old, None))
            self.updated += 1
        else:
            self.inserted += 1
        emit((self.destination, key, value))

    def delete(
        self,
        before: msgspec.Raw | None,
        message_key: bytes | None,
        declared: InlineSchema | None,
        emit: Callable[[Record], None],
    ) -> None:
        """Emit the tombstone of a delete; raises as `upsert` does."""
        key = None if before is None else self._key_of_image(before)
        if key is None and message_key is not None:
            image = key_image(message_key)
            key = None if image is None else self._key_of_image(image)
        if key is None:
            raise RowError("no-key", "a delete needs its key in the before image or in the message key")
        if message_key is not None and message_key != key and self.key_from_message:
            self._check_message_key(message_key)
        if declared is not self._declared and declared is not None:
            self._check_declared(declared)
        self.deleted += 1
        emit((self.destination, key, None))

    def _key_of_image(self, image: msgspec.Raw) -> bytes | None:
        """Return the key in an image that may be partial; None if it lacks a key column. Raises Drift or RowError."""
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

    def _check_declared(self, declared: InlineSchema) -> None:
        """Stop at a message that declares another primary key; raises KeyChanged."""
        names = declared.primary_key
        if self.key_from_message and names and set(names) != set(self._primary_key):
            raise KeyChanged(self._primary_key, names)
        self._declared = declared
        said = declared.types
        trusted = declared.judged and all(said.get(name) == t for name, t in self._unchecked.items())
        self._trusted = declared if trusted else None

    def _key_under(self, old: msgspec.Raw, after: msgspec.Raw, declared: InlineSchema | None) -> bytes | None:
        """Return the key before an update whose before image has the changed columns only; None if it is the same."""
        text = bytes(old)
        for name in self._key_texts:
            if name in text:
                break
        else:
            if b"\\" not in text:
                return None
        if declared is not None and declared.read_before is not None:
            old = declared.read_before(old)
        return self._key_of({**parse_row(after), **parse_row(old)})

    def _other_shape(self, raw: msgspec.Raw, declared: InlineSchema | None) -> tuple[Any, bytes, bytes | msgspec.Raw]:
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
            return row, key, self._finish(shape, row, raw, declared)
        return (None, *self._rewrite(raw, declared))

    def _finish(
        self,
        shape: _Shape,
        row: Any,  # noqa: ANN401  (a struct made from the schema)
        raw: msgspec.Raw,
        declared: InlineSchema | None,
    ) -> bytes | msgspec.Raw:
        """Return the row's text with what is missing filled in and what the sink has otherwise rewritten."""
        text = bytes(raw)
        if shape.checked or shape.converted:
            for attribute, data_type in shape.checked:
                if not fits(data_type, bytes(getattr(row, attribute)), self.standard):
                    return self._rewrite(raw, declared)[1]
            try:
                check_text(text)
            except MALFORMED:
                return self._rewrite(raw, declared)[1]  # it says what is wrong
        changed = False
        for attribute, name, begins, data_type, sink_type in shape.converted:
            value = bytes(getattr(row, attribute))
            own = self._coercer.own(name, data_type, value)
            if own is None:
                return self._rewrite(raw, declared)[1]
            made = written(own, data_type, sink_type, self.standard)
            if made is value:
                continue
            if text.count(begins + value) != 1:
                # White space, or the same text once more inside another value: find it by reading the row
                return self._rewrite(raw, declared)[1]
            text = text.replace(begins + value, begins + made)
            changed = True
        if shape.converted and not changed and shape is self._shapes[0]:
            self._shapes.append(self._shapes.pop(0))  # the rows are as they should be again: look plainly first
        if not changed and not shape.suffix:
            return raw
        if not is_plain(raw, shape.names):
            return self._rewrite(raw, declared)[1]
        return text[:-1] + shape.suffix if shape.suffix else text

    # -- the slow way --------------------------------------------------------------------------------------------

    def _rewrite(self, raw: msgspec.Raw, declared: InlineSchema | None) -> tuple[bytes, bytes]:
        """Return a row's key and text, made value by value: fill, convert, and find out what exactly does not fit.

        What is missing comes last, as in `_finish`: which way a row went does not show.
        """
        text, missing, converted = self._coercer.row(raw, declared)
        key = self._slow_key(raw)
        self._add_shape(missing, converted | self._coercer.rewritten)
        if self._fast and not self._coercer.static and not converted and len(text) == len(self.sink.columns):
            return key, bytes(raw)
        return key, object_of(text | {c.name: b"null" for c in self.sink.columns if c.name not in text})

    def _slow_key(self, raw: msgspec.Raw, *, partial: bool = False) -> Any:  # noqa: ANN401  (bytes, None if partial)
        fields = parse_row(raw)
        if partial and any(fields.get(name, b"null") == b"null" for name in self._primary_key):
            return None
        return self._key_of(fields)

    def _key_of(self, fields: dict[str, bytes]) -> bytes:
        """Return the key of a row's values as the message has them: their column's type has no part in it."""
        parts = {}
        for name in self._primary_key:
            value = fields.get(name, b"null")
            if value == b"null":
                raise RowError("null-key", f"primary key column {name!r} is null or missing")
            parts[name] = key_text(value, as_string=self.strings_in_keys)
        return object_of(parts)

    # -- compiling -----------------------------------------------------------------------------------------------

    def _add_shape(self, missing: frozenset[str], converted: frozenset[str]) -> None:
        """Add a decoder for rows that lack these columns and have something to convert in those."""
        if not self._fast or (missing, converted) in self._known_shapes or len(self._shapes) >= MAX_SHAPES:
            return
        if converted & set(self._primary_key):
            return
        self._known_shapes.add((missing, converted))
        present = [(i, c) for i, c in enumerate(self.source.columns) if c.name not in missing]
        fields = [field_of(c, i, required=c.name in self._primary_key, raw=c.name in converted) for i, c in present]
        if not fields:
            return
        decode = decoder_of(tuple(fields), forbid_unknown=True)
        names = {c.name for _, c in present}
        filled = b"".join(b",%b:null" % msgspec.json.encode(c.name) for c in self.sink.columns if c.name not in names)
        begins = [
            (f"c{i}", c.name, msgspec.json.encode(c.name) + b":", c.type, self._sink_types[c.name])
            for i, c in present
            if c.name in converted
        ]
        checked = [(f"c{i}", c.type) for i, c in present if annotation_of(c.type) is None and c.name not in converted]
        shape = _Shape(decode, len(fields), filled + b"}" if filled else b"", begins, checked)
        self._shapes.insert(0, shape)

    def _compile_key(self) -> None:
        """Compile the fast way to the key's text, for keys of integers and texts under plain names."""
        positions = {column.name: i for i, column in enumerate(self.source.columns)}
        names = self._primary_key
        if not self._fast or not names or self.strings_in_keys or not all(name in positions for name in names):
            return
        columns = [self.source.columns[positions[name]] for name in names]
        integers = [type(c.type) in types.INTEGER_BITS for c in columns]
        if not all(i or isinstance(c.type, (StringType, VarcharType)) for c, i in zip(columns, integers, strict=True)):
            return
        fields = [field_of(c, positions[c.name], required=True) for c in columns]
        self._key_decode = decoder_of(tuple(fields), forbid_unknown=False)
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
