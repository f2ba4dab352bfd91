"""Rows out of messages: for one message type, the types of its columns and the function that reads a row.

A message inside of another is a ROW, a repeated field an ARRAY, a map a MAP; messages that may hold themselves are
JSON text. Rules: docs/spec/protobuf.md#types.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from ingest.formats.protobuf import well_known
from ingest.formats.protobuf.schema import AnyMessage, SchemaError
from ingest.model import types
from ingest.model.floats import finite, shortest
from ingest.model.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.model.jsontext import Json

    Convert: TypeAlias = Callable[[Any], Any]
    """Function that makes the value of a field into one that JSON has. It raises ValueError."""


def cyclic_messages(root: Descriptor) -> frozenset[str]:
    """Return the full names of the messages, from this one on, that may hold themselves. Raise RecursionError.

    They are the strongly connected components of the graph of messages (Tarjan's algorithm).
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: set[str] = set()

    def visit(message: Descriptor) -> None:
        name = message.full_name
        number[name] = lowest[name] = len(number)
        path.append(name)
        for field in message.fields:
            inner = field.message_type
            if inner is None or well_known.is_known(inner):  # a Struct holds itself, too
                continue
            if inner.full_name == name:
                found.add(name)
            if inner.full_name not in number:
                visit(inner)
                lowest[name] = min(lowest[name], lowest[inner.full_name])
            elif inner.full_name in path:
                lowest[name] = min(lowest[name], number[inner.full_name])
        if lowest[name] == number[name]:
            component = path[path.index(name) :]
            del path[path.index(name) :]
            found.update(component if len(component) > 1 else ())

    visit(root)
    return frozenset(found)


MAX_ROW_FIELDS: Final = 1000
"""Number of fields of a ROW and of all that is inside of it, at most."""
BASE: Final = 1 << 16
PER_BYTE: Final = 1024
MAX_LEFT: Final = 1 << 25
"""Bytes of JSON that messages inside of a message may become for fields that they lack, and for long names: BASE, and
PER_BYTE times as many as the message has, and at most MAX_LEFT. An empty message takes two bytes, and its JSON has all
names."""
_FIELD: Final = 16
"""Weight of a field beside its JSON: as a value in memory it takes more."""
_FREE: Final = 64
"""The length up to which the name of an enum's value counts nothing."""
UINT64: Final = DecimalType(20, 0)


class MessageError(Exception):
    """Error about a message whose content does not follow its schema."""


class UnknownField(Exception):
    """Error about a field that the schema of a message does not have."""


class ReadingState:
    """State of the reading of one message."""

    __slots__ = ("left", "other")

    def __init__(self, size: int) -> None:
        """Expect a message of so many bytes."""
        self.left = min(BASE + PER_BYTE * size, MAX_LEFT)
        """Bytes of JSON that may still come for fields that messages inside of it lack, and for long names."""
        self.other = False
        """True if a time was none that its type has, for example 24:00:00."""


def _text(value: str | bytes) -> str:
    """Return a text. Of a field of proto2 that is no UTF-8 the library returns the bytes. Raise MessageError."""
    if isinstance(value, bytes):
        raise MessageError("a text is not UTF-8")
    return value


def _float(value: float) -> float:
    return shortest(finite(value))


def _same(value: Json) -> Json:
    return value


_SCALARS: Final[dict[int, tuple[DataType, Convert]]] = {
    FieldDescriptor.TYPE_DOUBLE: (types.DOUBLE, finite),
    FieldDescriptor.TYPE_FLOAT: (types.FLOAT, _float),
    FieldDescriptor.TYPE_INT64: (types.BIGINT, _same),
    FieldDescriptor.TYPE_UINT64: (UINT64, _same),
    FieldDescriptor.TYPE_INT32: (types.INT, _same),
    FieldDescriptor.TYPE_FIXED64: (UINT64, _same),
    FieldDescriptor.TYPE_FIXED32: (types.BIGINT, _same),
    FieldDescriptor.TYPE_BOOL: (types.BOOLEAN, _same),
    FieldDescriptor.TYPE_STRING: (types.STRING, _text),
    FieldDescriptor.TYPE_BYTES: (types.BYTES, _same),
    FieldDescriptor.TYPE_UINT32: (types.BIGINT, _same),
    FieldDescriptor.TYPE_SFIXED32: (types.INT, _same),
    FieldDescriptor.TYPE_SFIXED64: (types.BIGINT, _same),
    FieldDescriptor.TYPE_SINT32: (types.INT, _same),
    FieldDescriptor.TYPE_SINT64: (types.BIGINT, _same),
}


class MessageReader:
    """Reader of the messages of one type."""

    def __init__(self, compiler: ReaderCompiler, descriptor: Descriptor, *, inside: bool) -> None:
        """Know no field; `compile` does the rest, because a message may hold itself.

        `inside`: the message is within a column that holds JSON text, so all that it holds is JSON.
        """
        self._compiler = compiler
        self._inside = inside
        self._descriptor = descriptor
        self.message_class: Any = message_factory.GetMessageClass(descriptor)
        """The class of such messages."""
        self.list_fields: Callable[[Any], Sequence[tuple[FieldDescriptor, Any]]] = self.message_class.ListFields
        self.types: dict[str, DataType] = {}
        """Types of the columns."""
        self.absent: dict[str, Any] = {}
        """The row of an empty message."""
        self.fields: dict[FieldDescriptor, tuple[str, Convert, int]] = {}
        """Names of the columns by the descriptors of their fields, what makes their values, and what a message inside
        of another one has to spend no more for a field that is there."""
        self.size = 0
        """Number of the fields, and of those inside of them."""
        self._cost = 0
        self.row: StructType | None = None
        """The type of a column of such messages."""

    def compile(self) -> None:
        """Compile the fields. Raise SchemaError."""
        descriptor = self._descriptor
        extensions = descriptor.file.pool.FindAllExtensions(descriptor)  # in no order of their own
        for field in (*descriptor.fields, *sorted(extensions, key=lambda one: one.number)):
            name = f"[{field.full_name}]" if field.is_extension else field.name
            self.types[name], convert = self._compiler.field(field, inside=self._inside)
            self.size += 1 + self._compiler.size_of(self.types[name])
            self._compiler.required = self._compiler.required or field.is_required
            self.absent[name] = self._compiler.absent(field, convert)
            cost = len(msgspec.json.encode({name: self.absent[name]})) + _FIELD
            self._cost += cost
            self.fields[field] = (name, convert, min(cost, PER_BYTE))  # a field that is there takes two bytes

    def read(self, message: AnyMessage) -> dict[str, Json]:
        """Return the values of a message by their columns. Raise MessageError, UnknownField or ValueError."""
        row = self.absent.copy()
        cost = self._cost
        fields = self.fields
        for field, value in self.list_fields(message):
            name, convert, saved = fields[field]
            row[name] = convert(value)
            cost -= saved
        self._compiler.spend(cost)
        self._compiler.check_unknown(message)
        return row


class ReaderCompiler:
    """Compiler of the readers of one message type and of all types inside of it."""

    def __init__(self, root: Descriptor, *, read_defaults: bool, ignore_unknown: bool) -> None:
        """Compile nothing yet. Raise RecursionError for a schema that is nested too deep.

        `read_defaults`: an absent field has its default value. `ignore_unknown`: a message may have fields that its
        type does not have.
        """
        self._read_defaults, self._ignore_unknown = read_defaults, ignore_unknown
        self._cyclic = cyclic_messages(root)
        self._readers: dict[tuple[str, bool], MessageReader] = {}
        self._sizes: dict[int, int] = {}
        self.state = ReadingState(0)
        """State of the message that is being read."""
        self.required = False
        """True if there are fields that a message must have."""

    def reader(self, descriptor: Descriptor, *, inside: bool = False) -> MessageReader:
        """Return the reader of a message type. Raise SchemaError, or RecursionError."""
        place = (descriptor.full_name, inside)
        known = self._readers.get(place)
        if known is None:
            known = self._readers[place] = MessageReader(self, descriptor, inside=inside)
            known.compile()
        return known

    def spend(self, size: int) -> None:
        """Count JSON that the message which is read does not have itself. Raise MessageError for too much."""
        self.state.left -= size
        if self.state.left < 0:
            raise MessageError("the JSON of fields that it lacks, and of long names, would be far larger than it is")

    def check_unknown(self, message: AnyMessage) -> None:
        """Raise UnknownField where a message has a field, or a value of a closed enum, that its type does not have."""
        if self._ignore_unknown:
            return
        found = UnknownFieldSet(message)
        if len(found):
            raise UnknownField(f"field {found[0].field_number} of {type(message).DESCRIPTOR.full_name}")

    def field(self, field: FieldDescriptor, *, inside: bool) -> tuple[DataType, Convert]:
        """Return the column type of a field, and the function that makes its value. Raise SchemaError."""
        if not field.is_repeated:
            return self._one(field, inside=inside)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return self._map(entry, inside=inside)
        data_type, convert = self._one(field, inside=inside)
        if convert is _same:
            return ArrayType(data_type), list
        return ArrayType(data_type), lambda found: [convert(one) for one in found]

    def absent(self, field: FieldDescriptor, convert: Convert) -> Json:
        """Return the value of a field that a message does not have. Raise SchemaError."""
        if field.is_repeated:
            return {} if field.message_type is not None and field.message_type.GetOptions().map_entry else []
        if field.has_presence and (not self._read_defaults or field.message_type is not None or is_choice(field)):
            return None
        if field.enum_type is not None:  # nothing is spent for it here
            return _names(field.enum_type)[field.default_value]
        try:
            return convert(field.default_value)
        except ValueError as exc:
            raise SchemaError(f"the default of {field.full_name} is {exc}") from None

    def _map(self, entry: Descriptor, *, inside: bool) -> tuple[DataType, Convert]:
        key_type, key = self._one(entry.fields_by_number[1], inside=inside)
        value_type, convert = self._one(entry.fields_by_number[2], inside=inside)
        if key_type == types.BOOLEAN:
            return MapType(key_type, value_type), lambda found: {
                "true" if one else "false": convert(found[one]) for one in sorted(found)
            }
        # Maps have no order of their own, and a record that is read again has to be the same
        return MapType(key_type, value_type), lambda found: {
            str(one): convert(found[one]) for one in sorted(map(key, found))
        }

    def _one(self, field: FieldDescriptor, *, inside: bool) -> tuple[DataType, Convert]:
        scalar = _SCALARS.get(field.type)
        if scalar is not None:
            return scalar
        if field.enum_type is not None:
            names = _names(field.enum_type)
            if any(len(name) > _FREE for name in names.values()):
                return types.STRING, partial(self._long_name, names)
            return types.STRING, lambda number: names.get(number) or str(number)
        inner = field.message_type
        assert inner is not None, "all other types are messages"
        if well_known.is_known(inner):
            return self._well_known(inner, inside=inside)
        if inside:
            return types.STRING, self.reader(inner, inside=True).read
        return self._message(inner)

    def _long_name(self, names: dict[int, str], number: int) -> str:
        name = names.get(number) or str(number)
        if len(name) > _FREE:
            self.spend(len(name))
        return name

    def _well_known(self, inner: Descriptor, *, inside: bool) -> tuple[DataType, Convert]:
        check = self.check_unknown
        found = well_known.CONVERTED.get(inner.full_name)
        if found is not None:
            meant = partial(_meant, found, check)
            return types.STRING, meant if inside else _json_text(meant)
        if inner.full_name in well_known.TIMES:
            data_type, time = well_known.TIMES[inner.full_name]
            return data_type, partial(self._time, time)
        data_type, convert = self._one(inner.fields[0], inside=inside)

        def wrapped(message: AnyMessage) -> Json:
            check(message)
            return convert(message.value)

        return data_type, wrapped

    def _message(self, inner: Descriptor) -> tuple[DataType, Convert]:
        if inner.full_name not in self._cyclic:
            reader = self.reader(inner)
            if 0 < reader.size <= MAX_ROW_FIELDS:
                return self._row(reader), reader.read
        return types.STRING, _json_text(self.reader(inner, inside=True).read)

    def _row(self, reader: MessageReader) -> StructType:
        if reader.row is None:
            reader.row = StructType(tuple(StructField(name, one) for name, one in reader.types.items()))
            self._sizes[id(reader.row)] = reader.size
        return reader.row

    def size_of(self, data_type: DataType) -> int:
        """Return the number of fields of a ROW, with those of ROWs inside of it; for arrays and maps, of an element."""
        while isinstance(data_type, (ArrayType, MapType)):
            data_type = data_type.element if isinstance(data_type, ArrayType) else data_type.value
        return self._sizes.get(id(data_type), 0)

    def _time(
        self, read: Callable[[AnyMessage, Convert], tuple[msgspec.Raw, bool]], message: AnyMessage
    ) -> msgspec.Raw:
        text, other = read(message, self.check_unknown)
        self.state.other = self.state.other or other
        return text


def _meant(read: Callable[[AnyMessage, Convert], Json], check: Convert, message: AnyMessage) -> Json:
    return read(message, check)


def _json_text(read: Convert) -> Convert:
    """Return a function that makes JSON text of what another one makes; a text stays as it is, and null is null."""

    def convert(message: AnyMessage) -> str | None:
        found = read(message)
        return found if found is None or isinstance(found, str) else msgspec.json.encode(found).decode()

    return convert


def _names(enum: EnumDescriptor) -> dict[int, str]:
    """Return the names of an enum by their numbers. Of the names of one number, the first counts."""
    return {one.number: one.name for one in reversed(enum.values)}


def is_choice(field: FieldDescriptor) -> bool:
    """Return whether a field is a member of a oneof that the schema's author wrote."""
    choice = field.containing_oneof
    return choice is not None and (len(choice.fields) > 1 or choice.name != f"_{field.name}")
