"""Avro with a real schema registry: what becomes of messages, and what is said where the registry is of no use."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from examples import own_name
from harness import free_port
from registry_pipelines import becomes
from schema_registry import Registry, decoded, envelope, framed, options, record, written

from ingest.errors import ConfigError, Unavailable
from ingest.formats import FORMATS
from ingest.model.change import Kind, Reject
from ingest.native import native

if TYPE_CHECKING:
    from pathlib import Path

    from registry_pipelines import Pairs

ROW = record("Value", id="int", name=["null", "string"])


@pytest.fixture
def server(registry: str) -> Registry:
    return Registry(registry)


@pytest.fixture(params=[True, False], ids=["native", "python"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With native code, and without it."""
    if not request.param:
        monkeypatch.setattr(native, "BUILT", False)


@pytest.mark.usefixtures("either")
def test_rows_have_their_types_from_the_first_record_and_evolve(server: Registry, tmp_path: Path) -> None:
    """A new schema id is a new column, found before any value of it is anything but null."""
    wide = record(
        "Value", id="long", name=["null", "string"], at=["null", {"type": "long", "logicalType": "timestamp-micros"}]
    )
    pairs: Pairs = [
        (b'{"id":1}', server.message("rows-value", ROW, {"id": 1, "name": None})),
        (b'{"id":2}', server.message("rows-value", wide, {"id": 2, "name": "b", "at": None})),
        (
            b'{"id":3}',
            server.message(
                "rows-value",
                wide,
                {"id": 3_000_000_000, "name": "c", "at": dt.datetime(2020, 1, 31, 12, 0, 0, 1, dt.UTC)},
            ),
        ),
        (b'{"id":1}', None),
    ]
    expected = {
        "changes": [
            "orders> CREATE TABLE (id INT NOT NULL, name STRING, PRIMARY KEY (id))",
            "orders> ADD COLUMN at TIMESTAMP_LTZ",
            "orders> ALTER COLUMN id INT -> BIGINT",
        ],
        "records": [
            'orders {"id":1} {"id":1,"name":null}',
            'orders {"id":2} {"id":2,"name":"b","at":null}',
            'orders {"id":3000000000} {"id":3000000000,"name":"c","at":"2020-01-31 12:00:00.000001Z"}',
            'orders {"id":1} null',
        ],
    }
    pairs[2] = (b'{"id":3000000000}', pairs[2][1])
    assert not becomes(tmp_path, server, "avro-confluent", pairs, {"key.format": "json"}, **expected)


@pytest.mark.usefixtures("either")
def test_keys_in_avro_are_the_primary_key_with_their_types(server: Registry, tmp_path: Path) -> None:
    key = record("Key", day={"type": "int", "logicalType": "date"}, no="int")
    row = record("Value", name=["null", "string"], no="int")
    pairs: Pairs = [
        (server.message("k-key", key, {"day": dt.date(2020, 1, 31), "no": no}), value)
        for no, value in (
            (1, server.message("k-value", row, {"name": "a", "no": 1})),
            (2, server.message("k-value", row, {"name": "b", "no": 3})),
            (1, None),
        )
    ]
    pairs.append((b"\0\0", pairs[0][1]))
    pairs.append((framed(99_999_999, b""), pairs[0][1]))
    expected = {
        "schema": {"orders": ["day DATE NOT NULL", "no INT NOT NULL", "name STRING"]},
        "records": [
            'orders {"day":"2020-01-31","no":1} {"day":"2020-01-31","no":1,"name":"a"}',
            'orders {"day":"2020-01-31","no":1} null',
        ],
        "rejects": ["1 decode/column-clash", "3 decode/malformed-key", "4 decode/unknown-schema"],
    }
    assert not becomes(tmp_path, server, "avro-confluent", pairs, {"key.format": "avro-confluent"}, **expected)


def test_keys_in_avro_beside_values_in_json(server: Registry, tmp_path: Path) -> None:
    key = server.message("j-key", record("Key", id="long"), {"id": 5})
    source = {"key.format": "avro-confluent", "key.avro-confluent.url": server.url, "value.format": "json"}
    records = ['orders {"id":5} {"id":5,"n":"a"}', 'orders {"id":5} null']
    found = becomes(
        tmp_path, server, "json", [(key, b'{"n":"a"}'), (key, None)], source,
        schema={"orders": ["id BIGINT NOT NULL", "n STRING"]}, records=records,
    )  # fmt: skip
    assert not found


@pytest.mark.usefixtures("either")
def test_nested_values_and_unions_are_json_in_texts(server: Registry, tmp_path: Path) -> None:
    schema = record(
        "Nested", id="int", r=record("Inner", d={"type": "int", "logicalType": "date"}, b="bytes"),
        a={"type": "array", "items": ["null", "double"]}, m={"type": "map", "values": "long"},
        u=["null", "int", "string", "Inner"], n=["int", "long"], v=["int", "float", "double"],
    )  # fmt: skip
    inner = {"d": dt.date(2020, 1, 31), "b": b"ab"}
    pairs: Pairs = [
        (
            None,
            server.message(
                "nested-value",
                schema,
                {"id": i, "r": inner, "a": [None, 1.5], "m": {"x": 2**53 + 1}, "u": u, "n": n, "v": 5},
            ),
        )
        for i, (u, n) in enumerate([(5, 1), ("5", 2**40), (inner, 3), (None, 4)])
    ]
    columns = ["id INT", "r STRING", "a STRING", "m STRING", "u STRING", "n BIGINT", "v DOUBLE"]
    rest = r'"r":"{\"d\":\"2020-01-31\",\"b\":\"YWI=\"}","a":"[null,1.5]","m":"{\"x\":9007199254740993}"'
    values = ['"5"', '"5"', r'"{\"d\":\"2020-01-31\",\"b\":\"YWI=\"}"', "null"]
    numbers = [1, 2**40, 3, 4]
    records = [
        f'orders {{"id":{i},{rest},"u":{u},"n":{n},"v":5}}'
        for i, (u, n) in enumerate(zip(values, numbers, strict=True))
    ]
    found = becomes(
        tmp_path, server, "avro-confluent", pairs, {}, sink={"type": "kafka", "value.format": "json"},
        schema={"orders": columns}, records=records,
    )  # fmt: skip
    assert not found


@pytest.mark.usefixtures("either")
def test_debezium_messages_in_avro(server: Registry, tmp_path: Path) -> None:
    row = {
        "type": "record", "name": "Value", "fields": [
            {"name": "id", "type": "int"},
            {"name": "n", "type": {"type": "int", "connect.type": "int16"}},
            {"name": "price", "type": ["null", {
                "type": "bytes", "scale": 2, "precision": 10, "connect.version": 1, "logicalType": "decimal",
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                "connect.name": "org.apache.kafka.connect.data.Decimal"}]},
            {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]},
            {"name": "doc", "type": ["null", "string"]},
        ],
    }  # fmt: skip
    schema = envelope("shop.orders", row)
    key = record("Key", id="int")
    source = {"connector": "mysql", "db": "shop", "schema": None, "table": "orders"}

    def change(
        op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, number: int = 1
    ) -> tuple[bytes, bytes]:
        value = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 0}
        return (
            server.message("shop.orders-key", key, {"id": number}),
            server.message("shop.orders-value", schema, value),
        )

    old = {"id": 1, "n": 5, "price": Decimal("1.10"), "at": 1580472794500001, "doc": "long"}
    pairs: Pairs = [
        change("r", None, old),
        change("u", old, {**old, "n": 6, "doc": "__debezium_unavailable_value"}),
        change("u", None, {**old, "doc": "__debezium_unavailable_value"}),
        change("u", None, {**old, "n": 70000}),
        change("t", None, None),
        change("x", None, old),
        change("d", None, None),
        (pairs_key := server.message("shop.orders-key", key, {"id": 1}), None),
        (pairs_key, server.message("beat", record("Heartbeat", ts_ms="long"), {"ts_ms": 1})),
    ]
    expected = {
        "schema": {
            "shop.orders": ["id INT NOT NULL", "n SMALLINT", "price DECIMAL(10,2)", "at TIMESTAMP", "doc STRING"]
        },
        "records": [
            'shop.orders {"id":1} {"id":1,"n":5,"price":1.10,"at":"2020-01-31 12:13:14.500001","doc":"long"}',
            'shop.orders {"id":1} {"id":1,"n":6,"price":1.10,"at":"2020-01-31 12:13:14.500001","doc":"long"}',
            'shop.orders {"id":1} null',
        ],
        "rejects": ["2 decode/unavailable-value", "3 decode/type-mismatch", "5 decode/unknown-op"],
        "skipped": {"truncate": 1, "tombstone": 1, "heartbeat": 1},
    }
    assert not becomes(tmp_path, server, "debezium-avro-confluent", pairs, {}, **expected)


@pytest.mark.usefixtures("either")
def test_keys_of_another_format_are_not_asked_of_the_registry(server: Registry, tmp_path: Path) -> None:
    source = {"connector": "c", "db": "shop", "schema": None, "table": "seen"}
    change = {"before": None, "after": {"id": 1, "name": "a"}, "source": source, "op": "c", "ts_ms": None}
    value = server.message("keyed-value", envelope("shop.seen", ROW), change)
    ddl = "CREATE TABLE shop.seen (no BIGINT, id INT, name STRING, PRIMARY KEY (no) NOT ENFORCED)"
    found = becomes(
        tmp_path, server, "debezium-avro-confluent", [((7).to_bytes(8, "big"), value)],
        {"key.format": "raw", "key.raw.endianness": "big-endian", "scan.value.initial-schemas.ddls": ddl},
        records=['shop.seen {"no":7} {"no":7,"id":1,"name":"a"}'],
    )  # fmt: skip
    assert not found


@pytest.mark.usefixtures("either")
def test_messages_that_no_schema_fits_are_rejects(server: Registry, tmp_path: Path) -> None:
    good = server.message("broken-value", ROW, {"id": 1, "name": "abc"})
    text = server.register("text-value", '"string"')
    endless = server.register("endless-value", record("E", a={"type": "array", "items": "null"}))
    json_schema = server.register(
        "json-value", '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}', "JSON"
    )
    pairs: Pairs = [
        (None, good),
        (None, b"{}"),
        (None, b""),
        (None, b"\0\0\0"),
        (None, framed(99_999_999, good[5:])),
        (None, framed(text, b"\2a")),
        (None, framed(endless, b"\2\0")),
        (None, framed(json_schema, b"{}")),
        (None, good[:-1]),
        (None, good + b"x"),
        (None, good[:-3] + b"\xff\xff\xff"),
        (None, good[:5] + b"\x02\x04"),
        (None, good),
    ]
    codes = [
        "1 decode/malformed", "2 decode/malformed", "3 decode/malformed", "4 decode/unknown-schema",
        "5 decode/bad-schema", "6 decode/bad-schema", "7 decode/bad-schema", "8 decode/malformed",
        "9 decode/malformed", "10 decode/malformed", "11 decode/malformed",
    ]  # fmt: skip
    row = 'orders {"id":1,"name":"abc"}'
    sink = {"type": "kafka", "value.format": "json"}
    assert not becomes(tmp_path, server, "avro-confluent", pairs, {}, sink=sink, records=[row, row], rejects=codes)


def test_schemas_that_refer_to_others(server: Registry, tmp_path: Path) -> None:
    inner = record("other.Inner", x="int")
    server.register("inner", inner)
    outer = record("Outer", id="int", one="other.Inner", two=["null", "other.Inner"])
    references = [{"name": "other.Inner", "subject": "inner", "version": 1}]
    number = server.register("outer-value", outer, references=references)
    outer["fields"][1]["type"] = inner
    value = framed(number, written(outer, {"id": 1, "one": {"x": 2}, "two": None}))
    records = [r'orders {"id":1,"one":"{\"x\":2}","two":null}']
    sink = {"type": "kafka", "value.format": "json"}
    assert not becomes(tmp_path, server, "avro-confluent", [(None, value)], {}, sink=sink, records=records)


@pytest.mark.parametrize("name", ["avro-confluent", "debezium-avro-confluent"])
def test_garbage_raises_nothing(server: Registry, name: str) -> None:
    schema = envelope("garbage", ROW)
    number = server.register(f"{name}-garbage", schema if name.startswith("debezium") else ROW)
    chosen = FORMATS[name].model_validate({f"{name}.url": server.url})
    garbage = [bytes([byte]) * count for byte in range(256) for count in (1, 5, 9)]
    garbage += [framed(number, bytes([byte]) * count) for byte in range(256) for count in (0, 1, 2, 5, 40)]
    decoder = chosen.decoder("t")  # type: ignore[attr-defined]  # a format has it
    for keys in ([None] * len(garbage), garbage):
        found = decoder.decode(keys, garbage)
        assert len(found) == len(garbage)
        assert sum(isinstance(one, Reject) for one in found) > len(garbage) // 2


def test_a_registry_that_is_away_is_tried_again(server: Registry) -> None:
    value = server.message("away-value", ROW, {"id": 1, "name": None})
    with pytest.raises(Unavailable, match="no answer from the schema registry"):
        decoded(options(f"http://127.0.0.1:{free_port()}"), value)
    both = options(f"http://127.0.0.1:{free_port()},{server.url}")
    assert bytes(decoded(both, value)[3]) == b'{"id":1,"name":null}'


def test_an_address_of_something_else_is_said(server: Registry) -> None:
    with pytest.raises(ConfigError, match="there is no schema registry at"):
        decoded(options(server.url.replace("ccompat", "nothing")), framed(1, b""))


def test_an_id_that_is_registered_later_is_found(server: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.schema_registry.client.MISSING_S", 0.0)
    name = own_name("r")
    schema = record(f"{name}later", id="int")
    last = server.register(f"{name}-before", record(name, id="int"))
    number = last + 1
    decoder = options(server.url).decoder("t")
    (found,) = decoder.decode([None], [framed(number, b"\2")])
    assert isinstance(found, Reject)
    assert found.code == "unknown-schema"
    assert server.register(f"{name}-later", schema) == number
    (found,) = decoder.decode([None], [framed(number, b"\2")])
    assert isinstance(found, tuple)
    assert found[1] is Kind.INSERT
    assert bytes(found[3] or b"") == b'{"id":1}'
