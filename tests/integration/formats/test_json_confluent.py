"""JSON Schema with a real schema registry and Confluent's own serializer: what becomes of messages, keys and rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from registry_pipelines import becomes
from schema_registry import Registry, framed

from ingest.component.options import WRITTEN
from ingest.errors import ConfigError
from ingest.formats.json.confluent import JsonConfluent
from ingest.formats.written import RowPlace
from ingest.model import types
from ingest.model.reject import RowError
from ingest.model.schema import Column
from ingest.model.types import ArrayType, DecimalType, StructField, StructType, TimeType
from ingest.native import native

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from registry_pipelines import Pairs

NAME, CHANGES = "json-confluent", "debezium-json-confluent"
NULL = {"type": "null"}
TEXT = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}


@pytest.fixture
def server(registry: str) -> Registry:
    return Registry(registry)


@pytest.fixture
def client(registry: str) -> Iterator[SchemaRegistryClient]:
    """Confluent's own client of the registry."""
    with SchemaRegistryClient({"url": registry}) as made:
        yield made


@pytest.fixture(params=[True, False], ids=["native", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With native code, and without it."""
    if not request.param:
        monkeypatch.setattr(native, "BUILT", False)


def serialized(client: SchemaRegistryClient, topic: str, schema: Any, value: Any, *, key: bool = False) -> bytes:
    """A message as Confluent's serializer writes it."""
    context = SerializationContext(topic, MessageField.KEY if key else MessageField.VALUE)
    made = JSONSerializer(json.dumps(schema), client)(value, context)
    assert isinstance(made, bytes)
    return made


def optional(schema: dict[str, Any], index: int) -> dict[str, Any]:
    """The schema of a nullable field, as Connect's converter writes it."""
    return {"oneOf": [NULL, schema], "connect.index": index}


def connect(kind: str, of: str, index: int, title: str = "", **parameters: str) -> dict[str, Any]:
    """The schema of a field with one of Connect's types."""
    schema: dict[str, Any] = {"type": kind, "connect.type": of, "connect.index": index}
    if title:
        schema |= {"title": title, "connect.version": 1}
    return {**schema, "connect.parameters": parameters} if parameters else schema


@pytest.mark.usefixtures("either")
def test_rows_of_any_producer_have_the_types_of_their_schema(
    server: Registry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    customer = {"$id": "https://shop/customer.json", "type": "object", "properties": {"name": {"type": "string"}}}
    server.register("j-customer", customer, "JSON")
    schema = {
        "$id": "https://shop/order.json", "title": "Order", "type": "object",
        "properties": {
            "id": {"type": "integer"}, "price": {"type": "number"}, "at": {"type": "string", "format": "date-time"},
            "note": {"oneOf": [NULL, {"type": "string"}]}, "paid": {"type": ["null", "boolean"]},
            "size": {"$ref": "#/definitions/size"}, "customer": {"$ref": "customer.json"},
        },
        "definitions": {"size": {"enum": ["S", "M"]}},
    }  # fmt: skip
    references = [{"name": "customer.json", "subject": "j-customer", "version": 1}]
    number = server.register("j-rows-value", schema, "JSON", references)
    plain = {name: kind for name, kind in schema["properties"].items() if name != "customer"}  # type: ignore[attr-defined]
    row = {"id": 1, "price": 5, "at": "2020-01-31T12:13:14+02:00", "note": None, "paid": None, "size": "M"}
    good = serialized(client, "j-plain", {**schema, "$id": "https://shop/plain.json", "properties": plain}, row)
    pairs: Pairs = [
        (None, good), (None, framed(number, b'{"id":2,"customer":{"name":"a"},"price":0.1}')),
        (None, framed(number, b'{"id":12345678901234567890}')), (None, framed(number, b'{"id":"x"}')),
        (None, framed(number, b'[{"id":2}]')), (None, b'{"id":2}'), (None, framed(99_999_999, b"{}")),
        (None, framed(server.register("j-text", TEXT, "JSON"), b'"x"')), (None, None),
    ]  # fmt: skip
    columns = ["id DECIMAL(38,0)", "price DOUBLE", "at TIMESTAMP_LTZ", "note STRING", "paid BOOLEAN", "size STRING"]
    nulls = '"price":null,"at":null,"note":null,"paid":null,"size":null'
    expected = {
        "schema": {"orders": [*columns, "customer STRING"]},
        "sink": {"type": "kafka", "value.format": "json"},
        "records": [
            'orders {"id":1,"price":5,"at":"2020-01-31 10:13:14Z","note":null,"paid":null,"size":"M"}',
            'orders {"id":2,' + nulls.replace("null", "0.1", 1) + ',"customer":"{\\"name\\":\\"a\\"}"}',
            'orders {"id":12345678901234567890,' + nulls + ',"customer":null}',
        ],
        "rejects": [
            "3 decode/type-mismatch", "4 decode/malformed", "5 decode/malformed", "6 decode/unknown-schema",
            "7 decode/bad-schema",
        ],
        "skipped": {"tombstone": 1},
    }  # fmt: skip
    assert not becomes(tmp_path, server, NAME, pairs, {"ingestion.ignore-errors": True}, **expected)


@pytest.mark.usefixtures("either")
def test_changes_and_keys_as_connect_writes_them(
    server: Registry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    row = {
        "type": "object", "title": "s.orders.Value", "properties": {
            "id": connect("integer", "int32", 0),
            "day": optional(connect("integer", "int32", 1, "io.debezium.time.Date"), 1),
            "price": connect("number", "bytes", 2, "org.apache.kafka.connect.data.Decimal", scale="2"),
            "ratio": optional(connect("number", "float32", 3), 3),
        },
    }  # fmt: skip
    source = {"type": "object", "properties": {name: {"type": "string"} for name in ("connector", "db", "table")}}
    envelope = {
        "type": "object", "title": "s.orders.Envelope", "properties": {
            "before": optional(row, 0), "after": optional({"$ref": "#/definitions/s.orders.Value"}, 1),
            "source": source, "op": {"type": "string"}, "ts_ms": optional(connect("integer", "int64", 4), 4),
        },
        "definitions": {"s.orders.Value": row},
    }  # fmt: skip
    key_schema = {"type": "object", "title": "s.orders.Key", "properties": {"id": connect("integer", "int32", 0)}}
    keys = [serialized(client, "j-changes", key_schema, {"id": at}, key=True) for at in (1, 2)]
    number = server.register("j-changes-value", envelope, "JSON")

    def message(op: str, before: str, after: str) -> bytes:
        told = f'{{"before":{before},"after":{after},"source":{{"db":"shop","table":"orders"}},"op":"{op}","ts_ms":1}}'
        return framed(number, told.encode())

    first, second = (f'{{"id":1,"day":18292,"price":"{price}","ratio":1.5}}' for price in ("AP8=", "AQA="))
    pairs: Pairs = [
        (keys[0], message("c", "null", first)), (keys[0], message("u", first, second)),
        (keys[1], message("c", "null", '{"id":2,"day":"x","price":5.5,"ratio":null}')),
        (keys[1], message("c", "null", '{"id":2,"day":null,"price":5.5,"ratio":null}')),
        (keys[0], message("d", "null", "null")), (keys[0], None),
        (framed(99_999_999, b"{}"), message("c", "null", first)),
        (keys[0], framed(number, b'{"op":"c"},"payload":{')), (keys[0], message("t", "null", "null")),
        (keys[0], message("u", '{"id":"?","day":"x","price":"AP8=","ratio":1.5}', first)),
        (keys[0], message("d", '{"id":1,"day":"x","price":"AP8=","ratio":1.5}', "null")),
        (None, message("d", '{"id":"?","day":1,"price":"AP8=","ratio":1.5}', "null")),
    ]  # fmt: skip
    expected = {
        "schema": {"shop.orders": ["id INT NOT NULL", "day DATE", "price DECIMAL(38,2)", "ratio FLOAT"]},
        "records": [
            'shop.orders {"id":1} {"id":1,"day":"2020-01-31","price":2.55,"ratio":1.5}',
            'shop.orders {"id":1} {"id":1,"day":"2020-01-31","price":2.56,"ratio":1.5}',
            'shop.orders {"id":2} {"id":2,"day":null,"price":5.5,"ratio":null}',
            'shop.orders {"id":1} null',
            'shop.orders {"id":1} {"id":1,"day":"2020-01-31","price":2.55,"ratio":1.5}',
            'shop.orders {"id":1} null',
        ],
        "rejects": [
            "2 decode/type-mismatch",
            "6 decode/unknown-schema",
            "7 decode/malformed",
            "11 conform/type-mismatch",
        ],
        "skipped": {"tombstone": 1, "truncate": 1},
        "unread": {"shop.orders.day": 2},
    }
    assert not becomes(tmp_path, server, CHANGES, pairs, {"ingestion.ignore-errors": True}, **expected)


def columns(**kinds: Any) -> dict[str, Column]:
    return {name: Column(name, kind, name != "id") for name, kind in kinds.items()}


def writer(server: Registry, topic: str, found: dict[str, Column], part: str = "value", **more: str) -> Any:
    given = {"url": server.url, **more}
    chosen = JsonConfluent.model_validate(
        {f"{NAME}.{name}": value for name, value in given.items()}, context={WRITTEN: True}
    )
    return chosen.row_writer(RowPlace(topic, part, ("shop", "orders")), found)


def test_rows_that_are_written_are_valid_for_confluents_deserializer_and_read_back(
    server: Registry, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    kinds = {
        "id": types.BIGINT, "n": types.SMALLINT, "f": types.FLOAT, "ok": types.BOOLEAN, "s": types.STRING,
        "by": types.BYTES, "de": DecimalType(10, 2), "da": types.DATE, "tm": TimeType(3), "ts": types.TIMESTAMP,
        "tz": types.TIMESTAMP_LTZ, "li": ArrayType(types.DATE), "ro": StructType((StructField("x", types.INT),)),
    }  # fmt: skip
    row = {
        "id": b"1", "n": b"2", "f": b"0.1", "ok": b"true", "s": b'"a"', "by": b'"YWI="', "de": b"2.50",
        "da": b'"2020-01-31"', "tm": b'"12:13:14.5"', "ts": b'"2020-01-31 12:13:14.500001"',
        "tz": b'"2020-01-31 12:13:14Z"', "li": b'["2020-01-31",null]', "ro": b'{"x":1}',
    }  # fmt: skip
    write = writer(server, "j-sink", columns(**kinds))
    message = write(row)
    nulls = write({"id": b"2"})
    context = SerializationContext("j-sink", MessageField.VALUE)
    read = JSONDeserializer(None, schema_registry_client=client)  # type: ignore[arg-type]  # stubs know no default
    found: Any = read(message, context)
    assert (found["id"], found["da"], found["de"], found["ts"]) == (1, 18292, 2.5, 1580472794500001)
    assert read(nulls, context) == {"id": 2, **dict.fromkeys([*kinds][1:])}
    names = dict(zip(kinds, map(types.name, kinds.values()), strict=True))
    names |= {"li": "STRING", "ro": "STRING"}  # arrays and objects of a source are texts
    expected = {
        "schema": {"orders": [f"{name} {kind}" for name, kind in names.items()]},
        "sink": {"type": "kafka", "value.format": "json"},
        "records": [
            (
                'orders {"id":1,"n":2,"f":0.1,"ok":true,"s":"a","by":"YWI=","de":2.50,"da":"2020-01-31",'
                '"tm":"12:13:14.5","ts":"2020-01-31 12:13:14.500001","tz":"2020-01-31 12:13:14Z",'
                '"li":"[\\"2020-01-31\\",null]","ro":"{\\"x\\":1}"}'
            )
        ],
    }
    assert not becomes(tmp_path, server, NAME, [(None, message)], {}, **expected)


def test_schemas_of_tables_are_registered_as_those_of_other_formats(server: Registry) -> None:
    write = writer(server, "j-evolves", columns(id=types.INT))
    assert write.unregistered() == "j-evolves-value"
    first = write({"id": b"1"})
    more = writer(server, "j-evolves", columns(id=types.INT, name=types.STRING))
    assert first[:5] != more({"id": b"1", "name": b"null"})[:5]
    key = writer(server, "j-evolves", columns(id=types.INT), "key", **{
        "properties.key.subject.name.strategy": "TopicRecordNameStrategy",
    })  # fmt: skip
    assert key.unregistered() == "j-evolves-shop.orders.Key"
    with pytest.raises(ConfigError, match="lacks this schema"):
        writer(server, "j-none", columns(id=types.INT), **{"properties.auto.register.schemas": "false"})({"id": b"1"})
    with pytest.raises(RowError, match="which its schema cannot say"):
        writer(server, "j-day", columns(id=types.INT, day=types.DATE))({"id": b"1", "day": b'"x"'})
