"""What holds for all Avro schemas and messages: rows that fastavro wrote are read as they are; no bytes do any harm."""

from __future__ import annotations

import io
import json
import math
import struct
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pytest
from avro_schemas import Names, possible, records, written
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.avro.messages import RowSchema
from ingest.formats.avro.resolution import Resolver
from ingest.formats.avro.rows import MALFORMED, Compiler, RowReader, ended
from ingest.formats.avro.schema import parse
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.reject import Contradiction, RowError
from ingest.model.values import fits


def same(read: Any, value: Any) -> bool:
    """Whether a value is what was written; floats by the number of 32 bits that they read back to."""
    if isinstance(value, dict):
        return read.keys() == value.keys() and all(same(read[name], value[name]) for name in value)
    if isinstance(value, list):
        return len(read) == len(value) and all(map(same, read, value))
    if isinstance(value, float):
        return bool(read == value or struct.pack("<f", read) == struct.pack("<f", value))
    return bool(read == value and type(read) is type(value))


@given(st.data())
def test_what_fastavro_wrote_is_read(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    if not possible(schema):
        return
    value = data.draw(values)
    message = written(schema, value)
    reader = RowReader(parse(json.dumps(schema)), Compiler())
    row, at = reader.read(message, 0)
    assert at == len(message)
    assert list(row) == [field["name"] for field in schema["fields"]]
    assert same(row, value)
    for name, text in msgspec.json.decode(msgspec.json.encode(row), type=dict[str, msgspec.Raw]).items():
        assert fits(reader.types.get(name, types.NULL), bytes(text)), name


@given(st.data())
def test_changed_bytes_are_a_row_or_a_reject(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    if not possible(schema):
        return
    message = bytearray(written(schema, data.draw(values)))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        message[at : at + 1] = bytes([byte])
    changed = bytes(message[: data.draw(st.integers(0, len(message)))])
    reader = RowReader(parse(json.dumps(schema)), Compiler())
    try:
        row, at = reader.read(changed, 0)
        ended(changed, at)
        text = msgspec.json.encode(row)
    except (*MALFORMED, Contradiction, RowError):
        return
    assert len(text) < 1000 + 400 * len(changed) + 100 * len(json.dumps(schema))
    for name, value in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
        assert fits(reader.types.get(name, types.NULL), bytes(value)), name


@given(st.binary(max_size=60), st.data())
def test_any_bytes_are_a_row_or_a_reject(changed: bytes, data: st.DataObject) -> None:
    schema, _ = data.draw(records(Names()))
    if not possible(schema):
        return
    try:
        row, at = RowReader(parse(json.dumps(schema)), Compiler()).read(changed, 0)
    except (*MALFORMED, Contradiction, RowError):
        return
    assert at <= len(changed)
    assert list(row) == [field["name"] for field in schema["fields"]]


@given(st.sampled_from(("nan", "inf", "-inf")), st.sampled_from(("float", "double")))
def test_a_number_that_json_cannot_say_is_a_reject(value: str, kind: str) -> None:
    reader = RowReader(parse(f'{{"type":"record","name":"r","fields":[{{"name":"f","type":"{kind}"}}]}}'), Compiler())
    with pytest.raises(RowError, match=f"column 'f' holds {value}") as raised:
        reader.read(struct.pack("<f" if kind == "float" else "<d", float(value)), 0)
    assert raised.value.code == "not-a-number"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_fewest_digits_that_read_back(value: float) -> None:
    reader = RowReader(parse('{"type":"record","name":"r","fields":[{"name":"f","type":"float"}]}'), Compiler())
    row, _ = reader.read(struct.pack("<f", value), 0)
    found = row["f"]
    assert struct.pack("<f", found) == struct.pack("<f", value)
    assert math.copysign(1, found) == math.copysign(1, value)
    digits = len(f"{abs(found):e}".split("e")[0].replace(".", "").rstrip("0")) or 1
    shorter = [float(f"%.{n}g" % value) for n in range(1, min(digits, 9))]
    assert not any(abs(one) < 3.4e38 and struct.pack("<f", one) == struct.pack("<f", value) for one in shorter)


@given(
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p), st.integers(1 - 10**p, 10**p - 1)))
)
def test_a_decimal_has_all_its_digits(given_: tuple[int, int, int]) -> None:
    precision, scale, unscaled = given_
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    schema = {"type": "record", "name": "r", "fields": [{"name": "d", "type": kind}]}
    value = Decimal((int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled))), -scale))
    reader = RowReader(parse(json.dumps(schema)), Compiler())
    row, _ = reader.read(written(schema, {"d": value}), 0)
    text = bytes(row["d"])
    assert Decimal(text.decode()) == value
    assert len(text.partition(b".")[2]) == scale
    assert fits(reader.types["d"], text)


@st.composite
def evolved(draw: st.DrawFn, schema: Any) -> Any:
    """A schema that a reader may have instead of another one."""
    if isinstance(schema, list):
        return [draw(evolved(branch)) for branch in schema]
    if isinstance(schema, str):
        return draw(st.sampled_from([schema, *PROMOTED.get(schema, ())]))
    if schema["type"] == "record":
        kept = [field for field in schema["fields"] if draw(st.integers(0, 4))]
        fields = [
            {"name": field["name"], "type": draw(evolved(field["type"]))} for field in draw(st.permutations(kept))
        ]
        more = draw(st.sampled_from([[], [{"name": "more_of_it", "type": ["int", "null"], "default": 5}]]))
        return {**schema, "fields": fields + more}
    inner = {key: draw(evolved(schema[key])) for key in ("items", "values") if key in schema}
    return {**schema, **inner}


PROMOTED = {"int": ["long", "double"], "long": ["double"], "float": ["double"]}


@given(st.data())
def test_messages_are_read_as_another_schema_as_fastavro_reads_them(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    reader = data.draw(evolved(schema))
    if not possible(schema) or not possible(reader):
        return
    value = data.draw(values)
    message = written(schema, value)
    expected: Any = fastavro.schemaless_reader(
        io.BytesIO(message), fastavro.parse_schema(schema), fastavro.parse_schema(reader)
    )
    piece, at = Resolver().resolve_message(parse(json.dumps(schema)), parse(json.dumps(reader)))(message, 0)
    assert at == len(message)
    row, at = RowReader(parse(json.dumps(reader)), Compiler()).read(piece, 0)
    assert at == len(piece)
    assert list(row) == [field["name"] for field in reader["fields"]]
    assert same(row, expected)


@given(st.data())
def test_changed_bytes_are_read_as_another_schema_or_rejected(data: st.DataObject) -> None:
    schema, values = data.draw(records(Names()))
    reader = data.draw(evolved(schema))
    if not possible(schema) or not possible(reader):
        return
    message = bytearray(written(schema, data.draw(values)))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)):
        message[at : at + 1] = bytes([byte])
    changed = bytes(message[: data.draw(st.integers(0, len(message)))])
    found = RowSchema(parse(json.dumps(schema)), parse(json.dumps(reader))).decode(changed, 0)
    if not isinstance(found, Reject):
        assert len(bytes(found[0])) < 1000 + 400 * len(changed) + 100 * len(json.dumps(reader))
