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

from ingest.formats.json_confluent import KIND, JsonConfluent, JsonRows
from ingest.formats.registered import schemas_by_id
from ingest.registry.client import Found

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


@pytest.fixture(autouse=True)
def known() -> None:
    """The schema of the id 7 is known in this process, as if a registry had been asked."""
    chosen = JsonConfluent.model_validate({"json-confluent.url": URL})
    schemas: Any = schemas_by_id(chosen, KIND, JsonRows, JsonRows)
    schemas._kept.put(HEAD, JsonRows(Found("JSON", json.dumps({"properties": PROPERTIES}), ())), 1000)


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


KINDS = {
    "id": "BIGINT", "n": "BIGINT", "x": "DOUBLE", "f": "FLOAT", "s": "STRING", "b": "BOOLEAN", "d": "DATE",
    "t": "TIMESTAMP_LTZ", "u": "STRING", "de": "DECIMAL(9,2)", "o": "STRING", "a": "STRING",
}  # fmt: skip


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
