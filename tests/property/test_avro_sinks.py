"""What sinks write in Avro: our own source reads the same rows, with the same types; and so does fastavro."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inmemory import run, table
from typed_rows import KINDS, TYPED, texts, typed_rows

from ingest.formats.avro.table_writer import derived
from ingest.model import types

KEY = [{"source-table": r"\.*", "primary-keys": "id"}]
READ = {name: "INT" if kind in {"TINYINT", "SMALLINT"} else kind for name, kind in KINDS.items()}
"""The types that are read: Avro has no integers of 8 and 16 bits."""
FIXED = ", ".join(f"{name} {sql}" for name, (sql, _) in TYPED.items())
SOURCE = {"value.format": "json", "json.infer-schema.fixed-types": FIXED}
JSON = {"value.format": "json"}
SINKS: list[tuple[str, dict[str, Any]]] = [
    ("upsert-kafka", {}),
    ("kafka", {"properties.bootstrap.servers": "memory:1"}),
    ("upsert-kafka", {"value.fields-include": "EXCEPT_KEY"}),
]


@pytest.mark.parametrize(("kind", "options"), SINKS)
@settings(max_examples=examples(40))
@given(st.lists(typed_rows, min_size=1, max_size=4))
def test_what_a_sink_writes_our_source_reads(kind: str, options: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The rows that the sink writes in JSON are those that come of its Avro."""
    ordered = [{name: row[name] for name in TYPED} for row in rows]
    messages = [(None, json.dumps(row, ensure_ascii=False).encode()) for row in ordered]
    in_json = run(
        messages, 1000, source=SOURCE, sink={"type": kind, "key.format": "json", **JSON, **options}, transform=KEY
    )
    avro = {"value.format": "avro", "key.format": "avro"}
    in_avro = run(messages, 1000, source=SOURCE, sink={"type": kind, **avro, **options}, transform=KEY)
    assert (in_avro.rejects, in_avro.error) == (in_json.rejects, in_json.error) == ([], None)
    assert in_avro.records
    left_out = {"id"} if "value.fields-include" in options else set()
    columns = {column.name: column for column in table(in_avro, "topic").columns}
    schema = derived({name: column for name, column in columns.items() if name not in left_out})
    source = {**avro, "avro.schema": schema, "key.avro.schema": derived({"id": columns["id"]})}
    again = run([(key, value) for _, key, value in in_avro.records], 1000, source=source)
    assert again.error is None, again.error
    assert again.rejects == []
    assert {column.name: types.name(column.type) for column in table(again, "topic").columns} == READ
    expected = [(json.loads(key or b"")["id"], value) for _, key, value in in_json.records]
    found = [(json.loads(key or b"")["id"], value) for _, key, value in again.records]
    if left_out:
        expected = [(number, value and value.replace(b"{", b'{"id":%d,' % number, 1)) for number, value in expected]
    assert [(number, texts(value)) for number, value in found] == [(n, texts(value)) for n, value in expected]


changes = st.lists(st.tuples(st.sampled_from("cud"), typed_rows), min_size=1, max_size=6)
UPSERTS = {"type": "upsert-kafka", "properties.bootstrap.servers": "memory:1", "topic": "topic"}


@pytest.mark.parametrize("options", [{}, {"value.fields-include": "EXCEPT_KEY"}], ids=["all", "except-key"])
@settings(max_examples=examples(30))
@given(changes)
def test_an_upsert_topic_in_avro_is_read_as_one_in_json(
    options: dict[str, str], changes: list[tuple[str, dict[str, Any]]]
) -> None:
    ddl = f"CREATE TABLE t ({FIXED}, PRIMARY KEY (id))"
    source = {"value.format": "debezium-json", "scan.value.initial-schemas.ddls": ddl}
    messages = []
    for op, row in changes:
        ordered = {name: row[name] for name in TYPED}
        images = {"before": ordered, "after": None} if op == "d" else {"before": None, "after": ordered}
        value = {**images, "op": op, "source": {"table": "t"}}
        messages.append((json.dumps({"id": row["id"]}).encode(), json.dumps(value, ensure_ascii=False).encode()))
    in_json = run(messages, 1000, source=source, sink={"type": "upsert-kafka", **options})
    avro = {"value.format": "avro", "key.format": "avro"}
    in_avro = run(messages, 1000, source=source, sink={"type": "upsert-kafka", **avro, **options})
    assert (in_avro.error, in_avro.rejects) == (in_json.error, in_json.rejects) == (None, [])
    columns = {column.name: column for column in table(in_avro, "t").columns}
    schema = derived({name: column for name, column in columns.items() if not options or name != "id"})
    given_ = {"avro.schema": schema, "key.avro.schema": derived({"id": columns["id"]})}
    again = run(
        [(key, value) for _, key, value in in_avro.records], 1000, source={**UPSERTS, **avro, **given_, **options},
        sink={"type": "upsert-kafka", **options},
    )  # fmt: skip
    assert (again.error, again.rejects) == (None, [])
    found = [(key, texts(value)) for _, key, value in again.records]
    assert found == [(key, texts(value)) for _, key, value in in_json.records]
