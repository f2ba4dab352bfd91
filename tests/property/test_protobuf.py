"""What holds for all schemas and messages of Protocol Buffers: rows say what was written; no bytes do any harm."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec
from examples import examples
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from hypothesis import given, settings
from hypothesis import strategies as st
from picking import pick

from ingest.formats.protobuf.messages import RowSchema
from ingest.formats.protobuf.row_writer import RowWriter
from ingest.formats.protobuf.schema import DescriptorSet, compile_schema
from ingest.formats.protobuf.table_writer import is_plain, schema_text
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.jsontext import fields_of
from ingest.model.reject import RowError
from ingest.model.types import ArrayType, DataType, MapType, StructField, StructType
from ingest.model.values import fits

TEXTS = st.text(st.characters(codec="utf-8"), max_size=10)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
UINT32, UINT64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    Field.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Field.TYPE_FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Field.TYPE_INT64: INT64, Field.TYPE_SINT64: INT64, Field.TYPE_SFIXED64: INT64,
    Field.TYPE_INT32: INT32, Field.TYPE_SINT32: INT32, Field.TYPE_SFIXED32: INT32,
    Field.TYPE_UINT64: UINT64, Field.TYPE_FIXED64: UINT64, Field.TYPE_UINT32: UINT32, Field.TYPE_FIXED32: UINT32,
    Field.TYPE_BOOL: st.booleans(), Field.TYPE_STRING: TEXTS, Field.TYPE_BYTES: st.binary(max_size=10),
}  # fmt: skip
KEYS = [kind for kind in SCALARS if kind not in {Field.TYPE_DOUBLE, Field.TYPE_FLOAT, Field.TYPE_BYTES}]
NUMBERS = st.integers(1, 2**20).filter(lambda number: not 19000 <= number < 20000)
Values = dict[str, st.SearchStrategy[Any]]


@st.composite
def messages(draw: st.DrawFn, into: Any, name: str, depth: int) -> st.SearchStrategy[Any]:
    """Fill the descriptor of a message; the values of its fields that are set."""
    into.name = name
    values: Values = {}
    count = draw(st.integers(0, 4))
    for number in draw(
        st.lists(
            st.integers(1, 2**20).filter(lambda n: not 19000 <= n < 20000), min_size=count, max_size=count, unique=True
        )
    ):
        field = into.field.add(name=f"f{number}", number=number)
        field.label = pick(draw, [Field.LABEL_OPTIONAL, Field.LABEL_REPEATED])
        kind = pick(draw, [*SCALARS, *([Field.TYPE_MESSAGE] * 4 if depth else [])])
        field.type = kind
        if kind != Field.TYPE_MESSAGE:
            one = SCALARS[kind]
        elif draw(st.booleans()):
            field.label = Field.LABEL_REPEATED
            values[field.name] = draw(maps(into, field, depth))
            continue
        else:
            inner = f"M{number}"
            field.type_name = inner
            one = draw(messages(into.nested_type.add(), inner, depth - 1))
        values[field.name] = one if field.label == Field.LABEL_OPTIONAL else st.lists(one, min_size=1, max_size=3)
    return st.fixed_dictionaries({}, optional=values)


@st.composite
def maps(draw: st.DrawFn, into: Any, field: Any, depth: int) -> st.SearchStrategy[Any]:
    """Make a field a map; its values."""
    entry = into.nested_type.add(name=f"F{field.number}Entry")
    entry.options.map_entry = True
    field.type_name = entry.name
    key, kind = pick(draw, KEYS), pick(draw, [*SCALARS, Field.TYPE_MESSAGE])
    entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL, type=key)
    value = entry.field.add(name="value", number=2, label=Field.LABEL_OPTIONAL, type=kind)
    if kind != Field.TYPE_MESSAGE:
        return st.dictionaries(SCALARS[key], SCALARS[kind], min_size=1, max_size=3)
    value.type_name = f"V{field.number}"
    inner = draw(messages(into.nested_type.add(), value.type_name, max(depth - 1, 0)))
    return st.dictionaries(SCALARS[key], inner, min_size=1, max_size=3)


@st.composite
def schemas(draw: st.DrawFn) -> tuple[RowSchema, Any, st.SearchStrategy[Any]]:
    """A schema, the class of its messages, and their values."""
    file = descriptor_pb2.FileDescriptorProto(name="f", syntax=pick(draw, ["proto2", "proto3"]))
    values = draw(messages(file.message_type.add(), "Root", 3))
    found = DescriptorSet(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).message("Root")
    return RowSchema(found), message_factory.GetMessageClass(found), values


def fill(message: Any, values: dict[str, Any]) -> None:
    """Set the fields of a message."""
    for name, value in values.items():
        target = getattr(message, name)
        if isinstance(value, dict) and message.DESCRIPTOR.fields_by_name[name].is_repeated:
            for key, one in value.items():
                if isinstance(one, dict):
                    fill(target[key], one)
                else:
                    target[key] = one
        elif isinstance(value, dict):
            target.SetInParent()
            fill(target, value)
        elif isinstance(value, list):
            for one in value:
                if isinstance(one, dict):
                    fill(target.add(), one)
                else:
                    target.append(one)
        else:
            setattr(message, name, value)


def same(found: Any, value: Any) -> bool:
    """Whether JSON says a value; floats by the number of 32 bits that they read back to."""
    if isinstance(value, dict) and isinstance(found, str):  # a message without fields
        found = msgspec.json.decode(found)
    if isinstance(value, dict):
        return isinstance(found, dict) and all(same(found[_key(key)], one) for key, one in value.items())
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, bytes):
        return bool(found == msgspec.to_builtins(value))
    if isinstance(value, float):
        return bool(found == value or struct.pack("<f", found) == struct.pack("<f", value))
    return bool(found == value and type(found) is type(value))


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    schema, cls, values = data.draw(schemas())
    given_ = data.draw(values)
    message = cls()
    fill(message, given_)
    found = schema.decode(message.SerializeToString())
    assert not isinstance(found, Reject), found
    row, declared = found
    read = msgspec.json.decode(row)
    assert list(read) == [field.name for field in cls.DESCRIPTOR.fields]
    for name, value in given_.items():
        assert same(read[name], value), name
    for name, text in msgspec.json.decode(row, type=dict[str, msgspec.Raw]).items():
        assert fits(declared.types[name], bytes(text)), name


@given(st.data())
def test_a_row_that_was_read_is_written_to_the_same_row(data: st.DataObject) -> None:
    schema, cls, values = data.draw(schemas())
    message = cls()
    fill(message, data.draw(values))
    found = schema.decode(message.SerializeToString())
    assert not isinstance(found, Reject), found
    row, declared = found
    writer = RowWriter(cls.DESCRIPTOR, declared.types)
    again = schema.decode(writer.write({name: bytes(value) for name, value in fields_of(row).items()}))
    assert not isinstance(again, Reject), again
    assert bytes(again[0]) == bytes(row)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "f1", "1"]), inner, max_size=3),
    max_leaves=4,
)


@given(st.data())
def test_any_values_are_bytes_or_a_reject(data: st.DataObject) -> None:
    schema, cls, _ = data.draw(schemas())
    writer = RowWriter(cls.DESCRIPTOR, schema.declared.types)
    row = {name: json.dumps(data.draw(JSON)).encode() for name in schema.declared.types}
    try:
        message = writer.write(row)
    except RowError:
        return
    assert not isinstance(schema.decode(message), Reject)


TYPES = st.recursive(
    st.sampled_from([
        "BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME(6)", "TIMESTAMP",
        "TIMESTAMP_LTZ", "DECIMAL(20,3)", "VARCHAR(5)",
    ]).map(types.parse),
    lambda inner: (
        inner.map(ArrayType)
        | st.builds(MapType, st.sampled_from([types.STRING, types.BIGINT, types.DATE]), inner)
        | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3).map(
            lambda fields: StructType(tuple(StructField(name, one) for name, one in fields.items()))
        )
    ),
    max_leaves=4,
)  # fmt: skip
COLUMNS = st.dictionaries(st.sampled_from("abcdef"), TYPES, max_size=4)


@settings(max_examples=examples(20), deadline=None)  # protoc is started for each table
@given(st.lists(COLUMNS, min_size=1, max_size=4))
def test_generated_schemas_keep_the_numbers_of_fields(tables: list[dict[str, DataType]]) -> None:
    """A number is of one field and one type of bytes for ever, whatever a table's columns become."""
    before = None
    history: dict[tuple[str, int], tuple[Any, ...]] = {}
    for columns in tables:
        message = generated(schema_text(columns, "Row", before))
        assert not _moved(message, history)
        RowWriter(message, columns)
        assert schema_text(columns, "Row", message) == schema_text({}, "Row", message)
        assert is_plain(message)
        before = message


def generated(text: str) -> Any:
    return DescriptorSet(compile_schema(text, {})).at((0,))


def _moved(message: Any, history: dict[tuple[str, int], tuple[Any, ...]], above: str = "") -> list[str]:
    """The fields whose number was of another field, or of another type of bytes, before."""
    found = []
    for field in message.fields:
        place = f"{above}{field.name}"
        kind = "whole" if field.type in {Field.TYPE_INT32, Field.TYPE_INT64} else field.type
        fact = (field.name, kind, field.is_repeated)
        if history.setdefault((above, field.number), fact) != fact:
            found.append(place)
        if field.message_type is not None and not field.message_type.full_name.startswith("google."):
            found += _moved(field.message_type, history, f"{place}#{field.number}.")
    return found


@given(st.data())
def test_changed_bytes_are_a_row_or_a_reject(data: st.DataObject) -> None:
    schema, cls, values = data.draw(schemas())
    message = cls()
    fill(message, data.draw(values))
    changed = bytearray(message.SerializeToString())
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        changed[at : at + 1] = bytes([byte])
    harmless(schema, bytes(changed[: data.draw(st.integers(0, len(changed)))]))


@given(st.binary(max_size=60), st.data())
def test_any_bytes_are_a_row_or_a_reject(message: bytes, data: st.DataObject) -> None:
    schema, _, _ = data.draw(schemas())
    harmless(schema, message)


def harmless(schema: RowSchema, message: bytes) -> None:
    found = schema.decode(message)
    if isinstance(found, Reject):
        assert found.code in {"malformed", "unknown-field", "not-a-number", "type-mismatch"}
        return
    row, declared = found
    for name, text in msgspec.json.decode(row, type=dict[str, msgspec.Raw]).items():
        assert fits(declared.types[name], bytes(text)), name
