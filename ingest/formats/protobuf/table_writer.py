"""Rows of tables as messages of Protocol Buffers, of a type that is given or of one that is generated for the table.

A generated type grows with its table, and a field keeps its number for ever.
Rules: docs/spec/protobuf.md#writing, docs/spec/protobuf.md#generated-schemas.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf import descriptor_pb2

from ingest.errors import ConfigError
from ingest.formats.protobuf.messages import write_indexes
from ingest.formats.protobuf.row_writer import RowWriter
from ingest.formats.protobuf.rows import ReaderCompiler
from ingest.formats.protobuf.schema import DescriptorSet, SchemaError, compile_schema
from ingest.formats.written import Renamed, RowPlace
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.table import TableId, show
from ingest.model.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
    TimestampType,
)
from ingest.schema_registry.subjects import SchemaNumber, subject_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor

    from ingest.formats.protobuf.options import ProtobufConfluent
    from ingest.formats.template import Image
    from ingest.model.numbers import Rounds
    from ingest.model.schema import Column
    from ingest.model.types import DataType
    from ingest.schema_registry.client import Found

_is_name: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_SCALARS: Final[dict[type[DataType], str]] = {
    BooleanType: "bool",
    ByteType: "int32",
    ShortType: "int32",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    BinaryType: "bytes",
    TimestampType: "google.protobuf.Timestamp",
}
"""Types of fields. All other columns are texts: DECIMAL, DATE, TIME and TIMESTAMP have no type of their own there."""
_KEYS: Final = (BooleanType, IntegerType, LongType)
"""Types of a map's keys beside texts."""
_ALIKE: Final = frozenset({"int32", "int64"})
"""Types whose values have the same bytes, so that a field may change from one to the other."""
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_RESERVED: Final = range(19_000, 20_000)
_MAX_NUMBER: Final = (1 << 29) - 1


class _Kind(NamedTuple):
    """Type of a field as a .proto file writes it."""

    label: str
    """`optional`, `repeated`, or nothing for a map."""
    name: str
    """The type's name; of a map its key's and its value's."""
    row: StructType | None = None
    """The ROW that the field's messages are."""


def schema_text(columns: Mapping[str, DataType], name: str, before: Descriptor | None = None) -> str:
    """Return the text of a schema with a message of this name that has a field for each column.

    `before` is the message so far: each of its fields stays, whether there is a column for it or not. Raise RowError
    where a column cannot be a field.
    """
    body = "\n".join(_message(columns, name, before, ""))
    head = 'import "google/protobuf/timestamp.proto";\n\n' if _TIMESTAMP in body else ""
    return f'syntax = "proto3";\n\n{head}{body}\n'


def is_plain(message: Descriptor) -> bool:
    """Return whether `schema_text` can say a message: it reserves only numbers that it names one by one."""
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    waiting = [proto]
    while waiting:
        one = waiting.pop()
        if any(span.end - span.start != 1 for span in one.reserved_range) or one.extension_range:
            return False
        waiting += one.nested_type
    return True


def _message(columns: Mapping[str, DataType], name: str, before: Descriptor | None, indent: str) -> list[str]:
    """Return the lines of a message."""
    known = (
        {} if before is None else ReaderCompiler(before, read_defaults=False, ignore_unknown=True).reader(before).types
    )
    wanted = {field: types.merge(known.get(field, types.NULL), _readable(one)) for field, one in columns.items()}
    wanted = {**known, **wanted}
    numbers = {} if before is None else {field.name: field.number for field in before.fields}
    proto = descriptor_pb2.DescriptorProto()
    if before is not None:
        before.CopyToProto(proto)
    reserved = {number for span in proto.reserved_range for number in range(span.start, span.end)}
    used = {0, *numbers.values(), *reserved}
    fields: list[tuple[int, str]] = []
    nested: list[str] = []
    for field, data_type in wanted.items():
        if _is_name(field) is None:
            msg = f"column {field[:100]!r} has a name that Protocol Buffers do not allow; rename it in a transform"
            raise RowError("unwritable-table", msg)
        kind = _kind(data_type, field)
        number = numbers.get(field)
        if number is not None and before is not None and not _alike(_kind(known[field], field), kind):
            reserved.add(number)
            number = None
        if number is None:
            number = max(used) + 1
            number = _RESERVED.stop if number in _RESERVED else number
            used.add(number)
        if number > _MAX_NUMBER:
            raise RowError("unwritable-table", "a message of Protocol Buffers has no more numbers for fields")
        fields.append((number, f"{indent}  {kind.label}{' ' if kind.label else ''}{kind.name} {field} = {number};"))
        if kind.row is not None:
            inner = None if before is None or number != numbers.get(field) else _inner(before, field)
            members = {one.name: one.type for one in kind.row.fields}
            nested += _message(members, f"Row_{field}", inner, indent + "  ")
    lines = [f"{indent}message {name} {{"]
    if reserved:
        lines.append(f"{indent}  reserved {', '.join(map(str, sorted(reserved)))};")
    return [*lines, *(line for _, line in sorted(fields)), *nested, f"{indent}}}"]


def _inner(message: Descriptor, field: str) -> Descriptor | None:
    """Return the message that a field's values are, or those of the map that it is."""
    inner = message.fields_by_name[field].message_type
    if inner is not None and inner.GetOptions().map_entry:
        inner = inner.fields_by_number[2].message_type
    return inner


def _alike(before: _Kind, after: _Kind) -> bool:
    """Return whether a field that was of one kind may be of the other, with its number."""
    same = before.name == after.name or {before.name, after.name} <= _ALIKE
    return before.label == after.label and same and (before.row is None) == (after.row is None)


def _readable(data_type: DataType) -> DataType:
    """Return the type that a column has once it was written and read again."""
    if isinstance(data_type, ArrayType) and not isinstance(data_type.element, (ArrayType, MapType)):
        return ArrayType(_readable(data_type.element))
    if isinstance(data_type, MapType) and not isinstance(data_type.value, (ArrayType, MapType)):
        key = _readable(data_type.key)
        return MapType(key if isinstance(key, _KEYS) else types.STRING, _readable(data_type.value))
    if isinstance(data_type, StructType) and data_type.fields:
        return StructType(tuple(StructField(one.name, _readable(one.type)) for one in data_type.fields))
    if isinstance(data_type, (ByteType, ShortType)):
        return types.INT
    return data_type if type(data_type) in _SCALARS else types.STRING


def _kind(data_type: DataType, field: str) -> _Kind:
    """Return the kind of a field for a type that `_readable` returned, or that two of those merged to."""
    if isinstance(data_type, ArrayType):
        return _one(data_type.element, field)._replace(label="repeated")
    if isinstance(data_type, MapType):
        value = _one(data_type.value, field)
        return _Kind("", f"map<{_one(data_type.key, field).name}, {value.name}>", value.row)
    return _one(data_type, field)


def _one(data_type: DataType, field: str) -> _Kind:
    if isinstance(data_type, StructType):
        return _Kind("optional", f"Row_{field}", data_type)
    return _Kind("optional", _SCALARS.get(type(data_type), "string"))


_KIND: Final = "PROTOBUF"
_FIRST: Final = (0,)
_not_named: Final = re.compile(r"[^A-Za-z0-9_]").sub


class ProtobufRows:
    """Function that makes the bytes of a table's rows, as messages of a type that the pipeline's file gives."""

    def __init__(self, content: bytes, message: str, columns: Mapping[str, Column], null_text: str | None) -> None:
        """Compile a message type of a descriptor set for columns, by the names of their fields. Raise RowError."""
        self._row = Renamed(columns)
        self._writer = RowWriter(DescriptorSet(content).message(message), _types(columns), null_text)

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row, given as the JSON texts of its columns in the sink's table. Raise RowError."""
        return self._writer.write(self._row.of(row))

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column."""
        return self._row.back(self._writer.rounds)

    def register(self) -> None:
        """Do nothing: there is no registry."""

    def unregistered(self) -> None:
        """Return None: there is no registry."""


class RegisteredRows:
    """Function that makes the bytes of a table's rows, each behind the id of its schema in a registry."""

    def __init__(self, options: ProtobufConfluent, place: RowPlace, columns: Mapping[str, Column]) -> None:
        """Ask for nothing yet. Raise RowError where the columns cannot be fields.

        Where the place asks no registry, because rows are written nowhere, their id is zero.
        """
        self._options, self._columns = options, _types(columns)
        self._row = Renamed(columns)
        name = message_name(place.table, place.part)
        self._text = schema_text(self._columns, name) if options.schema_text is None else options.schema_text
        if options.schema_text is not None:
            name = _first(self._text, ()).full_name
        self._subject = subject_of(options, place.topic, place.part, name)
        self._writer: RowWriter | None = None
        self._head = b""
        self._refusal: RowError | None = None
        if not place.asks:
            self._use(0, _first(self._text, ()))

    def __call__(self, row: Image) -> bytes:
        """Return the bytes of a row. Raise RowError, or IngestError where the registry gives no id."""
        if self._writer is None and self._refusal is None:
            self.register()
        if self._writer is None:
            assert self._refusal is not None, "a schema is taken or refused"
            raise self._refusal
        return self._head + self._writer.write(self._row.of(row))

    @property
    def rounds(self) -> Mapping[str, Rounds]:
        """What says of values whether they became other numbers, by column."""
        return {} if self._writer is None else self._row.back(self._writer.rounds)

    def register(self) -> None:
        """Find the schema for the rows in the registry, or register one. Raise IngestError.

        Where neither is possible, the rows are refused.
        """
        try:
            if not self._newest_is_taken():
                message = _first(self._text, ())
                self._use(self._number().get(), message)
        except RowError as exc:
            self._refusal = exc
        except RecursionError:
            msg = f"the newest schema of subject {self._subject!r} is nested too deep"
            self._refusal = RowError("unwritable-table", msg)

    def unregistered(self) -> str | None:
        """Return the subject that `register` would register a schema for, if any. Raise IngestError."""
        try:
            return None if self._newest_is_taken() else self._number().unregistered()
        except (RowError, RecursionError):
            return None

    def _newest_is_taken(self) -> bool:
        """Return whether the subject's newest schema is taken. Raise RowError, or IngestError."""
        latest = self._options.registry().latest(self._subject)
        return self._options.schema_text is None and latest is not None and self._take(*latest)

    def _number(self) -> SchemaNumber:
        return SchemaNumber(self._options, self._subject, _KIND, self._text, asks=True)

    def _use(self, number: int, message: Descriptor) -> None:
        self._writer = RowWriter(message, self._columns, self._options.write_null_string_literal)
        self._head = b"\0" + number.to_bytes(4, "big") + write_indexes(_FIRST)

    def _take(self, number: int, found: Found) -> bool:
        """Take a subject's newest schema, if it has a field for each column; else make the next one of it.

        Return whether it was taken. Raise RowError where it lacks fields and was written by somebody else.
        """
        if found.kind != _KIND:
            msg = f"subject {self._subject!r} has a schema of {found.kind[:20]}, and not of Protocol Buffers"
            raise ConfigError(msg, "choose another topic, or another subject by the format's option subject")
        message = _first(found.text, tuple(zip(found.names, found.references, strict=True)))
        if is_plain(message):
            text = schema_text(self._columns, message.name, message)
            same = schema_text({}, message.name, message)
            if text != same and _is_own(message, same):
                self._text = text
                return False
        self._use(number, message)
        return True


def _is_own(message: Descriptor, text: str) -> bool:
    """Return whether a message's file is the one of this text, which this module made, and so may make again."""
    file, own = descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()
    message.file.CopyToProto(file)
    _first(text, ()).file.CopyToProto(own)
    file.name = own.name
    return bool(file == own)


@lru_cache(maxsize=64)
def _first(text: str, references: tuple[tuple[str, str], ...]) -> Descriptor:
    """Return the first message of a schema. Raise RowError where there is none."""
    try:
        found = DescriptorSet(compile_schema(text, dict(references))).at(_FIRST)
    except SchemaError as exc:
        raise RowError("unwritable-table", f"its schema of Protocol Buffers cannot be used: {exc}") from exc
    if found is None:
        raise RowError("unwritable-table", "its schema of Protocol Buffers has no message")
    return found


def _types(columns: Mapping[str, Column]) -> dict[str, DataType]:
    return {name: column.type for name, column in columns.items()}


def message_name(table: TableId, part: str) -> str:
    """Return the name of the message that is made for a table's keys or values. `part` is `key` or `value`."""
    text = _not_named("_", show(table))
    return f"{'Key' if part == 'key' else 'Row'}_{text}"
