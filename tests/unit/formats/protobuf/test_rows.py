"""Rows of messages: what each type becomes, and which schemas and messages are refused."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from protobuf_messages import class_of, message_of

from ingest import packages
from ingest.errors import ConfigError
from ingest.formats.protobuf import messages, schema
from ingest.formats.protobuf.messages import RowSchema
from ingest.formats.protobuf.options import Protobuf
from ingest.formats.protobuf.row_writer import RowWriter
from ingest.formats.protobuf.rows import MAX_ROW_FIELDS
from ingest.formats.protobuf.schema import DescriptorSet, SchemaError, compile_schema
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.reject import RowError

HEAD = (
    'syntax = "proto3"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto"; '
    'import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; '
    'import "google/type/date.proto"; import "google/type/timeofday.proto"; import "confluent/type/decimal.proto"; '
)


def schema_of(text: str, name: str = "M", **options: bool) -> RowSchema:
    return RowSchema(class_of(text, name).DESCRIPTOR, **options)


def read(text: str, value: str, name: str = "M", **options: bool) -> Any:
    """The declared types and the row of a message; or the code of its reject."""
    found = schema_of(text, name, **options).decode(message_of(text, name, value))
    if isinstance(found, Reject):
        return found.code
    row, declared = found
    return {column: types.name(one) for column, one in declared.types.items()}, bytes(row).decode()


TYPES_AND_TEXTS = [
    ("sfixed32", "-5", "INT -5"),
    ("sint32", "-2147483648", "INT -2147483648"),
    ("fixed32", "4294967295", "BIGINT 4294967295"),
    ("sfixed64", "-9223372036854775808", "BIGINT -9223372036854775808"),
    ("uint64", "18446744073709551615", "DECIMAL(20,0) 18446744073709551615"),
    ("float", "0.1", "FLOAT 0.1"),
    ("double", "1e300", "DOUBLE 1e300"),
    ("bytes", r'"\000\377"', 'BYTES "AP8="'),
    ("bool", "true", "BOOLEAN true"),
    ("google.protobuf.Timestamp", "{seconds: -62135596800}", 'TIMESTAMP_LTZ "0001-01-01 00:00:00Z"'),
    ("google.protobuf.Timestamp", "{seconds: 253402300799 nanos: 999999000}",
     'TIMESTAMP_LTZ "9999-12-31 23:59:59.999999Z"'),
    ("google.protobuf.Timestamp", "{nanos: 1}", 'TIMESTAMP_LTZ "1970-01-01 00:00:00.000000001Z"'),
    ("google.protobuf.Timestamp", "{nanos: 123456700}", 'TIMESTAMP_LTZ "1970-01-01 00:00:00.1234567Z"'),
    ("google.protobuf.Duration", "{seconds: 5}", 'STRING "5s"'),
    ("google.protobuf.Duration", "{nanos: -1}", 'STRING "-0.000000001s"'),
    ("google.protobuf.DoubleValue", "{}", "DOUBLE 0.0"),
    ("google.protobuf.StringValue", '{value: "x"}', 'STRING "x"'),
    ("google.protobuf.ListValue", "{values {number_value: 1.5} values {bool_value: true}}", r'STRING "[1.5,true]"'),
    ("google.protobuf.Value", "{null_value: NULL_VALUE}", "STRING null"),
    ("google.protobuf.Value", "{number_value: 9007199254740993}", 'STRING "9007199254740992.0"'),
    ("google.type.Date", "{year: 2020 month: 2 day: 29}", 'DATE "2020-02-29"'),
    ("google.type.Date", "{year: 2020}", 'STRING "2020-00-00"'),
    ("google.type.TimeOfDay", "{hours: 23 minutes: 59 seconds: 59 nanos: 1000}", 'TIME(6) "23:59:59.000001"'),
    ("google.type.TimeOfDay", "{hours: 23 nanos: 1}", 'TIME(6) "23:00:00.000000001"'),
    ("google.type.TimeOfDay", "{hours: 24}", 'STRING "24:00:00"'),
    ("confluent.type.Decimal", r'{value: "\377" scale: 3}', 'STRING "-0.001"'),
]  # fmt: skip
NO_VALUES_OF_COLUMNS = [
    ("float", "inf", "not-a-number"), ("double", "nan", "not-a-number"),
    ("google.protobuf.Timestamp", "{seconds: 253402300800}", "type-mismatch"),
    ("google.protobuf.Timestamp", "{nanos: -1}", "type-mismatch"),
    ("google.protobuf.Timestamp", "{seconds: 9223372036854775807}", "type-mismatch"),
    ("google.protobuf.Duration", "{seconds: 1 nanos: -1}", "type-mismatch"),
    ("google.type.Date", "{year: 2021 month: 2 day: 29}", "type-mismatch"),
    ("google.type.Date", "{year: 10000 month: 2 day: 9}", "type-mismatch"),
    ("google.type.TimeOfDay", "{hours: 25}", "type-mismatch"),
    ("confluent.type.Decimal", r'{value: "\377" scale: 2000}', "type-mismatch"),
    ("google.protobuf.Value", "{number_value: inf}", "not-a-number"),
]  # fmt: skip
FIELDS = {field: f"M{i}" for i, (field, _, _) in enumerate([*TYPES_AND_TEXTS, *NO_VALUES_OF_COLUMNS])}
"""The name of a message with one field of a type, by the type; its rows are those of `Of…`, its values of `List…`."""
ALL = HEAD + " ".join(
    f"message {name} {{ {field} f = 1; }} message Of{name} {{ repeated {name} f = 1; }} "
    f"message List{name} {{ repeated {field} f = 1; }}"
    for field, name in FIELDS.items()
)
"""A schema of all of them: protoc reads it in a process of its own, once."""


@pytest.mark.parametrize(("field", "value", "expected"), TYPES_AND_TEXTS)
def test_types_and_texts(field: str, value: str, expected: str) -> None:
    declared, row = read(ALL, f"f: {value}", FIELDS[field])
    assert f"{declared['f']} {row[5:-1]}" == expected
    declared, row = read(ALL, f"f {{f: {value}}}", f"Of{FIELDS[field]}")
    data_type, _, json = expected.partition(" ")
    assert declared == {"f": f"ARRAY<ROW<f {data_type}>>"}
    assert row == f'{{"f":[{{"f":{json}}}]}}'


@pytest.mark.parametrize(("field", "value", "code"), NO_VALUES_OF_COLUMNS)
def test_values_that_no_column_has(field: str, value: str, code: str) -> None:
    assert read(ALL, f"f: {value}", FIELDS[field]) == code
    assert read(ALL, f"f: {value}", f"List{FIELDS[field]}") == code


def test_messages_that_hold_themselves_are_json_texts() -> None:
    """A text inside of a text would double its backslashes with each level."""
    text = (
        'syntax = "proto3"; message M { A a = 1; int32 n = 2; } message A { B b = 1; } '
        "message B { A a = 1; int32 n = 2; }"
    )
    declared, row = read(text, "a {b {n: 1 a {b {n: 2 a {}}}}}")
    assert declared == {"a": "STRING", "n": "INT"}
    assert row == (r'{"a":"{\"b\":{\"a\":{\"b\":{\"a\":{\"b\":null},\"n\":2}},\"n\":1}}","n":0}')
    deep = b""
    for _ in range(49):
        deep = b"\x0a" + bytes([len(deep)]) + deep if len(deep) < 128 else b""
    found = schema_of(text).decode(deep)
    assert isinstance(found, tuple)
    assert len(bytes(found[0])) < 2000


@pytest.mark.parametrize("levels", [101, 10_000])
def test_a_message_that_is_nested_too_deep_is_a_reject(levels: int) -> None:
    text = 'syntax = "proto3"; message M { M m = 1; }'
    deep = b""
    for _ in range(levels):
        size, head = len(deep), bytearray(b"\x0a")
        while size > 0x7F:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        deep = bytes([*head, size]) + deep
    found = schema_of(text).decode(deep)
    assert isinstance(found, Reject)
    assert found.code == "malformed"
    assert "Depth" in found.message


def test_a_cycle_that_only_a_later_field_closes_is_seen() -> None:
    text = (
        'syntax = "proto3"; message M { A a = 1; C c = 2; D d = 3; } message A { B b = 1; } '
        "message B { A a = 1; } message C { C2 c = 1; } message C2 { A a = 1; } "
        "message D { D2 d = 1; } message D2 { map<string, D> m = 1; }"
    )
    declared, _ = read(text, "")
    assert declared == {"a": "STRING", "c": "ROW<c ROW<a STRING>>", "d": "STRING"}


def test_types_that_grow_past_all_reason_are_texts() -> None:
    levels = "".join(f"message L{i} {{ L{i + 1} a = 1; L{i + 1} b = 2; }}" for i in range(60))
    text = f'syntax = "proto3"; message M {{ L0 l = 1; L52 few = 2; }} {levels} message L60 {{ int32 n = 1; }}'
    declared, row = read(text, "few {b {}}")
    assert 2 <= declared["l"].count(" STRING") <= MAX_ROW_FIELDS
    assert declared["few"].startswith("ROW<a ROW<")
    assert declared["few"].count(" INT") == 2**8 < MAX_ROW_FIELDS
    assert row == '{"l":null,"few":{"a":null,"b":{"a":null,"b":null}}}'


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    chain = "".join(f"message L{i} {{ L{i + 1} a = 1; }}" for i in range(3000))
    text = f'syntax = "proto3"; {chain} message L3000 {{ int32 n = 1; }}'
    descriptor = DescriptorSet(compile_schema(text, {})).message("L0")
    with pytest.raises(SchemaError, match="nested too deep"):
        RowSchema(descriptor)
    with pytest.raises(RowError, match="nested too deep"):
        RowWriter(descriptor, {"a": types.STRING})


def test_messages_of_a_known_name_and_other_fields_are_rows() -> None:
    text = (
        'syntax = "proto3"; package google.protobuf; message M { Timestamp at = 1; Struct s = 2; Int32Value i = 3; } '
        "message Timestamp { string iso = 1; } message Struct { Value fields = 1; } "
        "message Value { Timestamp struct_value = 5; } message Int32Value { repeated int32 value = 1; }"
    )
    declared, row = read(text, 'at {iso: "x"} s {fields {struct_value {}}} i {value: 1}', "google.protobuf.M")
    assert declared == {
        "at": "ROW<iso STRING>", "s": "ROW<fields ROW<struct_value ROW<iso STRING>>>", "i": "ROW<value ARRAY<INT>>"
    }  # fmt: skip
    assert row == '{"at":{"iso":"x"},"s":{"fields":{"struct_value":{"iso":""}}},"i":{"value":[1]}}'


def test_fields_are_read_whatever_they_are_called() -> None:
    text = (
        'syntax = "proto2"; message M { message ListFields {} message FromString {} optional int32 DESCRIPTOR = 1; '
        "optional int32 ListFields_ = 2; optional string __class__ = 3; optional ListFields IsInitialized = 4; "
        "required int32 HasField = 5; }"
    )
    found = schema_of(text).decode(b"\x08\x01\x1a\x01a\x22\x00\x28\x02")
    assert isinstance(found, tuple)
    assert (
        bytes(found[0]).decode()
        == '{"DESCRIPTOR":1,"ListFields_":null,"__class__":"a","IsInitialized":"{}","HasField":2}'
    )
    assert schema_of(text).decode(b"\x08\x01").code == "malformed"  # type: ignore[union-attr]  # a reject


def test_a_text_of_proto2_that_is_no_text_is_a_reject() -> None:
    found = schema_of('syntax = "proto2"; message M { optional string s = 1; }').decode(b"\x0a\x02\xff\xfe")
    assert isinstance(found, Reject)
    assert (found.code, "UTF-8" in found.message) == ("malformed", True)


def test_extensions_are_columns() -> None:
    text = (
        'syntax = "proto2"; package p; message M { optional int32 a = 1; extensions 100 to 200; } '
        "extend M { optional string note = 100; repeated int32 more = 101; }"
    )
    declared, row = read(text, 'a: 1 [p.note]: "x" [p.more]: 2', "p.M")
    assert declared == {"a": "INT", "[p.note]": "STRING", "[p.more]": "ARRAY<INT>"}
    assert row == '{"a":1,"[p.note]":"x","[p.more]":[2]}'
    unknown = schema_of(text, "p.M").decode(message_of(text, "p.M", "a: 1") + b"\xb8\x06\x01")
    assert isinstance(unknown, Reject)
    assert unknown.code == "unknown-field"


@pytest.mark.parametrize("message", [
    b"\x0a\x02\x10\x05", b"\x12\x02\x18\x05", b"\x1a\x07\x0a\x01a\x12\x02\x10\x05", b"\x22\x04\x0a\x02\x10\x05",
    b"\x2a\x05\x0a\x03\x38\xac\x02", b"\x30\x07",
])  # fmt: skip
def test_unknown_fields_are_seen_wherever_they_are(message: bytes) -> None:
    text = (
        'syntax = "proto2"; import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto"; '
        "message M { optional A a = 1; optional google.protobuf.Timestamp at = 2; map<string, A> m = 3; "
        "optional B b = 4; optional google.protobuf.ListValue v = 5; optional E e = 6; } enum E { ONE = 1; } "
        "message A { optional int32 n = 1; } message B { optional A a = 1; optional B b = 3; }"
    )
    found = schema_of(text).decode(message)
    assert isinstance(found, Reject)
    assert found.code == "unknown-field"
    assert isinstance(schema_of(text, ignore_unknown=True).decode(message), tuple)


def test_entries_of_maps_have_one_order() -> None:
    text = 'syntax = "proto3"; message M { map<string, int32> s = 1; map<sint64, bytes> n = 2; map<bool, M> b = 3; }'
    one = read(text, 's {key: "b"} s {key: "a" value: 1} n {key: 10} n {key: -9} b {key: true} b {key: false value {}}')
    assert one[1].startswith('{"s":{"a":1,"b":0},"n":{"-9":"","10":""},"b":{"false":')


def test_a_short_message_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = "".join(f"double f{i} = {i};" for i in range(1, 1001))
    text = (
        'syntax = "proto3"; message M { repeated W ws = 1; repeated G gs = 2; } message G {} '
        f"message W {{ {fields} }}"
    )
    schema = schema_of(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for message, why in (
        (b"\x0a\x00" * 3, "fields that it lacks"), (b"\x0a\x00" * 15_000, "fields that it lacks"),
        (b"\x0a\x00" * 500_000, "256 MiB"),
    ):  # fmt: skip
        found = schema.decode(message)
        assert isinstance(found, Reject)
        assert found.code == "malformed"
        assert why in found.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10
    monkeypatch.setattr(messages, "MAX_PARSED", 23_000)
    assert isinstance(schema.decode(b"\x12\x00" * 100 + b"\x0a\x00"), tuple)
    assert isinstance(schema.decode(b"\x0a\x00\x0a\x00"), Reject)
    assert isinstance(schema.decode(b"\x0b\x0c" * 2), Reject)


def test_items_that_lack_most_of_their_fields_are_read() -> None:
    fields = "".join(f"optional string a_field_of_some_length_{i} = {i};" for i in range(1, 51))
    schema = schema_of(f'syntax = "proto3"; message M {{ repeated W ws = 1; }} message W {{ {fields} }}')
    found = schema.decode(b"\x0a\x04\x92\x03\x01a" * 5_000)
    assert isinstance(found, tuple)
    assert bytes(found[0]).count(b"null") == 49 * 5_000


def test_items_that_lack_nothing_are_read_however_many_they_are() -> None:
    names = [f"attribute_number_{i:02d}" for i in range(1, 61)]
    fields = "".join(f"string {name} = {i};" for i, name in enumerate(names, 1))
    text = f'syntax = "proto3"; message M {{ repeated W ws = 1; }} message W {{ {fields} }}'
    values = " ".join(f'{name}: "v"' for name in names)
    item = message_of(text, "M", f"ws {{ {values} }}")
    found = schema_of(text).decode(item * 15_000)
    assert isinstance(found, tuple)
    assert bytes(found[0]).count(b'"v"') == 60 * 15_000


def test_fields_with_long_names_are_no_huge_row() -> None:
    schema = schema_of(f'syntax = "proto3"; message M {{ repeated W ws = 1; }} message W {{ int32 {"n" * 4096} = 1; }}')
    assert isinstance(schema.decode(b"\x0a\x02\x08\x01"), tuple)
    found = schema.decode(b"\x0a\x02\x08\x01" * 15_000)
    assert isinstance(found, Reject)
    assert (found.code, "long names" in found.message) == ("malformed", True)


@pytest.mark.parametrize(("field", "message"), [
    ("repeated E es = 1;", b"\x0a\xa0\x1f" + b"\x01" * 4000),
    ("map<int32, E> es = 1;", b"".join(b"\x0a\x05\x08%c%c\x10\x01" % (i & 127 | 128, i >> 7) for i in range(8000))),
    ("repeated W ws = 1; message W { E e = 1; }", b"\x0a\x02\x08\x01" * 15_000),
])  # fmt: skip
def test_enums_with_long_names_are_no_huge_row(field: str, message: bytes) -> None:
    names = f"{'S' * 65} = 0; {'L' * 8192} = 1; SHORT = 2;"
    schema = schema_of(f'syntax = "proto3"; message M {{ {field} }} enum E {{ {names} }}')
    assert isinstance(schema.decode(b""), tuple)
    found = schema.decode(message)
    assert isinstance(found, Reject)
    assert (found.code, "long names" in found.message) == ("malformed", True)


def test_a_default_with_a_long_name_counts_only_in_messages() -> None:
    enum = f"enum E {{ {'S' * 60_000} = 0; }}"
    schema = schema_of(f'syntax = "proto3"; message M {{ E a = 1; E b = 2; E c = 3; }} {enum}')
    found = schema.decode(b"")
    assert isinstance(found, tuple)
    assert len(bytes(found[0])) > 180_000


@pytest.mark.parametrize(("content", "why"), [
    (b"", "has no files"), (b"\xff", "no descriptor set"), (b"\x0a\x07\x0a\x01a\x1a\x02b", "no descriptor set"),
    (b"\x0a\x08\x0a\x01a\x1a\x03b/c", "imports b/c, which is not in front of it"),
    (b"\x0a\x05\x0a\x01a\x22\x00", "a cannot be used"),
])  # fmt: skip
def test_descriptor_sets_that_are_none(content: bytes, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        DescriptorSet(content)


@pytest.mark.parametrize(("text", "references", "why"), [
    ("message", {}, "Expected"),
    ('syntax = "proto3"; import "other.proto";', {}, "other.proto: File not found"),
    ("", {"../x.proto": ""}, "cannot be the name of an imported file"),
    ("", {"/x.proto": ""}, "cannot be the name of an imported file"),
    ("", {"google/protobuf/any.proto/x": "", "google/protobuf/any.proto": ""}, "is no text of a file"),
    ("message M { " * 200 + "}" * 200, {}, "recursion limit"),
    ("\ud800", {}, "is no text of a file"),
    ("x" * (9 << 20), {}, "more than 8 MiB"),
])  # fmt: skip
def test_texts_that_are_no_schemas(text: str, references: dict[str, str], why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        compile_schema(text, references)


def test_what_reads_texts_may_be_missing_or_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'syntax = "proto3"; message M {}'
    with monkeypatch.context() as patched:
        patched.setattr(packages, "find_spec", lambda _: None)
        with pytest.raises(ConfigError, match="grpc_tools") as raised:
            compile_schema(text, {})
        assert "pip install 'ingest[protobuf]'" in str(raised.value.hint)
        made = Protobuf.model_validate({"protobuf.message-class-name": "M", "protobuf.schema": f"{text} "})
        with pytest.raises(ConfigError, match="grpc_tools"):
            made.reader_of(("t",))
    monkeypatch.setattr(schema, "_SECONDS", 0.001)
    with pytest.raises(SchemaError, match="did not read it within"):
        compile_schema(text, {})


def test_the_options_say_what_is_wrong(tmp_path: Any) -> None:
    def said(**more: str) -> str:
        try:
            Protobuf.model_validate({f"protobuf.{name.replace('_', '-')}": value for name, value in more.items()})
        except ValueError as exc:
            return str(exc)
        return ""

    name = {"message_class_name": "M"}
    file = tmp_path / "set"
    file.write_bytes(compile_schema('syntax = "proto3"; message M {} message N { message O {} }', {}))
    assert "give either protobuf.descriptor-file or protobuf.schema" in said(**name)
    assert "cannot be read: No such file" in said(**name, descriptor_file=str(tmp_path / "other"))
    assert "no message X (there are: M, N, N.O)" in said(message_class_name="X", descriptor_file=str(file))
    assert not said(message_class_name="N.O", descriptor_file=str(file))
    assert "protobuf.schema: line:1:1: Expected" in said(**name, schema="nothing")
    assert not said(message_class_name="${name}", schema="nothing")


def test_a_message_of_another_pool_has_its_own_class() -> None:
    one, other = ('syntax = "proto3"; message M { int32 a = 1; }', 'syntax = "proto3"; message M { string a = 1; }')
    assert class_of(one, "M") is not class_of(other, "M")
    assert read(one, "a: 1")[1] == '{"a":1}'
    assert read(other, 'a: "x"')[1] == '{"a":"x"}'
