"""Whole messages of Protocol Buffers: rows with what they declare, or the rejects of broken ones.

google's library parses the bytes, after a check of the memory that they would take: it gives each message room for all
fields of its type, so an empty one of two bytes may take kilobytes. Rules: docs/spec/protobuf.md#messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import msgspec
from google.protobuf.message import DecodeError

from ingest.formats.protobuf.rows import MessageError, ReaderCompiler, ReadingState, UnknownField
from ingest.formats.protobuf.schema import DescriptorSet, SchemaError, compile_schema
from ingest.model import types
from ingest.model.change import InlineSchema, Reject
from ingest.model.floats import NotANumber
from ingest.model.text import one_line
from ingest.model.types import ArrayType, DataType, DateType, MapType, StructField, StructType, TimestampType, TimeType

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from ingest.schema_registry.client import Found

MAX_PARSED: Final = 256 << 20
"""Bytes that the messages inside of one message may take."""
_OF_MESSAGE: Final = 64
_OF_FIELD: Final = 16
_SKIPPED: Final = {1: 8, 5: 4}
"""Bytes of values of fixed sizes, by their wire types."""


class _Shape:
    """Size of a message type, from which the memory of parsed messages is estimated."""

    __slots__ = ("inner", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes that one takes."""
        self.inner: dict[int, _Shape] = {}
        """Types of the messages inside of it, by the numbers of their fields."""


_NOTHING: Final = _Shape(0)


class Weight:
    """The weight of messages of one type."""

    def __init__(self, descriptor: Descriptor) -> None:
        """Look at the type and at all types inside of it."""
        shapes: dict[str, _Shape] = {}
        uses: list[tuple[_Shape, int, str]] = []
        waiting = [descriptor]
        while waiting:
            one = waiting.pop()
            if one.full_name in shapes:
                continue
            shape = shapes[one.full_name] = _Shape(_OF_MESSAGE + _OF_FIELD * len(one.fields))
            for field in one.fields:
                if field.message_type is not None:
                    waiting.append(field.message_type)
                    uses.append((shape, field.number, field.message_type.full_name))
        for shape, number, name in uses:
            shape.inner[number] = shapes[name]
        self._root = shapes[descriptor.full_name]
        self._largest = max((shapes[name].size for _, _, name in uses), default=0)

    def is_bearable(self, message: bytes) -> bool:
        """Return whether a message takes no more than MAX_PARSED, or is none that can be parsed."""
        if len(message) // 2 * self._largest <= MAX_PARSED:  # a message inside of it takes two bytes at least
            return True
        try:
            return self._weigh(message) <= MAX_PARSED
        except IndexError:
            return True

    def _weigh(self, message: bytes) -> int:
        """Return the bytes that the messages inside of a message take. Raise IndexError where it ends too early."""
        total = at = 0
        shape = self._root
        end = len(message)
        above: list[tuple[_Shape, int]] = []
        while total <= MAX_PARSED:
            while at >= end:
                if not above or at > end:
                    return total
                shape, end = above.pop()
            tag, at = _number(message, at)
            wire = tag & 7
            if wire == 4:  # a group ends
                if not above:
                    return total
                shape, end = above.pop()
            elif wire == 3:
                above.append((shape, end))
                shape = shape.inner.get(tag >> 3, _NOTHING)
                total += shape.size
            elif wire == 2:
                size, at = _number(message, at)
                inner = shape.inner.get(tag >> 3)
                if inner is None:
                    at += size
                else:
                    above.append((shape, end))
                    shape, end = inner, at + size
                    total += inner.size
            elif wire == 0:
                _, at = _number(message, at)
            elif wire in _SKIPPED:
                at += _SKIPPED[wire]
            else:
                return total
        return total


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it. Raise IndexError."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError


_UNKNOWN: Final = "which the schema does not have; give a schema that has it, or ignore such fields (unknown-fields)"


class RowSchema:
    """The reader of a message type's rows, and what its messages declare."""

    def __init__(self, descriptor: Descriptor, *, read_defaults: bool = False, ignore_unknown: bool = False) -> None:
        """Compile a message type. Raise SchemaError.

        `read_defaults`: an absent field has its default value. `ignore_unknown`: a message may have fields that its
        type does not have.
        """
        try:
            self._compiler = ReaderCompiler(descriptor, read_defaults=read_defaults, ignore_unknown=ignore_unknown)
            self._reader = self._compiler.reader(descriptor)
        except RecursionError:
            raise SchemaError("its messages are nested too deep") from None
        self._weight = Weight(descriptor)
        self.declared = InlineSchema(self._reader.types)
        """The types of columns, as messages declare them whose times are those of their types."""
        self._widened: dict[frozenset[str], InlineSchema] = {}

    @classmethod
    def named(cls, message: str, descriptors: bytes, *, read_defaults: bool, ignore_unknown: bool) -> Self:
        """Compile the message type of this name in a descriptor set. Raise SchemaError."""
        descriptor = DescriptorSet(descriptors).message(message)
        return cls(descriptor, read_defaults=read_defaults, ignore_unknown=ignore_unknown)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _, _ in self._reader.fields.values())

    def decode(self, message: bytes) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row of a message with what it declares, or the reject of one that is none of this type."""
        name = ""
        others = []
        if not self._weight.is_bearable(message):
            return Reject("malformed", f"its parts would take more than {MAX_PARSED >> 20} MiB of memory")
        self._compiler.state = state = ReadingState(len(message))
        try:
            parsed = self._reader.message_class.FromString(message)
            if self._compiler.required and not self._reader.message_class.IsInitialized(parsed):
                return Reject("malformed", "not a message of its schema: it lacks a required field")
            row = self._reader.absent.copy()
            for field, value in self._reader.list_fields(parsed):
                name, convert, _ = self._reader.fields[field]
                row[name] = convert(value)
                if state.other:
                    others.append(name)
                    state.other = False
            self._compiler.check_unknown(parsed)
            text = msgspec.Raw(msgspec.json.encode(row))
        except DecodeError as exc:
            return Reject("malformed", f"not a message of its schema: {one_line(str(exc))[:200]}")
        except (MessageError, RecursionError) as exc:
            why = "it is nested too deep" if isinstance(exc, RecursionError) else exc
            return Reject("malformed", f"not a message of its schema: {why}")
        except UnknownField as exc:
            return Reject("unknown-field", f"it has {exc}, {_UNKNOWN}")
        except NotANumber as exc:
            return Reject("not-a-number", f"column {name!r} holds {exc}")
        except ValueError as exc:
            data_type = types.name(self._reader.types.get(name, types.NULL))
            return Reject("type-mismatch", f"column {name!r} is declared {data_type} and holds {exc}")
        return text, self._declared(frozenset(others)) if others else self.declared

    def _declared(self, others: frozenset[str]) -> InlineSchema:
        """Return what a message declares whose columns of these names hold times that their types do not have."""
        found = self._widened.get(others)
        if found is None:
            made = {name: _as_text(one) if name in others else one for name, one in self.declared.types.items()}
            found = InlineSchema(made)
            if len(self._widened) < 1000:
                self._widened[others] = found
        return found


def _as_text(data_type: DataType) -> DataType:
    """Return a type with STRING for each time in it."""
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_text(data_type.element))
    if isinstance(data_type, MapType):
        return MapType(data_type.key, _as_text(data_type.value))
    if isinstance(data_type, StructType):
        return StructType(tuple(StructField(one.name, _as_text(one.type)) for one in data_type.fields))
    return types.STRING if isinstance(data_type, (DateType, TimestampType, TimeType)) else data_type


_MAX_DEPTH: Final = 100
_MAX_INDEX: Final = 1 << 20
_MAX_BYTES: Final = 5


class MessageTypes:
    """The readers of the message types of a schema, each compiled when the first message of it comes."""

    def __init__(self, descriptor_set: bytes, *, read_defaults: bool, ignore_unknown: bool) -> None:
        """Read the set. Raise SchemaError where it cannot be used. The options are those of `RowSchema`."""
        self._set = DescriptorSet(descriptor_set)
        self._read_defaults, self._ignore_unknown = read_defaults, ignore_unknown
        self._known: dict[tuple[int, ...], RowSchema | Reject] = {}

    @classmethod
    def compiled(cls, schema: Found, *, read_defaults: bool, ignore_unknown: bool) -> Self:
        """Return the message types of a registry's schema. Raise SchemaError, or as `compile_schema` does."""
        content = compile_schema(schema.text, dict(zip(schema.names, schema.references, strict=True)))
        return cls(content, read_defaults=read_defaults, ignore_unknown=ignore_unknown)

    def decode(self, message: bytes, at: int, _given: object = None) -> tuple[msgspec.Raw, InlineSchema] | Reject:
        """Return the row of a message with what it declares, or its reject. At `at` the indexes of its type begin."""
        try:
            indexes, at = read_indexes(message, at)
        except (IndexError, ValueError):
            return Reject("malformed", "there is no list of a message type's indexes behind the id of its schema")
        known = self._known.get(indexes)
        if known is None:
            known = self._compiled(indexes)
        return known if isinstance(known, Reject) else known.decode(message[at:])

    def _compiled(self, indexes: tuple[int, ...]) -> RowSchema | Reject:
        found = self._set.at(indexes)
        if found is None:
            return Reject("malformed", f"its schema has no message type at {list(indexes)}")
        made: RowSchema | Reject
        try:
            made = RowSchema(found, read_defaults=self._read_defaults, ignore_unknown=self._ignore_unknown)
        except SchemaError as exc:
            made = Reject("bad-schema", f"the message type {found.full_name[:100]} cannot be used: {exc}")
        return self._known.setdefault(indexes, made)


def read_indexes(message: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message type, outermost first, and the place after them.

    They are their number and themselves, as signed numbers of Protocol Buffers; the first type is a zero alone. Raise
    IndexError where the message ends before, and ValueError where there are none.
    """
    if message[at] == 0:
        return (0,), at + 1
    count, at = _read_number(message, at)
    if not 0 < count <= _MAX_DEPTH:
        raise ValueError
    indexes = []
    for _ in range(count):
        index, at = _read_number(message, at)
        indexes.append(index)
    return tuple(indexes), at


def _read_number(message: bytes, at: int) -> tuple[int, int]:
    value, end = _number(message, at)
    number = (value >> 1) ^ -(value & 1)
    if end - at > _MAX_BYTES or not 0 <= number <= _MAX_INDEX:
        raise ValueError
    return number, end


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """Return the bytes that `read_indexes` reads."""
    if indexes == (0,):
        return b"\0"
    out = bytearray()
    for number in (len(indexes), *indexes):
        value = number << 1
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)
