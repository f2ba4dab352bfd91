"""Protocol Buffers with a real schema registry: what becomes of messages, and of schemas that are of no use."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import descriptor_pb2
from protobuf_messages import message_of
from registry_pipelines import becomes
from schema_registry import Registry, ask, framed

from ingest.component.options import WRITTEN
from ingest.errors import ConfigError
from ingest.formats.protobuf.messages import write_indexes
from ingest.formats.protobuf.options import ProtobufConfluent
from ingest.formats.protobuf.schema import compile_schema
from ingest.formats.written import RowPlace
from ingest.model import types
from ingest.model.change import Reject
from ingest.model.reject import RowError
from ingest.model.schema import Column
from ingest.native import native

if TYPE_CHECKING:
    from pathlib import Path

    from registry_pipelines import Pairs

    from ingest.formats.protobuf.table_writer import RegisteredRows

NAME = "protobuf-confluent"
ORDER = 'syntax = "proto3"; package shop; message Order { int32 id = 1; optional string name = 2; }'
JSON = {"type": "kafka", "value.format": "json"}


@pytest.fixture
def server(registry: str) -> Registry:
    return Registry(registry)


@pytest.fixture(params=[True, False], ids=["native", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With native code, and without it."""
    if not request.param:
        monkeypatch.setattr(native, "BUILT", False)


def sent(
    server: Registry, subject: str, schema: str, name: str, text: str, indexes: tuple[int, ...] = (0,), **imports: Any
) -> bytes:
    """A message as a serializer writes it: its schema is registered, and it has the indexes of its type."""
    number = server.register(subject, schema, "PROTOBUF", imports.get("references"))
    return framed(number, write_indexes(indexes) + message_of(schema, name, text, imports.get("files", {})))


@pytest.mark.usefixtures("either")
def test_rows_have_their_types_from_the_first_record_and_evolve(server: Registry, tmp_path: Path) -> None:
    """A new schema id is a new column, also inside of a ROW, whatever the values are."""
    first = (
        'syntax = "proto3"; package shop; message Order { int32 id = 1; Size size = 2; message Size { int32 w = 1; } }'
    )
    second = (
        'syntax = "proto3"; package shop; '
        "message Order { int32 id = 1; Size size = 2; uint64 total = 3; "
        "message Size { int32 w = 1; repeated int32 h = 2; } }"
    )
    pairs: Pairs = [
        (b'{"id":1}', sent(server, "p-rows-value", first, "shop.Order", "id: 1 size {w: 5}")),
        (b'{"id":2}', sent(server, "p-rows-value", second, "shop.Order", "id: 2 size {h: 1 h: 2}")),
        (b'{"id":3}', sent(server, "p-rows-value", first, "shop.Order", "id: 3")),
        (b'{"id":1}', None),
    ]
    expected = {
        "changes": [
            "orders> CREATE TABLE (id INT NOT NULL, size ROW<w INT>, PRIMARY KEY (id))",
            "orders> ALTER COLUMN size ROW<w INT> -> ROW<h ARRAY<INT>, w INT>",
            "orders> ADD COLUMN total DECIMAL(20,0)",
        ],
        "records": [
            'orders {"id":1} {"id":1,"size":{"w":5}}',
            'orders {"id":2} {"id":2,"size":{"w":0,"h":[1,2]},"total":0}',
            'orders {"id":3} {"id":3,"size":null,"total":null}',
            'orders {"id":1} null',
        ],
    }
    assert not becomes(tmp_path, server, NAME, pairs, {"key.format": "json"}, **expected)


@pytest.mark.usefixtures("either")
def test_keys_are_the_primary_key_with_their_types(server: Registry, tmp_path: Path) -> None:
    key = 'syntax = "proto3"; message Key { string shop = 1; int64 no = 2; }'
    good = sent(server, "p-k-key", key, "Key", 'shop: "a" no: 1')
    row = sent(server, "p-k-value", ORDER, "shop.Order", 'id: 7 name: "x"')
    pairs: Pairs = [(good, row), (b"\0\0", row), (framed(99_999_999, b""), row), (good, None)]
    expected = {
        "schema": {"orders": ["shop STRING NOT NULL", "no BIGINT NOT NULL", "id INT", "name STRING"]},
        "records": [
            'orders {"shop":"a","no":1} {"shop":"a","no":1,"id":7,"name":"x"}',
            'orders {"shop":"a","no":1} null',
        ],
        "rejects": ["1 decode/malformed-key", "2 decode/unknown-schema"],
    }
    assert not becomes(tmp_path, server, NAME, pairs, {"key.format": NAME}, **expected)


def test_types_that_are_not_the_first_of_their_schema(server: Registry, tmp_path: Path) -> None:
    schema = (
        'syntax = "proto3"; package s; message A { int32 a = 1; } '
        "message B { message C { int32 c = 1; } message D { int32 d = 1; message E { int32 e = 1; } } }"
    )
    pairs: Pairs = [
        (None, sent(server, "p-types-value", schema, name, text, indexes))
        for name, text, indexes in (
            ("s.A", "a: 1", (0,)), ("s.B.C", "c: 2", (1, 0)), ("s.B.D", "d: 3", (1, 1)), ("s.B.D.E", "e: 4", (1, 1, 0)),
        )
    ]  # fmt: skip
    number = server.register("p-types-value", schema, "PROTOBUF")
    pairs += [(None, framed(number, head + b"\x08\x05")) for head in (b"\2\0", b"\2\4", b"\4\2\1", b"\1", b"\2", b"")]
    records = [
        'orders {"a":1}', 'orders {"a":null,"c":2}', 'orders {"a":null,"c":null,"d":3}',
        'orders {"a":null,"c":null,"d":null,"e":4}', 'orders {"a":5,"c":null,"d":null,"e":null}',
    ]  # fmt: skip
    rejects = [f"{number} decode/malformed" for number in (5, 6, 7, 8, 9)]
    found = becomes(tmp_path, server, NAME, pairs, {}, sink=JSON, records=records, rejects=rejects)
    assert not found


def test_schemas_that_import_others(server: Registry, tmp_path: Path) -> None:
    part = 'syntax = "proto3"; package shop; message Part { string sku = 1; }'
    line = 'syntax = "proto3"; package shop; import "shop/part.proto"; message Line { repeated Part parts = 1; }'
    order = (
        'syntax = "proto3"; package shop; import "shop/line.proto"; import "confluent/meta.proto"; '
        'import "google/protobuf/timestamp.proto"; '
        'message Order { Line line = 1 [(confluent.field_meta).doc = "one"]; google.protobuf.Timestamp at = 2; }'
    )
    server.register("shop-part", part, "PROTOBUF")
    to_part = {"name": "shop/part.proto", "subject": "shop-part", "version": 1}
    server.register("shop-line", line, "PROTOBUF", [to_part])
    to_line = {"name": "shop/line.proto", "subject": "shop-line", "version": 1}
    value = sent(
        server, "p-imports-value", order, "shop.Order", 'line {parts {sku: "a"}} at {seconds: 1}',
        references=[to_line], files={"shop/part.proto": part, "shop/line.proto": line},
    )  # fmt: skip
    records = ['orders {"line":{"parts":[{"sku":"a"}]},"at":"1970-01-01 00:00:01Z"}']
    assert not becomes(tmp_path, server, NAME, [(None, value)], {}, sink=JSON, records=records)


def test_a_schema_that_is_a_descriptor_in_base64(server: Registry, tmp_path: Path) -> None:
    """As clients register it that have the descriptors of their messages, and not the texts."""
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "confluent/meta.proto"; '
        "message M { google.protobuf.Timestamp at = 1; }"
    )
    file = descriptor_pb2.FileDescriptorSet.FromString(compile_schema(text, {})).file[-1]
    number = server.register("p-base64-value", base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    value = framed(number, b"\0" + message_of(text, "M", "at {seconds: 1}"))
    records = ['orders {"at":"1970-01-01 00:00:01Z"}']
    assert not becomes(tmp_path, server, NAME, [(None, value)], {}, sink=JSON, records=records)


@pytest.mark.usefixtures("either")
def test_messages_that_no_schema_fits_are_rejects(server: Registry, tmp_path: Path) -> None:
    good = sent(server, "p-broken-value", ORDER, "shop.Order", 'id: 1 name: "abc"')
    of_avro = server.register("p-avro-value", {"type": "record", "name": "R", "fields": []})
    pairs: Pairs = [
        (None, good), (None, b"{}"), (None, b""), (None, good[:3]), (None, framed(99_999_999, good[5:])),
        (None, framed(of_avro, b"\0")), (None, good[:-1]), (None, good + b"\x18\x05"), (None, good[:5]),
    ]  # fmt: skip
    codes = [
        "1 decode/malformed", "2 decode/malformed", "3 decode/malformed", "4 decode/unknown-schema",
        "5 decode/bad-schema", "6 decode/malformed", "7 decode/unknown-field", "8 decode/malformed",
    ]  # fmt: skip
    row = 'orders {"id":1,"name":"abc"}'
    assert not becomes(tmp_path, server, NAME, pairs, {}, sink=JSON, records=[row], rejects=codes)


def test_options_of_the_values(server: Registry, tmp_path: Path) -> None:
    value = sent(server, "p-options-value", ORDER, "shop.Order", "id: 1") + b"\x18\x05"
    source = {f"{NAME}.unknown-fields": "ignore", f"{NAME}.read-default-values": "true"}
    records = ['orders {"id":1,"name":""}']
    assert not becomes(tmp_path, server, NAME, [(None, value)], source, sink=JSON, records=records)


def test_garbage_raises_nothing(server: Registry) -> None:
    number = server.register("p-garbage", ORDER, "PROTOBUF")
    chosen = ProtobufConfluent.model_validate({f"{NAME}.url": server.url})
    garbage = [bytes([byte]) * count for byte in range(256) for count in (1, 5, 9)]
    garbage += [framed(number, bytes([byte]) * count) for byte in range(256) for count in (0, 1, 2, 5, 40)]
    found = chosen.decoder("t").decode([None] * len(garbage), garbage)
    assert len(found) == len(garbage)
    assert sum(isinstance(one, Reject) for one in found) > len(garbage) // 2


def columns_of(**names: str) -> dict[str, Column]:
    return {name: Column(name, types.parse(text)) for name, text in names.items()}


def writer_of(server: Registry, topic: str, columns: dict[str, Column], **more: Any) -> RegisteredRows:
    chosen = ProtobufConfluent.model_validate({f"{NAME}.url": server.url, **more}, context={WRITTEN: True})
    return chosen.row_writer(RowPlace(topic, "value", ("shop", "orders")), columns)


def written(server: Registry, topic: str, columns: dict[str, Column], row: dict[str, Any], **more: Any) -> bytes:
    """A row as the sink writes it, with a writer of its own."""
    return writer_of(server, topic, columns, **more)({name: json.dumps(value).encode() for name, value in row.items()})


def read_back(server: Registry, message: bytes) -> str:
    (found,) = ProtobufConfluent.model_validate({f"{NAME}.url": server.url}).decoder("t").decode([None], [message])
    assert isinstance(found, tuple), found
    return bytes(found[3] or b"").decode()


def test_schemas_of_rows_are_registered_and_evolve(server: Registry) -> None:
    """A field keeps its number, whatever the columns become; older and narrower tables take the newest schema."""
    first = columns_of(id="INT", name="STRING", price="DECIMAL(10,2)", size="ROW<w INT>")
    row = {"id": 1, "name": None, "price": 1.5, "size": {"w": 3}}
    one = written(server, "p-evolves", first, row)
    assert one[5:6] == b"\0"
    assert read_back(server, one) == '{"id":1,"name":null,"price":"1.5","size":{"w":3}}'
    assert written(server, "p-evolves", first, row) == one
    second = columns_of(
        tags="ARRAY<STRING>", id="BIGINT", name="STRING", price="DECIMAL(10,2)", size="ROW<h INT, w DOUBLE>"
    )
    two = written(server, "p-evolves", second, {"id": 2**40, "tags": ["a"], "size": {"h": 1, "w": 0.5}})
    assert two[1:5] != one[1:5]
    assert read_back(server, two) == (
        f'{{"id":{2**40},"name":null,"price":null,"size":{{"w":0.5,"h":1}},"tags":["a"]}}'
    )
    again = written(server, "p-evolves", first, row)
    assert again[1:5] == two[1:5]
    assert read_back(server, again) == '{"id":1,"name":null,"price":"1.5","size":{"w":3.0,"h":null},"tags":[]}'
    latest = ask(f"{server.url}/subjects/p-evolves-value/versions/latest")
    assert latest["version"] == 2
    assert "reserved 1;" in latest["schema"]
    assert "optional double w = 2;" in latest["schema"]
    assert "optional int64 id = 1;" in latest["schema"]


def test_a_schema_of_somebody_else_is_taken_or_the_table_refused(server: Registry) -> None:
    schema = (
        'syntax = "proto3"; package s; enum E { A = 0; B = 1; } '
        "message Order { int64 id = 7; E kind = 3; string other = 4; reserved 10 to max; }"
    )
    number = server.register("p-given-value", schema, "PROTOBUF")
    columns = columns_of(id="INT", kind="STRING")
    message = written(server, "p-given", columns, {"id": 5, "kind": "B"})
    assert int.from_bytes(message[1:5], "big") == number
    assert read_back(server, message) == '{"id":5,"kind":"B","other":""}'
    with pytest.raises(RowError, match=r"kind.*none of its names") as raised:
        written(server, "p-given", columns, {"id": 5, "kind": "C"})
    assert raised.value.code == "type-mismatch"
    with pytest.raises(RowError, match=r"s\.Order has no field 'more'") as raised:
        written(server, "p-given", columns_of(id="INT", more="INT"), {})
    assert raised.value.code == "unwritable-table"
    server.register("p-float-value", 'syntax = "proto3"; message M { optional float d = 1; string s = 2; }', "PROTOBUF")
    rows = writer_of(server, "p-float", columns_of(d="DOUBLE", s="DOUBLE"))
    assert not rows.rounds, "the schema is not known yet"
    rows({"d": b"0.1", "s": b"0.1"})
    assert {name: (one(b"0.5", None), one(b"0.1", None)) for name, one in rows.rounds.items()} == {"d": (False, True)}
    server.register("p-avro-there-value", {"type": "record", "name": "R", "fields": []})
    with pytest.raises(ConfigError, match="has a schema of AVRO"):
        written(server, "p-avro-there", columns, {})
