"""Any input bytes whatever: what comes of a message is events or a reject, never an exception, never a run that hangs.

How long this goes on is bounded by hypothesis; INGEST_EXAMPLES raises it for a night.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from inmemory import run
from picking import pick

from ingest.formats import FORMATS
from ingest.model.change import Reject, Skip
from ingest.schema_registry.options import RegistryOptions

EXAMPLES = examples(100)
patiently = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SEEDS = [
    b'{"op":"c","before":null,"after":{"id":1,"s":"x"},"source":{"db":"d","schema":null,"table":"t"}}',
    (
        b'{"schema":{"type":"struct","fields":[{"field":"after","fields":[{"type":"int32","field":"id"},{"type":"bytes",'
        b'"name":"org.apache.kafka.connect.data.Decimal","field":"d","parameters":{"scale":"2"}}]}]},"payload":{"op":"u",'
        b'"before":null,"after":{"id":1,"d":"BNI="},"source":{"db":"d","table":"t"}}}'
    ),
    (
        b'{"data":[{"id":"1","n":"5"}],"database":"d","table":"t","type":"UPDATE","old":[{"n":"4"}],"pkNames":["id"],'
        b'"sqlType":{"id":4,"n":-5},"mysqlType":{"id":"int(11)","n":"bigint unsigned"},"isDdl":false}'
    ),
    (
        b'{"database":"d","table":"t","type":"update","ts":1477053234,"xid":7,"commit":true,"primary_key_columns":["id"],'
        b'"data":{"id":1,"n":5,"at":"2016-10-21 05:33:37.523000"},"old":{"n":null}}'
    ),
    b'{"database":"d","table":"t","pk.id":1}',
    (
        b'{"table":"d.t","op_type":"U","op_ts":"2020-05-13 15:40:06.000000","pos":"0143","primary_keys":["id"],'
        b'"before":{"id":1,"n":5,"n_isMissing":true},"after":{"id":1,"n":5,"at":"2016-10-21 05:33:37.523000"}}'
    ),
    b'{"id":1,"a":{"b":{"c":[1,2.50,1e999,"\\ud83d\\ude00"]}},"t":"2020-01-31 12:13:14.5"}',
]
VARIANTS: list[dict[str, Any]] = [
    {"value.format": "debezium-json"},
    {"value.format": "debezium-json", "debezium-json.schema-include": True, "metadata.list": "topic,timestamp,headers"},
    {"value.format": "debezium-json", "schema.inference.strategy": "static", "key.format": "json",
     "key.fields-prefix": "k_"},
    {"value.format": "canal-json"},
    {"value.format": "canal-json", "canal-json.infer-schema.strategy": "SQL_TYPE"},
    {"value.format": "canal-json", "canal-json.infer-schema.strategy": "MYSQL_TYPE"},
    {"value.format": "maxwell-json"},
    {"value.format": "maxwell-json", "metadata.list": "topic,offset", "value.fields-prefix": "v_"},
    {"value.format": "ogg-json"},
    {"value.format": "ogg-json", "ogg-json.unavailable-value": "null", "schema.inference.strategy": "static"},
    {"value.format": "json", "key.format": "json", "metadata.list": "__raw_key__,__raw_value__"},
    {"value.format": "json", "json.infer-schema.flatten-nested-columns.enable": True,
     "json.infer-schema.fixed-types": "id BIGINT, t TIMESTAMP(3), d DECIMAL(4,2)"},
    {"value.format": "json", "json.decode.parser-table-id.fields": "id,t", "schema.inference.strategy": "static"},
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A message with some of its bytes cut out, put in, or changed."""
    data = bytearray(pick(draw, SEEDS))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 6))
        piece = draw(
            st.binary(max_size=4)
            | st.sampled_from(
                [b'"', b"{", b"}", b"[", b"null", b"NaN", b"\\ud800", b"1e999", b"-", b",", b'"id":', b"\xff"]
            )
        )
        data[at : at + length] = piece
    return bytes(data)


SINKS: dict[str, dict[str, Any]] = {
    "upsert-kafka": {"type": "upsert-kafka"},
    "print": {"type": "print"},
    "kafka": {
        "type": "kafka", "properties.bootstrap.servers": "memory:1", "debezium-json.include-schema.enabled": True,
        "key.format": "json", "topic": "t", "partition.strategy": "hash-by-key",
    },
}  # fmt: skip
values = st.lists(st.none() | st.binary(max_size=80) | broken(), min_size=1, max_size=6)


NEEDED = {
    "avro": {"avro.schema": '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'},
    "protobuf": {
        "protobuf.schema": 'syntax = "proto3"; message Row { int64 id = 1; }', "protobuf.message-class-name": "Row",
    },
}  # fmt: skip
"""Options that a format cannot do without."""
ALONE = [name for name, cls in FORMATS.items() if RegistryOptions not in cls.mro()]
"""Formats that need no registry. Of the others, test_avro.py reads any bytes, and test_avro_confluent.py garbage."""


@pytest.mark.parametrize("name", ALONE)
@patiently
@given(values)
@example([b""])
@example([b"[" * 100_000])
@example([b'{"a":' * 5_000])
def test_a_decoder_gives_events_or_a_reject(name: str, values: list[bytes | None]) -> None:
    decoder = FORMATS[name](**NEEDED.get(name, {})).decoder("t", keyed=True)  # type: ignore[attr-defined]
    for _ in range(2):
        out = decoder.decode(values, values)
        assert len(out) == len(values)
        assert all(isinstance(change, (tuple, list, Reject, Skip)) for change in out)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(str(v) for v in variant.values())[:50])
@pytest.mark.parametrize("sink", ["upsert-kafka", "print", "kafka"])
@settings(patiently, max_examples=examples(20))
@given(st.lists(st.tuples(st.none() | st.just(b'{"id":1}') | broken(), st.none() | broken()), min_size=1, max_size=6))
def test_every_message_becomes_records_a_reject_or_is_counted(
    variant: dict[str, Any], sink: str, messages: list[tuple[bytes | None, bytes | None]]
) -> None:
    ran = run(
        messages, source=variant, sink=SINKS[sink], transform=[{"source-table": r"\.*", "primary-keys": "id"}]
        if sink == "print" and variant["value.format"] == "json" and "key.format" not in variant else [],
    )  # fmt: skip
    # A table without a key, or whose key changes, ends the run: a person has to decide
    assert ran.error is None or ran.error.exit_code == 78, ran.error
    for _, key, value in ran.records:
        msgspec.json.decode(key or b"null")
        json.loads(value or b"null")
    touched = {index for index, _, _ in ran.rejects}
    assert len(touched) == len(ran.rejects), "one reject a message"
    if ran.error is None and sink == "upsert-kafka":
        assert len(ran.records) + len(ran.rejects) + sum(ran.skipped.values()) >= len(messages)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=6)
    | st.sampled_from([
        "2020-02-29", "2020-02-30", "12:13:14", "2020-01-31 12:13:14.5", "2020-01-31T12:13:14", "2020-01-31 12:13:14Z",
        "YWI=", "5", "1.50",
    ]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
TYPES = [
    "BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "DECIMAL(38,18)", "CHAR(3)", "VARCHAR(4)",
    "STRING", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "MAP<STRING, INT>",
    "ROW<x INT, y STRING>",
]  # fmt: skip


def is_place_of(now: Any, was: Any) -> bool:
    """Whether a value was written as it was, or as a declared type spells it; also within objects and arrays."""
    if isinstance(now, dict) and isinstance(was, dict):
        return now.keys() == was.keys() and all(is_place_of(now[name], was[name]) for name in was)
    if isinstance(now, list) and isinstance(was, list):
        return len(now) == len(was) and all(map(is_place_of, now, was))
    if now == was or isinstance(now, str) == isinstance(was, str):
        return bool(now == was or (isinstance(now, str) and now.startswith(was)))
    text, value = (now, was) if isinstance(now, str) else (was, now)
    return bool(json.loads(text.lower() if isinstance(value, bool) else text) == value)


@patiently
@given(
    st.tuples(st.sampled_from(TYPES), st.sampled_from(TYPES)),
    st.lists(st.dictionaries(st.sampled_from("abc"), json_values), min_size=1, max_size=8),
    st.integers(1, 5),
    st.sampled_from(["json", "debezium-json"]),
)
def test_whatever_type_a_column_was_given_every_value_finds_its_place(
    given_types: tuple[str, str], rows: list[dict[str, Any]], look_ahead: int, format_: str
) -> None:
    first, second = given_types
    messages: list[tuple[bytes | None, bytes | None]]
    if format_ == "json":
        table, messages = "topic", [(None, json.dumps({"id": i, **row}).encode()) for i, row in enumerate(rows)]
    else:
        table, messages = "d.t", [
            (b'{"id":%d}' % i, json.dumps(
                {"op": "c", "after": {"id": i, **row}, "source": {"db": "d", "table": "t"}}).encode())
            for i, row in enumerate(rows)
        ]  # fmt: skip
    ddl = f"CREATE TABLE {table} (id BIGINT PRIMARY KEY NOT ENFORCED, a {first}, b {second})"
    source = {"value.format": format_, "scan.value.initial-schemas.ddls": ddl}
    ran = run(messages, look_ahead=look_ahead, source=source)
    assert ran.error is None, ran.error
    assert ran.rejects == []
    assert len(ran.records) == len(rows)
    for (_, _, value), row in zip(ran.records, rows, strict=True):
        written = json.loads(value or b"null")
        for name, was in row.items():
            assert is_place_of(written[name], was), (name, was, written[name])
