"""Schemas of a few kilobytes that would take for ever, and messages of a few bytes that would become huge rows."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from schema_registry import envelope, record

from ingest.formats.avro.messages import EnvelopeSchema, RowSchema
from ingest.formats.avro.primitives import BASE, PER_BYTE
from ingest.formats.avro.rows import MALFORMED, Compiler, RowReader
from ingest.formats.avro.schema import SchemaError, parse
from ingest.model.change import Reject

LEVELS = 60
"""Twice as many records at each level: nobody sees the end who walks through each of them."""


def doubled(leaf: Any, levels: int = LEVELS, *, nullable: bool = False) -> Any:
    """A record that holds the record below twice, and so on."""
    made = record("L0", a=leaf)
    for level in range(1, levels):
        below = f"L{level - 1}"
        first, second = (["null", made], ["null", below]) if nullable else (made, below)
        made = record(f"L{level}", x=first, y=second)
    return made


def schema_of(kind: Any) -> RowSchema:
    return RowSchema(parse(json.dumps(record("Row", c=kind))))


CHANGE = b"\x00\x02\x0a" + b"\x00\x02s\x00\x02t" + b"\x02c" + b"\x00"
"""An envelope of the row 5, up to its last member."""


def with_member(kind: Any) -> EnvelopeSchema:
    """An envelope whose last member nobody asks for."""
    made = envelope("shop", record("Value", id="int"))
    made["fields"].append({"name": "more", "type": ["null", kind]})
    return EnvelopeSchema(parse(json.dumps(made)))


def malformed(found: object) -> bool:
    return isinstance(found, Reject) and found.code == "malformed"


@pytest.mark.parametrize("leaf", ["int", "null", ["null", "int"]])
def test_records_that_hold_one_another_twice_are_compiled_once_each(leaf: Any) -> None:
    assert malformed(schema_of(doubled(leaf)).decode(b"", 0))
    assert schema_of(doubled(leaf, nullable=True)).decode(b"\x00\x00", 0) != schema_of("int").decode(b"\x00", 0)


def test_an_array_of_doubled_records_is_looked_at_once() -> None:
    assert schema_of({"type": "array", "items": doubled("int")}).row(b"\x00", 0) == msgspec.Raw(b'{"c":[]}')
    with pytest.raises(SchemaError, match="take no bytes"):
        schema_of({"type": "array", "items": doubled("null")})


def test_doubled_records_are_passed_over() -> None:
    schema = with_member(doubled("int"))
    assert schema.read(CHANGE + b"\x00", 0)[0]["after"] == b'{"id":5}'
    with pytest.raises(MALFORMED):
        schema.read(CHANGE + b"\x02", 0)


def test_a_passed_member_that_takes_no_bytes_is_not_walked_through() -> None:
    assert with_member(doubled("null")).read(CHANGE + b"\x02", 0)[0]["after"] == b'{"id":5}'


def test_a_record_within_itself_is_passed_over() -> None:
    schema = with_member(record("Tree", value="int", left=["null", "Tree"], right=["null", "Tree"]))
    message = CHANGE + b"\x02" + b"\x02\x02" + b"\x04\x00\x00" + b"\x00"
    assert schema.read(message, 0)[0]["after"] == b'{"id":5}'
    assert schema.native is None or schema.native.read(message, 0) is not None
    with pytest.raises(MALFORMED):
        schema.read(message[:-1], 0)


def test_doubled_records_are_resolved_once_for_each_pair() -> None:
    writer = parse(json.dumps(record("Row", c=doubled("int"))))
    wider = parse(json.dumps(record("Row", c=doubled("long"))))
    assert malformed(RowSchema(writer, wider).decode(b"", 0))
    with pytest.raises(SchemaError, match="cannot be read"):
        RowSchema(writer, parse(json.dumps(record("Row", c=doubled("boolean")))))
    nulls = parse(json.dumps(record("Row", c=doubled("null"))))
    tree = record("N", a=["null", "string"], x=["null", "N"], y=["null", "N"])
    for one in tree["fields"]:
        one["default"] = None
    given = parse(json.dumps(record("Row", c=tree)))
    assert malformed(RowSchema(nulls, given).decode(b"", 0))


def test_doubled_records_that_fail_in_the_innermost_are_resolved_at_once() -> None:
    """Each level fails behind a pair that holds the level itself, and is resolved again with the next one."""

    def levels(last: str) -> Any:
        made = record("L0", a="int", bad=last)
        for level in range(1, LEVELS):
            within = record(f"M{level}", up=["null", f"L{level}"], down=["null", made], again=["null", f"L{level - 1}"])
            made = record(f"L{level}", x=within, y=["null", f"M{level}"], bad=last)
        return made

    rows = [parse(json.dumps(record("Row", c=["null", levels(last)]))) for last in ("int", "boolean")]
    schema = RowSchema(*rows)
    assert malformed(schema.decode(b"\x02", 0))
    assert bytes(schema.row(b"\x00", 0)) == b'{"c":null}'


def test_nested_records_of_nulls_are_no_huge_row() -> None:
    assert malformed(schema_of(doubled("null", 20)).decode(b"", 0))
    assert len(bytes(schema_of(doubled("null", 4)).row(b"", 0))) > 100


def test_items_with_many_nulls_are_no_huge_row() -> None:
    wide = record("Wide", id="int", **{f"n{number}": "null" for number in range(2000)})
    items = 1000
    message = b"\xd0\x0f" + b"\x02" * items + b"\x00"
    assert malformed(schema_of({"type": "array", "items": wide}).decode(message, 0))


def test_a_short_message_may_have_some_nulls() -> None:
    """Members that are reserved, as schemas made from other models have them."""
    nulls = record("More", **{f"reserved{number}": "null" for number in range(32)})
    node = parse(json.dumps(record("Row", id="int", more=nulls)))
    assert bytes(RowSchema(node).row(b"\x02", 0)).count(b"null") == 32


def test_items_with_many_columns_that_are_null_are_read() -> None:
    columns = {f"a_column_with_a_name_of_quite_some_length_{number}": ["null", "string"] for number in range(100)}
    message = b"\xc8\x01" + b"\x00" * 100 * 100 + b"\x00"
    row = schema_of({"type": "array", "items": record("Item", **columns)}).row(message, 0)
    assert bytes(row).count(b"null") == 100 * 100


def test_a_row_itself_may_have_any_number_of_nulls() -> None:
    nulls = record("Row", **{f"c{number}": "null" for number in range(5000)})
    schema = RowSchema(parse(json.dumps(nulls)))
    assert bytes(schema.row(b"", 0)).count(b"null") == 5000


@pytest.mark.compiled("avro")
@pytest.mark.parametrize("over", [0, 1])
def test_both_readers_have_the_same_bound(over: int) -> None:
    """A record of one null takes 16, its name's length, and 128."""
    message = b"\x02" * 2
    inner = record("I", n="null")
    rest = BASE + PER_BYTE * len(message) - 2 * (16 + 1 + 128) - 16 - 128
    outer = record("O", **{"b" * (rest + over): "null"})
    node = parse(json.dumps(record("Row", a=["null", inner], b=["null", "I"], c=outer)))
    native, (row, _) = RowSchema(node).native, ({}, 0) if over else RowReader(node, Compiler()).read(message, 0)
    assert native is not None
    assert native.read(message, 0) == (None if over else msgspec.json.encode(row))
    assert malformed(RowSchema(node).decode(message, 0)) is bool(over)


def counted(items: int) -> bytes:
    """The head of an array of up to 8191 items."""
    return bytes([items << 1 & 127 | 128, items >> 6])


LONG = {"type": "enum", "name": "E", "symbols": ["short", "S" * 4096]}
ZEROS = {"type": "fixed", "size": 1, "name": "F", "logicalType": "decimal", "precision": 2000, "scale": 1000}


@pytest.mark.parametrize("kind", [
    LONG, ["null", LONG], record("I", e=LONG),
    {**ZEROS, "connect.name": "org.apache.kafka.connect.data.Decimal"},
])  # fmt: skip
def test_bytes_that_become_long_texts_are_no_huge_row(kind: Any) -> None:
    schema = schema_of({"type": "array", "items": kind})
    item = b"\x02\x02" if isinstance(kind, list) else b"\x02"
    assert malformed(schema.decode(counted(1000) + item * 1000 + b"\x00", 0))
    assert len(bytes(schema.row(b"\x02" + item + b"\x00", 0))) > 1000


def test_values_of_maps_that_become_long_texts_are_no_huge_row() -> None:
    entries = b"".join(b"\x04%02x\x02" % at for at in range(250))
    assert malformed(schema_of({"type": "map", "values": LONG}).decode(counted(250) + entries + b"\x00", 0))


def test_a_decimal_of_bytes_is_no_huge_row() -> None:
    schema = schema_of({"type": "array", "items": {**ZEROS, "type": "bytes"}})
    assert malformed(schema.decode(counted(1000) + b"\x02\x05" * 1000 + b"\x00", 0))


@pytest.mark.compiled("avro")
@pytest.mark.parametrize("over", [0, 1])
def test_long_symbols_and_members_of_records_have_one_bound(over: int) -> None:
    """The native reader leaves the symbol; the record takes 16, and its member its name's length and 16."""
    message = b"\x00" * 2
    rest = BASE + PER_BYTE * len(message) - (16 + 1 + 16)
    enum = {"type": "enum", "name": "E", "symbols": ["S" * (rest + over), "short"]}
    node = parse(json.dumps(record("Row", e=enum, r=record("I", n="int"))))
    native = RowSchema(node).native
    assert native is not None
    assert native.read(message, 0) is None
    assert malformed(RowSchema(node).decode(message, 0)) is bool(over)


@pytest.mark.compiled("avro")
def test_symbols_of_usual_length_are_read_natively() -> None:
    for size in (64, 65):
        native = schema_of({"type": "enum", "name": "E", "symbols": ["S" * size]}).native
        assert native is not None
        assert native.read(b"\x00", 0) == (b'{"c":"%s"}' % (b"S" * size) if size == 64 else None)
