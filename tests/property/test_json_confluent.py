"""Rows behind the id of a JSON Schema: native code makes of them what the reference makes, and takes the usual ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from any_table import Message, schema
from bothways import both_ways
from hypothesis import given
from hypothesis import strategies as st
from native_encoding import compare
from picking import pick

from ingest.formats.debezium.confluent import DebeziumJsonConfluent, _Envelopes, _Keys
from ingest.formats.json.confluent import KIND, JsonConfluent, JsonRows
from ingest.formats.registered import schemas_by_id
from ingest.model.change import Reject
from ingest.schema_registry.client import Found

URL = "http://127.0.0.1:9"
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer", "connect.type": "int64"}, "n": {"type": "integer"}, "x": {"type": "number"},
    "f": {"type": "number", "connect.type": "float32"}, "s": {"type": ["null", "string"]}, "b": {"type": "boolean"},
    "d": {"type": "integer", "connect.type": "int32", "title": "io.debezium.time.Date"},
    "t": {"type": "string", "format": "date-time"}, "u": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    "de": {"type": "number", "connect.type": "bytes", "title": "org.apache.kafka.connect.data.Decimal",
           "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"}},
    "o": {"type": "object", "properties": {"y": {"type": "integer"}}}, "a": {"type": "array"},
}  # fmt: skip
USUAL = {
    "id": "1", "n": "5", "x": "1.5", "f": "0.5", "s": '"a"', "b": "true", "d": "18292", "u": '"x"', "de": '"AP8="',
    "t": '"2020-01-31T12:00:00Z"', "o": '{"y":1}', "a": "[1]",
}  # fmt: skip
ODD = {
    "n": ["12345678901234567890", "5.0", "1e2", '"5"', "-9223372036854775808"],
    "x": ["123456789012345678.91", "0.1", "1e308", "1e400", "-0.0", "9007199254740993", '"1"', "123456789012345"],
    "s": ["null", "5", '"\\u00e9"', '"é"', "{}"], "b": ["0", "null"], "d": ["null", "5000000", '"x"'],
    "t": ['"x"', "null", '"2020-01-31T12:00:00.5+02:00"'], "de": ["2.55", '"AQ=="', "null", '"x"'], "f": ["1e39", "1"],
    "o": ["null", "1"], "u": ["5", "null"], "id": ["null", "1.0", '"1"'], "a": ["[]"],
}  # fmt: skip
HEAD = b"\0\0\0\0\x07"
UNKNOWN = b"\0\0\0\0\x09"
PLAIN = b"\0\0\0\0\x0a"
"""In front of keys that are numbers."""


CHANGES = "debezium-json-confluent"
ROW = {"properties": PROPERTIES}
SOURCE = '{"version":"2","db":"shop","table":"t"}'


@pytest.fixture(autouse=True)
def known() -> None:
    """This process knows the schemas of the id 7, and that there is none of 9, as if a registry had been asked."""
    chosen = JsonConfluent.model_validate({"json-confluent.url": URL})
    changes = DebeziumJsonConfluent.model_validate({f"{CHANGES}.url": URL})
    made: list[tuple[Any, Any, Any]] = [
        (chosen, JsonRows, ROW), (changes, _Keys, ROW),
        (changes, _Envelopes, {"properties": {"before": ROW, "after": ROW, "op": {"type": "string"}}}),
    ]  # fmt: skip
    for options, kind, text in made:
        schemas: Any = schemas_by_id(options, KIND, kind, kind)
        schemas._kept.put(HEAD, kind(Found("JSON", json.dumps(text), ())), 1000)
        schemas._kept.put(UNKNOWN, Reject("unknown-schema", "the schema registry has no schema 9"), 1000)
        if kind is _Keys:
            schemas._kept.put(PLAIN, kind(Found("JSON", '{"type":"integer"}', ())), 1000)


def sections(**source: Any) -> dict[str, Any]:
    given_options = {"value.format": "json-confluent", "json-confluent.url": URL, "ingestion.ignore-errors": True}
    return {
        "source": {**given_options, **source},
        "sink": {"type": "kafka", "properties.bootstrap.servers": "m:1", "value.format": "json"},
    }


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    names = [name for name in PROPERTIES if draw(st.integers(0, 5))]
    values = {name: pick(draw, ODD[name]) if not draw(st.integers(0, 9)) else USUAL[name] for name in names}
    space = pick(draw, ["", " ", "\n"])
    more = pick(draw, ["", "", "", '"more":[1, 2]', '"id":5'])
    body = f",{space}".join(
        [*(f'"{name}":{space}{value}' for name, value in values.items()), *([more] if more else [])]
    )
    head = pick(draw, [HEAD, HEAD, HEAD, HEAD, HEAD, b"\x01" + HEAD[1:]])
    end = pick(draw, [b"", b"", b"", b"", b"x", b"\0"])
    return bytes(head + (space + "{" + body + "}" + space).encode() + end)


@pytest.mark.compiled
@given(st.lists(messages(), min_size=1, max_size=4), st.sampled_from([
    {}, {"metadata.list": "offset"}, {"key.format": "json", "key.fields-prefix": "k_"}, {"value.fields-prefix": "v_"},
    {"scan.value.initial-schemas.ddls": "CREATE TABLE topic (id STRING, d BIGINT, x DECIMAL(9, 2), t STRING)"},
]))  # fmt: skip
def test_native_code_makes_of_rows_what_the_reference_makes(found: list[bytes], source: dict[str, str]) -> None:
    both_ways([(b'{"id":1}', message) for message in found], 1, **sections(**source))


@st.composite
def changes(draw: st.DrawFn) -> tuple[bytes | None, bytes]:
    """A change in Debezium's envelope behind the id of its schema, with its key; now and then with something odd."""

    def row() -> str:
        return draw(messages())[len(HEAD) :].decode()

    op = pick(draw, ["c", "r", "u", "u", "u", "d", "x"])
    before = pick(draw, ["null", row()]) if op in "ud" else "null"
    after = "null" if op == "d" else row()
    value = f'{{"before":{before},"after":{after},"source":{SOURCE},"op":"{op}"}}'
    value = pick(
        draw, [value] * 9 + [f'{{"schema":null,"payload":{value}}}', f'{{"payload":{value}}}', "null", value + "x"]
    )
    columns = pick(draw, ['{"id":1}'] * 6 + [
        ' {"id":1} ', '{"id":1,"n":5}', '{"n":5}', "5", "", '{"schema":5,"payload":{"id":1}}', '{"id":1}x', "[1]",
    ])  # fmt: skip
    key = pick(draw, [HEAD, HEAD, HEAD, b"", UNKNOWN, b"\x01", PLAIN]) + columns.encode()
    return pick(draw, [key, key, key, None]), pick(draw, [HEAD] * 8 + [b"", b"\x01" + HEAD[1:]]) + value.encode()


@pytest.mark.compiled
@pytest.mark.parametrize("sink", [{"type": "upsert-kafka"}, {"type": "kafka", "value.format": "canal-json"}])
@given(st.lists(changes(), min_size=1, max_size=4), st.sampled_from([
    {}, {"key.format": "json", "key.fields-prefix": "k_"}, {"metadata.list": "offset"},
    {f"{CHANGES}.unavailable-value": "null"},
    {"scan.value.initial-schemas.ddls": "CREATE TABLE shop.t (id BIGINT, d BIGINT, x DECIMAL(9, 2), t STRING)"},
]))  # fmt: skip
def test_native_code_makes_of_changes_what_the_reference_makes(
    sink: dict[str, str], found: list[tuple[bytes | None, bytes]], source: dict[str, str]
) -> None:
    given_options = {"value.format": CHANGES, f"{CHANGES}.url": URL, "ingestion.ignore-errors": True, **source}
    both_ways(found, 1, source=given_options, sink={"properties.bootstrap.servers": "m:1", **sink})


KINDS = {
    "id": "BIGINT", "n": "BIGINT", "x": "DOUBLE", "f": "FLOAT", "s": "STRING", "b": "BOOLEAN", "d": "DATE",
    "t": "TIMESTAMP_LTZ", "u": "STRING", "de": "DECIMAL(9,2)", "o": "STRING", "a": "STRING",
}  # fmt: skip


@pytest.mark.compiled
@pytest.mark.parametrize("key", [PLAIN + b"5", HEAD + b"5", PLAIN + b"null"])
def test_a_key_without_fields_tells_no_primary_key(key: bytes) -> None:
    value = HEAD + f'{{"before":null,"after":{{"id":1}},"source":{SOURCE},"op":"c"}}'.encode()
    source = {"value.format": CHANGES, f"{CHANGES}.url": URL}
    sink = {"type": "upsert-kafka", "properties.bootstrap.servers": "m:1"}
    keyed = [{"source-table": "shop.t", "primary-keys": "id"}]
    done = both_ways([(key, value)], 1, source=source, sink=sink, transform=keyed)
    assert [(key, value) for _, key, value in done.records] == [(b'{"id":1}', b'{"id":1}')]


@pytest.mark.compiled
@pytest.mark.parametrize(("body", "taken"), [
    *((f'{{"id":1,"{name}":{value}}}', True) for name, value in USUAL.items() if name not in {"id", "o"}),
    ('{"id":1,"n":12345678901234567890}', False), ('{"id":1,"x":1e5}', False),
    ('{"id":1,"x":0.12345678901234567}', False), ('{"id":1}x', False), ("[1]", False), ("", False),
])  # fmt: skip
def test_native_code_takes_usual_rows_of_a_schema_that_is_known(body: str, taken: bool) -> None:
    chosen = JsonConfluent.model_validate({"json-confluent.url": URL})
    table = schema(KINDS, ("id",))
    for head, known in ((HEAD, taken), (HEAD[:4] + b"\x08", False), (b"\x01" + HEAD[1:], False)):
        assert compare(chosen, ("t",), table, table, Message(None, head + body.encode()), keyed=False) is known


FULL = ",".join(f'"{name}":{value}' for name, value in USUAL.items() if name != "o")


@pytest.mark.compiled
@pytest.mark.parametrize(("key", "end", "taken"), [
    (b'{"id":1}', "", True), (None, "", True), (HEAD + b'{"id":1}', "", True), (HEAD + b' {"id":1} ', "", True),
    (HEAD[:4] + b'\x08{"id":1}', "", False), (HEAD + b'{"schema":5,"payload":{"id":1}}', "", False),
    (HEAD + b'{"id":1}x', "", False), (HEAD + b"5", "", False), (HEAD, "", False),
    (b"\0", "", False), (None, "x", False),
])  # fmt: skip
def test_native_code_takes_usual_changes_of_a_schema_that_is_known(key: bytes | None, end: str, taken: bool) -> None:
    chosen = DebeziumJsonConfluent.model_validate({f"{CHANGES}.url": URL})
    table = schema(KINDS, ("id",))
    for op, before, after in (
        ("c", "null", f"{{{FULL}}}"), ("u", f"{{{FULL}}}", f"{{{FULL}}}"), ("d", f"{{{FULL}}}", "null"),
    ):  # fmt: skip
        value = f'{{"before":{before},"after":{after},"source":{SOURCE},"op":"{op}"}}{end}'.encode()
        assert compare(chosen, ("shop", "t"), table, table, Message(key, HEAD + value), keyed=False) is taken
        wrapped = b'{"schema":null,"payload":%b}' % value
        assert not compare(chosen, ("shop", "t"), table, table, Message(key, HEAD + wrapped), keyed=False)
