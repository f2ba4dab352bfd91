"""Schemas out of tables: the .proto text for a table's rows, and the next one as the table's schema grows.

In: the columns of a table, and the message that its rows were written by before. Out: the text of a .proto file with
one message. A field keeps its number for ever. Rules: docs/spec/protobuf.md#generated-schemas.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf import descriptor_pb2

from ingest.formats.protobuf.rows import ReaderCompiler
from ingest.model import types
from ingest.model.data_type import (
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
from ingest.model.reject import RowError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor

    from ingest.model.data_type import DataType

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
            msg = "a message of Protocol Buffers has no more numbers for fields"
            raise RowError("unwritable-table", msg)
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
