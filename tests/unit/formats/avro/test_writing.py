"""Values in Avro's binary encoding: every value of a field's type, exactly, or an error that says which column."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest

from ingest.formats.avro.messages import RowSchema
from ingest.formats.avro.native_nodes import BUILT
from ingest.formats.avro.row_writer import RowWriter
from ingest.formats.avro.schema import parse
from ingest.model.reject import RowError


def schema(kind: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind, **more}]})


def read(text: str, message: bytes) -> Any:
    file = io.BytesIO(message)
    row: Any = fastavro.schemaless_reader(file, fastavro.parse_schema(json.loads(text)), None)
    assert file.read() == b""
    return row["c"]


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


DECIMAL = logical("bytes", "decimal", precision=38, scale=2)
FIXED = logical("fixed", "decimal", precision=4, scale=2, name="f", size=2)
LIST = {"type": "array", "items": ["null", "long"]}
WRITTEN: list[tuple[Any, str, Any]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("int", "2147483647", 2147483647),
    ("long", "-9223372036854775808", -(2**63)),
    ("double", "0.1", 0.1),
    ("double", "5", 5.0),
    ("double", "1e300", 1e300),
    ("float", "1.5", 1.5),
    ("string", r'"\u00fc\n"', "ü\n"),
    ("string", "1.10", "1.10"),
    ("string", '{"a" : 1}', '{"a":1}'),
    ("bytes", '"AP8="', b"\x00\xff"),
    ({"type": "fixed", "name": "f", "size": 2}, '"AP8="', b"\x00\xff"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, '"B"', "B"),
    (DECIMAL, "-0.01", Decimal("-0.01")),
    (DECIMAL, "128", Decimal(128)),
    (DECIMAL, "1.100", Decimal("1.10")),
    (DECIMAL, "999999999999999999999999999999999999.99", Decimal("999999999999999999999999999999999999.99")),
    (FIXED, "-99.99", Decimal("-99.99")),
    (logical("int", "date"), '"1969-12-31"', date(1969, 12, 31)),
    (logical("int", "time-millis"), '"23:59:59.999"', time(23, 59, 59, 999000)),
    (logical("long", "time-micros"), '"00:00:00.000001"', time(0, 0, 0, 1)),
    (logical("long", "timestamp-millis"), '"2020-01-31 12:13:14.5Z"', datetime(2020, 1, 31, 12, 13, 14, 500000, UTC)),
    (logical("long", "timestamp-micros"), '"2020-01-31T00:00:00Z"', datetime(2020, 1, 31, tzinfo=UTC)),
    (logical("long", "timestamp-micros"), '"2020-01-31"', datetime(2020, 1, 31, tzinfo=UTC)),
    (
        logical("long", "local-timestamp-micros"),
        '"2020-01-31 00:00:00.000001"',
        datetime.fromisoformat("2020-01-31T00:00:00.000001"),
    ),
    (logical("string", "uuid"), '"00000000-0000-0000-0000-00000000000a"', UUID(int=10)),
    (logical("fixed", "uuid", name="f", size=16), '"00000000-0000-0000-0000-00000000000a"', UUID(int=10).bytes),
    (["null", "int"], "null", None),
    (["int", "null"], "5", 5),
    (["null", "int", "string", "boolean"], '"5"', "5"),
    (["null", "int", "double"], "1.5", 1.5),
    (LIST, "[1,null,3]", [1, None, 3]),
    (LIST, "[]", []),
    (LIST, '"[1]"', [1]),
    ({"type": "map", "values": "int"}, '{"a":1,"ü":2}', {"a": 1, "ü": 2}),
    ({"type": "map", "values": "int"}, "{}", {}),
    ({"type": "record", "name": "s", "fields": [{"name": "x", "type": ["null", "int"]}]}, "{}", {"x": None}),
]


@pytest.mark.parametrize(("kind", "raw", "value"), WRITTEN)
def test_fastavro_reads_what_was_written(kind: Any, raw: str, value: Any) -> None:
    text = schema(kind)
    assert read(text, RowWriter(text, ["c"]).write({"c": raw.encode()})) == value


REFUSED: list[tuple[Any, str]] = [
    ("boolean", "1"),
    ("int", "2147483648"),
    ("int", "1.0"),
    ("int", '"1"'),
    ("int", "null"),
    ("string", "null"),
    ("long", "9223372036854775808"),
    ("double", "1e400"),
    ("float", "1e39"),
    ("double", '"1"'),
    ("bytes", '"A"'),
    ("bytes", "1"),
    ({"type": "fixed", "name": "f", "size": 2}, '"AA=="'),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, '"C"'),
    (DECIMAL, "0.001"),
    (DECIMAL, "1e2"),
    (DECIMAL, "9999999999999999999999999999999999999.99"),
    (FIXED, "100.00"),
    (logical("int", "date"), '"2020-02-30"'),
    (logical("int", "time-millis"), '"12:00:00.0001"'),
    (logical("long", "time-micros"), '"24:00:00"'),
    (logical("long", "timestamp-millis"), '"2020-01-31 12:13:14.0001Z"'),
    (logical("long", "timestamp-micros"), '"yesterday"'),
    (logical("fixed", "uuid", name="f", size=16), '"00000000"'),
    (["null", "int"], '"a"'),
    (LIST, '["a"]'),
    (LIST, "5"),
    (LIST, '"[1"'),
    ({"type": "map", "values": "int"}, '{"a":null}'),
    ({"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}, "{}"),
    ({"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}, '{"x":1,"y":2}'),
]


@pytest.mark.parametrize(("kind", "raw"), REFUSED)
def test_what_a_field_cannot_say_is_a_reject_of_the_row(kind: Any, raw: str) -> None:
    with pytest.raises(RowError, match="column 'c") as raised:
        RowWriter(schema(kind), ["c"]).write({"c": raw.encode()})
    assert raised.value.code == "type-mismatch"


def test_a_value_that_is_missing_is_null_or_the_default() -> None:
    for kind, default, value in (
        ("int", 5, 5),
        (["null", "int"], None, None),
        (["int", "null"], 5, None),
        ("bytes", "\u00ff", b"\xff"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
        (logical("bytes", "decimal", precision=4, scale=2), "\u0001\u0000", Decimal("2.56")),
        ({"type": "record", "name": "s", "fields": [{"name": "x", "type": "int", "default": 3}]}, {}, {"x": 3}),
    ):
        text = schema(kind, default=default)
        assert read(text, RowWriter(text, []).write({})) == value


@pytest.mark.parametrize(
    ("text", "columns", "why"),
    [
        (schema("int"), ["c", "d"], "has no field 'd'"),
        (schema("int"), [], "field 'c' of the Avro schema 'r' has no default"),
        ('"int"', [], "is of the type 'int'"),
        ("{", [], "is not JSON"),
        (schema({"type": "fixed", "name": "f", "size": 2}, default="a"), [], "the default 'a' is no value of the type"),
        (schema(logical("fixed", "duration", name="d", size=12)), ["c"], "'duration' are not written"),
        (schema(logical("bytes", "big-decimal")), ["c"], "'big-decimal' are not written"),
    ],
)
def test_a_schema_that_does_not_fit_the_table_is_a_reject_of_the_table(text: str, columns: list[str], why: str) -> None:
    with pytest.raises(RowError, match=why) as raised:
        RowWriter(text, columns)
    assert raised.value.code == "unwritable-table"


def test_a_record_that_holds_itself() -> None:
    node = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}
    text = schema(node)
    writer = RowWriter(text, ["c"])
    assert read(text, writer.write({"c": b'{"next":{"next":null}}'})) == {"next": {"next": None}}
    deep = b'{"next":' * 5000 + b"null" + b"}" * 5000
    with pytest.raises(RowError, match=r"column 'c|nested too deep"):
        writer.write({"c": deep})


def test_a_row_of_a_schema_that_allows_null_has_the_number_of_its_branch() -> None:
    record = json.loads(schema("int"))
    for branches, head in ((["null", record], b"\2"), ([record, "null"], b"\0")):
        text = json.dumps(branches)
        assert RowWriter(text, ["c"]).write({"c": b"5"}) == head + b"\n"
        rows = RowSchema(parse(text))
        assert bytes(rows.row(head + b"\n", 0)) == b'{"c":5}'
        assert (rows.native is None) != BUILT
    with pytest.raises(RowError, match="is of the type 'union', and a row is a record"):
        RowWriter(json.dumps(["null", "int"]), ["c"])


def test_messages_of_a_union_are_read_as_a_record_and_the_other_way_round() -> None:
    union, record = parse(json.dumps(["null", json.loads(schema("int"))])), parse(schema("long"))
    assert bytes(RowSchema(union, record).row(b"\2\n", 0)) == b'{"c":5}'
    assert bytes(RowSchema(parse(schema("int")), union).row(b"\n", 0)) == b'{"c":5}'
    for rows in (RowSchema(union), RowSchema(union, record)):
        for message in (b"\0", b"\4\n", b""):
            assert getattr(rows.decode(message, 0), "code", None) == "malformed"
