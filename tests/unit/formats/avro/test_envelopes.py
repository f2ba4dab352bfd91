"""Debezium's envelope in Avro: what of it is read, and what is passed over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from schema_registry import envelope, record, written

from ingest.formats.avro.messages import FAILURES, EnvelopeSchema
from ingest.formats.avro.schema import SchemaError, parse
from ingest.formats.debezium.options import no_table
from ingest.model import types
from ingest.model.change import Reject, Skip
from ingest.model.types import ArrayType

ROW = record("Value", id="int", name=["null", "string"])
SOURCE = record(
    "Source", version="string", ts="long", ok="boolean", ratio="double", db="string", raw=["null", "bytes"],
    part=["string", "int"], kind={"type": "enum", "name": "K", "symbols": ["A"]}, table="string",
    tags={"type": "array", "items": "double"}, more={"type": "map", "values": "float"},
    inner=record("Inner", a="int", f={"type": "fixed", "name": "F", "size": 2}),
)  # fmt: skip
VALUES: dict[str, Any] = {
    "version": "2.7", "ts": 1580472794500001, "ok": True, "ratio": float("nan"), "db": "shop", "raw": b"ab", "part": 5,
    "kind": "A", "table": "orders", "tags": [1.5, float("inf")], "more": {"x": 1.0}, "inner": {"a": -1, "f": b"zz"},
}  # fmt: skip


def schema() -> Any:
    made = envelope("shop", ROW)
    made["fields"][2]["type"] = {**SOURCE, "namespace": "io"}
    return made


def message(**more: Any) -> bytes:
    value = {"before": None, "after": {"id": 1, "name": "a"}, "source": VALUES, "op": "c", "ts_ms": 2**50, **more}
    return written(schema(), value)


def test_rows_table_and_op_are_read_and_the_rest_is_passed_over() -> None:
    found = EnvelopeSchema(parse(json.dumps(schema())))
    assert found.declared.types == {"id": types.INT, "name": types.STRING}
    with_nan = message()
    assert found.read(with_nan, 0)[0] == {
        "before": None, "after": b'{"id":1,"name":"a"}', "source": b'{"db":"shop","table":"orders"}', "op": b'"c"',
    }  # fmt: skip


def test_a_message_that_ends_in_what_is_passed_over_is_a_reject() -> None:
    found = EnvelopeSchema(parse(json.dumps(schema())))
    whole = message()
    for length in range(len(whole)):
        with pytest.raises(FAILURES):
            found.read(whole[:length], 0)
    with pytest.raises(FAILURES):
        found.read(whole + b"\0", 0)


@pytest.mark.parametrize("op", ["double", {"type": "array", "items": "string"}, {"type": "map", "values": "int"}])
def test_an_envelope_of_other_types_is_a_reject(op: Any) -> None:
    made = {**schema(), "fields": [{**one, "type": op} if one["name"] == "op" else one for one in schema()["fields"]]}
    found = EnvelopeSchema(parse(json.dumps(made)))
    value: Any = {"double": float("nan")}.get(str(op), [] if "array" in str(op) else {})
    whole = written(made, {"before": None, "after": None, "source": VALUES, "op": value, "ts_ms": None})
    if op == "double":
        with pytest.raises(FAILURES):
            found.read(whole, 0)
    else:
        assert found.read(whole, 0)[0]["op"] == json.dumps(value).encode()


@pytest.mark.parametrize(("fields", "expected"), [
    ({"ts_ms": "long"}, Skip("heartbeat")),
    ({"status": "string", "id": "string"}, Skip("transaction-boundary")),
    ({"ddl": "string", "source": "string"}, Skip("schema-history")),
    ({"id": "int"}, Reject("malformed", "not a Debezium message: its schema has no op")),
])  # fmt: skip
def test_messages_without_op(fields: dict[str, Any], expected: Skip | Reject) -> None:
    assert EnvelopeSchema(parse(json.dumps(record("M", **fields)))).other == expected


def test_a_schema_that_is_no_record_is_refused() -> None:
    with pytest.raises(SchemaError, match="an envelope is a record"):
        EnvelopeSchema(parse('"int"'))


def test_messages_of_mongodb_are_known_by_their_schema() -> None:
    source = record("Source", db="string", rs="string", collection="string")
    envelope_of_texts = record("Envelope", after=["null", "string"], source=source, op="string")
    assert EnvelopeSchema(parse(json.dumps(envelope_of_texts))).of_documents
    assert not EnvelopeSchema(parse(json.dumps(schema()))).of_documents
    assert "MongoDB" in no_table(documents=True).message
    assert "MongoDB" not in no_table(documents=False).message


def test_times_are_numbers_where_the_pipeline_declares_numbers() -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    days = ["null", {"type": "array", "items": {"type": "int", "logicalType": "date"}}]
    row = record("Value", id=["null", micros], at={"type": "int", "logicalType": "time-millis"}, n="int", days=days)
    made = envelope("shop", row)
    found = EnvelopeSchema(parse(json.dumps(made)))
    source = {"connector": "c", "db": "shop", "schema": None, "table": "orders"}
    image = {"id": 9223372036825200000, "at": 86_400_000, "n": 1, "days": None}
    raw = written(
        made, {"before": {**image, "id": None, "days": [1]}, "after": image, "source": source, "op": "u", "ts_ms": None}
    )
    given = {"id": types.BIGINT, "at": types.STRING, "n": types.BIGINT, "days": ArrayType(types.INT)}
    counts = found.counts(given)
    assert {name for name, _ in counts} == {"id", "days"}
    assert found.counts({"days": ArrayType(types.DATE)}) == found.counts({"days": types.INT}) == frozenset()
    assert found.read(raw, 0)[0]["after"] == b'{"id":"infinity","at":"24:00:00","n":1,"days":null}'
    read, _ = found.read(raw, 0, counts)
    assert read["after"] == b'{"id":9223372036825200000,"at":"24:00:00","n":1,"days":null}'
    assert read["before"] == b'{"id":null,"at":"24:00:00","n":1,"days":[1]}'
    declared = found.declared_beside(counts).types
    assert (declared["id"], declared["days"]) == (types.BIGINT, types.STRING)
    assert found.declared_beside(frozenset()) is found.declared
