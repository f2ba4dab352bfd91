"""Runs of messages in Avro are the same with native code and without: keys, columns from elsewhere, changes, dirt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from avro_schemas import Names, changed, logical_records, possible, records, written
from bothways import both_ways_of, left_to_the_reference
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inmemory import pipeline
from keyed_records import Sent, a_record
from schema_registry import Registry, envelope, framed, record

from ingest.testing.in_memory_run import run_in_memory

pytestmark = pytest.mark.compiled

KEY = record("key", id="long", k=["null", "string"])
KEYS = st.fixed_dictionaries({"id": st.integers(0, 2), "k": st.sampled_from(["a", "a", "a", "", "ключ", None])})
METADATA = "topic,partition,offset,timestamp,timestamp-type,headers,leader-epoch,__raw_key__,__raw_value__"
OPTIONS: list[dict[str, Any]] = [
    {}, {"metadata.list": "offset,headers"}, {"metadata.list": METADATA}, {"value.fields-prefix": "v_"},
    {"value.fields-prefix": "v_", "metadata.list": "timestamp,topic"},
]  # fmt: skip
DDL = "CREATE TABLE topic ({0}id BIGINT, PRIMARY KEY ({0}id) NOT ENFORCED)"
OF_KEYS: list[dict[str, Any]] = [
    {}, {"key.fields-prefix": "k_"}, {"key.fields": "id"}, {"value.fields-include": "EXCEPT_KEY"},
]  # fmt: skip


def mostly_whole(data: st.DataObject, message: bytes) -> bytes:
    """Most messages as they are; some with other bytes, or without their end."""
    return message if data.draw(st.integers(0, 9)) else changed(data, message)


def some_rows(data: st.DataObject) -> tuple[Any, list[bytes]]:
    """A schema of rows with an id, which has types of any kind, and some messages of it."""
    if data.draw(st.booleans()):
        schema, plain, value = data.draw(logical_records())
        row: dict[str, Any] = {**schema, "fields": [{"name": "id", "type": "long"}, *schema["fields"]]}
        as_written = {**plain, "fields": [{"name": "id", "type": "long"}, *plain["fields"]]}
        rows = [{"id": data.draw(st.integers(0, 2)), **value} for _ in range(data.draw(st.integers(1, 8)))]
        return row, [written(as_written, one) for one in rows]
    schema, values = data.draw(records(Names()))
    kinds = {field["name"]: field for field in schema["fields"]}
    kinds.setdefault("id", {"name": "id", "type": "long"})
    row = {**schema, "fields": [*kinds.values()]}
    found = [{"id": data.draw(st.integers(0, 2)), **data.draw(values)} for _ in range(data.draw(st.integers(1, 8)))]
    return row, [written(row, one) for one in found]


@settings(max_examples=examples(200))
@given(st.data())
def test_rows_and_their_keys(data: st.DataObject) -> None:
    schema, messages = some_rows(data)
    if not possible(schema):
        return
    source = {"value.format": "avro", "value.avro.schema": json.dumps(schema), **data.draw(st.sampled_from(OPTIONS))}
    of_key = data.draw(st.sampled_from([None, "avro", "avro", "json"]))
    if of_key is None:
        source["scan.value.initial-schemas.ddls"] = DDL.format(source.get("value.fields-prefix", ""))
    else:
        source |= {"key.format": of_key, **data.draw(st.sampled_from(OF_KEYS))}
    if of_key == "avro":
        source["key.avro.schema"] = json.dumps(KEY)
    sent = []
    for i, message in enumerate(messages):
        key = data.draw(KEYS)
        text = written(KEY, key) if of_key == "avro" else json.dumps(key).encode()
        value = None if not data.draw(st.integers(0, 15)) else mostly_whole(data, message)
        sent.append(
            data.draw(a_record(None if not data.draw(st.integers(0, 15)) else mostly_whole(data, text), value, i))
        )
    source["ingestion.error-tolerance.max-count"] = data.draw(st.sampled_from([-1, 2]))
    both_ways_of(sent, data.draw(st.sampled_from([1, 1000])), exact=True, source=source)


@pytest.mark.parametrize("keyed", [False, True])
def test_most_rows_are_for_native_code(keyed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    by_reference = left_to_the_reference(monkeypatch)
    row = record("row", id="long", name=["null", "string"], price="double")
    sent = [
        Sent(i, "topic", written(KEY, {"id": i, "k": "k"}), written(row, {"id": i, "name": "n", "price": i / 7}))
        for i in range(250)
    ]
    source = {"value.format": "avro", "value.avro.schema": json.dumps(row), "metadata.list": "offset"}
    of_key = {"key.format": "avro", "key.avro.schema": json.dumps(KEY)}
    more = of_key if keyed else {"scan.value.initial-schemas.ddls": DDL.format("")}
    done = run_in_memory(pipeline(source={**source, **more}), sent, look_ahead=1)
    assert not done.rejects
    assert len(done.records) == len(sent)
    assert sum(by_reference) <= 100, "the first chunk, which is looked at for what else is new"


SOURCE = record("Source", connector="string", db="string", schema=["null", "string"], table="string")
WHERE = st.fixed_dictionaries({
    "connector": st.just("c"), "db": st.sampled_from(["shop", "shop", ""]), "schema": st.sampled_from([None, "public"]),
    "table": st.sampled_from(["t", "t", "t", "u", ""]),
})  # fmt: skip
ROWS = [
    record("Value", id="long", t=["null", "string"]),
    record("Value", id="long", t=["null", "string"], b="bytes", d={"type": "int", "logicalType": "date"}),
    record("Value", id="int", n={"type": "array", "items": "long"}, t="string"),
]
TEXTS = st.sampled_from(["a", "", "ключ", "__debezium_unavailable_value", '"'])
IMAGES = [
    st.fixed_dictionaries({"id": st.integers(0, 2), "t": st.none() | TEXTS}),
    st.fixed_dictionaries({
        "id": st.integers(0, 2), "t": st.none() | TEXTS, "d": st.integers(0, 20_000),
        "b": st.sampled_from([b"", b"\xff", b"__debezium_unavailable_value"]),
    }),
    st.fixed_dictionaries({
        "id": st.integers(0, 2), "t": TEXTS,
        "n": st.sampled_from([[], [1], list(b"__debezium_unavailable_value")]),
    }),
]  # fmt: skip
OPS = st.sampled_from(["c", "r", "u", "u", "u", "d", "d", "t", "m", "x", ""])


def some_changes(data: st.DataObject, ids: list[int], keys: bool) -> list[Sent]:
    """Debezium's messages by schemas of a registry, of which some are no good; their keys are in Avro, or in JSON.

    `ids`: those of the schemas of `ROWS`, of keys, and of no schema.
    """
    sent = []
    of_key = ids[len(ROWS)]
    for i in range(data.draw(st.integers(1, 10))):
        at = data.draw(st.sampled_from([0, 0, 0, 1, 2]))
        image = st.none() | IMAGES[at]
        one: dict[str, Any] = {
            "before": data.draw(image), "after": data.draw(image), "source": data.draw(WHERE), "op": data.draw(OPS),
            "ts_ms": data.draw(st.none() | st.integers(0, 9)),
        }  # fmt: skip
        number = ids[at] if data.draw(st.integers(0, 20)) else data.draw(st.sampled_from(ids))
        value = framed(number, written(envelope("shop.t", ROWS[at]), one))
        row = one["after"] or one["before"]
        key = {"id": 1 if row is None else row["id"], "k": data.draw(st.none() | st.just("x"))}
        text = framed(of_key, written(KEY, key)) if keys else json.dumps({"id": key["id"]}).encode()
        sent.append(
            data.draw(a_record(data.draw(st.sampled_from([text, text, text, None])), mostly_whole(data, value), i))
        )
    return sent


def test_changes_and_their_keys(registry: str) -> None:
    server = Registry(registry)
    ids = [server.register(f"v{at}", envelope("shop.t", row)) for at, row in enumerate(ROWS)]
    ids += [server.register("k", KEY), 999_999]

    @settings(max_examples=examples(150))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        keys, mode = data.draw(st.booleans()), data.draw(st.sampled_from(["reject", "keep", "null"]))
        source = {
            "value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry,
            "value.debezium-avro-confluent.unavailable-value": mode, **data.draw(st.sampled_from(OPTIONS)),
            "ingestion.error-tolerance.max-count": data.draw(st.sampled_from([-1, 2])),
        }  # fmt: skip
        of_key = "avro-confluent" if keys else "json"
        if data.draw(st.booleans()):
            source |= {"key.format": of_key, **data.draw(st.sampled_from(OF_KEYS))}
        if keys and "key.format" in source:
            source["key.avro-confluent.url"] = registry
        both_ways_of(some_changes(data, ids, keys), data.draw(st.sampled_from([1, 1000])), exact=True, source=source)

    run()


def test_an_insert_has_no_row_before_it(registry: str) -> None:
    """What a message says of one is not looked at: here it has a column that the pipeline adds."""
    own = envelope("shop.t", record("Value", id="long"))
    own["fields"][0]["type"] = ["null", record("Before", id="long", offset="long")]
    own["fields"][1]["type"] = ["null", record("Value", id="long")]
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    one = {"before": {"id": 1, "offset": 5}, "after": {"id": 1}, "source": where, "op": "c", "ts_ms": None}
    value = Registry(registry).message("inserts", own, one)
    source = {
        "value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry,
        "metadata.list": "offset",
    }  # fmt: skip
    done = both_ways_of([Sent(i, "topic", b'{"id":1}', value) for i in range(3)], 1, exact=True, source=source)
    assert [json.loads(text)["id"] for _, _, text in done.records if text is not None] == [1, 1, 1]
    assert not done.rejects


def test_what_the_database_did_not_send_of_an_insert_is_taken_from_the_row_before_it(registry: str) -> None:
    row = record("Value", id="long", t="string")
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    images = {"before": {"id": 1, "t": "known"}, "after": {"id": 1, "t": "__debezium_unavailable_value"}}
    value = Registry(registry).message(
        "restored", envelope("shop.t", row), {**images, "source": where, "op": "c", "ts_ms": None}
    )
    source = {"value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry}
    done = both_ways_of([Sent(i, "topic", b'{"id":1}', value) for i in range(3)], 1, exact=True, source=source)
    assert [text for _, _, text in done.records] == [b'{"id":1,"t":"known"}'] * 3
    assert not done.rejects


def test_what_cannot_be_read_of_a_row_before_is_unknown(registry: str) -> None:
    time = {"type": "long", "connect.name": "io.debezium.time.MicroTime"}
    made = envelope("shop.t", record("Value", id={"type": "int", "connect.type": "int16"}, t=time, d="double"))
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    good, bad = {"id": 1, "t": 1000000, "d": 1.5}, {"id": 1, "t": 2**62, "d": float("nan")}
    changes: list[tuple[str | None, str, Any, Any]] = [
        ('{"id":1}', "u", bad, good), ('{"id":1}', "d", bad, None), ('{"id":1}', "u", {**bad, "id": 40000}, good),
        ('{"id":1}', "d", {**bad, "id": 40000}, None), (None, "d", {**bad, "id": 40000}, None),
        ('{"id":1}', "u", good, bad), ('{"id":1}', "c", bad, good),
    ]  # fmt: skip
    sent = [
        Sent(at, "topic", None if key is None else key.encode(), Registry(registry).message(
            "before", made, {"before": before, "after": after, "source": where, "op": op, "ts_ms": None}
        ))
        for at, (key, op, before, after) in enumerate(changes)
    ]  # fmt: skip
    source = {
        "value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry,
        "ingestion.ignore-errors": True,
    }  # fmt: skip
    done = both_ways_of(sent, 1, exact=True, source=source)
    row = b'{"id":1,"t":"00:00:01","d":1.5}'
    assert [(key, value) for _, key, value in done.records] == [
        (b'{"id":1}', row), (b'{"id":1}', None), (b'{"id":1}', row), (b'{"id":1}', None), (b'{"id":1}', row),
    ]  # fmt: skip
    assert [(at, code) for at, _, code in done.rejects] == [(4, "type-mismatch"), (5, "type-mismatch")]
    assert done.unread == {"shop.t.t": 4, "shop.t.d": 4}


def test_numbers_in_texts_have_one_key(registry: str) -> None:
    number = record("VariableScaleDecimal", scale="int", value="bytes")
    number["connect.name"] = "io.debezium.data.VariableScaleDecimal"
    big = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    made = envelope("shop.t", record("Value", id=number, big=big))
    key = record("Key", id=number, big=big)
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    server, sent = Registry(registry), []
    for at, (scale, unscaled, hundredths) in enumerate(
        [(0, b"\x05", b"\x64"), (1, b"\x32", b"\x64"), (2, b"\x01\xf4", b"\x64")]
    ):
        row = {"id": {"scale": scale, "value": unscaled}, "big": hundredths}
        op = "crd"[at]
        change = {
            "before": row if op == "d" else None,
            "after": None if op == "d" else row,
            "source": where,
            "op": op,
            "ts_ms": None,
        }
        sent.append(Sent(at, "topic", server.message("numbers-k", key, row), server.message("numbers", made, change)))
    source = {"value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry}
    done = both_ways_of(sent, 1, exact=True, source=source)
    assert [(k, v) for _, k, v in done.records] == [
        (b'{"id":"5","big":"1"}', b'{"id":"5","big":"1.00"}'), (b'{"id":"5","big":"1"}', b'{"id":"5.0","big":"1.00"}'),
        (b'{"id":"5","big":"1"}', None),
    ]  # fmt: skip


@pytest.mark.parametrize("schema", [{"type": "long"}, ["null", "string"], {"type": "array", "items": "int"}])
def test_a_key_without_fields_tells_no_primary_key(registry: str, schema: Any) -> None:
    server = Registry(registry)
    row, number = {"id": 1, "k": None}, server.register(f"plain{len(str(schema))}", schema)
    made = envelope("shop.t", KEY)
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    change = {"before": None, "after": row, "source": where, "op": "c", "ts_ms": None}
    message = server.message("plain-rows", made, change)
    sent = [Sent(0, "topic", framed(number, b"\x02\x02"), message)]
    source = {"value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry}
    done = both_ways_of(
        sent, 1, exact=True, source=source, transform=[{"source-table": "shop.t", "primary-keys": "id"}]
    )
    assert [(key, value) for _, key, value in done.records] == [(b'{"id":1}', b'{"id":1,"k":null}')]


def test_fields_of_keys_that_are_no_columns(registry: str) -> None:
    server = Registry(registry)
    made = envelope("shop.t", record("Value", id="long", n="int"))
    key = record("Key", id="long", __dbz__physicalTableIdentifier="string")
    where = {"connector": "c", "db": "shop", "schema": None, "table": "t"}
    sent = []
    for at, (op, before, after) in enumerate([("c", None, 1), ("u", 1, 2), ("d", 2, None), ("d", None, None)]):
        rows = {"before": before and {"id": 1, "n": before}, "after": after and {"id": 1, "n": after}}
        message = server.message("routed", made, {**rows, "source": where, "op": op, "ts_ms": None})
        told = server.message("routed-k", key, {"id": 1, "__dbz__physicalTableIdentifier": "s.t"})
        sent += [Sent(at, "topic", told, message), Sent(at + 10, "own", b'{"TableId":"shop.t","id":1}', message)]
    source = {"value.format": "debezium-avro-confluent", "value.debezium-avro-confluent.url": registry}
    done = both_ways_of(sent, 1, exact=True, source=source)
    assert [(key, value) for _, key, value in done.records] == [
        (b'{"id":1}', value) for _ in range(2) for value in (b'{"id":1,"n":1}', b'{"id":1,"n":2}', None, None)
    ]
